"""The job that redecodes raw facts beside the live tables: fill, check and, on request, swap.

The database's owner starts and abandons a redecode (`isthmus redecode start`); no run of
Dagster has that role. Without a redecode, the job covers projections alone.
"""

import time
from collections.abc import Callable

import dagster as dg
from pydantic import Field

from indexer.config.networks import Network
from indexer.ingest.redecode import run
from indexer.ingest.redecode.run import RedecodeProgress
from pipelines.defs.names import events_key
from pipelines.defs.resources import WarehouseResource
from pipelines.failures import failures_for_dagster
from pipelines.reports import LatestReporter, Metadata
from warehouse_schema.identifiers import ChainId, Height

REDECODE = "redecode"
POOL = "redecode"

_SOON = 30.0
"""Seconds. A longer pass is followed by another, for what was finalized meanwhile; check and swap
fill the rest themselves."""


class FillConfig(dg.Config):
    """How often to report."""

    report_seconds: float = Field(default=10, gt=0, description="Seconds between reports")


class SwapConfig(dg.Config):
    """Whether to swap."""

    swap: bool = Field(
        default=False,
        description="Only after reading what the check found. By default nothing is changed",
    )


def redecoding(network: Network) -> dg.Definitions:
    """The job over a network."""

    @dg.op(pool=POOL, out=dg.Out(dg.Nothing))
    def fill(
        context: dg.OpExecutionContext, config: FillConfig, warehouse: WarehouseResource
    ) -> None:
        """Decode raw facts beside the live tables, up to the finalized block."""
        with (
            failures_for_dagster(context),
            warehouse.engine() as engine,
            FillReporter(context, config.report_seconds) as report,
        ):
            began = float("-inf")
            while time.monotonic() - began > _SOON:
                began = time.monotonic()
                for progress in run.fill_all(engine, network):
                    report(progress)

    @dg.op(pool=POOL, ins={"filled": dg.In(dg.Nothing)}, out=dg.Out(dg.Nothing))
    def check(context: dg.OpExecutionContext, warehouse: WarehouseResource) -> dg.Output[None]:
        """Compare everything at one snapshot: what a swap would change. Read-only."""
        with failures_for_dagster(context), warehouse.engine() as engine:
            found = run.check(engine, network)
        for progress in found.filled:
            context.log.info(
                f"{progress.chain}: redecoded to {progress.height} of {progress.final}"
            )
        lines = list(found.lines())
        for line in lines or ["no differences"]:
            context.log.info(line)
        tables = [*(table for of in found.facts.values() for table in of), *found.projections]
        sentences = "\n".join(["```", *lines, "```"]) if lines else "no differences"
        metadata: Metadata = {
            "tables": len(tables),
            "added": sum(table.added for table in tables),
            "removed": sum(table.removed for table in tables),
            "changed": sum(table.changed for table in tables),
            "found": dg.MetadataValue.md(sentences),
        }
        return dg.Output(None, metadata=metadata)

    @dg.op(pool=POOL, ins={"checked": dg.In(dg.Nothing)}, out=dg.Out(dg.Nothing))
    def swap(
        context: dg.OpExecutionContext, config: SwapConfig, warehouse: WarehouseResource
    ) -> None:
        """Swap the tables, in one transaction, if requested."""
        if not config.swap:
            context.log.info("nothing was changed: launch again with swap: true to swap")
            return
        with failures_for_dagster(context), warehouse.engine() as engine:
            swapped = run.swap(engine, network)
        for line in swapped.lines():
            context.log.info(line)

    @dg.job(
        name=REDECODE,
        description="Fills a started redecode, checks it and, with swap: true, swaps it in.",
        executor_def=dg.in_process_executor,
    )
    def job() -> None:
        swap(check(fill()))

    return dg.Definitions(jobs=[job])


class FillReporter(LatestReporter[RedecodeProgress]):
    """Logs how far each chain is redecoded: at first, every few seconds, and at the end.

    As observations of the chain's events: a materialization would make their checks count as not
    evaluated.
    """

    def __init__(
        self,
        context: dg.OpExecutionContext,
        every: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(self._log, every, clock)
        self._context = context
        self._started: dict[ChainId, tuple[float, Height]] = {}

    def __call__(self, progress: RedecodeProgress) -> None:
        """Add one range; log if it is time."""
        if progress.chain not in self._started:
            self.flush()
            self._started[progress.chain] = (self._clock(), progress.height)
            self._written_at = float("-inf")
        super().__call__(progress)

    def _log(self, progress: RedecodeProgress) -> None:
        since, start = self._started[progress.chain]
        rate = (progress.height - start) / max(self._written_at - since, 0.001)
        remaining = (progress.final - progress.height) / rate if rate else None
        speed = ""
        if remaining is not None:
            speed = f", {rate:,.0f} blocks/s, about {remaining:.0f} s left"
        self._context.log.info(
            f"{progress.chain}: redecoded to {progress.height} of {progress.final}{speed}"
        )
        metadata: Metadata = {
            "revised_to": progress.height,
            "revised_of": progress.final,
            "blocks_per_second": round(rate, 1),
            "seconds_left": None if remaining is None else round(remaining),
        }
        self._context.log_event(dg.AssetObservation(events_key(progress.chain), metadata=metadata))
