"""Gaps in providers' numbers, closed: the ledgers between are read again, and the book refolded.

A node may leave an event out without contradicting itself; nothing shows it but the provider's next
event, whose number is not the next one (`sequence_gap`). From then on its offers are not listed. To
heal it is a backfill of the ledgers between two events that are known. What it brings in is folded
with all else; a fold without a gap lists the provider's offers again and clears its alarms.

Where there is a data lake the ledgers come from it, because each proves what it holds; a node that
left something out once may do so again.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Engine

from indexer.chains.ports import ChainReader
from indexer.config.networks import Network
from indexer.facts.gaps import Gap, stale_gaps
from indexer.ingest.backfill import BackfillProgress, backfill

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GapRepair:
    """What became of the gaps."""

    closed: tuple[Gap, ...]
    left: tuple[Gap, ...]
    """Read again, and what was read has them still."""

    def __str__(self) -> str:
        """One line for an operator."""
        if not self.closed and not self.left:
            return "no provider has a gap"
        said = [_said(gap, "is closed") for gap in self.closed]
        said += [_said(gap, "is there still: its source left the same out") for gap in self.left]
        return "; ".join(said)


def _said(gap: Gap, what: str) -> str:
    return f"the gap between {gap.first} and {gap.last} of {', '.join(gap.providers)} {what}"


def repair_gaps(
    engine: Engine,
    reader: ChainReader,
    network: Network,
    on_progress: Callable[[BackfillProgress], None],
) -> GapRepair:
    """Read again whatever lies in a gap.

    Safe to kill at any moment and to run again. Raises as `backfill` does: `RetentionGap` when the
    reader has forgotten the ledgers, `FollowerConflict` beside another backfill of the chain.
    """
    chain = network.stellar.id
    with engine.connect() as conn:
        found = stale_gaps(conn, chain)
    for gap in found:
        logger.info("healing chain=%s from=%d to=%d", chain, gap.first, gap.last)
        backfill(engine, reader, network, gap.first, gap.last, on_progress)
    with engine.connect() as conn:
        left = stale_gaps(conn, chain)
    still = {(gap.first, gap.last) for gap in left}
    closed = tuple(gap for gap in found if (gap.first, gap.last) not in still)
    return GapRepair(closed, left)
