"""Makes a migrated database as empty as a new one."""

from sqlalchemy import Connection

from warehouse_schema.lock_tables import rows
from warehouse_schema.metadata import metadata
from warehouse_schema.migrations.draft import TABLE_MODULES

assert TABLE_MODULES  # Imported, so `metadata` has every table.

# The migration makes the rows to be locked. One statement: a round trip a table takes longer.
_DELETE_ALL = "DO $$ BEGIN {} END $$".format(
    " ".join(
        f"DELETE FROM {table.fullname};"
        for table in reversed(metadata.sorted_tables)
        if table is not rows
    )
)


def delete_all_rows(owner: Connection) -> None:
    """Delete the rows of every table, on a connection of the tables' owner."""
    owner.exec_driver_sql(_DELETE_ALL)
