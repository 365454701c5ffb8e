"""Raw logs and contract events to typed events. Pure: no clock, no network, no database."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from indexer.chains.events import Event
from indexer.chains.raw import EvmLog, RawEvent, StellarEvent
from indexer.config.networks import Chain, EvmChain, StellarChain


def decode(raw: RawEvent, chain: Chain) -> Event | None:
    """The typed event; None for one that is not stored.

    Raises `Undecodable` when it is an event of ours and malformed.
    """
    if isinstance(raw, EvmLog) and isinstance(chain, EvmChain):
        return _decoder("indexer.decode.evm")(raw, chain)
    if isinstance(raw, StellarEvent) and isinstance(chain, StellarChain):
        return _decoder("indexer.decode.stellar")(raw, chain)
    raise TypeError(f"a {type(raw).__name__} cannot come from {chain.id}")


@cache
def _decoder(module: str) -> Callable[[Any, Any], Event | None]:
    """`decode` of a module that is imported by name.

    A process reads one chain, and Stellar's SDK takes half a second of processor time to import.
    """
    decoder: Callable[[Any, Any], Event | None] = import_module(module).decode
    return decoder
