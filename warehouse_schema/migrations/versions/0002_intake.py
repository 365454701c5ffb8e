"""Intake."""

# ruff: noqa: E501 - comments are data, and Alembic wrote them in one piece.

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Run with the time-outs of `env.py`, beside the code of the revision before."""
    op.execute("CREATE SCHEMA intake")
    op.execute(
        "COMMENT ON SCHEMA intake IS 'What clients asked for. Append-only; written by the api alone.'"
    )
    op.create_table(
        "quotes",
        sa.Column("id", sa.Text(), nullable=False, comment="Quote id"),
        sa.Column("owner", sa.Text(), nullable=False, comment="Stellar account of whoever asked"),
        sa.Column("route", sa.Text(), nullable=False, comment="Route id, such as usdc-deposit"),
        sa.Column("mechanism", sa.Text(), nullable=False, comment="cctp, oft or payment"),
        sa.Column(
            "funding_mode",
            sa.Text(),
            nullable=True,
            comment="direct or deposit_address; null but for deposits",
        ),
        sa.Column("source_chain", sa.Text(), nullable=False, comment="CAIP-2 id"),
        sa.Column(
            "source_asset",
            sa.Text(),
            nullable=False,
            comment="What is sent: CAIP-19, or stellar:CODE:ISSUER",
        ),
        sa.Column(
            "source_token", sa.Text(), nullable=False, comment="Its contract on the source chain"
        ),
        sa.Column(
            "source_address",
            sa.Text(),
            nullable=False,
            comment="Who pays; a deposit goes back there",
        ),
        sa.Column("dest_chain", sa.Text(), nullable=False, comment="CAIP-2 id"),
        sa.Column(
            "dest_asset",
            sa.Text(),
            nullable=False,
            comment="What is received: CAIP-19, or stellar:CODE:ISSUER",
        ),
        sa.Column("dest_address", sa.Text(), nullable=False, comment="Who receives"),
        sa.Column(
            "amount_in", sa.Numeric(78, 0), nullable=False, comment="Source chain base units"
        ),
        sa.Column(
            "amount_out",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Least that is received, destination chain base units",
        ),
        sa.Column(
            "min_refund",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Least that is sent back by itself, source chain base units",
        ),
        sa.Column(
            "finality_threshold",
            sa.BigInteger(),
            nullable=True,
            comment="What a CCTP burn asks for: 1000 fast, 2000 standard; null without a burn",
        ),
        sa.Column(
            "native_fee",
            sa.Numeric(78, 0),
            nullable=True,
            comment="What the call carries for LayerZero, source chain's native base units; null without OFT",
        ),
        sa.Column(
            "fee",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="Fees as they were shown, amounts as digits",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="It cannot be used from then on, database clock",
        ),
        sa.CheckConstraint(
            "funding_mode IN ('direct', 'deposit_address')", name=op.f("ck_quotes_funding_mode")
        ),
        sa.CheckConstraint(
            "mechanism IN ('cctp', 'oft', 'payment')", name=op.f("ck_quotes_mechanism")
        ),
        sa.CheckConstraint(
            "amount_in > 0 AND amount_out > 0", name=op.f("ck_quotes_moves_something")
        ),
        sa.CheckConstraint("created_at < expires_at", name=op.f("ck_quotes_lives")),
        sa.CheckConstraint("min_refund > 0", name=op.f("ck_quotes_min_refund")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quotes")),
        schema="intake",
        comment="Prices that were promised: what a transfer made of one is held to",
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
