"""Registry of EVM decoders: (contract, topic 0) → decoder."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from indexer.bridges import bridge_modules
from indexer.chains.events import Event
from indexer.chains.evm.abi import TRANSFER_TOPIC, LogDecoder, topic_of
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain
from indexer.errors import Undecodable
from warehouse_schema.identifiers import EvmAddress

DECODERS: Mapping[str, Mapping[str, LogDecoder]] = {
    role: decoders
    for bridge in bridge_modules("decode_evm")
    for role, decoders in bridge.DECODERS.items()
}
"""Field of `EvmChain` that names the contract → event signature → decoder."""


def decode(log: EvmLog, chain: EvmChain) -> Event | None:
    """The typed event of a log.

    None for a log that is not ours: another application's packet at the shared LayerZero endpoint,
    or an event that is not stored. Raises `Undecodable` when it is ours and malformed.
    """
    if not log.topics:
        return None
    found = _decoders_of(chain).get((log.address, log.topics[0]))
    if found is None:
        return None
    name, decoder = found
    try:
        return decoder(log, chain)
    except Undecodable as error:
        raise Undecodable(f"{name} of {log.address} in {log.seen.tx_hash}: {error}") from error


def event_topics(chain: EvmChain) -> Mapping[EvmAddress, tuple[str, ...]]:
    """First topics of the log filter, by contract.

    Without token transfers: the filter asks for those by recipient (`TRANSFER_TOPIC`).
    """
    topics: dict[EvmAddress, tuple[str, ...]] = {}
    for address, topic in _decoders_of(chain):
        if not (address in chain.tokens and topic == TRANSFER_TOPIC):
            topics[address] = (*topics.get(address, ()), topic)
    return MappingProxyType(topics)


@cache
def _decoders_of(chain: EvmChain) -> dict[tuple[EvmAddress, str], tuple[str, LogDecoder]]:
    """(contract, topic 0) → (event name, decoder), for the contracts of this chain."""
    return {
        (address, topic_of(signature)): (signature.partition("(")[0], decoder)
        for role, decoders in DECODERS.items()
        if (address := getattr(chain, role)) is not None
        for signature, decoder in decoders.items()
    }
