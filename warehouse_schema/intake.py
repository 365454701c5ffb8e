"""`intake`: what clients and operators asked for, each request one row, never changed."""

from sqlalchemy import CheckConstraint, Column, DateTime, PrimaryKeyConstraint, Table, func
from sqlalchemy.dialects.postgresql import JSONB

from warehouse_schema.columns import amount, chain, number, text
from warehouse_schema.metadata import INTAKE, metadata


def _clock(name: str, comment: str = "Database clock") -> Column[object]:
    return Column(
        name,
        DateTime(timezone=True),
        nullable=False,
        server_default=func.now(),
        comment=comment,
    )


watched_addresses = Table(
    "watched_addresses",
    metadata,
    chain(),
    text("address", "EVM address (lower-case) or Stellar account"),
    text("reason", "Why it is watched: what asked for it"),
    Column(
        "since",
        DateTime(timezone=True),
        nullable=False,
        server_default=func.now(),
        comment="Database clock",
    ),
    PrimaryKeyConstraint("chain", "address"),
    schema=INTAKE,
    comment="Addresses whose token movements are kept, beside those of the network file",
)

quotes = Table(
    "quotes",
    metadata,
    text("id", "Quote id", primary_key=True),
    text("owner", "Stellar account of whoever asked"),
    text("route", "Route id, such as usdc-deposit"),
    text("mechanism", "cctp, oft or payment"),
    text("funding_mode", "direct or deposit_address; null but for deposits", nullable=True),
    text("source_chain", "CAIP-2 id"),
    text("source_asset", "What is sent: CAIP-19, or stellar:CODE:ISSUER"),
    text("source_token", "Its contract on the source chain"),
    text("source_address", "Who pays; a deposit goes back there"),
    text("dest_chain", "CAIP-2 id"),
    text("dest_asset", "What is received: CAIP-19, or stellar:CODE:ISSUER"),
    text("dest_address", "Who receives"),
    amount("amount_in", "Source chain base units"),
    amount("amount_out", "Least that is received, destination chain base units"),
    amount("min_refund", "Least that is sent back by itself, source chain base units"),
    number(
        "finality_threshold",
        "What a CCTP burn asks for: 1000 fast, 2000 standard; null without a burn",
        nullable=True,
    ),
    amount(
        "native_fee",
        "What the call carries for LayerZero, source chain's native base units; null without OFT",
        nullable=True,
    ),
    Column("fee", JSONB, nullable=False, comment="Fees as they were shown, amounts as digits"),
    _clock("created_at"),
    Column(
        "expires_at",
        DateTime(timezone=True),
        nullable=False,
        comment="It cannot be used from then on, database clock",
    ),
    CheckConstraint("mechanism IN ('cctp', 'oft', 'payment')", name="mechanism"),
    CheckConstraint("funding_mode IN ('direct', 'deposit_address')", name="funding_mode"),
    CheckConstraint("amount_in > 0 AND amount_out > 0", name="moves_something"),
    # Or nothing would ever be too little to go back, and dust would be sent for ever.
    CheckConstraint("min_refund > 0", name="min_refund"),
    CheckConstraint("created_at < expires_at", name="lives"),
    schema=INTAKE,
    comment="Prices that were promised: what a transfer made of one is held to",
)
