"""The job that reads a past range of a chain, which no follower will come by again."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from indexer.networks import Network
from pipelines.defs.facts.names import blocks_key
from pipelines.defs.resources import ChainNodes, Warehouse
from pipelines.failures import told_to_dagster
from pipelines.instance import pool_connections
from warehouse_schema.identifiers import ChainId, Height

if TYPE_CHECKING:
    from indexer.backfill import BackfillProgress

BACKFILL = "backfill"
POOL = "backfills"
DONE_TAG = "isthmus/backfilled"
"""On a run: its own id and the height up to which its ranges are committed."""


class BackfillConfig(dg.Config):
    """Which blocks to read, both ends included."""

    chain: str = Field(description="CAIP-2 id of a chain that has a node, such as eip155:1")
    first: int = Field(ge=0, description="First block or ledger")
    last: int = Field(ge=0, description="Last one; it must lie behind what a reorg can reach")
    report_seconds: float = Field(default=10, gt=0, description="Seconds between reports")


def backfills(network: Network) -> dg.Definitions:
    """The backfill job of a network."""

    @dg.op(pool=POOL, out=dg.Out(dg.Nothing))
    def read_range(
        context: dg.OpExecutionContext,
        config: BackfillConfig,
        warehouse: Warehouse,
        nodes: ChainNodes,
    ) -> None:
        """Read the range and put it in the place of what is stored there."""
        # Here, not above: it reads columns, and every run that starts would wait for that import.
        from indexer.backfill import backfill

        pool_connections(context.instance)
        # Asked for anew: `context.run` is as it was when the run began, before any report.
        run = context.instance.get_run_by_id(context.run_id) or context.run
        first = Height(resume_at(run, config.first))
        if first > config.last:
            return
        with (
            told_to_dagster(context),
            warehouse.engine() as engine,
            nodes.reader(ChainId(config.chain)) as reader,
            BackfillReporter(context, config.report_seconds) as report,
        ):
            backfill(engine, reader, network, first, Height(config.last), report)

    @dg.job(
        name=BACKFILL,
        description="Reads a past range of a chain. Safe to run again: ranges are replaced.",
        executor_def=dg.in_process_executor,
    )
    def job() -> None:
        read_range()

    return dg.Definitions(jobs=[job])


def resume_at(run: dg.DagsterRun, first: int) -> int:
    """Where another attempt of the same run goes on."""
    run_id, _, done = run.tags.get(DONE_TAG, "").partition(" ")
    # A re-execution inherits the tags of its parent, and means to begin from the beginning.
    return max(first, int(done) + 1) if run_id == run.run_id else first


class BackfillReporter:
    """Says how far a backfill is, every few seconds and at its end.

    As observations of the chain's blocks: a materialization would make their checks count as not
    evaluated, and a backfill pass for a follower that is alive.
    """

    def __init__(
        self,
        context: dg.OpExecutionContext,
        every: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context = context
        self._every = every
        self._clock = clock
        self._begun = self._since = clock()
        self._pending: BackfillProgress | None = None

    def __call__(self, progress: "BackfillProgress") -> None:
        """Take note of one range; report if it is time."""
        self._pending = progress
        if self._clock() - self._since >= self._every:
            self._flush()

    def __enter__(self) -> "BackfillReporter":
        return self

    def __exit__(self, *error: object) -> None:
        self._flush()

    def _flush(self) -> None:
        progress, self._pending = self._pending, None
        if progress is None:
            return
        self._since = self._clock()
        rate = (progress.done - progress.first + 1) / max(self._since - self._begun, 0.001)
        left = (progress.last - progress.done) / rate
        run_id, instance = self._context.run_id, self._context.instance
        instance.add_run_tags(run_id, {DONE_TAG: f"{run_id} {progress.done}"})
        self._context.log.info(
            f"{progress.share:.1%} of {progress.chain} {progress.first} to {progress.last}: "
            f"at {progress.done}, {rate:.0f} blocks/s, about {left / 60:.0f} min left"
        )
        self._context.log_event(
            dg.AssetObservation(
                blocks_key(progress.chain),
                metadata={
                    "backfilled_percent": dg.MetadataValue.float(round(100 * progress.share, 2)),
                    "backfilled_to": dg.MetadataValue.int(progress.done),
                    "blocks_per_second": dg.MetadataValue.float(round(rate, 1)),
                    "events": dg.MetadataValue.int(progress.events),
                },
            )
        )
