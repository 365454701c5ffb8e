"""EVM logs to events: which contract, which topic, which decoder.

A log is `Event`, None or `Undecodable`: ours and well-formed, not ours, or ours and senseless.
None is for what the contracts say to others: another application's packets at the shared LayerZero
endpoint, and events that are not kept.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType

from indexer.bridges.cctp import decode_evm as cctp
from indexer.bridges.deposit_address import decode_evm as deposit_address
from indexer.bridges.oft import decode_evm as oft
from indexer.bridges.tokens import decode_evm as tokens
from indexer.chains.events import Event
from indexer.chains.evm.abi import TRANSFER_TOPIC, LogDecoder, topic_of
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain
from indexer.errors import Undecodable
from warehouse_schema.identifiers import EvmAddress

DECODERS: Mapping[str, Mapping[str, LogDecoder]] = {
    **cctp.DECODERS,
    **oft.DECODERS,
    **deposit_address.DECODERS,
    **tokens.DECODERS,
}
"""Role of the contract → event signature → decoder."""


def decode(log: EvmLog, chain: EvmChain) -> Event | None:
    """The event that a log of `chain` is; None when it is not ours.

    Raises `Undecodable` when it is ours and does not have the shape it must have.
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
    """First topics to ask for, by event contract.

    Token transfers are not among them: a log filter asks for those by recipient
    (`TRANSFER_TOPIC`).
    """
    topics: dict[EvmAddress, tuple[str, ...]] = {}
    for address, topic in _decoders_of(chain):
        if not (address in chain.tokens and topic == TRANSFER_TOPIC):
            topics[address] = (*topics.get(address, ()), topic)
    return MappingProxyType(topics)


@cache
def _decoders_of(chain: EvmChain) -> dict[tuple[EvmAddress, str], tuple[str, LogDecoder]]:
    """(contract, topic 0) → (event name, decoder), for the contracts that this chain has."""
    return {
        (address, topic_of(signature)): (signature.partition("(")[0], decoder)
        for role, address in _roles(chain)
        for signature, decoder in DECODERS[role].items()
    }


def _roles(chain: EvmChain) -> Iterator[tuple[str, EvmAddress]]:
    named = {
        "token_messenger": chain.cctp_token_messenger,
        "message_transmitter": chain.cctp_message_transmitter,
        "oft": chain.oft,
        "lz_endpoint": chain.lz_endpoint,
        "deposit_factory": chain.deposit_factory,
    }
    yield from ((role, address) for role, address in named.items() if address is not None)
    yield from (("token", address) for address in chain.tokens)
