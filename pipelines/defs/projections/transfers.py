"""The run that updates transfers for clients' and the relay's writes, and lets them expire.

Chain events move a transfer in their own range's transaction; this run is for everything else.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from indexer.config.networks import Chain, Network
from indexer.transfers import keeper
from indexer.transfers.keeper import KeeperProgress
from pipelines.defs.names import TRANSFER_STATES, TRANSFERS_JOB, TRANSFERS_POOL, events_key
from pipelines.defs.resources import WarehouseResource
from pipelines.long_run import CatchUpConfig, long_run
from pipelines.reports import AssetReporter, LaterReports, counts_metadata
from pipelines.restart_sensor import MINUTES, long_run_definitions, state_by_asset

STEP = "update_transfers"


def transfers(network: Network, followed: Sequence[Chain]) -> dg.Definitions:
    """The asset, its job and restart sensor."""

    @dg.multi_asset(
        name=STEP,
        specs=[
            dg.AssetSpec(
                TRANSFER_STATES,
                deps=[events_key(chain.id) for chain in followed],
                description="The state of each transfer: projections.transfer_states. Materialized "
                "with the number that a client, the relay or the clock moved; chain events move "
                "them in their range.",
                group_name="projections",
                kinds={"postgres"},
            )
        ],
        pool=TRANSFERS_POOL,
    )
    def asset(
        context: dg.AssetExecutionContext, config: CatchUpConfig, warehouse: WarehouseResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        """Update transfers until the time is over or a stop is requested."""
        reporter: AssetReporter[KeeperProgress] = AssetReporter(
            TRANSFER_STATES, counts_metadata, LaterReports.MATERIALIZE
        )
        with long_run(context.op_execution_context, warehouse, [reporter], config) as run:
            if config.minutes:
                keeper.run_keeper(
                    run.engine, network, should_stop=run.is_over, on_progress=run.report
                )
            else:
                with run.engine.connect() as conn:
                    run.report(keeper.catch_up(conn, network))
        # All moves are reported by now.
        yield dg.MaterializeResult(
            asset_key=TRANSFER_STATES, metadata=counts_metadata(KeeperProgress())
        )

    return long_run_definitions(
        TRANSFERS_JOB,
        asset,
        TRANSFER_STATES,
        state_by_asset("last report", never="no transfer has been looked at yet"),
        "Updates transfers for their clients, the relay and the clock",
        config=dg.RunConfig(ops={STEP: CatchUpConfig(minutes=MINUTES)}),
    )
