"""The run that keeps transfers up to what clients and the relay wrote, and lets them expire.

What chains say moves a transfer with the range that brings it; this is for everything else. Which
stage a transfer is at, the indexer decides.
"""

from collections.abc import Iterator, Sequence

import dagster as dg
from pydantic import Field

from indexer.config.networks import Chain, Network
from indexer.transfers import keeper as indexer
from pipelines.defs.facts.names import events_key
from pipelines.defs.projections.names import KEEP_JOB, KEEP_POOL, TRANSFER_STATES
from pipelines.defs.resources import WarehouseResource
from pipelines.long_run import LongRunConfig, long_run
from pipelines.reports import AssetReporter, KeeperReport, LaterReports, kept_metadata
from pipelines.restart_sensor import LONG_RUN_TAGS, MINUTES, keeper, since

_STEP = "keep_stages"


class KeepConfig(LongRunConfig):
    """How long to keep up."""

    minutes: float = Field(
        default=0,
        ge=0,
        le=MINUTES,
        description="Minutes to go on. 0: catch up with what was written, then end.",
    )


def transfers(network: Network, followed: Sequence[Chain]) -> dg.Definitions:
    """The asset, its job and the sensor of that."""
    asset = _asset(network, followed)
    job = dg.define_asset_job(
        name=KEEP_JOB,
        selection=dg.AssetSelection.assets(asset),
        description=f"Keeps transfers up to their clients and the clock, for {MINUTES / 60:g} "
        "hours.",
        config=dg.RunConfig(ops={_STEP: KeepConfig(minutes=MINUTES)}),
        executor_def=dg.in_process_executor,
        tags=LONG_RUN_TAGS,
    )
    standing = since("last report", never="no transfer has been looked at yet")
    return dg.Definitions(
        assets=[asset], jobs=[job], sensors=[keeper(KEEP_JOB, TRANSFER_STATES, standing)]
    )


def _asset(network: Network, followed: Sequence[Chain]) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name=_STEP,
        specs=[
            dg.AssetSpec(
                TRANSFER_STATES,
                deps=[events_key(chain.id) for chain in followed],
                description="Where each transfer is: projections.transfer_states. Materialized "
                "with how many moved because a client, the relay or the clock moved them; what "
                "chains say moves them with the range that brings it.",
                group_name="projections",
                kinds={"postgres"},
            )
        ],
        pool=KEEP_POOL,
    )
    def asset(
        context: dg.AssetExecutionContext, config: KeepConfig, warehouse: WarehouseResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        """Catch up, and keep up."""
        keep(context.op_execution_context, config, warehouse, network)
        # What was done is reported; the end of a run adds nothing to it.
        yield dg.MaterializeResult(
            asset_key=TRANSFER_STATES,
            metadata=kept_metadata(KeeperReport(indexer.KeeperProgress())),
        )

    return asset


def keep(
    context: dg.OpExecutionContext,
    config: KeepConfig,
    warehouse: WarehouseResource,
    network: Network,
) -> None:
    """Keep up until the time is over or somebody asks to stop.

    Raises what `told_to_dagster` makes of the indexer's errors.
    """
    told = [AssetReporter(TRANSFER_STATES, kept_metadata, LaterReports.MATERIALIZE)]
    with long_run(context, warehouse, told, config) as run:
        if not config.minutes:
            with run.engine.connect() as conn:
                run.report(KeeperReport(indexer.catch_up(conn, network)))
            return
        indexer.run_keeper(
            run.engine,
            network,
            should_stop=run.is_over,
            on_progress=lambda done: run.report(KeeperReport(done)),
        )
