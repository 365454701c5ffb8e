"""`locks`: rows that the indexer's processes lock, where an advisory lock would not do.

Any role may take any advisory lock, and `EXECUTE` on the functions belongs to a superuser, whom a
managed Postgres does not give. `SELECT … FOR UPDATE` needs the right to update: the api's role has
none here, so it can hold none of these.
"""

from sqlalchemy import PrimaryKeyConstraint, Table
from sqlalchemy import text as sql
from sqlalchemy.schema import SchemaItem

from warehouse_schema.columns import number, small, text
from warehouse_schema.metadata import LOCKS, metadata


def lease_columns() -> tuple[SchemaItem, ...]:
    """Columns of a table of leases (`warehouse_schema.leases`)."""
    return (
        small("kind", "What may be done: a number of locks.py"),
        text("name", "What it may be done to: a chain, an account; empty where there is one"),
        number(
            "key",
            "Second number of the advisory lock that the session holds; new for each",
            server_default=sql("0"),
        ),
        small(
            "pid",
            "Postgres process of the session; the lease ends with it",
            server_default=sql("0"),
        ),
        text("login", "Database user of the session", server_default=sql("''")),
        PrimaryKeyConstraint("kind", "name"),
    )


leases = Table(
    "leases",
    metadata,
    *lease_columns(),
    schema=LOCKS,
    comment="Which session follows a chain, backfills it, polls a service or computes days",
)

rows = Table(
    "rows",
    metadata,
    small("kind", "What may be done: a number of locks.py"),
    small("number", "Which of its kind; several names may share one"),
    PrimaryKeyConstraint("kind", "number"),
    schema=LOCKS,
    comment="Rows to be locked until commit: movements, stages, numbers of events",
)
