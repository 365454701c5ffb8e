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
    op.create_index(
        "ix_quotes_source_address", "quotes", ["source_address"], unique=False, schema="intake"
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
        sa.CheckConstraint(
            "CASE WHEN starts_with(chain, 'eip155:') THEN address ~ '^0x[0-9a-f]{40}$'"
            " WHEN starts_with(chain, 'stellar:') THEN address ~ '^G[A-Z2-7]{55}$' ELSE false END",
            name=op.f("ck_watched_addresses_address"),
        ),
        sa.PrimaryKeyConstraint("chain", "address", name=op.f("pk_watched_addresses")),
        schema="intake",
        comment="Addresses whose token movements are kept, beside those of the network file",
    )
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Text(), nullable=False, comment="16 random bytes, 32 hex digits"),
        sa.Column(
            "owner",
            sa.Text(),
            nullable=False,
            comment="Stellar account that is told of its transfers there",
        ),
        sa.Column("url", sa.Text(), nullable=False, comment="Where: https, of a host with a name"),
        sa.Column(
            "after",
            sa.BigInteger(),
            nullable=False,
            comment="What the owner was told up to this number is not sent",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.CheckConstraint("id ~ '^[0-9a-f]{32}$'", name=op.f("ck_webhooks_id")),
        sa.CheckConstraint("starts_with(url, 'https://')", name=op.f("ck_webhooks_url")),
        sa.CheckConstraint("after >= 0", name=op.f("ck_webhooks_after")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
        schema="intake",
        comment="Places where owners want to be told of their transfers",
    )
    op.create_index(
        "ix_webhooks_owner", "webhooks", ["owner", "created_at"], unique=False, schema="intake"
    )
    op.create_table(
        "transfers",
        sa.Column(
            "id",
            sa.Text(),
            nullable=False,
            comment="16 random bytes, 32 hex digits: the label that its burn carries",
        ),
        sa.Column(
            "quote", sa.Text(), nullable=False, comment="The quote that it was made of; no other is"
        ),
        sa.Column(
            "owner", sa.Text(), nullable=False, comment="Stellar account whose transfer it is"
        ),
        sa.Column(
            "idempotency_key", sa.Text(), nullable=False, comment="Of the request that made it"
        ),
        sa.Column(
            "fingerprint",
            sa.Text(),
            nullable=False,
            comment="SHA-256 of that request's body, 64 hex: a repeat has the same",
        ),
        sa.Column(
            "deposit_address",
            sa.Text(),
            nullable=True,
            comment="Where it is paid in; null if it is not",
        ),
        sa.Column(
            "deposit_operator",
            sa.Text(),
            nullable=True,
            comment="Account of ours that its terms name; null as above",
        ),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="Database clock, later than the owner's one before: lists are cut there",
        ),
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="It expires if nothing irreversible has happened by then",
        ),
        sa.CheckConstraint("id ~ '^[0-9a-f]{32}$'", name=op.f("ck_transfers_id")),
        sa.CheckConstraint(
            "(deposit_address IS NULL) = (deposit_operator IS NULL)",
            name=op.f("ck_transfers_deposit"),
        ),
        sa.CheckConstraint("started_at < expires_at", name=op.f("ck_transfers_lives")),
        sa.ForeignKeyConstraint(["quote"], ["intake.quotes.id"], name=op.f("fk_transfers_quote")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_transfers")),
        sa.UniqueConstraint("deposit_address", name=op.f("uq_transfers_deposit_address")),
        sa.UniqueConstraint(
            "owner", "idempotency_key", name=op.f("uq_transfers_owner_idempotency_key")
        ),
        sa.UniqueConstraint("owner", "started_at", name=op.f("uq_transfers_owner_started_at")),
        sa.UniqueConstraint("quote", name=op.f("uq_transfers_quote")),
        schema="intake",
        comment="Transfers as they were asked for",
    )
    op.create_table(
        "webhook_secrets",
        sa.Column("webhook", sa.Text(), nullable=False, comment="Id of a webhook"),
        sa.Column(
            "secret",
            sa.Text(),
            nullable=False,
            comment="whsec_ and 32 bytes in base64: the key of its HMAC signatures",
        ),
        sa.CheckConstraint(
            "secret ~ '^whsec_[A-Za-z0-9+/]{43}=$'", name=op.f("ck_webhook_secrets_secret")
        ),
        sa.ForeignKeyConstraint(
            ["webhook"], ["intake.webhooks.id"], name=op.f("fk_webhook_secrets_webhook")
        ),
        sa.PrimaryKeyConstraint("webhook", name=op.f("pk_webhook_secrets")),
        schema="intake",
        comment="Shared secrets of webhooks: the api writes them and cannot read them again",
    )
    op.create_table(
        "webhook_removals",
        sa.Column("webhook", sa.Text(), nullable=False, comment="Id of a webhook"),
        sa.Column(
            "removed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.ForeignKeyConstraint(
            ["webhook"], ["intake.webhooks.id"], name=op.f("fk_webhook_removals_webhook")
        ),
        sa.PrimaryKeyConstraint("webhook", name=op.f("pk_webhook_removals")),
        schema="intake",
        comment="Webhooks that their owners took back: nothing is sent there any more",
    )
    op.create_table(
        "actions",
        sa.Column("transfer", sa.Text(), nullable=False, comment="Transfer id"),
        sa.Column(
            "number", sa.BigInteger(), nullable=False, comment="Of the transfer's actions, from 1"
        ),
        sa.Column(
            "kind",
            sa.Text(),
            nullable=False,
            comment="evm_calls, stellar_tx, stellar_trustline or send_to_address",
        ),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=True,
            comment="Of the Stellar transaction to be signed; else null",
        ),
        sa.Column(
            "issued",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="The action as it was shown",
        ),
        sa.Column(
            "issued_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.CheckConstraint(
            "(kind IN ('stellar_tx', 'stellar_trustline')) = (tx_hash IS NOT NULL)",
            name=op.f("ck_actions_tx_hash"),
        ),
        sa.CheckConstraint(
            "kind IN ('evm_calls', 'stellar_tx', 'stellar_trustline', 'send_to_address')",
            name=op.f("ck_actions_kind"),
        ),
        sa.ForeignKeyConstraint(
            ["transfer"], ["intake.transfers.id"], name=op.f("fk_actions_transfer")
        ),
        sa.PrimaryKeyConstraint("transfer", "number", name=op.f("pk_actions")),
        sa.UniqueConstraint("tx_hash", name=op.f("uq_actions_tx_hash")),
        schema="intake",
        comment="What owners were shown to sign or do; what they submit is held against it",
    )
    op.create_table(
        "cancellations",
        sa.Column("transfer", sa.Text(), nullable=False, comment="Transfer id"),
        sa.Column(
            "cancelled_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.ForeignKeyConstraint(
            ["transfer"], ["intake.transfers.id"], name=op.f("fk_cancellations_transfer")
        ),
        sa.PrimaryKeyConstraint("transfer", name=op.f("pk_cancellations")),
        schema="intake",
        comment="Transfers that their owners cancelled, while nothing irreversible had happened",
    )
    op.create_table(
        "consents",
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Of an onboarding transaction that was shown",
        ),
        sa.Column("transfer", sa.Text(), nullable=False, comment="Transfer id"),
        sa.Column(
            "sponsor",
            sa.Text(),
            nullable=False,
            comment="Account that is the transaction's source",
        ),
        sa.Column("number", sa.BigInteger(), nullable=False, comment="Its sequence number"),
        sa.Column(
            "signed",
            sa.LargeBinary(),
            nullable=False,
            comment="The envelope with its owner's signatures, for the sponsor to sign as well",
        ),
        sa.Column(
            "consented_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.ForeignKeyConstraint(
            ["transfer"], ["intake.transfers.id"], name=op.f("fk_consents_transfer")
        ),
        sa.PrimaryKeyConstraint("tx_hash", name=op.f("pk_consents")),
        schema="intake",
        comment="Onboarding transactions that owners signed, for the relay to sign and send",
    )
    op.create_index(
        "ix_consents_number", "consents", ["sponsor", "number"], unique=False, schema="intake"
    )
    op.create_table(
        "submissions",
        sa.Column("transfer", sa.Text(), nullable=False, comment="Transfer id"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction on the source chain; on Stellar the inner hash",
        ),
        sa.Column(
            "log",
            sa.BigInteger(),
            nullable=False,
            comment="Which of its logs it is, from 0; 0 for stellar_tx, which is one thing",
        ),
        sa.Column("kind", sa.Text(), nullable=False, comment="evm_tx or stellar_tx"),
        sa.Column(
            "signed",
            sa.LargeBinary(),
            nullable=True,
            comment="Signed envelope, stored before it is sent; null for evm_tx",
        ),
        sa.Column(
            "submitted_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.CheckConstraint(
            "(kind = 'stellar_tx') = (signed IS NOT NULL)", name=op.f("ck_submissions_signed")
        ),
        sa.CheckConstraint("kind IN ('evm_tx', 'stellar_tx')", name=op.f("ck_submissions_kind")),
        sa.CheckConstraint(
            "log >= 0 AND (log = 0 OR kind = 'evm_tx')", name=op.f("ck_submissions_log")
        ),
        sa.ForeignKeyConstraint(
            ["transfer"], ["intake.transfers.id"], name=op.f("fk_submissions_transfer")
        ),
        sa.PrimaryKeyConstraint("tx_hash", "log", name=op.f("pk_submissions")),
        sa.UniqueConstraint("transfer", "tx_hash", name=op.f("uq_submissions_transfer_tx_hash")),
        schema="intake",
        comment="Transactions that owners submitted and that matched what was issued to them",
    )
    op.create_index(
        "ix_submissions_sent_by_us",
        "submissions",
        ["submitted_at"],
        unique=False,
        schema="intake",
        postgresql_where=sa.text("kind = 'stellar_tx'"),
    )
