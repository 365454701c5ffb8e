"""Privileges and session settings of an analyst's login."""

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, select, text
from sqlalchemy.exc import DBAPIError

from warehouse_schema.metadata import metadata
from warehouse_schema.migrate import migrate
from warehouse_schema.views import NAMES

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/analytics.md"
READABLE = ("facts", "projections")
IDENTITIES = {"projections.transfer_events": "owner"}
"""Tables of these schemas of which an analyst does not read one column."""


def login_statements(name: str) -> str:
    """What the document tells an administrator to run, for this login."""
    (block,) = re.findall(r"```sql\n(CREATE ROLE ada .*?)```", DOCUMENT.read_text(), re.DOTALL)
    return block.replace("ada", name)


@pytest.fixture
def ada(engine: Engine) -> Iterator[Connection]:
    """A connection as the document's analyst."""
    # What belongs to the database itself does not come with a clone.
    migrate(engine.url)
    name = f"ada_{secrets.token_hex(4)}"
    with engine.begin() as owner:
        for statement in login_statements(name).split(";\n"):
            if statement.strip():
                owner.execute(text(statement))
    url = engine.url.set(username=name, password="choose one")
    analysts = create_engine(url, poolclass=NullPool)
    try:
        with analysts.connect() as connection:
            yield connection
    finally:
        with engine.begin() as owner:
            owner.execute(text(f"DROP ROLE {name}"))


def refused(connection: Connection, statement: str) -> str:
    with pytest.raises(DBAPIError) as error:
        connection.execute(text(statement))
    connection.rollback()
    return str(error.value.orig)


def test_analyst_reads_every_view_and_readable_table(ada: Connection) -> None:
    for name in NAMES:
        ada.execute(text(f"SELECT * FROM {name}"))
        ada.execute(text(f"SELECT * FROM analytics.{name}"))
    for table in metadata.sorted_tables:
        if table.schema in READABLE:
            hidden = IDENTITIES.get(table.fullname)
            ada.execute(select(*(column for column in table.c if column.name != hidden)))


@pytest.mark.parametrize(("table", "column"), IDENTITIES.items())
def test_analyst_cannot_read_owners(ada: Connection, table: str, column: str) -> None:
    for selected in (column, "*", f"count({column})"):
        assert "permission denied" in refused(ada, f"SELECT {selected} FROM {table}")


def test_analyst_cannot_read_intake_relay_or_access(ada: Connection) -> None:
    closed = [t.fullname for t in metadata.sorted_tables if t.schema not in READABLE]
    assert {"intake.watched_addresses", "relay.attempts", "access.subjects"} <= set(closed)
    for table in closed:
        assert "permission denied" in refused(ada, f"SELECT * FROM {table}")


def test_analyst_cannot_write_in_a_writable_session(ada: Connection) -> None:
    ada.execute(text("SET default_transaction_read_only = off"))
    ada.commit()
    for table in metadata.sorted_tables:
        column = next(iter(table.columns.keys()))
        for statement in (
            f"INSERT INTO {table.fullname} DEFAULT VALUES",
            f"UPDATE {table.fullname} SET {column} = DEFAULT",
            f"DELETE FROM {table.fullname}",
            f"TRUNCATE {table.fullname}",
        ):
            assert "permission denied" in refused(ada, statement), statement
    for statement in (
        "CREATE TABLE public.mine (n integer)",
        "CREATE TEMPORARY TABLE mine (n integer)",
        "CREATE TABLE analytics.mine (n integer)",
        "CREATE VIEW analytics.mine AS SELECT 1 AS n",
        "CREATE SCHEMA mine",
    ):
        assert "permission denied" in refused(ada, statement), statement
    assert "must be owner" in refused(ada, "DROP VIEW analytics.market_now")


def test_session_is_read_only_in_utc_with_timeouts(ada: Connection) -> None:
    shown = [
        ada.scalar(text(f"SHOW {name}"))
        for name in ("default_transaction_read_only", "timezone", "statement_timeout")
    ]
    assert shown == ["on", "UTC", "5min"]


def test_slow_query_is_cancelled(ada: Connection) -> None:
    ada.execute(text("SET statement_timeout = '50ms'"))
    assert "statement timeout" in refused(ada, "SELECT pg_sleep(30)")
