"""The run that polls attestation services about movements under way.

Only for a network that names such a service. What is stored, and what it means, is the indexer's.
"""

from collections.abc import Iterator

import dagster as dg

from indexer.config.networks import Chain, Network
from indexer.ingest.attestations import PollProgress, poll_attestations, poll_once
from pipelines.defs.names import ATTESTATIONS, ATTESTATIONS_JOB, ATTESTATIONS_POOL, events_key
from pipelines.defs.resources import AttestationServices, WarehouseResource
from pipelines.long_run import CatchUpConfig, long_run
from pipelines.reports import AssetReporter, LaterReports, counts_metadata
from pipelines.restart_sensor import MINUTES, long_run_definitions, state_by_asset

STEP = "poll_services"


def attestations(network: Network, followed: tuple[Chain, ...]) -> dg.Definitions:
    """The asset, its job and restart sensor; nothing for a network without a service."""
    if network.iris is None:
        return dg.Definitions()

    @dg.multi_asset(
        name=STEP,
        specs=[
            dg.AssetSpec(
                ATTESTATIONS,
                deps=[events_key(chain.id) for chain in followed],
                description="Services' answers about movements under way: facts.cctp_attestations, "
                "facts.message_status. Materialized with figures when there were answers.",
                group_name="attestations",
                kinds={"postgres"},
            )
        ],
        pool=ATTESTATIONS_POOL,
    )
    def asset(
        context: dg.AssetExecutionContext,
        config: CatchUpConfig,
        warehouse: WarehouseResource,
        services: AttestationServices,
    ) -> Iterator[dg.MaterializeResult[None]]:
        """Poll until the time is over, nothing more is due or a stop is requested."""
        reporter: AssetReporter[PollProgress] = AssetReporter(
            ATTESTATIONS, counts_metadata, LaterReports.MATERIALIZE
        )
        with (
            long_run(context.op_execution_context, warehouse, [reporter], config) as run,
            services.services() as (iris, scan),
        ):
            if config.minutes:
                poll_attestations(
                    run.engine,
                    network,
                    iris,
                    scan=scan,
                    should_stop=run.is_over,
                    on_progress=run.report,
                )
            else:
                while not run.is_over():
                    answers = poll_once(run.engine, network, iris, scan=scan)
                    if not answers.polled:
                        break
                    run.report(answers)
        # All answers are reported by now.
        yield dg.MaterializeResult(asset_key=ATTESTATIONS, metadata=counts_metadata(PollProgress()))

    own = long_run_definitions(
        ATTESTATIONS_JOB,
        asset,
        ATTESTATIONS,
        state_by_asset("last report", never="no service has answered yet"),
        "Polls attestation services about movements under way",
        config=dg.RunConfig(ops={STEP: CatchUpConfig(minutes=MINUTES)}),
    )
    return dg.Definitions.merge(own, dg.Definitions(resources={"services": AttestationServices()}))
