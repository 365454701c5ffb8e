"""`intake`: what clients and operators asked for, each request one row, never changed."""

from sqlalchemy import Column, DateTime, PrimaryKeyConstraint, Table, func

from warehouse_schema.columns import chain, text
from warehouse_schema.metadata import INTAKE, metadata

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
