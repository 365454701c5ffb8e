"""The run that posts owners' events to their webhooks, in the relay's code location.

A job of its own beside the relay's: slow receivers must not delay money. Defined only where there
is a key for it.
"""

import dagster as dg

from indexer.config.settings import load_settings
from pipelines.defs.facts.checks import verdict
from pipelines.defs.names import TRANSFER_STATES
from pipelines.defs.resources import WarehouseResource
from pipelines.long_run import LongRunConfig, long_run
from pipelines.reports import AssetReporter, LaterReports, counts_metadata
from pipelines.restart_sensor import long_run_definitions, scheduled_checks, state_by_asset
from relay.leases import webhook_processes
from relay.settings import load_webhook_poster, need_webhook_poster
from relay.webhooks.run import DeliveryCounts, send_webhooks
from relay.webhooks.status import failing_webhooks, webhook_problems

JOB = "send_webhooks"
POOL = "webhook_senders"
CHECK_JOB = "check_webhooks"
WEBHOOKS = dg.AssetKey(["relay", "webhooks"])

STEP = "post_webhooks"


@dg.multi_asset(
    name=STEP,
    specs=[
        dg.AssetSpec(
            WEBHOOKS,
            deps=[TRANSFER_STATES],
            description="Posts to owners' webhooks: relay.webhook_deliveries. Materialized when a "
            "run is at work, observed with figures since.",
            group_name="relay",
            kinds={"postgres"},
        )
    ],
    pool=POOL,
)
def webhooks(
    context: dg.AssetExecutionContext, config: LongRunConfig, warehouse: WarehouseResource
) -> None:
    """Post events until the time is over or a stop is requested."""
    reporter: AssetReporter[DeliveryCounts] = AssetReporter(
        WEBHOOKS, counts_metadata, LaterReports.OBSERVE
    )
    with long_run(context.op_execution_context, warehouse, [reporter], config) as run:
        send_webhooks(
            run.engine,
            need_webhook_poster(load_settings().network),
            should_stop=run.is_over,
            on_progress=run.report,
        )


@dg.asset_check(
    asset=WEBHOOKS,
    name="webhooks_are_sent",
    description="A sender is at work, and no event waits that could have been posted minutes ago. "
    "A receiver that does not accept posts is its owner's concern, and no failure.",
)
def webhooks_are_sent(warehouse: WarehouseResource) -> dg.AssetCheckResult:
    """Read the state of webhooks."""
    with warehouse.engine() as engine, engine.connect() as conn:
        found = webhook_problems(conn)
        refusing, stopped = failing_webhooks(conn)
        processes = webhook_processes(conn)
    figures = {"failing": refusing, "stopped": stopped}
    return verdict(found, figures=figures, processes=processes)


def webhook_definitions() -> dg.Definitions:
    """The job, its restart sensor and checks; nothing without a key.

    Raises `ConfigurationError` for a key that cannot be read.
    """
    if load_webhook_poster(load_settings().network) is None:
        return dg.Definitions()
    posting = long_run_definitions(
        JOB,
        webhooks,
        WEBHOOKS,
        state_by_asset("began", never="no webhook run has started yet"),
        "Posts owners' events to their webhooks",
        checks=[webhooks_are_sent],
    )
    question = "Are owners' events posted to their webhooks?"
    checks = scheduled_checks(CHECK_JOB, WEBHOOKS, question, "1-59/2 * * * *")
    return dg.Definitions.merge(posting, checks)
