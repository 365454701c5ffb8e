"""Gap repair: a backfill of the ledgers in which a provider's sequence numbers have a gap.

A node may omit an event without contradicting itself; only the number of the provider's next event
shows it (`sequence_gap`), and from then on its offers are hidden. A backfill reads the ledgers
between the two known events again. Once the order book folds without a gap, it lists the offers and
clears the alarms. A data lake is preferred as the source, because its ledgers prove their contents
and a node that omitted an event once may do so again.
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
    """Result for each gap."""

    closed: tuple[Gap, ...]
    remaining: tuple[Gap, ...]
    """Read again, and still there."""

    def __str__(self) -> str:
        """One line for an operator."""
        results = [
            *((gap, "is closed") for gap in self.closed),
            *((gap, "is there still: its source left the same out") for gap in self.remaining),
        ]
        return (
            "; ".join(
                f"the gap between {gap.first} and {gap.last} of {', '.join(gap.providers)} {result}"
                for gap, result in results
            )
            or "no provider has a gap"
        )


def repair_gaps(
    engine: Engine,
    reader: ChainReader,
    network: Network,
    on_progress: Callable[[BackfillProgress], None],
) -> GapRepair:
    """Backfill the ledgers of every gap.

    Idempotent and safe to kill. Raises as `backfill` does: `RetentionGap` when the reader no longer
    has the ledgers, `FollowerConflict` beside another backfill of the chain.
    """
    chain = network.stellar.id
    with engine.connect() as conn:
        found = stale_gaps(conn, chain)
    for gap in found:
        logger.info("gap repair chain=%s from=%d to=%d", chain, gap.first, gap.last)
        backfill(engine, reader, network, gap.first, gap.last, on_progress)
    with engine.connect() as conn:
        remaining = stale_gaps(conn, chain)
    open_ranges = {(gap.first, gap.last) for gap in remaining}
    closed = tuple(gap for gap in found if (gap.first, gap.last) not in open_ranges)
    return GapRepair(closed, remaining)
