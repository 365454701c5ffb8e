"""What we ask of a chain, whichever it is, and the shapes its answers come in."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from indexer.events.common import Provenance
from warehouse_schema.identifiers import (
    BlockHash,
    ChainId,
    EvmAddress,
    Height,
    StellarAddress,
    UnixSeconds,
)


@dataclass(frozen=True, slots=True)
class Block:
    """An EVM block or a Stellar ledger, as far as we keep it."""

    chain: ChainId
    height: Height
    hash: BlockHash
    parent_hash: BlockHash
    time: UnixSeconds
    protocol_version: int | None = None


@dataclass(frozen=True, slots=True)
class EvmLog:
    """A raw EVM log. Topics are `0x` hex, lower-case; the address is lower-case."""

    seen: Provenance
    tx_index: int
    address: EvmAddress
    topics: tuple[str, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class StellarEvent:
    """A raw Stellar contract event: SCVal XDR of topics and data, id as Stellar RPC gives it."""

    seen: Provenance
    event_id: str
    contract: StellarAddress
    topics: tuple[bytes, ...]
    value: bytes


RawEvent = EvmLog | StellarEvent


@dataclass(frozen=True, slots=True)
class Range:
    """Blocks `first … last` without a gap, and every raw event of ours in them, in order."""

    blocks: tuple[Block, ...]
    events: tuple[RawEvent, ...]


class ChainReader(Protocol):
    """One chain, as `drain` reads it. Every method raises the errors of `indexer.errors`."""

    chain: ChainId

    def check_identity(self) -> None:
        """Raise `WrongChain` unless the node serves the configured chain."""

    def head(self) -> Block:
        """The newest block the node can answer for."""

    def block(self, height: Height) -> Block:
        """One block of the node's current chain. `NodeBehind` if it has not got there."""

    def read(self, first: Height, last: Height, watched: Sequence[str]) -> Range:
        """Blocks and events of `first … last`, checked against each other before they are given.

        `watched` are addresses whose token movements are wanted beside the contracts' events.
        `RangeTooWide` asks the caller to halve the range; `InconsistentAnswer` to try again.
        """

    def wait_for_head(self, above: Height, timeout: float) -> Block | None:
        """Block until the head is above `above`, at most `timeout` seconds; then the head or None.

        None means nothing new was seen in time, never that the node failed.
        """

    def close(self) -> None:
        """Let go of connections."""


def event_count_by_height(events: Iterable[RawEvent]) -> dict[Height, int]:
    """How many raw events each block holds."""
    counts: dict[Height, int] = {}
    for event in events:
        counts[event.seen.height] = counts.get(event.seen.height, 0) + 1
    return counts
