"""Privileges of each role on each schema and table."""

from collections.abc import Iterator, Mapping

import pytest
from psycopg.errors import InsufficientPrivilege
from sqlalchemy import Connection, Engine, Table, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, ProgrammingError

from warehouse_schema.engine import ROLES, Role, make_engine
from warehouse_schema.metadata import SCHEMAS, metadata
from warehouse_schema.migrate import migrate
from warehouse_schema.migrations.draft import TABLE_MODULES
from warehouse_schema.views import NAMES as VIEWS

TABLES = {
    f"{table.schema}.{table.name}": table
    for module in TABLE_MODULES
    for table in vars(module).values()
    if isinstance(table, Table)
}

READ = frozenset({"SELECT"})
NONE: frozenset[str] = frozenset()
VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE")
OTHER_PRIVILEGES = ("REFERENCES", "TRIGGER")

MAY: Mapping[tuple[str, Role], frozenset[str]] = {
    ("facts", "indexer"): READ | {"INSERT", "DELETE"},
    ("facts", "api"): READ,
    ("facts", "relay"): READ,
    ("facts", "analyst"): READ,
    ("projections", "indexer"): READ | {"INSERT", "UPDATE", "DELETE"},
    ("projections", "api"): READ,
    ("projections", "relay"): READ,
    ("projections", "analyst"): READ,
    ("intake", "indexer"): READ,
    ("intake", "api"): READ | {"INSERT"},
    ("intake", "relay"): READ,
    ("intake", "analyst"): NONE,
    ("relay", "indexer"): READ,
    ("relay", "api"): NONE,
    ("relay", "relay"): READ | {"INSERT", "UPDATE"},
    ("relay", "analyst"): NONE,
    ("access", "indexer"): NONE,
    ("access", "api"): READ | {"INSERT", "UPDATE", "DELETE"},
    ("access", "relay"): NONE,
    ("access", "analyst"): NONE,
    ("locks", "indexer"): READ | {"INSERT", "UPDATE"},
    ("locks", "api"): NONE,
    ("locks", "relay"): NONE,
    ("locks", "analyst"): NONE,
    ("notifications", "indexer"): READ | {"INSERT", "DELETE"},
    ("notifications", "api"): frozenset({"INSERT"}),
    ("notifications", "relay"): frozenset({"INSERT"}),
    ("notifications", "analyst"): NONE,
}
"""Schema and role → what the role may do there."""

ALSO: Mapping[tuple[str, Role], frozenset[str]] = {
    ("facts.cursors", "indexer"): frozenset({"UPDATE"}),
    ("facts.alarms", "indexer"): frozenset({"UPDATE"}),
    ("facts.changed_days", "indexer"): frozenset({"UPDATE"}),
    ("facts.unproven_blocks", "indexer"): frozenset({"UPDATE"}),
    # Those that nobody used, long after they expired.
    ("intake.quotes", "indexer"): frozenset({"DELETE"}),
    # How the relay is, and what its sponsors would do.
    ("relay.health", "api"): READ,
    ("relay.sponsors", "api"): READ,
    ("relay.obstacles", "api"): READ,
    ("relay.failure_resets", "api"): READ,
    # What became of an owner's webhooks; the relay forgets what was posted long ago.
    ("relay.webhook_states", "api"): READ,
    ("relay.webhook_deliveries", "api"): READ,
    ("relay.webhook_senders", "api"): READ,
    ("relay.webhook_deliveries", "relay"): frozenset({"DELETE"}),
    # Reports of an account whose key was replaced.
    ("relay.health", "relay"): frozenset({"DELETE"}),
    ("relay.sponsors", "relay"): frozenset({"DELETE"}),
    # Processes that wait for a lease no more.
    ("relay.standbys", "relay"): frozenset({"DELETE"}),
    ("locks.standbys", "indexer"): frozenset({"DELETE"}),
}
"""Table and role → what it may do there beside that."""

NOT: Mapping[tuple[str, Role], frozenset[str]] = {
    # With a webhook's secret its posts can be forged.
    ("intake.webhook_secrets", "indexer"): READ,
    ("intake.webhook_secrets", "api"): READ,
    # Names owners: an analyst reads the other columns.
    ("projections.transfer_events", "analyst"): READ,
}
"""Table and role → what it may not do there, against its schema's rule."""


def expected(table: str, role: Role) -> frozenset[str]:
    usual = MAY[table.partition(".")[0], role]
    return (usual | ALSO.get((table, role), NONE)) - NOT.get((table, role), NONE)


def granted(connection: Connection, table: str, role: Role) -> frozenset[str]:
    query = text("SELECT has_table_privilege(:role, :table, :verb)")
    return frozenset(
        verb
        for verb in (*VERBS, *OTHER_PRIVILEGES)
        if connection.scalar(query, {"role": ROLES[role], "table": table, "verb": verb})
    )


VIEWS_MAY: Mapping[Role, frozenset[str]] = {
    "indexer": READ,
    "api": NONE,
    "relay": NONE,
    "analyst": READ,
}
"""Role → what it may do with the views of `analytics`, whose only writer is the migration."""


def test_every_schema_role_and_table_is_checked() -> None:
    assert set(TABLES) == set(metadata.tables)
    assert set(MAY) == {(schema, role) for schema in SCHEMAS for role in ROLES}


@pytest.mark.parametrize("role", ROLES)
def test_table_privileges_equal_the_grants_table(connection: Connection, role: Role) -> None:
    held = {table: granted(connection, table, role) for table in TABLES}
    assert held == {table: expected(table, role) for table in TABLES}


@pytest.mark.parametrize("role", ROLES)
def test_new_table_gets_the_default_privileges(connection: Connection, role: Role) -> None:
    for schema in SCHEMAS:
        connection.execute(text(f"CREATE TABLE {schema}.new (id integer)"))
    held = {schema: granted(connection, f"{schema}.new", role) for schema in SCHEMAS}
    assert held == {schema: MAY[schema, role] for schema in SCHEMAS}


@pytest.mark.parametrize("role", ROLES)
def test_views_are_readable_by_analyst_and_indexer_only(connection: Connection, role: Role) -> None:
    connection.execute(text("CREATE VIEW analytics.new AS SELECT 1 AS n"))
    views = [*VIEWS, "new"]
    held = {view: granted(connection, f"analytics.{view}", role) for view in views}
    assert held == dict.fromkeys(views, VIEWS_MAY[role])


def test_only_the_indexer_may_create_temporary_tables(engine: Engine) -> None:
    # What a template may be used for is not copied with it.
    migrate(engine.url)
    query = text("SELECT has_database_privilege(:role, current_database(), 'TEMPORARY')")
    with engine.connect() as connection:
        may = {role: connection.scalar(query, {"role": name}) for role, name in ROLES.items()}
    assert may == {role: role == "indexer" for role in ROLES}


@pytest.mark.parametrize("role", ROLES)
def test_no_role_may_create_tables_in_any_schema(connection: Connection, role: Role) -> None:
    query = text("SELECT has_schema_privilege(:role, :schema, 'CREATE')")
    schemas = [*SCHEMAS, "isthmus", "analytics", "public"]
    may_create = [
        schema
        for schema in schemas
        if connection.scalar(query, {"role": ROLES[role], "schema": schema}) is not False
    ]
    assert may_create == []


@pytest.mark.parametrize("role", ROLES)
def test_every_role_may_read_the_schema_revision(connection: Connection, role: Role) -> None:
    assert granted(connection, "isthmus.alembic_version", role) == READ


def test_public_has_no_privileges(connection: Connection) -> None:
    connection.execute(text("CREATE ROLE passer_by"))
    query = text("SELECT has_schema_privilege('passer_by', :schema, 'USAGE')")
    for schema in [*SCHEMAS, "isthmus", "analytics"]:
        assert connection.scalar(query, {"schema": schema}) is False


def test_migration_revokes_manual_grants(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("GRANT ALL ON facts.blocks TO isthmus_api"))
    migrate(engine.url)
    with engine.connect() as connection:
        assert granted(connection, "facts.blocks", "api") == READ


# By really trying, as a role's process does.

SAMPLES = {
    "facts": "facts.blocks",
    "projections": "projections.rails",
    "intake": "intake.watched_addresses",
    "relay": "relay.attempts",
    "access": "access.subjects",
    "locks": "locks.rows",
    "notifications": "notifications.queued",
}
ATTEMPTS = {
    "SELECT": "SELECT * FROM {table}",
    "INSERT": "INSERT INTO {table} DEFAULT VALUES",
    "UPDATE": "UPDATE {table} SET {column} = DEFAULT",
    "DELETE": "DELETE FROM {table}",
    "TRUNCATE": "TRUNCATE {table}",
}


@pytest.fixture(scope="module")
def role_connections(shared_engine: Engine) -> Iterator[dict[Role, Connection]]:
    engines = {role: make_engine(shared_engine.url, role=role, pool_size=1) for role in ROLES}
    connections = {role: engine.connect() for role, engine in engines.items()}
    yield connections
    for role, connection in connections.items():
        connection.close()
        engines[role].dispose()


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("role", ROLES)
def test_statements_pass_exactly_where_granted(
    role_connections: dict[Role, Connection], role: Role, schema: str
) -> None:
    table = SAMPLES[schema]
    column = next(iter(TABLES[table].columns.keys()))
    connection = role_connections[role]
    passed = set()
    for verb in VERBS:
        statement = text(ATTEMPTS[verb].format(table=table, column=column))
        if may(connection, statement):
            passed.add(verb)
        connection.rollback()
    assert passed == MAY[schema, role]


def test_api_reads_attempts_without_signed_bytes(api_engine: Engine) -> None:
    seen = (
        "SELECT a.subject, a.purpose, a.tx_hash, a.created_at, s.key, s.outcome FROM relay.slots s"
        " JOIN relay.attempts a USING (chain, account, number)"
    )
    with api_engine.connect() as connection:
        assert connection.execute(text(seen)).all() == []
        with pytest.raises(ProgrammingError, match="permission denied"):
            connection.execute(text("SELECT signed FROM relay.attempts"))


def test_api_reads_of_leases_only_when_they_expire(api_engine: Engine) -> None:
    with api_engine.connect() as connection:
        connection.execute(text("SELECT kind, name, expires_at FROM locks.leases"))
        for statement in (
            "SELECT host FROM locks.leases",
            "SELECT kind FROM locks.leases FOR KEY SHARE",
            "SELECT 1 FROM locks.standbys",
        ):
            with pytest.raises(ProgrammingError, match="permission denied"):
                connection.execute(text(statement))
            connection.rollback()


def may(connection: Connection, statement: object) -> bool:
    """Whether Postgres let the statement pass; an empty row that breaks a rule passed."""
    try:
        connection.execute(statement)  # type: ignore[call-overload]
    except DBAPIError as error:
        return not isinstance(error.orig, InsufficientPrivilege)
    return True


def test_indexer_may_move_a_cursor_and_clear_an_alarm(indexer_engine: Engine) -> None:
    with indexer_engine.begin() as connection:
        connection.execute(text("UPDATE facts.cursors SET held = NULL"))
        connection.execute(text("UPDATE facts.alarms SET cleared_at = NULL"))


def test_role_cannot_drop_a_table_of_another_schema(database: URL, indexer_engine: Engine) -> None:
    with indexer_engine.connect() as connection, pytest.raises(ProgrammingError, match="owner"):
        connection.execute(text("DROP TABLE facts.blocks"))
