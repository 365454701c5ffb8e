"""Reader of a Stellar node, with a data lake for ledgers older than the node's retention.

A node keeps about seven days of ledgers; older ranges are read from the lake until the node's
window is reached. Every ledger names its parent, so no ledger is lost at the boundary.
"""

import logging
from typing import TYPE_CHECKING

from indexer.chains.ports import Block, ChainReader, Range, ReadsFullLedgers, ReportsUpgrades
from indexer.chains.raw import Upgrade
from indexer.chains.watchlist import Watched
from indexer.errors import InconsistentAnswer, NodeBehind, RetentionGap, RetryableChainError
from warehouse_schema.identifiers import ChainId, Height

if TYPE_CHECKING:
    from indexer.chains.stellar.event_columns import LedgerColumns

logger = logging.getLogger(__name__)


class LakeFallbackReader:
    """A `ChainReader` over a node and a lake of the same chain."""

    def __init__(self, node: ChainReader, lake: ChainReader) -> None:
        """Raises `ValueError` for two chains."""
        if node.chain != lake.chain:
            raise ValueError(f"a lake of {lake.chain} does not match {node.chain}")
        self.chain: ChainId = node.chain
        self._node, self._lake = node, lake

    def check_identity(self) -> None:
        """Raise `WrongChain` unless both serve our chain. An unavailable lake is only logged."""
        self._node.check_identity()
        try:
            self._lake.check_identity()
        except RetryableChainError as error:
            logger.warning("lake unavailable chain=%s: %s", self.chain, error)

    def upgrade_ahead(self) -> Upgrade | None:
        """The upgrade that the node reports."""
        return self._node.upgrade_ahead() if isinstance(self._node, ReportsUpgrades) else None

    def head(self) -> Block:
        """The node's head."""
        return self._node.head()

    def block(self, height: Height) -> Block:
        """One ledger's header, from the node or the lake."""
        try:
            return self._node.block(height)
        except RetentionGap as gap:
            logger.warning(
                "reading header from lake chain=%s height=%d: %s", self.chain, height, gap
            )
            return self._lake.block(height)

    def read(self, first: Height, last: Height, watched: Watched) -> Range:
        """Ledgers and wanted events of `first … last`.

        Raises `NodeBehind` while the lake ends before the node's window, `RetentionGap` when the
        lake has later ledgers but not these.
        """
        try:
            return self._node.read(first, last, watched)
        except RetentionGap as gap:
            return self._read_lake(first, last, watched, gap)

    def read_full(self, first: Height, last: Height, watched: Watched) -> "Range | LedgerColumns":
        """As `read`; as columns where the node gives them."""
        if not isinstance(self._node, ReadsFullLedgers):
            return self.read(first, last, watched)
        try:
            return self._node.read_full(first, last, watched)
        except RetentionGap as gap:
            return self._read_lake(first, last, watched, gap)

    def _read_lake(self, first: Height, last: Height, watched: Watched, gap: RetentionGap) -> Range:
        logger.warning("reading from lake chain=%s from=%d to=%d: %s", self.chain, first, last, gap)
        reached = self._lake.head().height
        if reached >= last:
            return self._lake.read(first, last, watched)
        if reached < first:
            raise NodeBehind(f"{self.chain}: the lake ends at {reached}, before {first}")
        old = self._lake.read(first, reached, watched)
        try:
            new = self._node.read(Height(reached + 1), last, watched)
        except RetentionGap as error:
            raise NodeBehind(f"{self.chain}: the lake ends at {reached}; {error}") from error
        if new.blocks[0].parent_hash != old.blocks[-1].hash:
            raise InconsistentAnswer(f"{self.chain}: node and lake differ at {reached}")
        return Range(
            blocks=(*old.blocks, *new.blocks),
            events=(*old.events, *new.events),
            unread=(*old.unread, *new.unread),
        )

    def wait_for_head(self, above: Height, timeout: float) -> Block | None:
        """Wait for the node's head."""
        return self._node.wait_for_head(above, timeout)

    def close(self) -> None:
        """Close node and lake."""
        self._node.close()
        self._lake.close()
