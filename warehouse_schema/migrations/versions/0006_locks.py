"""Locks."""

# ruff: noqa: E501 - comments are data, and Alembic wrote them in one piece.

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Run with the time-outs of `env.py`, beside the code of the revision before."""
    op.execute("CREATE SCHEMA locks")
    op.execute(
        "COMMENT ON SCHEMA locks IS 'Which process may write what. Written by the indexer alone; the api cannot read it.'"
    )
    op.create_table(
        "leases",
        sa.Column(
            "kind",
            sa.Integer(),
            nullable=False,
            comment="What may be done: a number of locks.py",
        ),
        sa.Column(
            "name",
            sa.Text(),
            nullable=False,
            comment="What it may be done to: a chain, an account; empty where there is one",
        ),
        sa.Column(
            "key",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Second number of the advisory lock that the session holds; new for each",
        ),
        sa.Column(
            "pid",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Postgres process of the session; the lease ends with it",
        ),
        sa.Column(
            "login",
            sa.Text(),
            server_default=sa.text("''"),
            nullable=False,
            comment="Database user of the session",
        ),
        sa.PrimaryKeyConstraint("kind", "name", name=op.f("pk_leases")),
        schema="locks",
        comment="Which session follows a chain, backfills it, polls a service or computes days",
    )
    op.create_table(
        "rows",
        sa.Column(
            "kind",
            sa.Integer(),
            nullable=False,
            comment="What may be done: a number of locks.py",
        ),
        sa.Column(
            "number",
            sa.Integer(),
            nullable=False,
            comment="Which of its kind; several names may share one",
        ),
        sa.PrimaryKeyConstraint("kind", "number", name=op.f("pk_rows")),
        schema="locks",
        comment="Rows to be locked until commit: movements, stages, numbers of events",
    )
    # The kinds of locks.py that are rows, with BUCKETS of row_locks.py rows each.
    op.execute(
        "INSERT INTO locks.rows (kind, number)"
        " SELECT kind, number FROM unnest(ARRAY[7041, 7048, 7051, 7052]) AS kind,"
        " generate_series(0, 1023) AS number"
    )
