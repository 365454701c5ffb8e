"""What a warehouse holds, to be compared with what another one holds."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Engine, select

from warehouse_schema.intake import webhook_secrets
from warehouse_schema.metadata import ACCESS, LOCKS, metadata


def contents(engine: Engine, without: Collection[str] = ()) -> dict[str, list[str]]:
    """Every row of every table, but for the database's own clocks and counters.

    `without` leaves tables out, by their names with the schema's. Who was let in by the api, which
    alone may know, is no part of it, nor is what processes lock, nor are secrets of webhooks, which
    only their sender may read.
    """
    with engine.connect() as conn:
        return {
            name: sorted(
                repr([row[c.name] for c in table.c if not _is_database_own(c)])
                for row in conn.execute(select(table)).mappings()
            )
            for name, table in metadata.tables.items()
            if name not in without
            and table is not webhook_secrets
            and table.schema not in (ACCESS, LOCKS)
        }


def _is_database_own(column: Any) -> bool:
    return column.server_default is not None or column.identity is not None
