"""The run that asks services about messages that wait: attested yet, and if not, why.

For a network that names an attestation service. What is kept, and what rests on it, the indexer
decides.
"""

from collections.abc import Iterator

import dagster as dg
from pydantic import Field

from indexer.config.networks import Chain, Network
from indexer.ingest.attestations import PollProgress, poll_attestations, poll_once
from pipelines.defs.facts.names import ASK_JOB, ASK_POOL, ATTESTATIONS, events_key
from pipelines.defs.resources import AttestationServices, WarehouseResource
from pipelines.long_run import LongRunConfig, long_run
from pipelines.reports import AssetReporter, AttestationReport, LaterReports, asked_metadata
from pipelines.restart_sensor import LONG_RUN_TAGS, MINUTES, keeper, since

_STEP = "ask_services"


class AskConfig(LongRunConfig):
    """How long to ask."""

    minutes: float = Field(
        default=0,
        ge=0,
        le=MINUTES,
        description="Minutes to go on asking. 0: ask about what is due now, then end.",
    )


def attestations(network: Network, followed: tuple[Chain, ...]) -> dg.Definitions:
    """The asset, its job and the sensor of that; nothing for a network without a service."""
    if network.iris is None:
        return dg.Definitions()
    asset = _asset(network, followed)
    job = dg.define_asset_job(
        name=ASK_JOB,
        selection=dg.AssetSelection.assets(asset),
        description=f"Asks about messages that wait, for {MINUTES / 60:g} hours.",
        config=dg.RunConfig(ops={_STEP: AskConfig(minutes=MINUTES)}),
        executor_def=dg.in_process_executor,
        tags=LONG_RUN_TAGS,
    )
    standing = since("last report", never="no service has answered yet")
    return dg.Definitions(
        assets=[asset],
        jobs=[job],
        sensors=[keeper(ASK_JOB, ATTESTATIONS, standing)],
        resources={"services": AttestationServices()},
    )


def _asset(network: Network, followed: tuple[Chain, ...]) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name=_STEP,
        specs=[
            dg.AssetSpec(
                ATTESTATIONS,
                deps=[events_key(chain.id) for chain in followed],
                description="What services say of messages under way: facts.cctp_attestations, "
                "facts.message_status. Materialized with figures when there were answers.",
                group_name="attestations",
                kinds={"postgres"},
            )
        ],
        pool=ASK_POOL,
    )
    def asset(
        context: dg.AssetExecutionContext,
        config: AskConfig,
        warehouse: WarehouseResource,
        services: AttestationServices,
    ) -> Iterator[dg.MaterializeResult[None]]:
        """Ask, and go on asking."""
        ask(context.op_execution_context, config, warehouse, services, network)
        # What was answered is reported; the end of a run adds nothing to it.
        yield dg.MaterializeResult(
            asset_key=ATTESTATIONS, metadata=asked_metadata(AttestationReport(PollProgress()))
        )

    return asset


def ask(
    context: dg.OpExecutionContext,
    config: AskConfig,
    warehouse: WarehouseResource,
    services: AttestationServices,
    network: Network,
) -> None:
    """Ask until the time is over, nothing more is due or somebody asks to stop.

    Raises what `told_to_dagster` makes of the indexer's errors.
    """
    told = [AssetReporter(ATTESTATIONS, asked_metadata, LaterReports.MATERIALIZE)]
    with (
        long_run(context, warehouse, told, config) as run,
        services.services() as (iris, scan),
    ):

        def report(answers: PollProgress) -> None:
            run.report(AttestationReport(answers))

        if config.minutes:
            poll_attestations(
                run.engine, network, iris, scan=scan, should_stop=run.is_over, on_progress=report
            )
            return
        while not run.is_over():
            answers = poll_once(run.engine, network, iris, scan=scan)
            if not answers.polled:
                return
            report(answers)
