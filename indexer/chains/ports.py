"""Interfaces of chain readers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from indexer.chains.raw import Block as Block
from indexer.chains.raw import EvmLog as EvmLog
from indexer.chains.raw import RawEvent as RawEvent
from indexer.chains.raw import StellarEvent as StellarEvent
from indexer.chains.raw import UnreadLedger as UnreadLedger
from indexer.chains.raw import Upgrade
from indexer.chains.watchlist import Watched
from warehouse_schema.identifiers import ChainId, Height

if TYPE_CHECKING:
    from indexer.chains.stellar.event_columns import LedgerColumns


@dataclass(frozen=True, slots=True)
class Range:
    """Blocks `first … last` without a gap, and all raw events of ours in them, in order."""

    blocks: tuple[Block, ...]
    events: tuple[RawEvent, ...]
    unread: tuple[UnreadLedger, ...] = ()
    """Those of the blocks whose contents could not be decoded, in order: they have no events."""


class ChainReader(Protocol):
    """Reads one chain. Every method raises the errors of `indexer.errors`."""

    chain: ChainId

    def check_identity(self) -> None:
        """Raise `WrongChain` unless the node serves the configured chain."""

    def head(self) -> Block:
        """The node's newest block."""

    def block(self, height: Height) -> Block:
        """One block of the node's current chain. Raises `NodeBehind` above its head."""

    def read(self, first: Height, last: Height, watched: Watched) -> Range:
        """Blocks and events of `first … last`, checked against each other.

        `watched`: addresses whose token transfers are read besides the contracts' events.
        After `RangeTooWide` the caller halves the range; after `InconsistentAnswer` it retries.
        """

    def wait_for_head(self, above: Height, timeout: float) -> Block | None:
        """The head once it is above `above`; None after `timeout` seconds.

        None never means that the node failed.
        """

    def close(self) -> None:
        """Close the connections."""


@runtime_checkable
class ReadsFullLedgers(Protocol):
    """A reader that can give ledgers of thousands of events as columns."""

    def read_full(self, first: Height, last: Height, watched: Watched) -> "Range | LedgerColumns":
        """As `ChainReader.read`, maybe not up to `last`; many events come as columns."""


@runtime_checkable
class ReportsUpgrades(Protocol):
    """A reader whose nodes report the protocol that they are ready for."""

    def upgrade_ahead(self) -> Upgrade | None:
        """The newest protocol beyond this build; None when there is none.

        Raises `RetryableChainError` or `PermanentChainError`.
        """
