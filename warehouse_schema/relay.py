"""`relay`: the transactions that the service itself sends, and what became of each attempt."""

from sqlalchemy import Column, DateTime, Table, func

from warehouse_schema.columns import blob, chain, text
from warehouse_schema.metadata import RELAY, metadata

attempts = Table(
    "attempts",
    metadata,
    text("id", "Attempt id", primary_key=True),
    chain(),
    text("purpose", "What it is for: mint, sweep, refund, onboarding, …"),
    text("subject", "What it serves: a movement or transfer id", index=True),
    text("tx_hash", "Hash of the signed transaction, known before it is sent", unique=True),
    blob("signed", "Signed bytes, stored before broadcast so that a resend is the same bytes"),
    Column(
        "created_at",
        DateTime(timezone=True),
        nullable=False,
        server_default=func.now(),
        comment="Database clock",
    ),
    schema=RELAY,
    comment="Signed transactions of the service. A row exists before its transaction is sent",
)
