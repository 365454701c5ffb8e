"""Relay."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Run with the time-outs of `env.py`, beside the code of the revision before."""
    op.execute("CREATE SCHEMA relay")
    op.execute(
        "COMMENT ON SCHEMA relay IS 'Transactions the service sends. Written by the relay alone.'"
    )
    op.create_table(
        "attempts",
        sa.Column("id", sa.Text(), nullable=False, comment="Attempt id"),
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "purpose",
            sa.Text(),
            nullable=False,
            comment="What it is for: mint, sweep, refund, onboarding, …",
        ),
        sa.Column(
            "subject",
            sa.Text(),
            nullable=False,
            comment="What it serves: a movement or transfer id",
        ),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Hash of the signed transaction, known before it is sent",
        ),
        sa.Column(
            "signed",
            sa.LargeBinary(),
            nullable=False,
            comment="Signed bytes, stored before broadcast so that a resend is the same bytes",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("tx_hash", name=op.f("uq_attempts_tx_hash")),
        schema="relay",
        comment="Signed transactions of the service. A row exists before its transaction is sent",
    )
    op.create_index(
        op.f("ix_attempts_subject"), "attempts", ["subject"], unique=False, schema="relay"
    )
