"""`intake`: requests of clients, one row each, never changed.

A transfer's state is not here: it is folded (`projections.transfer_states`). A writer of a
transfer's row holds the transfer's lock (`locks.TRANSFER`), has read its rows under the lock, and
notifies `channels.INTAKE` with the transfer's id in the same transaction.
"""

from typing import Any

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
)
from sqlalchemy import text as sql

from warehouse_schema.columns import amount, blob, chain, json, moment, number, recorded, text
from warehouse_schema.metadata import INTAKE, metadata


def _transfer(**options: Any) -> Column[str]:
    key = ForeignKey(f"{INTAKE}.transfers.id")
    return Column("transfer", key, nullable=False, comment="Transfer id", **options)


def _webhook() -> Column[str]:
    key = ForeignKey(f"{INTAKE}.webhooks.id")
    return Column("webhook", key, primary_key=True, comment="Id of a webhook")


watched_addresses = Table(
    "watched_addresses",
    metadata,
    chain(),
    text("address", "EVM address (lower-case) or Stellar account"),
    text("reason", "Why it is watched"),
    recorded("since"),
    PrimaryKeyConstraint("chain", "address"),
    # What else a follower read here, it would have to make an address of.
    CheckConstraint(
        "CASE WHEN starts_with(chain, 'eip155:') THEN address ~ '^0x[0-9a-f]{40}$'"
        " WHEN starts_with(chain, 'stellar:') THEN address ~ '^G[A-Z2-7]{55}$' ELSE false END",
        name="address",
    ),
    schema=INTAKE,
    comment="Addresses whose token movements are kept, in addition to the network file's",
)

quotes = Table(
    "quotes",
    metadata,
    text("id", "Quote id", primary_key=True),
    text("owner", "Stellar account that requested it"),
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
    json("fee", "Fees as they were shown, amounts as digits"),
    recorded("created_at"),
    moment("expires_at", "It cannot be used from then on, database clock"),
    CheckConstraint("mechanism IN ('cctp', 'oft', 'payment')", name="mechanism"),
    CheckConstraint("funding_mode IN ('direct', 'deposit_address')", name="funding_mode"),
    CheckConstraint("amount_in > 0 AND amount_out > 0", name="moves_something"),
    # Or nothing would ever be too little to go back, and dust would be sent for ever.
    CheckConstraint("min_refund > 0", name="min_refund"),
    CheckConstraint("created_at < expires_at", name="lives"),
    # Sends that carry no label are looked for by who made them.
    Index("ix_quotes_source_address", "source_address"),
    schema=INTAKE,
    comment="Prices that were promised: what a transfer made of one is held to",
)

transfers = Table(
    "transfers",
    metadata,
    text("id", "16 random bytes, 32 hex digits: the label that its burn carries", primary_key=True),
    Column(
        "quote",
        ForeignKey(f"{INTAKE}.quotes.id"),
        nullable=False,
        unique=True,
        comment="The quote that it was made of; no other is",
    ),
    text("owner", "Stellar account whose transfer it is"),
    text("idempotency_key", "Of the request that made it"),
    text("fingerprint", "SHA-256 of that request's body, 64 hex: a repeat has the same"),
    text("deposit_address", "Where it is paid in; null if it is not", nullable=True),
    text("deposit_operator", "Account of ours that its terms name; null as above", nullable=True),
    moment("started_at", "Database clock, later than the owner's one before: lists are cut there"),
    moment("expires_at", "It expires if nothing irreversible has happened by then"),
    UniqueConstraint("owner", "idempotency_key"),
    UniqueConstraint("owner", "started_at"),
    UniqueConstraint("deposit_address"),
    CheckConstraint("id ~ '^[0-9a-f]{32}$'", name="id"),
    CheckConstraint("(deposit_address IS NULL) = (deposit_operator IS NULL)", name="deposit"),
    CheckConstraint("started_at < expires_at", name="lives"),
    schema=INTAKE,
    comment="Transfers as requested",
)

actions = Table(
    "actions",
    metadata,
    _transfer(),
    number("number", "Of the transfer's actions, from 1"),
    text("kind", "evm_calls, stellar_tx, stellar_trustline or send_to_address"),
    text("tx_hash", "Of the Stellar transaction to be signed; else null", nullable=True),
    json("issued", "The action as it was shown"),
    recorded("issued_at"),
    PrimaryKeyConstraint("transfer", "number"),
    UniqueConstraint("tx_hash"),
    CheckConstraint(
        "kind IN ('evm_calls', 'stellar_tx', 'stellar_trustline', 'send_to_address')", name="kind"
    ),
    CheckConstraint(
        "(kind IN ('stellar_tx', 'stellar_trustline')) = (tx_hash IS NOT NULL)", name="tx_hash"
    ),
    schema=INTAKE,
    comment="What owners were shown to sign or do; what they submit is held against it",
)

submissions = Table(
    "submissions",
    metadata,
    _transfer(),
    text("tx_hash", "Transaction on the source chain; on Stellar the inner hash"),
    number("log", "Which of its logs it is, from 0; 0 for stellar_tx, which is one thing"),
    text("kind", "evm_tx or stellar_tx"),
    blob("signed", "Signed envelope, stored before it is sent; null for evm_tx", nullable=True),
    recorded("submitted_at"),
    # A bundle may hold burns of many transfers; each of its logs is one transfer's alone.
    PrimaryKeyConstraint("tx_hash", "log"),
    UniqueConstraint("transfer", "tx_hash"),
    CheckConstraint("kind IN ('evm_tx', 'stellar_tx')", name="kind"),
    CheckConstraint("(kind = 'stellar_tx') = (signed IS NOT NULL)", name="signed"),
    CheckConstraint("log >= 0 AND (log = 0 OR kind = 'evm_tx')", name="log"),
    Index("ix_submissions_sent_by_us", "submitted_at", postgresql_where=sql("kind = 'stellar_tx'")),
    schema=INTAKE,
    comment="Transactions that owners submitted and that matched what was issued to them",
)

consents = Table(
    "consents",
    metadata,
    text("tx_hash", "Of an onboarding transaction that was shown", primary_key=True),
    _transfer(),
    text("sponsor", "Account that is the transaction's source"),
    number("number", "Its sequence number"),
    blob("signed", "The envelope with its owner's signatures, for the sponsor to sign as well"),
    recorded("consented_at"),
    Index("ix_consents_number", "sponsor", "number"),
    schema=INTAKE,
    comment="Onboarding transactions that owners signed, for the relay to sign and send",
)

cancellations = Table(
    "cancellations",
    metadata,
    _transfer(primary_key=True),
    recorded("cancelled_at"),
    schema=INTAKE,
    comment="Transfers that their owners cancelled, while nothing irreversible had happened",
)

webhooks = Table(
    "webhooks",
    metadata,
    text("id", "16 random bytes, 32 hex digits", primary_key=True),
    text("owner", "Stellar account whose transfer events are sent there"),
    text("url", "Where: https, of a host with a name"),
    number("after", "Events of the owner up to this number are not sent"),
    recorded("created_at"),
    CheckConstraint("id ~ '^[0-9a-f]{32}$'", name="id"),
    CheckConstraint("starts_with(url, 'https://')", name="url"),
    CheckConstraint("after >= 0", name="after"),
    Index("ix_webhooks_owner", "owner", "created_at"),
    schema=INTAKE,
    comment="URLs that receive the owner's transfer events",
)

webhook_secrets = Table(
    "webhook_secrets",
    metadata,
    _webhook(),
    text("secret", "whsec_ and 32 bytes in base64: the key of its HMAC signatures"),
    CheckConstraint("secret ~ '^whsec_[A-Za-z0-9+/]{43}=$'", name="secret"),
    schema=INTAKE,
    comment="Shared secrets of webhooks: the api writes them and cannot read them again",
)

webhook_removals = Table(
    "webhook_removals",
    metadata,
    _webhook(),
    recorded("removed_at"),
    schema=INTAKE,
    comment="Webhooks that their owners removed: nothing is sent there any more",
)
