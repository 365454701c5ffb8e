"""Intake."""

# ruff: noqa: E501 - comments are data, and Alembic wrote them in one piece.

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Run with the time-outs of `env.py`, beside the code of the revision before."""
    op.execute("CREATE SCHEMA intake")
    op.execute(
        "COMMENT ON SCHEMA intake IS 'What clients asked for. Append-only; written by the api alone.'"
    )
    op.create_table(
        "watched_addresses",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "address",
            sa.Text(),
            nullable=False,
            comment="EVM address (lower-case) or Stellar account",
        ),
        sa.Column(
            "reason", sa.Text(), nullable=False, comment="Why it is watched: what asked for it"
        ),
        sa.Column(
            "since",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.PrimaryKeyConstraint("chain", "address", name=op.f("pk_watched_addresses")),
        schema="intake",
        comment="Addresses whose token movements are kept, beside those of the network file",
    )
