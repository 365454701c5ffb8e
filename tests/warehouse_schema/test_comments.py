"""Comments on all tables and columns."""

import pytest
from sqlalchemy import Connection, text

from warehouse_schema.metadata import ANALYTICS, SCHEMAS

READ = [*SCHEMAS, ANALYTICS]

TABLES = """
    SELECT c.relname
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = :schema AND c.relkind IN ('r', 'v', 'm', 'p')
      AND coalesce(trim(obj_description(c.oid)), '') = ''
"""
COLUMNS = """
    SELECT c.relname || '.' || a.attname
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    WHERE n.nspname = :schema AND c.relkind IN ('r', 'v', 'm', 'p')
      AND coalesce(trim(col_description(c.oid, a.attnum)), '') = ''
"""


@pytest.mark.parametrize("schema", READ)
def test_every_table_has_a_comment(connection: Connection, schema: str) -> None:
    assert connection.scalars(text(TABLES), {"schema": schema}).all() == []


@pytest.mark.parametrize("schema", READ)
def test_every_column_has_a_comment(connection: Connection, schema: str) -> None:
    assert connection.scalars(text(COLUMNS), {"schema": schema}).all() == []


def test_missing_comment_is_detected(connection: Connection) -> None:
    connection.execute(text("CREATE TABLE facts.silent (id integer)"))
    assert connection.scalars(text(TABLES), {"schema": "facts"}).all() == ["silent"]
    assert connection.scalars(text(COLUMNS), {"schema": "facts"}).all() == ["silent.id"]
