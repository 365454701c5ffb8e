"""The relay's code location: a process of its own whose environment alone holds the relay's keys.

dagster api grpc -m pipelines.relay
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

import dagster as dg
from pydantic import Field
from sqlalchemy import Engine

from indexer.relay.account import Turn
from indexer.relay.run import run_relay
from indexer.relay.settings import load_relay_settings
from indexer.relay.status import complaints
from indexer.settings import load_settings
from indexer.warehouse import open_engine
from pipelines.defs.resources import Warehouse
from pipelines.failures import told_to_dagster
from pipelines.instance import pool_connections
from pipelines.keeping import LONG_RUN_TAGS, MINUTES, keeper
from pipelines.reports import Later, Metadata, Reporter, Told
from pipelines.stopping import stopping
from pipelines.supervision import Standing
from pipelines.webhooks import webhook_definitions

RELAY_JOB = "relay"
RELAY_POOL = "relays"
"""The pool, of one place, of what sends transactions."""
CHECK_JOB = "check_relay"
TRANSACTIONS = dg.AssetKey(["relay", "transactions"])

_STEP = "send_what_is_owed"
_SESSIONS = 20
"""Most accounts of one relay: each holds a session of Postgres, and so its lock."""


class RelayWarehouse(Warehouse):
    """The warehouse, as the relay's role."""

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """An engine for as long as the block runs."""
        engine = open_engine(load_settings(), "relay", pool_size=_SESSIONS)
        try:
            yield engine
        finally:
            engine.dispose()


class RelayConfig(dg.Config):
    """How long to go on, and how often to say so."""

    minutes: float = Field(
        default=MINUTES, gt=0, le=MINUTES, description="Minutes to go on sending what is owed."
    )
    report_seconds: float = Field(
        default=10, gt=0, description="Seconds between reports of what was done."
    )


@dataclass(frozen=True, slots=True)
class Sent:
    """What was done since the last report."""

    opened: int = 0
    sent: int = 0
    replaced: int = 0
    done: int = 0
    late: int = 0
    failed: int = 0
    refused: tuple[str, ...] = ()
    """What could not be begun, and why, as the last turn had it."""

    @classmethod
    def of(cls, turn: Turn) -> "Sent":
        """What one turn did."""
        return cls(**(asdict(turn) | {"refused": tuple(turn.refused)}))

    def then(self, later: "Sent") -> "Sent":
        """Both, as one."""
        counts = ("opened", "sent", "replaced", "done", "late", "failed")
        summed = {name: getattr(self, name) + getattr(later, name) for name in counts}
        return Sent(**summed, refused=later.refused or self.refused)

    def over(self, seconds: float) -> "Sent":
        """The same: there is nothing to do most of the time."""
        return self


def sent_metadata(sent: Sent) -> Metadata:
    """How many transactions were signed first, sent, signed anew; how many ended, and how."""
    figures = {name: value for name, value in asdict(sent).items() if name != "refused"}
    refused = "\n".join(sent.refused) or "nothing"
    return {
        **{name: dg.MetadataValue.int(value) for name, value in figures.items()},
        "refused": dg.MetadataValue.text(refused),
    }


@dg.multi_asset(
    name=_STEP,
    specs=[
        dg.AssetSpec(
            TRANSACTIONS,
            deps=[dg.AssetKey(["projections", "transfer_stages"])],
            description="What the service itself signed and sent: relay.slots, relay.attempts. "
            "Materialized when a run has taken its first turn, observed with figures since.",
            group_name="relay",
            kinds={"postgres"},
        )
    ],
    pool=RELAY_POOL,
)
def transactions(
    context: dg.AssetExecutionContext, config: RelayConfig, warehouse: RelayWarehouse
) -> None:
    """Send what is owed, and go on sending."""
    send(context.op_execution_context, config, warehouse)


def send(context: dg.OpExecutionContext, config: RelayConfig, warehouse: RelayWarehouse) -> None:
    """Send what is owed until the time is over or somebody asks to stop.

    Raises what `told_to_dagster` makes of the indexer's errors.
    """
    pool_connections(context.instance)
    told = [Told(TRANSACTIONS, sent_metadata, Later.OBSERVE)]
    settings = load_settings()
    with ExitStack() as doors:
        doors.enter_context(told_to_dagster(context))
        accounts = load_relay_settings(settings)
        engine = doors.enter_context(warehouse.engine())
        reporter = Reporter(context.log_event, told, config.report_seconds)
        doors.callback(reporter.flush)
        deadline = time.monotonic() + 60 * config.minutes
        is_first = True

        def report(_: object, turn: Turn) -> None:
            nonlocal is_first
            if is_first or turn != Turn():
                reporter(Sent.of(turn))
            is_first = False

        with stopping() as stop:
            run_relay(
                engine,
                settings,
                accounts,
                should_stop=lambda: stop.asked or time.monotonic() > deadline,
                on_turn=report,
            )


@dg.asset_check(
    asset=TRANSACTIONS,
    name="accounts_are_well",
    description="Every account of the relay said lately that it can send: nodes answer, there is "
    "enough on it, the day's budget is not used up, nothing made it stop. No transaction waits for "
    "longer than it should.",
)
def accounts_are_well(warehouse: RelayWarehouse) -> dg.AssetCheckResult:
    """Read what the relay says of itself, and look for what it cannot say."""
    with warehouse.engine() as engine, engine.connect() as conn:
        found = complaints(conn)
    return dg.AssetCheckResult(
        passed=not found,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={"found": dg.MetadataValue.text("\n".join(found) or "nothing")},
    )


def definitions() -> dg.Definitions:
    """The relay's job, what keeps it going, and what looks after it; the same of webhooks."""
    job = dg.define_asset_job(
        name=RELAY_JOB,
        selection=dg.AssetSelection.assets(TRANSACTIONS).without_checks(),
        description=f"Sends what is owed, for {MINUTES / 60:g} hours.",
        executor_def=dg.in_process_executor,
        tags=LONG_RUN_TAGS,
    )
    check = dg.define_asset_job(
        name=CHECK_JOB,
        selection=dg.AssetSelection.checks_for_assets(TRANSACTIONS),
        description="Can every account of the relay send?",
        executor_def=dg.in_process_executor,
        tags={"dagster/max_runtime": "300"},
    )
    every_two_minutes = dg.ScheduleDefinition(
        job=check,
        cron_schedule="*/2 * * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
    relaying = dg.Definitions(
        assets=[transactions],
        asset_checks=[accounts_are_well],
        jobs=[job, check],
        schedules=[every_two_minutes],
        sensors=[keeper(RELAY_JOB, TRANSACTIONS, _standing)],
        resources={"warehouse": RelayWarehouse()},
        executor=dg.in_process_executor,
    )
    return dg.Definitions.merge(relaying, webhook_definitions())


def _standing(_engine: Engine, moved_at: float | None) -> Standing:
    if moved_at is None:
        return Standing("no turn has been taken yet")
    return Standing(f"first turn {max(0.0, time.time() - moved_at):.0f} s ago", moved_at)


defs = definitions()
