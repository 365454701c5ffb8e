"""Bring a Postgres up to date: database, roles, tables, views, grants (`isthmus migrate`)."""

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError, ProgrammingError

from warehouse_schema.engine import ROLES, make_engine
from warehouse_schema.views import ViewInUse, make_views

logger = logging.getLogger(__name__)

OLDEST_SERVER = 14
_FOLDER = Path(__file__).parent
_MAINTENANCE_DATABASE = "postgres"
_INSUFFICIENT_PRIVILEGE = "42501"


class MigrationRefused(RuntimeError):
    """The server is not fit for the warehouse, or its user may not do what is needed."""


def migrate(url: URL) -> None:
    """Make the database of `url` the warehouse of this build; what is done already is left alone.

    The user of `url` owns the tables and may take the processes' roles afterwards. Raises
    `MigrationRefused` with what an administrator has to do, and SQLAlchemy's `OperationalError`
    when the server cannot be reached or a lock was not granted in time (run it again).
    """
    ensure_database(url)
    engine = make_engine(url)
    try:
        with one_at_a_time(engine, "migrate"), engine.connect() as connection:
            _check_version(connection)
            _check_encoding(connection)
            aim = "create the roles, or grant them to itself"
            _run_file(connection, "roles.sql", aim, ROLES.values())
            upgrade(connection)
            # Not committed before they are granted: an analyst never meets a view that is closed.
            _make_views(connection)
            _run_file(connection, "grants.sql", "grant each role its schemas")
        logger.info("migrated %s", _shown(url))
    finally:
        engine.dispose()


def alembic_config() -> Config:
    """Alembic's settings; `env.py` also wants `attributes["connection"]`."""
    config = Config()
    config.set_main_option("script_location", str(_FOLDER / "migrations").replace("%", "%%"))
    return config


def current_revision(connection: Connection) -> str | None:
    """The last revision that was run on this database; None before the first."""
    context = MigrationContext.configure(connection, opts={"version_table_schema": "isthmus"})
    return context.get_current_revision()


def head_revision() -> str | None:
    """The last revision of this build: what `current_revision` should give."""
    return ScriptDirectory.from_config(alembic_config()).get_current_head()


def ensure_database(url: URL) -> None:
    """Create the database of `url` unless it is there.

    Raises `MigrationRefused`, and `OperationalError` when the server cannot be reached.
    """
    if not url.database:
        raise MigrationRefused(f"{_shown(url)} names no database; add one, such as /isthmus")
    try:
        _reach(url)
    except OperationalError as unreachable:
        maintenance = make_engine(url.set(database=_MAINTENANCE_DATABASE))
        try:
            _create_database(maintenance, url, url.database)
        except OperationalError:
            # The cause cannot be read either; the first error names the requested database.
            raise unreachable from None
        finally:
            maintenance.dispose()


def _reach(url: URL) -> None:
    engine = make_engine(url)
    try:
        engine.connect().close()
    finally:
        engine.dispose()


def _create_database(maintenance: Engine, url: URL, name: str) -> None:
    """Create it, unless it is there: then reach it, or raise why it cannot be reached."""
    try:
        with one_at_a_time(maintenance, name) as connection:
            known = text("SELECT 1 FROM pg_database WHERE datname = :name")
            if connection.scalar(known, {"name": name}) is not None:
                return _reach(url)
            quoted = maintenance.dialect.identifier_preparer.quote_identifier(name)
            # A server whose own encoding is SQL_ASCII would give it that one.
            connection.exec_driver_sql(
                f"CREATE DATABASE {quoted} ENCODING 'UTF8' TEMPLATE template0"
            )
            logger.info("created database %s", name)
    except ProgrammingError as error:
        if not _is_forbidden(error):
            raise
        raise MigrationRefused(
            f"there is no database {name} and {url.username} may not create it. Ask an "
            f'administrator for: CREATE DATABASE "{name}" OWNER "{url.username}"'
        ) from error


@contextmanager
def one_at_a_time(engine: Engine, what: str) -> Iterator[Connection]:
    """An autocommitting connection that holds a lock on `what` in this database.

    After an error the lock goes with the connection, when the caller disposes of the engine.
    """
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SET lock_timeout = '10min'"))
        connection.execute(
            text("SELECT pg_advisory_lock(hashtextextended('isthmus ' || :what, 0))"),
            {"what": what},
        )
        yield connection
        connection.execute(text("SELECT pg_advisory_unlock_all()"))


def _check_version(connection: Connection) -> None:
    number = int(connection.scalar(text("SHOW server_version_num")))
    if number < OLDEST_SERVER * 10_000:
        raise MigrationRefused(
            f"the server is Postgres {number // 10_000}; the warehouse needs {OLDEST_SERVER} or "
            "newer. Upgrade it, or point DATABASE_URL at another."
        )


def _check_encoding(connection: Connection) -> None:
    encoding = connection.scalar(text("SHOW server_encoding"))
    if encoding != "UTF8":
        raise MigrationRefused(
            f"the database {connection.engine.url.database} is encoded in {encoding}; the "
            "warehouse needs UTF8. Make one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE "
            "template0, and name it in DATABASE_URL"
        )


def upgrade(connection: Connection) -> None:
    """Run the revisions that were not run yet; each commits."""
    before = current_revision(connection)
    connection.commit()
    config = alembic_config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    after = current_revision(connection)
    connection.commit()
    if before == after:
        logger.info("tables are at revision %s already", after)
    else:
        logger.info("tables went from revision %s to %s", before or "none", after)


def _make_views(connection: Connection) -> None:
    try:
        make_views(connection)
    except ViewInUse as error:
        raise MigrationRefused(str(error)) from error
    except ProgrammingError as error:
        if not _is_forbidden(error):
            raise
        raise MigrationRefused(
            f"{connection.engine.url.username} may not make the schema analytics or its views "
            f"({error.orig}). Ask an administrator whose they are"
        ) from error


def _run_file(
    connection: Connection, name: str, aim: str, memberships: Collection[str] = ()
) -> None:
    """Run a file of statements in one transaction.

    A superuser may do it in place of the connection's user, who needs these memberships then.
    """
    statements = (_FOLDER / name).read_text()
    try:
        # Without parameters psycopg takes many statements at once.
        connection.exec_driver_sql(statements, execution_options={"no_parameters": True})
        connection.commit()
    except ProgrammingError as error:
        if not _is_forbidden(error):
            raise
        user = connection.engine.url.username
        grant = f', then: GRANT {", ".join(memberships)} TO "{user}"' if memberships else ""
        raise MigrationRefused(
            f"{user} may not {aim} ({_first_line(error)}). Ask an administrator to run "
            f"{_FOLDER / name} as a superuser on this database{grant}"
        ) from error
    logger.info("applied %s", name)


def _first_line(error: ProgrammingError) -> str:
    """Without the statement, which Postgres quotes as context."""
    return str(error.orig).partition("\n")[0]


def _is_forbidden(error: ProgrammingError) -> bool:
    return getattr(error.orig, "sqlstate", None) == _INSUFFICIENT_PRIVILEGE


def _shown(url: URL) -> str:
    return url.render_as_string(hide_password=True)
