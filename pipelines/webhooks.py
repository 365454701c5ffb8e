"""The run that posts to webhooks what owners are told, in the relay's code location.

It is a job of its own beside the relay's: what places of strangers do holds up no money. It is
there when there is a key for it.
"""

from dataclasses import asdict, dataclass

import dagster as dg
from pydantic import Field

from indexer.config.settings import load_settings
from pipelines.defs.resources import WarehouseResource
from pipelines.long_run import LongRunConfig, long_run
from pipelines.reports import AssetReporter, LaterReports, Metadata
from pipelines.restart_sensor import LONG_RUN_TAGS, MINUTES, checked, keeper, since
from relay.settings import load_webhook_poster, need_webhook_poster
from relay.webhooks.run import DeliveryCounts, send_webhooks
from relay.webhooks.status import failing_webhooks, webhook_problems

JOB = "send_webhooks"
POOL = "webhook_senders"
CHECK_JOB = "check_webhooks"
WEBHOOKS = dg.AssetKey(["relay", "webhooks"])

_STEP = "post_what_is_told"


class WebhookConfig(LongRunConfig):
    """How long to post."""

    minutes: float = Field(
        default=MINUTES, gt=0, le=MINUTES, description="Minutes to go on posting."
    )


@dataclass(frozen=True, slots=True)
class WebhooksReport:
    """What was done since the last report."""

    delivered: int = 0
    failed: int = 0
    given_up: int = 0

    @classmethod
    def of(cls, sent: DeliveryCounts) -> "WebhooksReport":
        """What was done at once."""
        return cls(**asdict(sent))

    def then(self, later: "WebhooksReport") -> "WebhooksReport":
        """Both, as one."""
        return WebhooksReport(
            self.delivered + later.delivered,
            self.failed + later.failed,
            self.given_up + later.given_up,
        )

    def over(self, seconds: float) -> "WebhooksReport":
        """The same: there is nothing to do most of the time."""
        return self


def posted_metadata(posted: WebhooksReport) -> Metadata:
    """How many events were taken, how many attempts were not, how many events were given up."""
    return {name: dg.MetadataValue.int(value) for name, value in asdict(posted).items()}


@dg.multi_asset(
    name=_STEP,
    specs=[
        dg.AssetSpec(
            WEBHOOKS,
            deps=[dg.AssetKey(["projections", "transfer_states"])],
            description="What was posted to owners' webhooks: relay.webhook_deliveries. "
            "Materialized when a run is at work, observed with figures since.",
            group_name="relay",
            kinds={"postgres"},
        )
    ],
    pool=POOL,
)
def webhooks(
    context: dg.AssetExecutionContext, config: WebhookConfig, warehouse: WarehouseResource
) -> None:
    """Post what is told, and go on posting."""
    send(context.op_execution_context, config, warehouse)


def send(
    context: dg.OpExecutionContext, config: WebhookConfig, warehouse: WarehouseResource
) -> None:
    """Post what is told until the time is over or somebody asks to stop.

    Raises what `told_to_dagster` makes of the indexer's errors.
    """
    told = [AssetReporter(WEBHOOKS, posted_metadata, LaterReports.OBSERVE)]
    with long_run(context, warehouse, told, config) as run:
        send_webhooks(
            run.engine,
            need_webhook_poster(load_settings()),
            should_stop=run.is_over,
            on_progress=lambda sent: run.report(WebhooksReport.of(sent)),
        )


@dg.asset_check(
    asset=WEBHOOKS,
    name="webhooks_are_sent",
    description="Somebody is at work, and no event waits that could have been posted minutes ago. "
    "That a place does not take what is posted is for its owner to see, and no failure.",
)
def webhooks_are_sent(warehouse: WarehouseResource) -> dg.AssetCheckResult:
    """Read how webhooks stand."""
    with warehouse.engine() as engine, engine.connect() as conn:
        found = webhook_problems(conn)
        refusing, stopped = failing_webhooks(conn)
    return dg.AssetCheckResult(
        passed=not found,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={
            "found": dg.MetadataValue.text("\n".join(found) or "nothing"),
            "failing": dg.MetadataValue.int(refusing),
            "stopped": dg.MetadataValue.int(stopped),
        },
    )


def webhook_definitions() -> dg.Definitions:
    """The job, what keeps it going, and what looks after it; nothing without a key.

    Raises `ConfigurationError` for a key that cannot be read.
    """
    if load_webhook_poster(load_settings()) is None:
        return dg.Definitions()
    job = dg.define_asset_job(
        name=JOB,
        selection=dg.AssetSelection.assets(WEBHOOKS).without_checks(),
        description=f"Posts to webhooks what owners are told, for {MINUTES / 60:g} hours.",
        executor_def=dg.in_process_executor,
        tags=LONG_RUN_TAGS,
    )
    posting = dg.Definitions(
        assets=[webhooks],
        asset_checks=[webhooks_are_sent],
        jobs=[job],
        sensors=[keeper(JOB, WEBHOOKS, since("began", never="nobody has been at work yet"))],
    )
    question = "Is what owners are told posted to their webhooks?"
    return dg.Definitions.merge(posting, checked(CHECK_JOB, WEBHOOKS, question, "1-59/2 * * * *"))
