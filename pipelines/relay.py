"""The relay's code location: a process of its own whose environment alone holds the relay's keys.

python -m pipelines.code_server pipelines.relay
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import dagster as dg
from pydantic import Field
from sqlalchemy import Engine

from indexer.config.settings import load_settings
from indexer.config.warehouse import open_engine
from pipelines.defs.resources import WarehouseResource
from pipelines.long_run import LongRunConfig, long_run
from pipelines.reports import AssetReporter, LaterReports, Metadata
from pipelines.restart_sensor import LONG_RUN_TAGS, MINUTES, checked, keeper, since
from pipelines.webhooks import webhook_definitions
from relay.account import TurnReport
from relay.run import run_relay
from relay.settings import load_relay, load_relay_settings
from relay.status import relay_problems

RELAY_JOB = "relay"
RELAY_POOL = "relays"
"""The pool, of one place, of what sends transactions."""
CHECK_JOB = "check_relay"
TRANSACTIONS = dg.AssetKey(["relay", "transactions"])

_STEP = "send_what_is_owed"
_SESSIONS = 20
"""Most accounts of one relay: each holds a session of Postgres, and so its lock."""


class RelayWarehouse(WarehouseResource):
    """The warehouse, as the relay's role."""

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """An engine for as long as the block runs."""
        engine = open_engine(load_settings(), "relay", pool_size=_SESSIONS)
        try:
            yield engine
        finally:
            engine.dispose()


class RelayConfig(LongRunConfig):
    """How long to send."""

    minutes: float = Field(
        default=MINUTES, gt=0, le=MINUTES, description="Minutes to go on sending what is owed."
    )


@dataclass(frozen=True, slots=True)
class RelayReport:
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
    def of(cls, turn: TurnReport) -> "RelayReport":
        """What one turn did."""
        return cls(**(asdict(turn) | {"refused": tuple(turn.refused)}))

    def then(self, later: "RelayReport") -> "RelayReport":
        """Both, as one."""
        counts = ("opened", "sent", "replaced", "done", "late", "failed")
        summed = {name: getattr(self, name) + getattr(later, name) for name in counts}
        return RelayReport(**summed, refused=later.refused or self.refused)

    def over(self, seconds: float) -> "RelayReport":
        """The same: there is nothing to do most of the time."""
        return self


def sent_metadata(sent: RelayReport) -> Metadata:
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
            deps=[dg.AssetKey(["projections", "transfer_states"])],
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
    told = [AssetReporter(TRANSACTIONS, sent_metadata, LaterReports.OBSERVE)]
    settings = load_settings()
    with long_run(context, warehouse, told, config) as run:
        is_first = True

        def report(_: object, turn: TurnReport) -> None:
            nonlocal is_first
            if is_first or turn != TurnReport():
                run.report(RelayReport.of(turn))
            is_first = False

        accounts = load_relay_settings(settings)
        run_relay(run.engine, settings, accounts, should_stop=run.is_over, on_turn=report)


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
        found = relay_problems(conn)
    return dg.AssetCheckResult(
        passed=not found,
        severity=dg.AssetCheckSeverity.ERROR,
        metadata={"found": dg.MetadataValue.text("\n".join(found) or "nothing")},
    )


def definitions() -> dg.Definitions:
    """The relay's job, what keeps it going, and what looks after it; the same of webhooks."""
    standing = since("first turn", never="no turn has been taken yet")
    job = dg.define_asset_job(
        name=RELAY_JOB,
        selection=dg.AssetSelection.assets(TRANSACTIONS).without_checks(),
        description=f"Sends what is owed, for {MINUTES / 60:g} hours.",
        executor_def=dg.in_process_executor,
        tags=LONG_RUN_TAGS,
    )
    relaying = dg.Definitions(
        assets=[transactions],
        asset_checks=[accounts_are_well],
        jobs=[job],
        sensors=[keeper(RELAY_JOB, TRANSACTIONS, standing)],
        resources={"warehouse": RelayWarehouse()},
        executor=dg.in_process_executor,
    )
    checks = checked(CHECK_JOB, TRANSACTIONS, "Can every account of the relay send?", "*/2 * * * *")
    return dg.Definitions.merge(relaying, checks, webhook_definitions())


# Wrong settings end the code server, all of them named at once.
load_relay()
defs = definitions()
