"""The job that reads a past range of a chain.

One run fans the range out: a step plans spans, one step for each span reads and commits it, a last
step folds the rest. The executor decides how many run at once, and where (`pipelines.executors`).

Each step commits its own span, with a progress of its own in the warehouse, and waits for no other
(`indexer.ingest.backfill`). Steps pass no values and share no disk. A step that an engine starts
again, because its worker died or its broker lost it, goes on after the last commit; one that runs
twice at a time commits each chunk once. If a step fails, the others go on; a new run does the rest.
"""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from indexer.config.settings import Settings
from pipelines.defs.names import blocks_key
from pipelines.defs.resources import ChainNodes, WarehouseResource
from pipelines.executors import executor_of
from pipelines.failures import failures_for_dagster, retry_in_process
from pipelines.reports import LatestReporter, Metadata
from warehouse_schema.identifiers import ChainId, Height

if TYPE_CHECKING:
    from indexer.ingest.backfill import BackfillProgress, Span

BACKFILL = "backfill"
READ_RANGE = "read_range"
POOL = "backfills"

_CHECK_SECONDS = 5.0


class BackfillConfig(dg.Config):
    """Which blocks to read, both ends included."""

    chain: str = Field(description="CAIP-2 id of a chain that has a node, such as eip155:1")
    first: int = Field(ge=0, description="First block or ledger")
    last: int = Field(ge=0, description="Last one; it must be finalized")
    blocks: int | None = Field(
        default=None,
        ge=1,
        description="Blocks of a step. Default: at most 200 steps, of at least 2,000 blocks. A "
        "range that was planned and is not done keeps its steps",
    )
    report_seconds: float = Field(default=10, gt=0, description="Seconds between reports")

    @property
    def whole(self) -> "Span":
        """The range."""
        return Height(self.first), Height(self.last)


def backfills(settings: Settings) -> dg.Definitions:
    """The backfill job of a network."""
    network = settings.network

    # Steps import their work: it imports polars, and every run would wait for that.

    @dg.op(pool=POOL, out={"spans": dg.DynamicOut(dg.Nothing)})
    def plan(
        context: dg.OpExecutionContext,
        config: BackfillConfig,
        warehouse: WarehouseResource,
        nodes: ChainNodes,
    ) -> Iterator[dg.DynamicOutput[None]]:
        """Spans that are not committed yet; none when only movements remain to be folded."""
        from indexer.ingest.backfill import plan_spans

        with (
            failures_for_dagster(context),
            warehouse.engine() as engine,
            nodes.reader(ChainId(config.chain)) as reader,
        ):
            spans = retry_in_process(
                context, lambda: plan_spans(engine, reader, network, *config.whole, config.blocks)
            )
        context.log.info(planned(config, spans))
        for span in spans:
            yield dg.DynamicOutput(None, mapping_key=key_of(span), output_name="spans")

    @dg.op(pool=POOL, ins={"span": dg.In(dg.Nothing)}, out=dg.Out(dg.Nothing))
    def ingest_span(
        context: dg.OpExecutionContext,
        config: BackfillConfig,
        warehouse: WarehouseResource,
        nodes: ChainNodes,
    ) -> None:
        """Read and decode a span; replace the stored blocks."""
        from indexer.ingest import backfill

        with (
            failures_for_dagster(context),
            warehouse.engine() as engine,
            nodes.reader(ChainId(config.chain)) as reader,
            backfill_reporter(context, config.report_seconds) as report,
        ):
            first, _, last = str(context.get_mapping_key()).partition("_")
            span, check = (Height(int(first)), Height(int(last))), RunCheck(context)
            retry_in_process(
                context,
                lambda: backfill.ingest_span(
                    engine, reader, network, config.whole, span, report, check
                ),
            )

    @dg.op(pool=POOL, ins={"ingested": dg.In(dg.Nothing)}, out=dg.Out(dg.Nothing))
    def finish(
        context: dg.OpExecutionContext, config: BackfillConfig, warehouse: WarehouseResource
    ) -> None:
        """Fold many movements; rebuild the order book after the Stellar chain."""
        from indexer.ingest.backfill import finish_backfill

        with (
            failures_for_dagster(context),
            warehouse.engine() as engine,
            backfill_reporter(context, config.report_seconds) as report,
        ):
            retry_in_process(
                context,
                lambda: finish_backfill(
                    engine, network, ChainId(config.chain), config.whole, report
                ),
            )

    @dg.config_mapping
    def to_each(config: BackfillConfig) -> dict[str, object]:
        return {op.name: {"config": config.model_dump()} for op in (plan, ingest_span, finish)}

    @dg.graph(name=READ_RANGE, config=to_each)
    def read_range() -> None:
        """The same configuration for all steps."""
        finish(plan().map(ingest_span).collect())

    @dg.job(
        name=BACKFILL,
        description="Reads a past range of a chain. Safe to kill and to run again: it resumes, and "
        "replaces stored blocks.",
        executor_def=executor_of(settings),
    )
    def job() -> None:
        read_range()

    return dg.Definitions(jobs=[job])


def planned(config: BackfillConfig, spans: "list[Span]") -> str:
    """A plan as a sentence."""
    what = f"{config.chain} {config.first} to {config.last}"
    if not spans:
        return f"{what}: all blocks are in, movements are left"
    return f"{what}: {len(spans)} spans of {spans[0][1] - spans[0][0] + 1} blocks are not done"


def key_of(span: "Span") -> str:
    """The name of a span's step; in order of text as in order of height."""
    return f"{span[0]:012}_{span[1]:012}"


class RunCheck:
    """Fails the step when its run is over: the process of a killed run would go on otherwise."""

    def __init__(
        self, context: dg.OpExecutionContext, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context = context
        self._clock = clock
        self._checked_at = float("-inf")

    def __call__(self) -> None:
        """Check, at most every few seconds."""
        if self._clock() - self._checked_at < _CHECK_SECONDS:
            return
        self._checked_at = self._clock()
        run = self._context.instance.get_run_by_id(self._context.run_id)
        if run is None or run.is_finished:
            raise dg.Failure("the run is over", allow_retries=False)


def backfill_reporter(
    context: dg.OpExecutionContext, every: float
) -> "LatestReporter[BackfillProgress]":
    """Logs a backfill's progress: how far, how fast, the remaining time of its current step.

    As observations of the chain's blocks: a materialization would make their checks count as not
    evaluated, and look like a follower's progress. Rates are of all steps together.
    """

    def write(progress: "BackfillProgress") -> None:
        context.log.info(str(progress))
        remaining = progress.seconds_left
        metadata: Metadata = {
            "backfill": f"{progress.first} to {progress.last}",
            "backfill_step": progress.step,
            "backfilled_percent": round(100 * progress.share, 2),
            "backfilled_blocks": progress.committed,
            "blocks_per_second": round(progress.blocks_per_second, 1),
            "events_per_second": round(progress.events_per_second, 1),
            "seconds_left": None if remaining is None else round(remaining),
            "events": progress.events,
        }
        context.log_event(dg.AssetObservation(blocks_key(progress.chain), metadata=metadata))

    return LatestReporter(write, every)
