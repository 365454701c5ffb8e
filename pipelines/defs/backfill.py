"""The job that reads a past range of a chain, which no follower will come by again.

One run fans the range out: a step plans spans, a step a span reads and commits it, a step folds
what is left. How many of them run at once, and where, is the executor's to say.

**Each step commits its own span when its turn has come**, which it learns from the warehouse,
rather than leave files for one collecting step to commit. That step would begin when the last span
is fetched (`collect` waits for all of them), so the whole range would lie on a disk that every
worker shares, and nobody would see it move. A second step that commits beside the others would
wait for ever where there is one process. So what waits is bounded by the number of processes, needs
no common disk, and a single process commits as it goes. The price: a process that is ahead of its
turn stands still once it has read its span.

Whoever waits keeps its place in the executor, so those before it must have one. They do: steps
begin in the order of the plan, and a step never gives its place up to be tried again later
(`failures.in_place`). If one fails, those that wait for it end as well; a new run goes on.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from indexer.config.settings import Settings
from pipelines.defs.facts.names import blocks_key
from pipelines.defs.resources import ChainNodes, WarehouseResource
from pipelines.executors import executor_of
from pipelines.failures import failures_for_dagster, in_place
from warehouse_schema.identifiers import ChainId, Height

if TYPE_CHECKING:
    from indexer.ingest.backfill import BackfillProgress, Span

BACKFILL = "backfill"
READ_RANGE = "read_range"
POOL = "backfills"

_LOOK_SECONDS = 5.0


class BackfillConfig(dg.Config):
    """Which blocks to read, both ends included."""

    chain: str = Field(description="CAIP-2 id of a chain that has a node, such as eip155:1")
    first: int = Field(ge=0, description="First block or ledger")
    last: int = Field(ge=0, description="Last one; it must lie behind what a reorg can reach")
    blocks: int | None = Field(
        default=None,
        ge=1,
        description="Blocks of a step. Left out: at most 200 steps, of at least 2,000 blocks",
    )
    spool: str | None = Field(
        default=None,
        description="Folder for chunks that wait for their turn, up to 1 GB a process. Left out: "
        "under ISTHMUS_HOME of the machine that runs the step",
    )
    report_seconds: float = Field(default=10, gt=0, description="Seconds between reports")

    @property
    def whole(self) -> "Span":
        """The range."""
        return Height(self.first), Height(self.last)


def backfills(settings: Settings) -> dg.Definitions:
    """The backfill job of a network."""
    network = settings.network

    # What a step does is imported in it: it reads columns, and every run would wait for that.

    @dg.op(pool=POOL, out={"spans": dg.DynamicOut(dg.Nothing)})
    def plan(
        context: dg.OpExecutionContext,
        config: BackfillConfig,
        warehouse: WarehouseResource,
        nodes: ChainNodes,
    ) -> Iterator[dg.DynamicOutput[None]]:
        """Spans of what is not in yet; none when only the movements are left to fold."""
        from indexer.ingest.backfill import plan_spans

        with (
            failures_for_dagster(context),
            warehouse.engine() as engine,
            nodes.reader(ChainId(config.chain)) as reader,
        ):
            spans = plan_spans(engine, reader, network, *config.whole, config.blocks)
        context.log.info(planned(config, spans))
        for span in spans:
            yield dg.DynamicOutput(None, mapping_key=key_of(span), output_name="spans")

    @dg.op(pool=POOL, ins={"span": dg.In(dg.Nothing)}, out=dg.Out(dg.Nothing))
    def bring_in(
        context: dg.OpExecutionContext,
        config: BackfillConfig,
        warehouse: WarehouseResource,
        nodes: ChainNodes,
    ) -> None:
        """Read and decode a span; put it in the place of what is stored when its turn has come."""
        from indexer.ingest import backfill

        spool = Path(config.spool) if config.spool else settings.home / "spool"
        with (
            failures_for_dagster(context),
            warehouse.engine() as engine,
            nodes.reader(ChainId(config.chain)) as reader,
            BackfillReporter(context, config.report_seconds) as report,
        ):
            span, goes_on = span_of(context), GoesOn(context)
            in_place(
                context,
                lambda: backfill.ingest_span(
                    engine, reader, network, config.whole, span, spool, report, goes_on
                ),
            )

    @dg.op(pool=POOL, ins={"brought_in": dg.In(dg.Nothing)}, out=dg.Out(dg.Nothing))
    def finish(
        context: dg.OpExecutionContext, config: BackfillConfig, warehouse: WarehouseResource
    ) -> None:
        """Fold movements that were many; write the order book anew after the Stellar chain."""
        from indexer.ingest.backfill import finish_backfill

        with (
            failures_for_dagster(context),
            warehouse.engine() as engine,
            BackfillReporter(context, config.report_seconds) as report,
        ):
            finish_backfill(engine, network, ChainId(config.chain), config.whole, report)

    @dg.config_mapping
    def to_each(config: BackfillConfig) -> dict[str, object]:
        return {op.name: {"config": config.model_dump()} for op in (plan, bring_in, finish)}

    @dg.graph(name=READ_RANGE, config=to_each)
    def read_range() -> None:
        """One configuration for all the steps."""
        finish(plan().map(bring_in).collect())

    @dg.job(
        name=BACKFILL,
        description="Reads a past range of a chain. Safe to kill and to run again: it goes on "
        "where it was, and blocks that are stored are replaced.",
        executor_def=executor_of(settings),
    )
    def job() -> None:
        read_range()

    return dg.Definitions(jobs=[job])


def planned(config: BackfillConfig, spans: "list[Span]") -> str:
    """What a plan amounts to, in words."""
    what = f"{config.chain} {config.first} to {config.last}"
    if not spans:
        return f"{what}: all blocks are in, movements are left"
    begun = "" if spans[0][0] == config.first else f", goes on at {spans[0][0]}"
    return f"{what}{begun}: {len(spans)} spans of {spans[0][1] - spans[0][0] + 1} blocks"


def key_of(span: "Span") -> str:
    """The name of a span's step; in order of text as in order of height."""
    return f"{span[0]:012}_{span[1]:012}"


def span_of(context: dg.OpExecutionContext) -> "Span":
    """The span that a step is for."""
    first, _, last = str(context.get_mapping_key()).partition("_")
    return Height(int(first)), Height(int(last))


class GoesOn:
    """Fails the step when its run is over, or when a step before it failed.

    A process whose run was killed does not notice; one that waits for a span that nobody brings in
    any more would wait for long.
    """

    def __init__(
        self, context: dg.OpExecutionContext, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._context = context
        self._clock = clock
        self._looked_at = float("-inf")

    def __call__(self) -> None:
        """Look, if it is time."""
        if self._clock() - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = self._clock()
        instance, run_id = self._context.instance, self._context.run_id
        run = instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            raise dg.Failure("the run is over", allow_retries=False)
        mine = str(self._context.get_mapping_key())
        for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_FAILURE):
            key = (entry.step_key or "").rpartition("[")[2].rstrip("]")
            if key < mine:
                raise dg.Failure(f"the span before this one failed: {key}", allow_retries=False)


class BackfillReporter:
    """Says how far a backfill is, every few seconds and at the end of a step.

    As observations of the chain's blocks: a materialization would make their checks count as not
    evaluated, and a backfill pass for a follower that is alive. The rates are of all steps at work:
    the one that commits has seen the others commit while it waited.
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
        self._since = clock()
        self._pending: BackfillProgress | None = None

    def __call__(self, progress: "BackfillProgress") -> None:
        """Take note of one commit; report if it is time."""
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
        self._context.log.info(str(progress))
        self._context.log_event(
            dg.AssetObservation(blocks_key(progress.chain), metadata=backfill_metadata(progress))
        )


def backfill_metadata(progress: "BackfillProgress") -> dict[str, dg.MetadataValue]:
    """How far a backfill is, how fast, and how long its present step will still take."""
    left = progress.seconds_left
    return {
        "backfill": dg.MetadataValue.text(f"{progress.first} to {progress.last}"),
        "backfill_step": dg.MetadataValue.text(progress.step),
        "backfilled_percent": dg.MetadataValue.float(round(100 * progress.share, 2)),
        "backfilled_to": dg.MetadataValue.int(progress.done),
        "blocks_per_second": dg.MetadataValue.float(round(progress.blocks_per_second, 1)),
        "events_per_second": dg.MetadataValue.float(round(progress.events_per_second, 1)),
        "seconds_left": dg.MetadataValue.null()
        if left is None
        else dg.MetadataValue.int(round(left)),
        "events": dg.MetadataValue.int(progress.events),
    }
