"""The views of `analytics`: one file a view, with a comment on every column.

The files are the views. At each migration they are made in a schema of their own and compared with
what is there; only if something differs, be it a column, a definition or a comment, do the new ones
take the old ones' place, all of them in one transaction. So a migration that changes no view waits
for no query, and a view that was changed by hand is replaced.

A file names its view bare, because it is made in two places; what it reads it names in full, but
for other views.
"""

import logging
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from warehouse_schema.metadata import ANALYTICS, ANALYTICS_COMMENT

logger = logging.getLogger(__name__)

NAMES = (
    "market_now",
    "provider_statistics",
    "concentration",
    "quote_quality",
    "completion_times",
    "fill_rate_daily",
    "volume_daily",
    "effective_rate_daily",
    "spread_daily",
    "provider_daily",
    "utilisation_daily",
    "active_providers_daily",
    "transfer_funnel",
    "route_volume_daily",
    "transfer_outcomes_daily",
    "quote_funnel_daily",
    "relay_costs_daily",
    "completeness",
)
"""Every view; one that reads another stands after it."""

_NEXT = "analytics_next"
_FOLDER = Path(__file__).parent
_STILL_NEEDED = "2BP01"

_CATALOG = text("""
    SELECT c.relname, pg_get_viewdef(c.oid), obj_description(c.oid, 'pg_class'),
           a.attname, format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum)
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
    WHERE n.nspname = :schema AND c.relkind = 'v'
    ORDER BY c.relname, a.attnum
""")


class ViewInUse(RuntimeError):
    """Another object depends on a view that has to change; the message names it."""


def make_views(connection: Connection) -> bool:
    """Make the views as the files say, in the caller's transaction; whether any had to change.

    Grants must be applied again before the commit. Raises `ViewInUse`, and SQLAlchemy's
    `OperationalError` when a lock was not granted in time because a query was reading the old ones.
    """
    _create(connection, _NEXT)
    _in(connection, _NEXT)
    for name in NAMES:
        connection.exec_driver_sql(
            (_FOLDER / f"{name}.sql").read_text(), execution_options={"no_parameters": True}
        )
    wanted = _catalog(connection, _NEXT)
    _create(connection, ANALYTICS)
    changed = _catalog(connection, ANALYTICS) != wanted
    if changed:
        _drop_all(connection, ANALYTICS)
        for name in NAMES:
            connection.exec_driver_sql(f"ALTER VIEW {_NEXT}.{name} SET SCHEMA {ANALYTICS}")
    else:
        _drop_all(connection, _NEXT)
    connection.exec_driver_sql(f"DROP SCHEMA {_NEXT}")
    logger.info("views replaced" if changed else "views unchanged")
    return changed


def _create(connection: Connection, schema: str) -> None:
    connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    connection.exec_driver_sql(f"COMMENT ON SCHEMA {schema} IS '{ANALYTICS_COMMENT}'")


def _in(connection: Connection, schema: str) -> None:
    connection.exec_driver_sql(f"SET LOCAL search_path = {schema}")


def _catalog(connection: Connection, schema: str) -> list[tuple[Any, ...]]:
    """Columns, definitions and comments of a schema's views, comparable between schemas."""
    # A view names another one of its own schema bare, and so does what Postgres prints of it.
    _in(connection, schema)
    return [tuple(row) for row in connection.execute(_CATALOG, {"schema": schema})]


def _drop_all(connection: Connection, schema: str) -> None:
    """In one statement, because they rest on each other. What rests on them is not ours to drop."""
    quote = connection.dialect.identifier_preparer.quote_identifier
    query = text("SELECT viewname FROM pg_views WHERE schemaname = :schema ORDER BY viewname")
    views = [f"{schema}.{quote(name)}" for name in connection.scalars(query, {"schema": schema})]
    if not views:
        return
    try:
        connection.exec_driver_sql(f"DROP VIEW {', '.join(views)}")
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != _STILL_NEEDED:
            raise
        detail = getattr(getattr(error.orig, "diag", None), "message_detail", None)
        raise ViewInUse(
            f"a view of {schema} has to change and something else rests on it: {detail}. Drop that,"
            " migrate, and make it again"
        ) from error
