"""Checks of the API's database sessions: at its start, and a group of `isthmus doctor`.

LISTEN needs a session of Postgres itself. Requests may go through a pooler in transaction mode, and
some reads to a replica: the sessions of both get role and settings from their login, not from the
client.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Engine, NullPool, create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError

from api.settings import ApiSettings, load_api_settings
from indexer.config.settings import Settings, WrongSettings
from indexer.config.warehouse import database_url
from indexer.doctor.checks import Check, CheckGroup, CheckResult, DoctorContext
from warehouse_schema.engine import make_pooled_engine, session_settings, warehouse_url

logger = logging.getLogger(__name__)

_CONNECT_SECONDS = 10

REACHABLE = Check(
    "sessions.reachable",
    "DATABASE_URL, ISTHMUS_POOLER_URL and ISTHMUS_REPLICA_URL accept their logins and answer. The "
    "API's start only logs this: it serves as soon as they do.",
    "Start the server or pooler, or correct the URL: host, port, user, password, database.",
)
LISTEN = Check(
    "sessions.listen",
    "DATABASE_URL is a session of Postgres itself: its process id is the one in the first message "
    "to the client. A pooler makes up that one.",
    "Name the server in DATABASE_URL, and the pooler in ISTHMUS_POOLER_URL.",
)
POOLER = Check(
    "sessions.pooler",
    "Sessions of ISTHMUS_POOLER_URL run as isthmus_api, in UTC, with the API's timeouts, on the "
    "database of DATABASE_URL.",
    "Create the login by deploy/pooled-login.sql and name it in ISTHMUS_POOLER_URL.",
)
REPLICA = Check(
    "sessions.replica",
    "ISTHMUS_REPLICA_URL is a standby of the server of DATABASE_URL, with the same login settings.",
    "Name a streaming replica and the login of deploy/pooled-login.sql in ISTHMUS_REPLICA_URL, or "
    "unset it: reads then go to the primary.",
)

_QUERY = text("""
    SELECT pg_backend_pid() AS pid,
           pg_is_in_recovery() AS is_standby,
           (SELECT system_identifier FROM pg_control_system()) AS server,
           (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database
""")


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What a session says of itself."""

    is_direct: bool
    """Not through a pooler."""
    is_standby: bool
    database: tuple[int, int]
    """Identifier of the cluster, which its replicas share, and of the database in it."""
    settings: Mapping[str, str]


def read_session(engine: Engine) -> SessionFacts:
    """Facts of a session of the engine. Raises `OperationalError`."""
    with engine.begin() as conn:
        session = conn.connection.driver_connection
        row = conn.execute(_QUERY).one()
        show = text("SELECT current_setting(:name)")
        names = session_settings("api")
        settings = {name: str(conn.scalar(show, {"name": name})) for name in names}
        announced = None if session is None else session.info.backend_pid
    return SessionFacts(announced == row.pid, row.is_standby, (row.server, row.database), settings)


def check_sessions(
    warehouse: URL, pooler: str | None, replica: str | None
) -> Iterator[CheckResult]:
    """Check the sessions of each URL; None: it is unset."""
    # Without options, which a pooler may refuse: it is to be named as one.
    plain = {
        "connect_timeout": _CONNECT_SECONDS,
        "client_encoding": "utf8",
        "prepare_threshold": None,
    }
    primary = None
    result, facts = _read(
        "DATABASE_URL", create_engine(warehouse, poolclass=NullPool, connect_args=plain)
    )
    yield result
    if facts is not None:
        primary = facts.database
        if facts.is_direct:
            yield LISTEN.ok("DATABASE_URL")
        else:
            problem = "DATABASE_URL is a pooler, and LISTEN needs a session of Postgres"
            yield LISTEN.failed("DATABASE_URL", problem)
    if pooler is not None:
        yield from _check_pooled(POOLER, "ISTHMUS_POOLER_URL", pooler, primary, is_standby=False)
    if replica is not None:
        yield from _check_pooled(REPLICA, "ISTHMUS_REPLICA_URL", replica, primary, is_standby=True)


def _check_pooled(
    check: Check, name: str, url: str, primary: tuple[int, int] | None, *, is_standby: bool
) -> Iterator[CheckResult]:
    engine = make_pooled_engine(
        warehouse_url(url, name), "api", pool_size=1, connect_seconds=_CONNECT_SECONDS
    )
    result, facts = _read(name, engine)
    yield result
    if facts is None:
        return
    problems = [
        f"{setting} is {facts.settings[setting]}, it must be {value}"
        for setting, value in session_settings("api").items()
        if facts.settings[setting] != value
    ]
    if primary is not None and facts.database != primary:
        problems.append("it is another server or database than DATABASE_URL")
    if facts.is_standby != is_standby:
        problems.append("it is a standby" if facts.is_standby else "it is no standby")
    yield check.failed(name, f"{name}: {'; '.join(problems)}") if problems else check.ok(name)


def _read(name: str, engine: Engine) -> tuple[CheckResult, SessionFacts | None]:
    try:
        facts = read_session(engine)
    except OperationalError as error:
        reason = str(error.orig).strip().partition("\n")[0]
        return REACHABLE.failed(name, f"{name}: {reason}"), None
    finally:
        engine.dispose()
    return REACHABLE.ok(name), facts


def require_sound_sessions(settings: Settings, own: ApiSettings) -> None:
    """Raises `WrongSettings` for sessions of the wrong kind. Logs URLs that do not answer."""
    problems = []
    for result in check_sessions(database_url(settings), own.pooler_url, own.replica_url):
        if result.is_finding and result.check == REACHABLE.id:
            logger.warning("not checked at the start: %s", result.problem)
        elif result.is_finding:
            problems.append(f"{result.problem}. {result.fix}")
    if problems:
        raise WrongSettings(problems)


def _check_group(context: DoctorContext) -> Iterator[CheckResult]:
    own = load_api_settings()
    yield from check_sessions(database_url(context.settings), own.pooler_url, own.replica_url)


GROUP = CheckGroup((REACHABLE, LISTEN, POOLER, REPLICA), _check_group)
