"""What we ask of a chain, whichever it is."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from indexer.chains.raw import Block as Block
from indexer.chains.raw import EvmLog as EvmLog
from indexer.chains.raw import RawEvent as RawEvent
from indexer.chains.raw import StellarEvent as StellarEvent
from indexer.chains.raw import UnreadLedger as UnreadLedger
from indexer.chains.raw import Upgrade
from indexer.chains.watchlist import Watched
from warehouse_schema.identifiers import ChainId, Height


@dataclass(frozen=True, slots=True)
class Range:
    """Blocks `first … last` without a gap, and every raw event of ours in them, in order."""

    blocks: tuple[Block, ...]
    events: tuple[RawEvent, ...]
    unread: tuple[UnreadLedger, ...] = ()
    """Of which of the blocks it is not known what is in them, in order: they have no events."""


class ChainReader(Protocol):
    """One chain, as `drain` reads it. Every method raises the errors of `indexer.errors`."""

    chain: ChainId

    def check_identity(self) -> None:
        """Raise `WrongChain` unless the node serves the configured chain."""

    def head(self) -> Block:
        """The newest block the node can answer for."""

    def block(self, height: Height) -> Block:
        """One block of the node's current chain. `NodeBehind` if it has not got there."""

    def read(self, first: Height, last: Height, watched: Watched) -> Range:
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


@runtime_checkable
class ReportsUpgrades(Protocol):
    """A reader whose nodes report the protocol that they are ready for."""

    def upgrade_ahead(self) -> Upgrade | None:
        """The newest protocol beyond this build; None when there is none.

        Raises `RetryableChainError` or `PermanentChainError`.
        """
