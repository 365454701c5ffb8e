"""`locks`: rows that the indexer's processes lock, where an advisory lock would not do.

Any role may take any advisory lock, and `EXECUTE` on the functions belongs to a superuser, whom a
managed Postgres does not give. `SELECT … FOR UPDATE` needs the right to update: the api's role has
none here, so it can hold none of these.
"""

from sqlalchemy import PrimaryKeyConstraint, Table, UniqueConstraint
from sqlalchemy import text as sql
from sqlalchemy.schema import SchemaItem

from warehouse_schema.columns import moment, number, recorded, small, text
from warehouse_schema.metadata import LOCKS, metadata


def lease_columns() -> tuple[SchemaItem, ...]:
    """Columns of a table of leases (`warehouse_schema.leases`)."""
    return (
        *_name_columns(),
        number(
            "term",
            "Fencing token: one more each time that a process takes the lease",
            server_default=sql("0"),
        ),
        *_process_columns(),
        moment("since", "When it was taken, database clock", nullable=True),
        moment(
            "expires_at",
            "When another process may take it, database clock; null while it is free",
            nullable=True,
        ),
        small(
            "session_pid",
            "Postgres process of the session whose transactions it protects",
            server_default=sql("0"),
        ),
        moment(
            "session_started_at",
            "Start of that session: another process of Postgres may get its number",
            nullable=True,
        ),
        PrimaryKeyConstraint("kind", "name"),
        # Makes `term` a key column: its update waits for FOR KEY SHARE, a renewal's does not.
        UniqueConstraint("kind", "name", "term"),
    )


def standby_columns() -> tuple[SchemaItem, ...]:
    """Columns of a table of processes that wait for leases."""
    return (
        *_name_columns(),
        *_process_columns(),
        recorded("since", "Since when it waits, database clock"),
        recorded("seen_at", "Its last heartbeat, database clock"),
        PrimaryKeyConstraint("kind", "name", "host", "pid"),
    )


def _name_columns() -> tuple[SchemaItem, ...]:
    return (
        small("kind", "What may be done: a number of locks.py"),
        text("name", "What it may be done to: a chain, an account; empty where there is one"),
    )


def _process_columns() -> tuple[SchemaItem, ...]:
    return (
        text("host", "Machine of the process, for people", server_default=sql("''")),
        small("pid", "Its process id there, for people", server_default=sql("0")),
    )


leases = Table(
    "leases",
    metadata,
    *lease_columns(),
    schema=LOCKS,
    comment="Which process follows a chain, backfills it, polls a service or computes days",
)

standbys = Table(
    "standbys",
    metadata,
    *standby_columns(),
    schema=LOCKS,
    comment="Which processes wait for these leases",
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
