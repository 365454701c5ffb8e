"""Raw logs and contract events to typed events. Pure: no clock, no network, no database."""

from indexer.chains.events import Event
from indexer.chains.raw import EvmLog, RawEvent, StellarEvent
from indexer.config.networks import Chain, EvmChain, StellarChain
from indexer.decode import evm, stellar


def decode(raw: RawEvent, chain: Chain) -> Event | None:
    """The typed event; None for one that is not stored.

    Raises `Undecodable` when it is an event of ours and malformed.
    """
    if isinstance(raw, EvmLog) and isinstance(chain, EvmChain):
        return evm.decode(raw, chain)
    if isinstance(raw, StellarEvent) and isinstance(chain, StellarChain):
        return stellar.decode(raw, chain)
    raise TypeError(f"a {type(raw).__name__} cannot come from {chain.id}")
