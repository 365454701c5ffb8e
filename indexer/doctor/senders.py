"""Whether the relay and the webhook sender run that the configuration names."""

from collections.abc import Iterator

from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from indexer.config.warehouse import open_engine
from indexer.doctor.checks import Check, CheckGroup, CheckResult, DoctorContext
from indexer.service_status.silent_senders import silent_senders
from warehouse_schema.configuration import load_configuration

REPORTS = Check(
    "senders.reports",
    "The relay of each chain, the sponsor and the webhook sender have reported within two minutes, "
    "where a key, a key service or `dagster.relay_server_host` is configured.",
    "Start `isthmus code-server --relay`: it is isthmus-relay-server of systemd and relay-server "
    "of `isthmus up` (commands: docs/operations/alerts.md). Without Dagster: `isthmus relay run` "
    "and `isthmus webhooks`. Under Dagster the ticks of relay_sensor, also in the daemon's log, "
    "say why it does not run.",
)


def check_senders(context: DoctorContext) -> Iterator[CheckResult]:
    """Compare the names of settings with reports in the warehouse."""
    configuration = load_configuration()
    engine = open_engine(context.settings, "indexer", pool_size=1)
    try:
        with engine.connect() as conn:
            if conn.scalar(text("SELECT to_regclass('relay.webhook_senders')")) is None:
                # Before the first migration, which is a finding of `postgres.migrations`.
                return
            silent = silent_senders(conn, context.settings.network, configuration)
    except OperationalError as error:
        reason = str(error.orig).strip().partition("\n")[0]
        yield REPORTS.failed(
            "senders", f"their reports cannot be read: {reason}", "Correct DATABASE_URL."
        )
        return
    finally:
        engine.dispose()
    for each in silent:
        yield REPORTS.failed(each.sender, configuration.explain(each.problem))
    if not silent:
        yield REPORTS.ok("senders")


GROUP = CheckGroup((REPORTS,), check_senders)
