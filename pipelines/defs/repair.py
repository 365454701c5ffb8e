"""The job that repairs gaps in providers' sequence numbers, and the sensor that starts it.

A provider with a gap has no listed offers. The job reads the ledgers again, from a data lake where
there is one. While the gap remains, it is retried with backoff for as long as the alarm is open: a
node or a lake may recover.
"""

import time

import dagster as dg

from indexer.config.settings import Settings
from pipelines.defs.backfill import POOL, backfill_reporter
from pipelines.defs.resources import ChainNodes, WarehouseResource
from pipelines.failures import failures_for_dagster
from pipelines.supervision import IN_FLIGHT

REPAIR_GAPS = "repair_gaps"
SENSOR = f"{REPAIR_GAPS}_sensor"

_TICK_SECONDS = 30
_BACKOFF = (0.0, 60.0, 300.0, 1_800.0, 7_200.0)
"""Seconds to wait after so many runs that left the same gaps."""
_GAPS_TAG = "isthmus/gaps"
"""Tag of a run: the gaps that it was started for."""


def gap_repair(settings: Settings) -> dg.Definitions:
    """The job and its sensor; nothing without a Stellar node."""
    network = settings.network
    if network.stellar not in settings.followed:
        return dg.Definitions()

    @dg.op(pool=POOL, out=dg.Out(dg.Nothing))
    def read_gaps(
        context: dg.OpExecutionContext, warehouse: WarehouseResource, nodes: ChainNodes
    ) -> None:
        """Read the ledgers in a gap, and rebuild the order book. Fails while a gap remains."""
        from indexer.ingest.gap_repair import repair_gaps

        with (
            failures_for_dagster(context),
            warehouse.engine() as engine,
            nodes.history(network.stellar.id) as reader,
            backfill_reporter(context, every=10) as report,
        ):
            outcome = repair_gaps(engine, reader, network, report)
        context.log.info(str(outcome))
        if outcome.remaining:
            raise dg.Failure(str(outcome), allow_retries=False)

    @dg.job(
        name=REPAIR_GAPS,
        description="Reads again the ledgers where a provider's events have a gap. Safe to kill "
        "and to run again.",
        executor_def=dg.in_process_executor,
        tags={"dagster/max_runtime": str(6 * 3600)},
    )
    def job() -> None:
        read_gaps()

    @dg.sensor(
        name=SENSOR,
        job_name=REPAIR_GAPS,
        minimum_interval_seconds=_TICK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Starts the job while a provider's events have a gap.",
    )
    def sensor(
        context: dg.SensorEvaluationContext, warehouse: WarehouseResource
    ) -> dg.RunRequest | dg.SkipReason:
        from indexer.facts.gaps import stale_gaps

        with warehouse.kept_engine() as engine, engine.connect() as conn:
            found = stale_gaps(conn, network.stellar.id)
        if not found:
            return dg.SkipReason("no provider has a gap")
        named = ",".join(f"{gap.first}-{gap.last}" for gap in found)
        return next_repair(context.instance, named, time.time())

    return dg.Definitions(jobs=[job], sensors=[sensor])


def next_repair(
    instance: dg.DagsterInstance, found: str, now: float
) -> dg.RunRequest | dg.SkipReason:
    """Start a run for these gaps, or say why not yet; `now` is in unix seconds."""
    records = instance.get_run_records(dg.RunsFilter(job_name=REPAIR_GAPS), limit=len(_BACKOFF))
    if records and records[0].dagster_run.status in IN_FLIGHT:
        return dg.SkipReason("a run is under way")
    tries = 0
    while tries < len(records) and records[tries].dagster_run.tags.get(_GAPS_TAG) == found:
        tries += 1
    pause = _BACKOFF[min(tries, len(_BACKOFF) - 1)]
    ended = records[0].end_time if records else None
    wait = 0.0 if ended is None else pause - (now - ended)
    if wait > 0:
        return dg.SkipReason(f"{found} was read again in vain; next in {wait:.0f} s")
    return dg.RunRequest(tags={_GAPS_TAG: found})
