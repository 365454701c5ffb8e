"""The job that brings a change in beside what is live: fill, check and, if it is told so, swap.

The revision is begun and given up by the database's owner (`isthmus redecode start`), whom
no run of Dagster works as. Without one, the job is about projections alone.
"""

import time
from collections.abc import Callable

import dagster as dg
from pydantic import Field

from indexer.config.networks import Network
from indexer.ingest.redecode import run
from indexer.ingest.redecode.run import RedecodeProgress
from pipelines.defs.facts.names import events_key
from pipelines.defs.resources import WarehouseResource
from pipelines.failures import failures_for_dagster
from warehouse_schema.identifiers import ChainId, Height

REDECODE = "revise"
POOL = "revises"

_SOON = 30.0
"""Seconds. A pass that took longer left behind what became final meanwhile: one more is worth it;
what the last one leaves, the check and the swap fill themselves."""


class FillConfig(dg.Config):
    """How often to say how far it is."""

    report_seconds: float = Field(default=10, gt=0, description="Seconds between reports")


class SwapConfig(dg.Config):
    """Whether to put the revision in the place of what is live."""

    swap: bool = Field(
        default=False,
        description="Only after a look at what the check found. Left out: nothing is changed",
    )


def revisions(network: Network) -> dg.Definitions:
    """The job over a network."""

    @dg.op(pool=POOL, out=dg.Out(dg.Nothing))
    def fill(
        context: dg.OpExecutionContext, config: FillConfig, warehouse: WarehouseResource
    ) -> None:
        """Decode raw facts anew beside the live tables, up to what is final."""
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
        """Compare everything at one snapshot: what a swap would change. Changes nothing."""
        with failures_for_dagster(context), warehouse.engine() as engine:
            found = run.check(engine, network)
        for progress in found.filled:
            context.log.info(
                f"{progress.chain}: decoded anew to {progress.height} of {progress.final}"
            )
        lines = list(found.lines()) or ["no differences"]
        for line in lines:
            context.log.info(line)
        return dg.Output(None, metadata=check_metadata(found))

    @dg.op(pool=POOL, ins={"checked": dg.In(dg.Nothing)}, out=dg.Out(dg.Nothing))
    def swap(
        context: dg.OpExecutionContext, config: SwapConfig, warehouse: WarehouseResource
    ) -> None:
        """Put the revision in the place of what is live, in one transaction, if told so."""
        if not config.swap:
            context.log.info("nothing was changed: launch again with swap: true to swap")
            return
        with failures_for_dagster(context), warehouse.engine() as engine:
            swapped = run.swap(engine, network)
        for line in swapped.lines():
            context.log.info(line)

    @dg.job(
        name=REDECODE,
        description="Fills a revision that was begun, checks it and, with swap: true, swaps it in.",
        executor_def=dg.in_process_executor,
    )
    def job() -> None:
        swap(check(fill()))

    return dg.Definitions(jobs=[job])


def check_metadata(found: run.SwapCheck) -> dict[str, dg.MetadataValue]:
    """What a swap would change, as numbers and in words."""
    tables = [*(table for of in found.facts.values() for table in of), *found.projections]
    lines = "\n".join(found.lines())
    return {
        "tables": dg.MetadataValue.int(len(tables)),
        "added": dg.MetadataValue.int(sum(table.added for table in tables)),
        "removed": dg.MetadataValue.int(sum(table.removed for table in tables)),
        "changed": dg.MetadataValue.int(sum(table.changed for table in tables)),
        "found": dg.MetadataValue.md(f"```\n{lines}\n```" if lines else "no differences"),
    }


class FillReporter:
    """Says how far each chain is decoded anew: at first, every few seconds, and at the end.

    As observations of the chain's events, whose checks a materialization would make count as not
    evaluated.
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
        self._begun: dict[ChainId, tuple[float, Height]] = {}
        self._said_at = float("-inf")
        self._unsaid: RedecodeProgress | None = None

    def __enter__(self) -> "FillReporter":
        return self

    def __exit__(self, *error: object) -> None:
        self._say()

    def __call__(self, progress: RedecodeProgress) -> None:
        """Take note of one range; report if it is time."""
        if progress.chain not in self._begun:
            # The chain before it is done, or this is the first.
            self._say()
            self._begun[progress.chain] = (self._clock(), progress.height)
            self._said_at = float("-inf")
        self._unsaid = progress
        if self._clock() - self._said_at >= self._every:
            self._say()

    def _say(self) -> None:
        progress, self._unsaid = self._unsaid, None
        if progress is None:
            return
        self._said_at = self._clock()
        since, start = self._begun[progress.chain]
        rate = (progress.height - start) / max(self._said_at - since, 0.001)
        left = (progress.final - progress.height) / rate if rate else None
        words = "" if left is None else f", {rate:,.0f} blocks/s, about {left:.0f} s left"
        self._context.log.info(
            f"{progress.chain}: decoded anew to {progress.height} of {progress.final}{words}"
        )
        self._context.log_event(
            dg.AssetObservation(
                events_key(progress.chain),
                metadata={
                    "revised_to": dg.MetadataValue.int(progress.height),
                    "revised_of": dg.MetadataValue.int(progress.final),
                    "blocks_per_second": dg.MetadataValue.float(round(rate, 1)),
                    "seconds_left": dg.MetadataValue.null()
                    if left is None
                    else dg.MetadataValue.int(round(left)),
                },
            )
        )
