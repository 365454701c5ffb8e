"""`grants.sql` as read, against what Postgres made of it."""

import pytest
from sqlalchemy import Connection, Engine, text

from warehouse_schema.grants import (
    Grant,
    declared_grants,
    grant_differences,
    held_grants,
    table_names,
)
from warehouse_schema.migrate import migrate


def test_grants_as_read_equal_what_postgres_holds(engine: Engine) -> None:
    # What a template may be used for is not copied with it.
    migrate(engine.url)
    with engine.connect() as conn:
        declared = declared_grants(table_names(conn))
        assert declared == held_grants(conn)
        assert grant_differences(conn) == []
    assert Grant("facts.cursors", "isthmus_indexer", "UPDATE") in declared
    assert Grant("relay.slots.outcome", "isthmus_api", "SELECT") in declared
    assert Grant("relay.slots", "isthmus_api", "SELECT") not in declared
    assert Grant("intake.webhook_secrets", "isthmus_api", "SELECT") not in declared


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "REVOKE SELECT ON facts.blocks FROM isthmus_api",
            "isthmus_api lacks SELECT on facts.blocks",
        ),
        ("GRANT UPDATE ON facts.blocks TO isthmus_api", "isthmus_api has UPDATE on facts.blocks"),
        ("GRANT SELECT ON relay.attempts TO PUBLIC", "PUBLIC has SELECT on relay.attempts"),
        (
            "GRANT SELECT (signed) ON relay.attempts TO isthmus_api",
            "isthmus_api has SELECT on relay.attempts.signed",
        ),
        (
            "REVOKE USAGE ON SCHEMA relay FROM isthmus_api",
            "isthmus_api lacks USAGE on schema relay",
        ),
        (
            "ALTER DEFAULT PRIVILEGES IN SCHEMA access GRANT SELECT ON TABLES TO isthmus_analyst",
            "isthmus_analyst has SELECT on new tables of access",
        ),
    ],
    ids=["missing", "extra", "public", "column", "schema", "new-tables"],
)
def test_changed_grant_is_the_one_difference(
    connection: Connection, statement: str, sentence: str
) -> None:
    before = grant_differences(connection)
    connection.execute(text(statement))
    assert [each for each in grant_differences(connection) if each not in before] == [sentence]


def test_grant_to_an_operators_own_role_is_no_difference(connection: Connection) -> None:
    before = grant_differences(connection)
    connection.execute(text("CREATE ROLE operators_monitor"))
    connection.execute(text("GRANT SELECT ON facts.blocks TO operators_monitor"))
    assert grant_differences(connection) == before
