"""The job that closes gaps in providers' numbers, and what starts it as soon as there is one.

A gap is a provider whose offers are not listed; nobody should have to notice that first. What the
job reads again it reads from a data lake where there is one. If what it reads has the gap still, it
is tried again ever later, for as long as the alarm stands: a node or a lake may be mended.
"""

import time
from collections.abc import Sequence

import dagster as dg

from indexer.config.networks import Network
from indexer.config.settings import Settings
from pipelines.defs.backfill import POOL, BackfillReporter
from pipelines.defs.resources import ChainNodes, WarehouseResource
from pipelines.failures import failures_for_dagster
from pipelines.supervision import IN_FLIGHT

REPAIR_GAPS = "heal"
SENSOR = "gaps_are_healed"

_LOOK_SECONDS = 30
_PAUSES = (0.0, 60.0, 300.0, 1_800.0, 7_200.0)
"""Seconds to wait after so many runs that left the same gaps."""
_FOUND = "isthmus/gaps"
"""Tag of a run: the gaps that it was started for."""


def gap_repair(settings: Settings) -> dg.Definitions:
    """The job and its sensor; nothing where the Stellar chain has no node."""
    network = settings.network
    if network.stellar not in settings.followed:
        return dg.Definitions()
    return dg.Definitions(jobs=[_job(network)], sensors=[_sensor(network)])


def _job(network: Network) -> dg.JobDefinition:
    @dg.op(pool=POOL, out=dg.Out(dg.Nothing))
    def read_again(
        context: dg.OpExecutionContext, warehouse: WarehouseResource, nodes: ChainNodes
    ) -> None:
        """Read what lies in a gap, and write the order book anew. Fails while a gap is left."""
        from indexer.ingest.gap_repair import repair_gaps

        with (
            failures_for_dagster(context),
            warehouse.engine() as engine,
            nodes.history(network.stellar.id) as reader,
            BackfillReporter(context, every=10) as report,
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
        read_again()

    return job


def _sensor(network: Network) -> dg.SensorDefinition:
    @dg.sensor(
        name=SENSOR,
        job_name=REPAIR_GAPS,
        minimum_interval_seconds=_LOOK_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Starts the job while a provider's events have a gap.",
    )
    def sensor(
        context: dg.SensorEvaluationContext, warehouse: WarehouseResource
    ) -> dg.RunRequest | dg.SkipReason:
        from indexer.facts.gaps import stale_gaps

        with warehouse.engine() as engine, engine.connect() as conn:
            found = stale_gaps(conn, network.stellar.id)
        if not found:
            return dg.SkipReason("no provider has a gap")
        named = ",".join(f"{gap.first}-{gap.last}" for gap in found)
        return next_repair(context.instance, named, time.time())

    return sensor


def next_repair(
    instance: dg.DagsterInstance, found: str, now: float
) -> dg.RunRequest | dg.SkipReason:
    """Start a run for these gaps, or say why not yet; `now` is in unix seconds."""
    records = instance.get_run_records(dg.RunsFilter(job_name=REPAIR_GAPS), limit=len(_PAUSES))
    if records and records[0].dagster_run.status in IN_FLIGHT:
        return dg.SkipReason("a run is at it")
    wait = _pause(records, found) - _since(records, now)
    if wait > 0:
        return dg.SkipReason(f"{found} was read again in vain; next in {wait:.0f} s")
    return dg.RunRequest(tags={_FOUND: found})


def _pause(records: Sequence[dg.RunRecord], found: str) -> float:
    tries = 0
    for record in records:
        if record.dagster_run.tags.get(_FOUND) != found:
            break
        tries += 1
    return _PAUSES[min(tries, len(_PAUSES) - 1)]


def _since(records: Sequence[dg.RunRecord], now: float) -> float:
    ended = records[0].end_time if records else None
    return float("inf") if ended is None else now - ended
