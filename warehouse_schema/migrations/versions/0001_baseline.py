"""Baseline."""

# ruff: noqa: E501 - comments are data, and Alembic wrote them in one piece.

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Run with the time-outs of `env.py`, beside the code of the revision before."""
    op.execute("CREATE SCHEMA facts")
    op.execute(
        "COMMENT ON SCHEMA facts IS 'What the chains said. Append-only; written by the indexer alone.'"
    )
    op.execute("CREATE SCHEMA intake")
    op.execute(
        "COMMENT ON SCHEMA intake IS 'What clients asked for. Append-only; written by the api alone.'"
    )
    op.execute("CREATE SCHEMA projections")
    op.execute(
        "COMMENT ON SCHEMA projections IS 'What the facts mean. Rebuildable; written by the indexer alone.'"
    )
    op.execute("CREATE SCHEMA relay")
    op.execute(
        "COMMENT ON SCHEMA relay IS 'Transactions the service sends. Written by the relay alone.'"
    )
    op.execute("CREATE SCHEMA access")
    op.execute(
        "COMMENT ON SCHEMA access IS 'Who was let in, and who may not be any more. Read and written by the api alone.'"
    )
    op.execute("CREATE SCHEMA locks")
    op.execute(
        "COMMENT ON SCHEMA locks IS 'Which process may write what. Written by the indexer alone; the api cannot read it.'"
    )
    op.execute("CREATE SCHEMA notifications")
    op.execute(
        "COMMENT ON SCHEMA notifications IS 'What commits announce. Queued by each of them, sent by the indexer alone.'"
    )
    op.create_table(
        "rate_counts",
        sa.Column(
            "key",
            sa.Text(),
            nullable=False,
            comment="Budget, and the address or the account that it is of",
        ),
        sa.Column("hits", sa.Integer(), nullable=False, comment="Requests in the window"),
        sa.Column(
            "ends_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When the window ends, by the database clock; the row may go then",
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_rate_counts")),
        schema="access",
        comment="Requests of clients in the window that is on, where processes count together",
        prefixes=["UNLOGGED"],
    )
    op.create_index(
        op.f("ix_rate_counts_ends_at"), "rate_counts", ["ends_at"], unique=False, schema="access"
    )
    op.create_table(
        "revoked_tokens",
        sa.Column("jti", sa.Text(), nullable=False, comment="Id of the token"),
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When the token itself expires; the row may go then",
        ),
        sa.Column(
            "revoked_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.Column(
            "revoked_by",
            sa.BigInteger(),
            server_default=sa.text("pg_current_xact_id()::text::bigint"),
            nullable=False,
            comment="Transaction that wrote the row: a process reads what it has not seen",
        ),
        sa.PrimaryKeyConstraint("jti", name=op.f("pk_revoked_tokens")),
        schema="access",
        comment="Tokens of ours that were logged out before they expired",
    )
    op.create_index(
        op.f("ix_revoked_tokens_expires_at"),
        "revoked_tokens",
        ["expires_at"],
        unique=False,
        schema="access",
    )
    op.create_index(
        op.f("ix_revoked_tokens_revoked_by"),
        "revoked_tokens",
        ["revoked_by"],
        unique=False,
        schema="access",
    )
    op.create_table(
        "subjects",
        sa.Column(
            "issuer", sa.Text(), nullable=False, comment="`iss` of the identity provider's tokens"
        ),
        sa.Column("subject", sa.Text(), nullable=False, comment="`sub` of its tokens"),
        sa.Column(
            "account",
            sa.Text(),
            nullable=False,
            comment="Stellar account that it acts for, bound at first use and never moved",
        ),
        sa.Column(
            "bound_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.Column(
            "confirmed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=True,
            comment="When the provider last said that the account is still theirs, by the database clock; null since it said that it is not",
        ),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_subjects")),
        schema="access",
        comment="Users of the identity provider, each bound to one Stellar account",
    )
    op.create_table(
        "used_challenges",
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash of the SEP-10 challenge: it covers the nonce",
        ),
        sa.Column(
            "account", sa.Text(), nullable=False, comment="Stellar account that signed in with it"
        ),
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When the challenge itself expires; the row may go then",
        ),
        sa.PrimaryKeyConstraint("tx_hash", name=op.f("pk_used_challenges")),
        schema="access",
        comment="Challenges that were turned into a token; none is a second time",
    )
    op.create_index(
        op.f("ix_used_challenges_expires_at"),
        "used_challenges",
        ["expires_at"],
        unique=False,
        schema="access",
    )
    op.create_table(
        "alarms",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False, comment="Row id"),
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "kind",
            sa.Text(),
            nullable=False,
            comment="What went wrong: undecodable, wrong_contract, sequence_gap, deep_reorg, …",
        ),
        sa.Column(
            "subject",
            sa.Text(),
            nullable=False,
            comment="What it is about: an event id, a provider, a height",
        ),
        sa.Column("detail", sa.Text(), nullable=False, comment="The sentence an operator reads"),
        sa.Column(
            "raised_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.Column(
            "cleared_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When it was found mended; null while it stands",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alarms")),
        schema="facts",
        comment="What an operator must look at. One open row for each (chain, kind, subject)",
    )
    op.create_index("ix_alarms_cleared_at", "alarms", ["cleared_at"], unique=False, schema="facts")
    op.create_index(
        "uq_alarms_open",
        "alarms",
        ["chain", "kind", "subject"],
        unique=True,
        schema="facts",
        postgresql_where=sa.text("cleared_at IS NULL"),
    )
    op.create_table(
        "asset_authorizations",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("contract", sa.Text(), nullable=False, comment="Asset contract"),
        sa.Column("asset", sa.Text(), nullable=False, comment="stellar:CODE:ISSUER"),
        sa.Column("holder", sa.Text(), nullable=False, comment="Account allowed or frozen"),
        sa.Column("authorized", sa.Boolean(), nullable=False, comment="Whether it may hold"),
        sa.PrimaryKeyConstraint(
            "chain", "height", "position", name=op.f("pk_asset_authorizations")
        ),
        schema="facts",
        comment="set_authorized events of Stellar assets",
    )
    op.create_table(
        "asset_movements",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column(
            "kind", sa.Text(), nullable=False, comment="transfer, mint, burn, clawback or fee"
        ),
        sa.Column("contract", sa.Text(), nullable=False, comment="Asset contract"),
        sa.Column(
            "asset", sa.Text(), nullable=False, comment="stellar:CODE:ISSUER or stellar:native"
        ),
        sa.Column("sender", sa.Text(), nullable=True, comment="From; null for a mint"),
        sa.Column(
            "recipient", sa.Text(), nullable=True, comment="To; null for a burn, clawback or fee"
        ),
        sa.Column(
            "amount",
            sa.Numeric(78, 0),
            nullable=False,
            comment="7 decimals; negative only for a fee refund",
        ),
        sa.Column("to_muxed_id", sa.Text(), nullable=True, comment="Recipient's muxed id or memo"),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_asset_movements")),
        schema="facts",
        comment="Stellar unified asset events (CAP-67) whose emitter is the asset's own contract",
    )
    op.create_index(
        op.f("ix_asset_movements_sender"),
        "asset_movements",
        ["sender"],
        unique=False,
        schema="facts",
    )
    op.create_table(
        "backfills",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "range_first", sa.BigInteger(), nullable=False, comment="First height of the backfill"
        ),
        sa.Column(
            "range_last", sa.BigInteger(), nullable=False, comment="Last height of the backfill"
        ),
        sa.Column(
            "first",
            sa.BigInteger(),
            nullable=False,
            comment="First height of the span, a part that one process reads",
        ),
        sa.Column("last", sa.BigInteger(), nullable=False, comment="Last height of the span"),
        sa.Column(
            "done",
            sa.BigInteger(),
            nullable=False,
            comment="Last height whose facts are committed; first - 1 before any are",
        ),
        sa.Column(
            "folded",
            sa.BigInteger(),
            nullable=False,
            comment="Last height whose facts the movements have; at most `done`",
        ),
        sa.Column(
            "events", sa.BigInteger(), nullable=False, comment="Raw logs or events kept so far"
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.CheckConstraint("folded <= done AND done <= last", name=op.f("ck_backfills_in_order")),
        sa.PrimaryKeyConstraint(
            "chain", "range_first", "range_last", "first", name=op.f("pk_backfills")
        ),
        schema="facts",
        comment="Spans of backfills under way, and how far each is. Rows go with the last one",
    )
    op.create_table(
        "blocks",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("hash", sa.Text(), nullable=False, comment="Block or ledger hash"),
        sa.Column(
            "parent_hash",
            sa.Text(),
            nullable=False,
            comment="Hash of the block before; rows join by it",
        ),
        sa.Column(
            "time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column(
            "protocol_version",
            sa.Integer(),
            nullable=True,
            comment="Stellar protocol version; null on EVM",
        ),
        sa.Column(
            "close_time_ms",
            sa.BigInteger(),
            nullable=True,
            comment="Ledger close time, unix milliseconds; null before Stellar protocol 30 and on EVM",
        ),
        sa.Column(
            "events",
            sa.BigInteger(),
            nullable=False,
            comment="Raw logs or events of ours kept from this block",
        ),
        sa.PrimaryKeyConstraint("chain", "height", name=op.f("pk_blocks")),
        sa.UniqueConstraint("chain", "hash", name=op.f("uq_blocks_chain_hash")),
        schema="facts",
        comment="Every EVM block and Stellar ledger that was ingested, also those without our events",
    )
    op.create_table(
        "cctp_attestations",
        sa.Column(
            "id", sa.Integer(), sa.Identity(always=True), nullable=False, comment="Order of storing"
        ),
        sa.Column(
            "source_domain", sa.BigInteger(), nullable=False, comment="CCTP domain of the burn"
        ),
        sa.Column(
            "nonce", sa.Text(), nullable=False, comment="32 bytes chosen by the attestation service"
        ),
        sa.Column(
            "message_hash",
            sa.Text(),
            nullable=False,
            comment="keccak256 of the message: what attesters sign",
        ),
        sa.Column(
            "source_chain", sa.Text(), nullable=False, comment="CAIP-2 id of the burn's chain"
        ),
        sa.Column("source_tx", sa.Text(), nullable=False, comment="Transaction of the query"),
        sa.Column(
            "burn_key", sa.Text(), nullable=True, comment="Of the message; null when it is no burn"
        ),
        sa.Column("message", sa.LargeBinary(), nullable=False, comment="Attested message"),
        sa.Column(
            "attestation",
            sa.LargeBinary(),
            nullable=False,
            comment="Signatures of 65 bytes, one after another",
        ),
        sa.Column(
            "status", sa.Text(), nullable=False, comment="The service's own word for the message"
        ),
        sa.Column(
            "finality_threshold_executed",
            sa.BigInteger(),
            nullable=True,
            comment="1000 fast, 2000 finalized",
        ),
        sa.Column(
            "fee_executed",
            sa.Numeric(78, 0),
            nullable=True,
            comment="Taken from the mint, 6 decimals",
        ),
        sa.Column(
            "expiration_block",
            sa.Numeric(78, 0),
            nullable=True,
            comment="Refused there from this block on; 0 is never",
        ),
        sa.Column(
            "attesters",
            sa.ARRAY(sa.Text()),
            nullable=False,
            comment="Who signed, in order of signatures",
        ),
        sa.Column(
            "verified", sa.Boolean(), nullable=False, comment="Whether anything may rest on it"
        ),
        sa.Column(
            "refusal", sa.Text(), nullable=True, comment="Why nothing may; null when verified"
        ),
        sa.Column(
            "judged_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was verified or refused, database clock",
        ),
        sa.CheckConstraint(
            "NOT verified OR burn_key IS NOT NULL",
            name=op.f("ck_cctp_attestations_verified_is_a_burn"),
        ),
        sa.CheckConstraint(
            "verified = (refusal IS NULL)", name=op.f("ck_cctp_attestations_one_verdict")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cctp_attestations")),
        sa.UniqueConstraint(
            "source_domain",
            "nonce",
            "message_hash",
            "source_tx",
            name=op.f("uq_cctp_attestations_source_domain_nonce_message_hash_source_tx"),
        ),
        schema="facts",
        comment="Attested CCTP messages. A re-attested message is a further row; the newest holds",
    )
    op.create_index(
        "ix_cctp_attestations_burn_key",
        "cctp_attestations",
        ["burn_key"],
        unique=False,
        schema="facts",
    )
    op.create_index(
        "ix_cctp_attestations_source_chain_source_tx",
        "cctp_attestations",
        ["source_chain", "source_tx"],
        unique=False,
        schema="facts",
    )
    op.create_table(
        "cctp_burns",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column(
            "burn_token",
            sa.Text(),
            nullable=False,
            comment="Token burned: EVM address or Stellar contract",
        ),
        sa.Column(
            "amount",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Burned, gross of the fee, 6 decimals",
        ),
        sa.Column(
            "depositor",
            sa.Text(),
            nullable=False,
            comment="Caller of the messenger; a router when one was used",
        ),
        sa.Column(
            "mint_recipient",
            sa.Text(),
            nullable=False,
            comment="Recipient on the destination, 32 bytes hex",
        ),
        sa.Column(
            "destination_domain",
            sa.BigInteger(),
            nullable=False,
            comment="CCTP domain of the destination",
        ),
        sa.Column(
            "destination_token_messenger",
            sa.Text(),
            nullable=False,
            comment="Messenger there, 32 bytes hex",
        ),
        sa.Column(
            "destination_caller",
            sa.Text(),
            nullable=False,
            comment="Only this address may mint; zero means anyone",
        ),
        sa.Column(
            "max_fee", sa.Numeric(78, 0), nullable=False, comment="Most the burner pays, 6 decimals"
        ),
        sa.Column(
            "min_finality_threshold",
            sa.BigInteger(),
            nullable=False,
            comment="1000 fast, 2000 standard",
        ),
        sa.Column(
            "hook_data",
            sa.LargeBinary(),
            nullable=False,
            comment="Hook bytes, without length prefix",
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_cctp_burns")),
        schema="facts",
        comment="CCTP V2 burns (DepositForBurn). Amounts have 6 decimals on every chain",
    )
    op.create_index(
        "ix_cctp_burns_label",
        "cctp_burns",
        [sa.literal_column('"substring"(hook_data, octet_length(hook_data) - 15)')],
        unique=False,
        schema="facts",
    )
    op.create_table(
        "cctp_forwards",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("amount", sa.Numeric(78, 0), nullable=False, comment="Paid, 7 decimals"),
        sa.Column(
            "forward_recipient",
            sa.Text(),
            nullable=False,
            comment="Recipient strkey, perhaps muxed",
        ),
        sa.Column("token", sa.Text(), nullable=False, comment="Token contract"),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_cctp_forwards")),
        schema="facts",
        comment="Payments of the Stellar CctpForwarder to recipients (mint_and_forward)",
    )
    op.create_table(
        "cctp_messages_received",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("caller", sa.Text(), nullable=False, comment="Who delivered it"),
        sa.Column("source_domain", sa.BigInteger(), nullable=False, comment="CCTP domain"),
        sa.Column(
            "nonce", sa.Text(), nullable=False, comment="32 bytes chosen by the attestation service"
        ),
        sa.Column("sender", sa.Text(), nullable=False, comment="Sending messenger, 32 bytes hex"),
        sa.Column(
            "finality_threshold_executed",
            sa.BigInteger(),
            nullable=False,
            comment="1000 fast, 2000 finalized",
        ),
        sa.Column(
            "message_body",
            sa.LargeBinary(),
            nullable=False,
            comment="Burn message body as attested",
        ),
        sa.Column(
            "burn_key",
            sa.Text(),
            nullable=True,
            comment="Equal on the burn and the mint of one transfer",
        ),
        sa.PrimaryKeyConstraint(
            "chain", "height", "position", name=op.f("pk_cctp_messages_received")
        ),
        schema="facts",
        comment="CCTP V2 messages accepted at their destination (MessageReceived)",
    )
    op.create_index(
        op.f("ix_cctp_messages_received_burn_key"),
        "cctp_messages_received",
        ["burn_key"],
        unique=False,
        schema="facts",
    )
    op.create_index(
        "ix_cctp_messages_received_label",
        "cctp_messages_received",
        [sa.literal_column('"substring"(message_body, octet_length(message_body) - 15)')],
        unique=False,
        schema="facts",
    )
    op.create_index(
        op.f("ix_cctp_messages_received_nonce"),
        "cctp_messages_received",
        ["nonce"],
        unique=False,
        schema="facts",
    )
    op.create_table(
        "cctp_messages_sent",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column(
            "message",
            sa.LargeBinary(),
            nullable=False,
            comment="Source bytes; the attested message differs in four ranges",
        ),
        sa.Column("source_domain", sa.BigInteger(), nullable=False, comment="CCTP domain"),
        sa.Column("destination_domain", sa.BigInteger(), nullable=False, comment="CCTP domain"),
        sa.Column("sender", sa.Text(), nullable=False, comment="Sending messenger, 32 bytes hex"),
        sa.Column(
            "recipient", sa.Text(), nullable=False, comment="Receiving messenger, 32 bytes hex"
        ),
        sa.Column(
            "burn_key",
            sa.Text(),
            nullable=True,
            comment="Equal on the burn and the mint of one transfer",
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_cctp_messages_sent")),
        schema="facts",
        comment="CCTP V2 messages at their source (MessageSent)",
    )
    op.create_index(
        op.f("ix_cctp_messages_sent_burn_key"),
        "cctp_messages_sent",
        ["burn_key"],
        unique=False,
        schema="facts",
    )
    op.create_table(
        "cctp_mints",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column(
            "mint_recipient",
            sa.Text(),
            nullable=False,
            comment="Recipient; on Stellar the forwarder contract",
        ),
        sa.Column(
            "amount",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Minted, net of the fee, 6 decimals",
        ),
        sa.Column("mint_token", sa.Text(), nullable=False, comment="Token minted"),
        sa.Column(
            "fee_collected",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Fee taken from the mint, 6 decimals",
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_cctp_mints")),
        schema="facts",
        comment="CCTP V2 mints (MintAndWithdraw). Amounts have 6 decimals on every chain",
    )
    op.create_table(
        "changed_days",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column("day", sa.Date(), nullable=False, comment="UTC day of the blocks"),
        sa.Column(
            "changes",
            sa.BigInteger(),
            nullable=False,
            comment="Times that facts of the day were taken back, put in its place, or replaced",
        ),
        sa.PrimaryKeyConstraint("chain", "day", name=op.f("pk_changed_days")),
        schema="facts",
        comment="Days whose facts changed behind a chain's cursor: by a reorg, a backfill, a redecode. What was computed or exported of a day counts by this number; without a row it is 0",
    )
    op.create_table(
        "cursors",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height",
            sa.BigInteger(),
            nullable=False,
            comment="Last height whose facts and projections are committed",
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash at that height"),
        sa.Column("block_time", sa.BigInteger(), nullable=False, comment="Its time, unix seconds"),
        sa.Column(
            "head_height",
            sa.BigInteger(),
            nullable=False,
            comment="Head that the node named when this was committed",
        ),
        sa.Column(
            "head_time", sa.BigInteger(), nullable=False, comment="Time of that head, unix seconds"
        ),
        sa.Column(
            "safe_height",
            sa.BigInteger(),
            nullable=True,
            comment="Stored blocks up to it are safe, as its node says",
        ),
        sa.Column(
            "final_height",
            sa.BigInteger(),
            nullable=True,
            comment="Stored blocks up to it are final and stay",
        ),
        sa.Column(
            "held",
            sa.Text(),
            nullable=True,
            comment="Why the chain is on hold; null when it is not",
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the chain last moved, database clock",
        ),
        sa.Column(
            "reported_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When its follower last reported, database clock",
        ),
        sa.Column(
            "failure",
            sa.Text(),
            nullable=True,
            comment="Why its node could not be read last; null when it could",
        ),
        sa.Column(
            "protocol_ahead",
            sa.Integer(),
            nullable=True,
            comment="Protocol that its node is ready for and its follower cannot read; null: none",
        ),
        sa.PrimaryKeyConstraint("chain", name=op.f("pk_cursors")),
        schema="facts",
        comment="How far each chain is. Moves in the transaction that writes the rows it stands for",
    )
    op.create_table(
        "deposit_refunds",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column(
            "deposit",
            sa.Text(),
            nullable=False,
            comment="Deposit address; anybody may have made up its terms",
        ),
        sa.Column("token", sa.Text(), nullable=False, comment="Token contract"),
        sa.Column("refund_to", sa.Text(), nullable=False, comment="Recipient"),
        sa.Column("amount", sa.Numeric(78, 0), nullable=False, comment="Token base units"),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_deposit_refunds")),
        schema="facts",
        comment="What deposit addresses gave back of known tokens (Refunded of our deposit factory)",
    )
    op.create_index(
        op.f("ix_deposit_refunds_deposit"),
        "deposit_refunds",
        ["deposit"],
        unique=False,
        schema="facts",
    )
    op.create_table(
        "erc20_transfers",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("token", sa.Text(), nullable=False, comment="Token contract"),
        sa.Column("sender", sa.Text(), nullable=False, comment="From"),
        sa.Column("recipient", sa.Text(), nullable=False, comment="To, watched"),
        sa.Column("amount", sa.Numeric(78, 0), nullable=False, comment="Token base units"),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_erc20_transfers")),
        schema="facts",
        comment="ERC-20 transfers of known tokens to watched addresses",
    )
    op.create_index(
        op.f("ix_erc20_transfers_recipient"),
        "erc20_transfers",
        ["recipient"],
        unique=False,
        schema="facts",
    )
    op.create_table(
        "escrow_config_sets",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("token", sa.Text(), nullable=False, comment="USDC contract"),
        sa.Column("rail_terms", sa.Text(), nullable=False, comment="RailTerms contract"),
        sa.Column("admin", sa.Text(), nullable=False, comment="Administrator"),
        sa.Column("fee_to", sa.Text(), nullable=False, comment="Fee recipient"),
        sa.Column(
            "order_ttl", sa.BigInteger(), nullable=False, comment="Seconds from opening to expiry"
        ),
        sa.Column(
            "bond_bps",
            sa.BigInteger(),
            nullable=False,
            comment="Offramp bond in basis points of the amount",
        ),
        sa.Column(
            "max_open",
            sa.BigInteger(),
            nullable=False,
            comment="Most open orders a provider may have",
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_escrow_config_sets")),
        schema="facts",
        comment="Escrow configuration (config_set)",
    )
    op.create_table(
        "escrow_deposits",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("provider", sa.Text(), nullable=False, comment="Liquidity provider"),
        sa.Column("amount", sa.Numeric(78, 0), nullable=False, comment="USDC, 7 decimals"),
        sa.Column("from_address", sa.Text(), nullable=False, comment="Who paid"),
        sa.Column(
            "free_after",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Provider's free escrow after the event, 7 decimals",
        ),
        sa.Column(
            "locked_after",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Provider's locked escrow after the event, 7 decimals",
        ),
        sa.Column(
            "pseq",
            sa.BigInteger(),
            nullable=False,
            comment="Number of the provider's Escrow event, from 1",
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_escrow_deposits")),
        schema="facts",
        comment="Provider deposits into escrow (deposit)",
    )
    op.create_table(
        "escrow_paused_sets",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("opens", sa.Boolean(), nullable=False, comment="Opening orders is paused"),
        sa.Column("all", sa.Boolean(), nullable=False, comment="Everything is paused"),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_escrow_paused_sets")),
        schema="facts",
        comment="Escrow pauses (paused_set)",
    )
    op.create_table(
        "escrow_upgrades",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("wasm_hash", sa.Text(), nullable=False, comment="New code hash"),
        sa.Column("schema", sa.BigInteger(), nullable=False, comment="Event schema version"),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_escrow_upgrades")),
        schema="facts",
        comment="Escrow code changes (upgraded)",
    )
    op.create_table(
        "escrow_withdrawals",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("provider", sa.Text(), nullable=False, comment="Liquidity provider"),
        sa.Column("amount", sa.Numeric(78, 0), nullable=False, comment="USDC, 7 decimals"),
        sa.Column("to_address", sa.Text(), nullable=False, comment="Who was paid"),
        sa.Column(
            "free_after",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Provider's free escrow after the event, 7 decimals",
        ),
        sa.Column(
            "locked_after",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Provider's locked escrow after the event, 7 decimals",
        ),
        sa.Column(
            "pseq",
            sa.BigInteger(),
            nullable=False,
            comment="Number of the provider's Escrow event, from 1",
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_escrow_withdrawals")),
        schema="facts",
        comment="Provider withdrawals from escrow (withdraw)",
    )
    op.create_table(
        "evm_logs",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column(
            "address",
            sa.Text(),
            nullable=False,
            comment="Contract that emitted the log, lower-case",
        ),
        sa.Column(
            "topics",
            sa.ARRAY(sa.Text()),
            nullable=False,
            comment="0x-prefixed topics, topic 0 first",
        ),
        sa.Column("data", sa.LargeBinary(), nullable=False, comment="ABI-encoded data"),
        sa.Column(
            "event",
            sa.Text(),
            nullable=True,
            comment="Type it was decoded to; null when it was not decoded",
        ),
        sa.Column(
            "undecodable",
            sa.Text(),
            nullable=True,
            comment="Why it could not be decoded; null when it could",
        ),
        sa.CheckConstraint(
            "event IS NULL OR undecodable IS NULL", name=op.f("ck_evm_logs_one_outcome")
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_evm_logs")),
        schema="facts",
        comment="Raw EVM logs of the contracts and addresses we watch",
    )
    op.create_table(
        "expiries",
        sa.Column("transfer", sa.Text(), nullable=False, comment="Transfer id"),
        sa.Column(
            "expired_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.PrimaryKeyConstraint("transfer", name=op.f("pk_expiries")),
        schema="facts",
        comment="Transfers whose time ran out while nothing irreversible had happened: their source chain had been read beyond that time, and had nothing of theirs",
    )
    op.create_table(
        "lost_sources",
        sa.Column("transfer", sa.Text(), nullable=False, comment="Transfer id"),
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 id of its source chain"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Burn, send or payment to the deposit address",
        ),
        sa.Column(
            "block_hash",
            sa.Text(),
            nullable=False,
            comment="Hash of the block that was reorganised away",
        ),
        sa.Column(
            "paid",
            sa.Numeric(78, 0),
            nullable=True,
            comment="Paid to the deposit address, in the transfer's token; null if not",
        ),
        sa.Column(
            "lost_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.PrimaryKeyConstraint("transfer", "tx_hash", "block_hash", name=op.f("pk_lost_sources")),
        schema="facts",
        comment="Source transactions of transfers that a chain took back: they are expected again, and no owner is asked to pay twice meanwhile",
    )
    op.create_table(
        "lz_packets_delivered",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column(
            "guid",
            sa.Text(),
            nullable=False,
            comment="LayerZero message id, computed from the origin",
        ),
        sa.Column("src_eid", sa.BigInteger(), nullable=False, comment="Endpoint id of the source"),
        sa.Column("sender", sa.Text(), nullable=False, comment="Sending OFT, 32 bytes hex"),
        sa.Column("nonce", sa.Numeric(78, 0), nullable=False, comment="Nonce of the path"),
        sa.Column("receiver", sa.Text(), nullable=False, comment="Receiving OFT"),
        sa.PrimaryKeyConstraint(
            "chain", "height", "position", name=op.f("pk_lz_packets_delivered")
        ),
        schema="facts",
        comment="LayerZero packets that a destination endpoint delivered (PacketDelivered)",
    )
    op.create_index(
        op.f("ix_lz_packets_delivered_guid"),
        "lz_packets_delivered",
        ["guid"],
        unique=False,
        schema="facts",
    )
    op.create_table(
        "lz_packets_sent",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("guid", sa.Text(), nullable=False, comment="LayerZero message id"),
        sa.Column(
            "nonce",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Counts the packets of one path from 1",
        ),
        sa.Column("src_eid", sa.BigInteger(), nullable=False, comment="Endpoint id of the source"),
        sa.Column("sender", sa.Text(), nullable=False, comment="Sending OFT, 32 bytes hex"),
        sa.Column(
            "dst_eid", sa.BigInteger(), nullable=False, comment="Endpoint id of the destination"
        ),
        sa.Column("receiver", sa.Text(), nullable=False, comment="Receiving OFT, 32 bytes hex"),
        sa.Column(
            "send_to",
            sa.Text(),
            nullable=False,
            comment="Recipient in the OFT message, 32 bytes hex",
        ),
        sa.Column(
            "amount_shared",
            sa.Numeric(78, 0),
            nullable=False,
            comment="amountSD, 6 shared decimals",
        ),
        sa.Column("packet", sa.LargeBinary(), nullable=False, comment="Packet bytes"),
        sa.Column("options", sa.LargeBinary(), nullable=False, comment="Executor options"),
        sa.Column("send_library", sa.Text(), nullable=False, comment="Send library"),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_lz_packets_sent")),
        schema="facts",
        comment="LayerZero packets of our OFTs at their source (PacketSent)",
    )
    op.create_index(
        op.f("ix_lz_packets_sent_guid"), "lz_packets_sent", ["guid"], unique=False, schema="facts"
    )
    op.create_table(
        "lz_packets_verified",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column(
            "guid",
            sa.Text(),
            nullable=False,
            comment="LayerZero message id, computed from the origin",
        ),
        sa.Column("src_eid", sa.BigInteger(), nullable=False, comment="Endpoint id of the source"),
        sa.Column("sender", sa.Text(), nullable=False, comment="Sending OFT, 32 bytes hex"),
        sa.Column("nonce", sa.Numeric(78, 0), nullable=False, comment="Nonce of the path"),
        sa.Column("receiver", sa.Text(), nullable=False, comment="Receiving OFT"),
        sa.Column(
            "payload_hash", sa.Text(), nullable=False, comment="keccak256 of guid and message"
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_lz_packets_verified")),
        schema="facts",
        comment="LayerZero packets that a destination endpoint verified (PacketVerified)",
    )
    op.create_index(
        op.f("ix_lz_packets_verified_guid"),
        "lz_packets_verified",
        ["guid"],
        unique=False,
        schema="facts",
    )
    op.create_table(
        "lz_receive_alerts",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("guid", sa.Text(), nullable=False, comment="LayerZero message id"),
        sa.Column("src_eid", sa.BigInteger(), nullable=False, comment="Endpoint id of the source"),
        sa.Column("sender", sa.Text(), nullable=False, comment="Sending OFT, 32 bytes hex"),
        sa.Column("nonce", sa.Numeric(78, 0), nullable=False, comment="Nonce of the path"),
        sa.Column("receiver", sa.Text(), nullable=False, comment="Receiving OFT"),
        sa.Column("executor", sa.Text(), nullable=False, comment="Who reports"),
        sa.Column("gas", sa.Numeric(78, 0), nullable=False, comment="Gas of the failed execution"),
        sa.Column(
            "value", sa.Numeric(78, 0), nullable=False, comment="Value of the failed execution"
        ),
        sa.Column("message", sa.LargeBinary(), nullable=False, comment="OFT message"),
        sa.Column("extra_data", sa.LargeBinary(), nullable=False, comment="Extra data"),
        sa.Column("reason", sa.LargeBinary(), nullable=False, comment="Revert data"),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_lz_receive_alerts")),
        schema="facts",
        comment="Reports that executing a packet failed (LzReceiveAlert). Hints: anyone can emit one",
    )
    op.create_index(
        op.f("ix_lz_receive_alerts_guid"),
        "lz_receive_alerts",
        ["guid"],
        unique=False,
        schema="facts",
    )
    op.create_table(
        "message_polls",
        sa.Column("service", sa.Text(), nullable=False, comment="iris or lz_scan"),
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 id of the source chain"),
        sa.Column(
            "subject", sa.Text(), nullable=False, comment="iris: source transaction; lz_scan: guid"
        ),
        sa.Column(
            "purpose",
            sa.Text(),
            nullable=False,
            comment="attestation, reattestation or status: what is waited for",
        ),
        sa.Column(
            "since", sa.BigInteger(), nullable=False, comment="When the wait began, unix seconds"
        ),
        sa.Column("attempts", sa.Integer(), nullable=False, comment="Queries since"),
        sa.Column(
            "due_at",
            sa.BigInteger(),
            nullable=False,
            comment="Not queried again before, unix seconds",
        ),
        sa.CheckConstraint("service IN ('iris', 'lz_scan')", name=op.f("ck_message_polls_service")),
        sa.PrimaryKeyConstraint("service", "chain", "subject", name=op.f("pk_message_polls")),
        schema="facts",
        comment="When services are queried about messages again. One without a row is due at once",
    )
    op.create_table(
        "message_status",
        sa.Column(
            "service",
            sa.Text(),
            nullable=False,
            comment="iris (Circle's attestation service) or lz_scan (LayerZero Scan)",
        ),
        sa.Column(
            "message_id",
            sa.Text(),
            nullable=False,
            comment="iris: chain, transaction and log position of the burn; lz_scan: guid",
        ),
        sa.Column(
            "group_key",
            sa.Text(),
            nullable=False,
            comment="Burn key or guid: what a refold reads by",
        ),
        sa.Column(
            "status",
            sa.Text(),
            nullable=False,
            comment="The service's own word, or ours for its silence",
        ),
        sa.Column("detail", sa.Text(), nullable=True, comment="Its further words; null when none"),
        sa.Column(
            "fetched_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.CheckConstraint(
            "service IN ('iris', 'lz_scan')", name=op.f("ck_message_status_service")
        ),
        sa.PrimaryKeyConstraint("service", "message_id", name=op.f("pk_message_status")),
        schema="facts",
        comment="Why a message waits, as services say. Hints: they explain a stage, never decide one",
    )
    op.create_index(
        op.f("ix_message_status_group_key"),
        "message_status",
        ["group_key"],
        unique=False,
        schema="facts",
    )
    op.create_table(
        "oft_received",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("guid", sa.Text(), nullable=False, comment="LayerZero message id"),
        sa.Column("src_eid", sa.BigInteger(), nullable=False, comment="Endpoint id of the source"),
        sa.Column("to_address", sa.Text(), nullable=False, comment="Who was credited"),
        sa.Column(
            "amount_received", sa.Numeric(78, 0), nullable=False, comment="Credited, local decimals"
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_oft_received")),
        schema="facts",
        comment="OFT credits (OFTReceived, oft_received). Amounts in the emitting chain's local decimals",
    )
    op.create_index(
        op.f("ix_oft_received_guid"), "oft_received", ["guid"], unique=False, schema="facts"
    )
    op.create_table(
        "oft_sent",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("guid", sa.Text(), nullable=False, comment="LayerZero message id"),
        sa.Column(
            "dst_eid", sa.BigInteger(), nullable=False, comment="Endpoint id of the destination"
        ),
        sa.Column(
            "from_address",
            sa.Text(),
            nullable=False,
            comment="Caller of send; a router when one was used",
        ),
        sa.Column(
            "amount_sent", sa.Numeric(78, 0), nullable=False, comment="Debited, local decimals"
        ),
        sa.Column(
            "amount_received",
            sa.Numeric(78, 0),
            nullable=False,
            comment="To be credited there, local decimals of the source",
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_oft_sent")),
        schema="facts",
        comment="OFT sends (OFTSent, oft_sent). Amounts in the emitting chain's local decimals",
    )
    op.create_index(
        op.f("ix_oft_sent_from_address"), "oft_sent", ["from_address"], unique=False, schema="facts"
    )
    op.create_index(op.f("ix_oft_sent_guid"), "oft_sent", ["guid"], unique=False, schema="facts")
    op.create_table(
        "orders_cancelled",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("provider", sa.Text(), nullable=False, comment="Liquidity provider"),
        sa.Column("taker", sa.Text(), nullable=False, comment="Taker"),
        sa.Column("order_id", sa.Text(), nullable=False, comment="Order id, 0x and 64 hex"),
        sa.Column("by", sa.Text(), nullable=False, comment="taker, provider or admin"),
        sa.Column(
            "lp_unlock",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Returned to the provider's free balance",
        ),
        sa.Column(
            "taker_refund",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Returned to the taker (offramp)",
        ),
        sa.Column(
            "free_after",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Provider's free escrow after the event, 7 decimals",
        ),
        sa.Column(
            "locked_after",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Provider's locked escrow after the event, 7 decimals",
        ),
        sa.Column(
            "pseq",
            sa.BigInteger(),
            nullable=False,
            comment="Number of the provider's Escrow event, from 1",
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_orders_cancelled")),
        schema="facts",
        comment="Orders cancelled (order_cancel)",
    )
    op.create_index(
        op.f("ix_orders_cancelled_order_id"),
        "orders_cancelled",
        ["order_id"],
        unique=False,
        schema="facts",
    )
    op.create_table(
        "orders_expired",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("provider", sa.Text(), nullable=False, comment="Liquidity provider"),
        sa.Column("taker", sa.Text(), nullable=False, comment="Taker"),
        sa.Column("order_id", sa.Text(), nullable=False, comment="Order id, 0x and 64 hex"),
        sa.Column("by", sa.Text(), nullable=False, comment="Who called"),
        sa.Column(
            "lp_unlock",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Returned to the provider's free balance",
        ),
        sa.Column(
            "taker_refund",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Returned to the taker (offramp)",
        ),
        sa.Column(
            "free_after",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Provider's free escrow after the event, 7 decimals",
        ),
        sa.Column(
            "locked_after",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Provider's locked escrow after the event, 7 decimals",
        ),
        sa.Column(
            "pseq",
            sa.BigInteger(),
            nullable=False,
            comment="Number of the provider's Escrow event, from 1",
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_orders_expired")),
        schema="facts",
        comment="Expired orders that the chain caught up with (order_expire)",
    )
    op.create_index(
        op.f("ix_orders_expired_order_id"),
        "orders_expired",
        ["order_id"],
        unique=False,
        schema="facts",
    )
    op.create_table(
        "orders_fulfilled",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("provider", sa.Text(), nullable=False, comment="Liquidity provider"),
        sa.Column("taker", sa.Text(), nullable=False, comment="Taker"),
        sa.Column("order_id", sa.Text(), nullable=False, comment="Order id, 0x and 64 hex"),
        sa.Column("claim", sa.Text(), nullable=False, comment="proof or manual"),
        sa.Column(
            "nullifier",
            sa.Text(),
            nullable=True,
            comment="Payment nullifier; null for a manual release",
        ),
        sa.Column(
            "released", sa.Numeric(78, 0), nullable=False, comment="Released, gross of the fee"
        ),
        sa.Column("fee", sa.Numeric(78, 0), nullable=False, comment="Protocol fee"),
        sa.Column("net", sa.Numeric(78, 0), nullable=False, comment="Paid to the recipient"),
        sa.Column("recipient", sa.Text(), nullable=False, comment="Who was paid"),
        sa.Column(
            "lp_unlock",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Taken off the provider's locked balance",
        ),
        sa.Column(
            "lp_free_delta",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Added to the provider's free balance",
        ),
        sa.Column(
            "taker_refund",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Returned to the taker (offramp)",
        ),
        sa.Column(
            "fiat_paid",
            sa.Numeric(78, 0),
            nullable=True,
            comment="Fiat the claim proves; null if it says none",
        ),
        sa.Column(
            "paid_at", sa.BigInteger(), nullable=True, comment="When the claim says it was paid"
        ),
        sa.Column(
            "free_after",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Provider's free escrow after the event, 7 decimals",
        ),
        sa.Column(
            "locked_after",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Provider's locked escrow after the event, 7 decimals",
        ),
        sa.Column(
            "pseq",
            sa.BigInteger(),
            nullable=False,
            comment="Number of the provider's Escrow event, from 1",
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_orders_fulfilled")),
        schema="facts",
        comment="Orders settled (order_fulfill)",
    )
    op.create_index(
        op.f("ix_orders_fulfilled_order_id"),
        "orders_fulfilled",
        ["order_id"],
        unique=False,
        schema="facts",
    )
    op.create_table(
        "orders_opened",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("provider", sa.Text(), nullable=False, comment="Liquidity provider"),
        sa.Column("taker", sa.Text(), nullable=False, comment="Taker"),
        sa.Column("order_id", sa.Text(), nullable=False, comment="Order id, 0x and 64 hex"),
        sa.Column("direction", sa.Text(), nullable=False, comment="onramp or offramp"),
        sa.Column("rail", sa.Text(), nullable=False, comment="Payment rail"),
        sa.Column("currency", sa.Text(), nullable=False, comment="ISO 4217 code"),
        sa.Column("amount", sa.Numeric(78, 0), nullable=False, comment="USDC, 7 decimals"),
        sa.Column("rate", sa.Numeric(78, 0), nullable=False, comment="Fiat per 1 USDC, 7 decimals"),
        sa.Column("fiat_amount", sa.Numeric(78, 0), nullable=False, comment="Fiat, 7 decimals"),
        sa.Column(
            "lp_lock", sa.Numeric(78, 0), nullable=False, comment="Locked of the provider's escrow"
        ),
        sa.Column(
            "taker_lock",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Locked of the taker's USDC (offramp)",
        ),
        sa.Column(
            "payee_hash", sa.Text(), nullable=False, comment="Hash of the fiat payee, 0x and 64 hex"
        ),
        sa.Column(
            "expires_at",
            sa.BigInteger(),
            nullable=False,
            comment="Active up to and including this time",
        ),
        sa.Column(
            "tier", sa.BigInteger(), nullable=False, comment="Trust tier of the rail at opening"
        ),
        sa.Column(
            "fee_bps",
            sa.BigInteger(),
            nullable=False,
            comment="Protocol fee at opening, basis points",
        ),
        sa.Column(
            "free_after",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Provider's free escrow after the event, 7 decimals",
        ),
        sa.Column(
            "locked_after",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Provider's locked escrow after the event, 7 decimals",
        ),
        sa.Column(
            "pseq",
            sa.BigInteger(),
            nullable=False,
            comment="Number of the provider's Escrow event, from 1",
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_orders_opened")),
        schema="facts",
        comment="Orders opened (order_open), with the terms they were opened at",
    )
    op.create_index(
        op.f("ix_orders_opened_order_id"),
        "orders_opened",
        ["order_id"],
        unique=False,
        schema="facts",
    )
    op.create_table(
        "orphans",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column(
            "block_hash",
            sa.Text(),
            nullable=False,
            comment="Hash of the block that was reorganised away",
        ),
        sa.Column("tx_hash", sa.Text(), nullable=False, comment="Transaction"),
        sa.Column("position", sa.BigInteger(), nullable=False, comment="Order within the block"),
        sa.Column(
            "event",
            sa.Text(),
            nullable=True,
            comment="Type it was decoded to; null for a raw log without one",
        ),
        sa.Column("row", sa.Text(), nullable=False, comment="The raw row, as JSON"),
        sa.Column(
            "orphaned_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        schema="facts",
        comment="Raw logs of blocks that a chain took back",
    )
    op.create_index(
        "ix_orphans_chain_tx_hash", "orphans", ["chain", "tx_hash"], unique=False, schema="facts"
    )
    op.create_table(
        "payees_set",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("provider", sa.Text(), nullable=False, comment="Liquidity provider"),
        sa.Column("rail", sa.Text(), nullable=False, comment="Payment rail"),
        sa.Column(
            "registered", sa.Boolean(), nullable=False, comment="Whether a payee is registered"
        ),
        sa.Column("payee_hash", sa.Text(), nullable=True, comment="Hash of the payee"),
        sa.Column(
            "handle",
            sa.Text(),
            nullable=True,
            comment="Handle in plain, if the provider publishes it",
        ),
        sa.Column(
            "tseq",
            sa.BigInteger(),
            nullable=False,
            comment="Number of the provider's RailTerms event, from 1",
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_payees_set")),
        schema="facts",
        comment="Providers' fiat payees (payee_set)",
    )
    op.create_table(
        "providers_set",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("provider", sa.Text(), nullable=False, comment="Liquidity provider"),
        sa.Column(
            "paused",
            sa.Boolean(),
            nullable=False,
            comment="Whether the provider takes no new orders",
        ),
        sa.Column(
            "tseq",
            sa.BigInteger(),
            nullable=False,
            comment="Number of the provider's RailTerms event, from 1",
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_providers_set")),
        schema="facts",
        comment="Providers pausing and resuming (provider_set)",
    )
    op.create_table(
        "quarantined_ledgers",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height",
            sa.BigInteger(),
            nullable=False,
            comment="Ledger sequence; `blocks` has its header, and no event of it is stored",
        ),
        sa.Column(
            "block_hash",
            sa.Text(),
            nullable=False,
            comment="Hash of the ledger, which its header proves",
        ),
        sa.Column(
            "block_time", sa.BigInteger(), nullable=False, comment="Ledger close time, unix seconds"
        ),
        sa.Column(
            "state",
            sa.Text(),
            nullable=False,
            comment="undecodable, or damaged: it can be read and is not what its header says",
        ),
        sa.Column(
            "reason", sa.Text(), nullable=False, comment="What the build that tried last says of it"
        ),
        sa.Column(
            "source",
            sa.Text(),
            nullable=False,
            comment="Where the bytes were read: a lake's URL without credentials",
        ),
        sa.Column(
            "raw",
            sa.LargeBinary(),
            nullable=False,
            comment="LedgerCloseMeta XDR of the whole ledger, compressed with zstd",
        ),
        sa.Column(
            "build",
            sa.Text(),
            nullable=False,
            comment="Decoders that tried last, as `isthmus quarantine` names them",
        ),
        sa.Column(
            "first_tried_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it came here, database clock",
        ),
        sa.Column(
            "tried_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was last tried, database clock",
        ),
        sa.CheckConstraint(
            "state IN ('undecodable', 'damaged')", name=op.f("ck_quarantined_ledgers_state")
        ),
        sa.CheckConstraint(
            "first_tried_at <= tried_at", name=op.f("ck_quarantined_ledgers_in_order")
        ),
        sa.CheckConstraint("octet_length(raw) > 0", name=op.f("ck_quarantined_ledgers_kept")),
        sa.PrimaryKeyConstraint("chain", "height", name=op.f("pk_quarantined_ledgers")),
        schema="facts",
        comment="Ledgers that no build could decode so far. A row goes when one has: then the ledger's events are stored like any other's",
    )
    op.create_table(
        "rails_set",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("rail", sa.Text(), nullable=False, comment="Payment rail"),
        sa.Column("enabled", sa.Boolean(), nullable=False, comment="Whether orders may open on it"),
        sa.Column(
            "tier",
            sa.BigInteger(),
            nullable=False,
            comment="Trust tier: 0 manual … 3 proof checked by the contract",
        ),
        sa.Column("fee_bps", sa.BigInteger(), nullable=False, comment="Protocol fee, basis points"),
        sa.Column("verifier", sa.Text(), nullable=False, comment="Who may claim by proof"),
        sa.Column("currencies", sa.ARRAY(sa.Text()), nullable=False, comment="ISO 4217 codes"),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_rails_set")),
        schema="facts",
        comment="Rails as the administrator set them (rail_set)",
    )
    op.create_table(
        "stellar_events",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column(
            "event_id",
            sa.Text(),
            nullable=False,
            comment="Stellar RPC event id: TOID and event index",
        ),
        sa.Column(
            "contract",
            sa.Text(),
            nullable=False,
            comment="Strkey of the contract that emitted the event",
        ),
        sa.Column(
            "topics",
            sa.ARRAY(sa.LargeBinary()),
            nullable=False,
            comment="SCVal XDR of each topic, in order",
        ),
        sa.Column("value", sa.LargeBinary(), nullable=False, comment="SCVal XDR of the data"),
        sa.Column(
            "event",
            sa.Text(),
            nullable=True,
            comment="Type it was decoded to; null when it was not decoded",
        ),
        sa.Column(
            "undecodable",
            sa.Text(),
            nullable=True,
            comment="Why it could not be decoded; null when it could",
        ),
        sa.CheckConstraint(
            "event IS NULL OR undecodable IS NULL", name=op.f("ck_stellar_events_one_outcome")
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_stellar_events")),
        schema="facts",
        comment="Raw Stellar contract events of the contracts and accounts we watch",
    )
    op.create_table(
        "terms_deleted",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("provider", sa.Text(), nullable=False, comment="Liquidity provider"),
        sa.Column("rail", sa.Text(), nullable=False, comment="Payment rail"),
        sa.Column("currency", sa.Text(), nullable=False, comment="ISO 4217 code"),
        sa.Column("direction", sa.Text(), nullable=False, comment="onramp or offramp"),
        sa.Column(
            "tseq",
            sa.BigInteger(),
            nullable=False,
            comment="Number of the provider's RailTerms event, from 1",
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_terms_deleted")),
        schema="facts",
        comment="Terms taken back (terms_del)",
    )
    op.create_table(
        "terms_set",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block or ledger"),
        sa.Column(
            "tx_hash",
            sa.Text(),
            nullable=False,
            comment="Transaction hash: 0x-prefixed on EVM, bare hex on Stellar",
        ),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Order within the block; log index on EVM, packed event id on Stellar",
        ),
        sa.Column(
            "block_time",
            sa.BigInteger(),
            nullable=False,
            comment="Block timestamp or ledger close time, unix seconds",
        ),
        sa.Column("provider", sa.Text(), nullable=False, comment="Liquidity provider"),
        sa.Column("rail", sa.Text(), nullable=False, comment="Payment rail"),
        sa.Column("currency", sa.Text(), nullable=False, comment="ISO 4217 code"),
        sa.Column("direction", sa.Text(), nullable=False, comment="onramp or offramp"),
        sa.Column("rate", sa.Numeric(78, 0), nullable=False, comment="Fiat per 1 USDC, 7 decimals"),
        sa.Column(
            "min", sa.Numeric(78, 0), nullable=False, comment="Smallest order, USDC 7 decimals"
        ),
        sa.Column(
            "max", sa.Numeric(78, 0), nullable=False, comment="Largest order, USDC 7 decimals"
        ),
        sa.Column(
            "tseq",
            sa.BigInteger(),
            nullable=False,
            comment="Number of the provider's RailTerms event, from 1",
        ),
        sa.PrimaryKeyConstraint("chain", "height", "position", name=op.f("pk_terms_set")),
        schema="facts",
        comment="Providers' terms (terms_set); each is a full replacement",
    )
    op.create_table(
        "unproven_blocks",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Hash of the block"),
        sa.Column(
            "height", sa.BigInteger(), nullable=False, comment="Block number or ledger sequence"
        ),
        sa.Column(
            "wanted",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Whether a transfer's deposit or delivery rests on it",
        ),
        sa.PrimaryKeyConstraint("chain", "block_hash", name=op.f("pk_unproven_blocks")),
        schema="facts",
        comment="EVM blocks with logs of ours whose logs only one node's word stands for. No deposit is funded and no transfer completed by them. A row goes when the logs are proven",
    )
    op.create_index(
        "ix_unproven_blocks_chain_height",
        "unproven_blocks",
        ["chain", "height"],
        unique=False,
        schema="facts",
    )
    op.create_index(
        "ix_unproven_blocks_wanted",
        "unproven_blocks",
        ["chain"],
        unique=False,
        schema="facts",
        postgresql_where="wanted",
    )
    op.create_table(
        "quotes",
        sa.Column("id", sa.Text(), nullable=False, comment="Quote id"),
        sa.Column("owner", sa.Text(), nullable=False, comment="Stellar account that requested it"),
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
        sa.Column("reason", sa.Text(), nullable=False, comment="Why it is watched"),
        sa.Column(
            "since",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.CheckConstraint(
            "CASE WHEN starts_with(chain, 'eip155:') THEN address ~ '^0x[0-9a-f]{40}$' WHEN starts_with(chain, 'stellar:') THEN address ~ '^G[A-Z2-7]{55}$' ELSE false END",
            name=op.f("ck_watched_addresses_address"),
        ),
        sa.PrimaryKeyConstraint("chain", "address", name=op.f("pk_watched_addresses")),
        schema="intake",
        comment="Addresses whose token movements are kept, in addition to the network file's",
    )
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Text(), nullable=False, comment="16 random bytes, 32 hex digits"),
        sa.Column(
            "owner",
            sa.Text(),
            nullable=False,
            comment="Stellar account whose transfer events are sent there",
        ),
        sa.Column("url", sa.Text(), nullable=False, comment="Where: https, of a host with a name"),
        sa.Column(
            "after",
            sa.BigInteger(),
            nullable=False,
            comment="Events of the owner up to this number are not sent",
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
        comment="URLs that receive the owner's transfer events",
    )
    op.create_index(
        "ix_webhooks_owner", "webhooks", ["owner", "created_at"], unique=False, schema="intake"
    )
    op.create_table(
        "leases",
        sa.Column(
            "kind", sa.Integer(), nullable=False, comment="What may be done: a number of locks.py"
        ),
        sa.Column(
            "name",
            sa.Text(),
            nullable=False,
            comment="What it may be done to: a chain, an account; empty where there is one",
        ),
        sa.Column(
            "term",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Fencing token: one more each time that a process takes the lease",
        ),
        sa.Column(
            "host",
            sa.Text(),
            server_default=sa.text("''"),
            nullable=False,
            comment="Machine of the process, for people",
        ),
        sa.Column(
            "pid",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Its process id there, for people",
        ),
        sa.Column(
            "since",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When it was taken, database clock",
        ),
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When another process may take it, database clock; null while it is free",
        ),
        sa.Column(
            "session_pid",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Postgres process of the session whose transactions it protects",
        ),
        sa.Column(
            "session_started_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Start of that session: another process of Postgres may get its number",
        ),
        sa.PrimaryKeyConstraint("kind", "name", name=op.f("pk_leases")),
        sa.UniqueConstraint("kind", "name", "term", name=op.f("uq_leases_kind_name_term")),
        schema="locks",
        comment="Which process follows a chain, backfills it, polls a service or computes days",
    )
    op.create_table(
        "standbys",
        sa.Column(
            "kind", sa.Integer(), nullable=False, comment="What may be done: a number of locks.py"
        ),
        sa.Column(
            "name",
            sa.Text(),
            nullable=False,
            comment="What it may be done to: a chain, an account; empty where there is one",
        ),
        sa.Column(
            "host",
            sa.Text(),
            server_default=sa.text("''"),
            nullable=False,
            comment="Machine of the process, for people",
        ),
        sa.Column(
            "pid",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Its process id there, for people",
        ),
        sa.Column(
            "since",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Since when it waits, database clock",
        ),
        sa.Column(
            "seen_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Its last heartbeat, database clock",
        ),
        sa.PrimaryKeyConstraint("kind", "name", "host", "pid", name=op.f("pk_standbys")),
        schema="locks",
        comment="Which processes wait for these leases",
    )
    op.create_table(
        "rows",
        sa.Column(
            "kind", sa.Integer(), nullable=False, comment="What may be done: a number of locks.py"
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
    op.create_table(
        "queued",
        sa.Column("channel", sa.Text(), nullable=False, comment="Name of a channel"),
        sa.Column("payload", sa.Text(), nullable=False, comment="Text in the channel's format"),
        schema="notifications",
        comment="Notifications of committed transactions that the publisher has not sent yet",
        prefixes=["UNLOGGED"],
    )
    op.create_table(
        "book",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column("as_of_ledger", sa.BigInteger(), nullable=False, comment="Last ledger folded"),
        sa.Column(
            "as_of",
            sa.BigInteger(),
            nullable=False,
            comment="Its close time; the order book's clock",
        ),
        sa.Column(
            "token", sa.Text(), nullable=True, comment="USDC contract; null before config_set"
        ),
        sa.Column(
            "rail_terms",
            sa.Text(),
            nullable=True,
            comment="RailTerms contract; null before config_set",
        ),
        sa.Column(
            "fee_to", sa.Text(), nullable=True, comment="Fee recipient; null before config_set"
        ),
        sa.Column(
            "order_ttl",
            sa.BigInteger(),
            nullable=True,
            comment="Seconds from opening to expiry; null before config_set",
        ),
        sa.Column(
            "bond_bps",
            sa.BigInteger(),
            nullable=True,
            comment="Offramp bond; null before config_set",
        ),
        sa.Column(
            "max_open",
            sa.BigInteger(),
            nullable=True,
            comment="Most open orders a provider may have",
        ),
        sa.Column("opens_paused", sa.Boolean(), nullable=False, comment="Opening orders is paused"),
        sa.Column("all_paused", sa.Boolean(), nullable=False, comment="The escrow is paused"),
        sa.Column(
            "total_available",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Available over distinct providers with a listed offer",
        ),
        sa.Column(
            "total_locked", sa.Numeric(78, 0), nullable=False, comment="Locked over all providers"
        ),
        sa.Column("offer_count", sa.BigInteger(), nullable=False, comment="Offers listed"),
        sa.PrimaryKeyConstraint("chain", name=op.f("pk_book")),
        schema="projections",
        comment="The order book's clock, configuration and totals; one row a chain",
    )
    op.create_table(
        "days_done",
        sa.Column(
            "figure",
            sa.Text(),
            nullable=False,
            comment="book (provider_days, market_days) or routes (route_days)",
        ),
        sa.Column("day", sa.Date(), nullable=False, comment="UTC day, by block or ledger time"),
        sa.Column(
            "version",
            sa.BigInteger(),
            nullable=False,
            comment="Counts the changes of the facts it was computed from, and their chains",
        ),
        sa.Column(
            "id",
            sa.BigInteger(),
            sa.Identity(always=True),
            nullable=False,
            comment="Another one each time that the day was computed",
        ),
        sa.Column(
            "computed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was computed, database clock",
        ),
        sa.PrimaryKeyConstraint("figure", "day", name=op.f("pk_days_done")),
        schema="projections",
        comment="Which days were computed, and from which state of the facts. A day whose facts have changed since, or that has no row, is due",
    )
    op.create_table(
        "day_blocks",
        sa.Column("figure", sa.Text(), nullable=False, comment="As in days_done"),
        sa.Column("day", sa.Date(), nullable=False, comment="UTC day, by block or ledger time"),
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "height",
            sa.BigInteger(),
            nullable=False,
            comment="Last stored block of the day: the day's figures hold all facts up to it",
        ),
        sa.Column("block_hash", sa.Text(), nullable=False, comment="Its hash"),
        sa.Column("block_time", sa.BigInteger(), nullable=False, comment="Its time"),
        sa.ForeignKeyConstraint(
            ["figure", "day"],
            ["projections.days_done.figure", "projections.days_done.day"],
            name=op.f("fk_day_blocks_figure_day"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("figure", "day", "chain", name=op.f("pk_day_blocks")),
        schema="projections",
        comment="Up to which block of which chain each computed day is complete",
    )
    op.create_table(
        "depth",
        sa.Column("rail", sa.Text(), nullable=False, comment="Payment rail"),
        sa.Column(
            "available",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Available over distinct providers with an offer on the rail",
        ),
        sa.Column(
            "offer_count", sa.BigInteger(), nullable=False, comment="Offers that contain the rail"
        ),
        sa.PrimaryKeyConstraint("rail", name=op.f("pk_depth")),
        schema="projections",
        comment="Depth by rail; rails without an offer have no row. Not additive over rails",
    )
    op.create_table(
        "market_days",
        sa.Column("day", sa.Date(), nullable=False, comment="UTC day, by block or ledger time"),
        sa.Column("direction", sa.Text(), nullable=False, comment="onramp or offramp"),
        sa.Column("rail", sa.Text(), nullable=False, comment="Payment rail"),
        sa.Column("currency", sa.Text(), nullable=False, comment="ISO 4217 code"),
        sa.Column("opened", sa.BigInteger(), nullable=False, comment="Orders opened on the day"),
        sa.Column(
            "opened_amount",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Requested by them, USDC 7 decimals",
        ),
        sa.Column(
            "fulfilled",
            sa.BigInteger(),
            nullable=False,
            comment="Orders fulfilled on the day, whenever they were opened",
        ),
        sa.Column(
            "cancelled", sa.BigInteger(), nullable=False, comment="Orders cancelled on the day"
        ),
        sa.Column(
            "expired",
            sa.BigInteger(),
            nullable=False,
            comment="Orders that the ledger clock passed on the day",
        ),
        sa.Column(
            "released",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Released by the fulfilled orders, gross of the fee, USDC 7 decimals",
        ),
        sa.Column(
            "fee",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Protocol fees of the fulfilled orders, USDC 7 decimals",
        ),
        sa.Column(
            "fiat",
            sa.Numeric(78, 0),
            nullable=True,
            comment="Fiat that was released for, 7 decimals; null if absurd",
        ),
        sa.Column(
            "partial",
            sa.BigInteger(),
            nullable=False,
            comment="Of the fulfilled, those that released less than requested",
        ),
        sa.Column(
            "manual",
            sa.BigInteger(),
            nullable=False,
            comment="Of the fulfilled, those released by hand, without a proof",
        ),
        sa.Column(
            "fulfillment_seconds",
            sa.BigInteger(),
            nullable=False,
            comment="Sum over the fulfilled orders of seconds since their opening",
        ),
        sa.PrimaryKeyConstraint(
            "day", "direction", "rail", "currency", name=op.f("pk_market_days")
        ),
        schema="projections",
        comment="Each market on each day that is over and on which something happened in it",
    )
    op.create_table(
        "movements",
        sa.Column(
            "id", sa.Text(), nullable=False, comment="cctp:<burn key>:<ordinal>, or oft:<guid>"
        ),
        sa.Column("mechanism", sa.Text(), nullable=False, comment="cctp or oft"),
        sa.Column(
            "group_key",
            sa.Text(),
            nullable=False,
            comment="Burn key or guid: what both sides share and a refold reads by",
        ),
        sa.Column(
            "stage",
            sa.Text(),
            nullable=False,
            comment="ATTESTING, IN_FLIGHT, DELIVERING, ON_HOLD or COMPLETED",
        ),
        sa.Column(
            "stage_reason",
            sa.Text(),
            nullable=True,
            comment="Why it waits or is held; null when it does neither",
        ),
        sa.Column(
            "source_chain",
            sa.Text(),
            nullable=True,
            comment="CAIP-2 id; null while only the destination was seen",
        ),
        sa.Column("source_tx", sa.Text(), nullable=True, comment="Burn or send transaction"),
        sa.Column(
            "source_address",
            sa.Text(),
            nullable=True,
            comment="Depositor or sender as the chain names it",
        ),
        sa.Column("amount_in", sa.Numeric(78, 0), nullable=True, comment="Source chain base units"),
        sa.Column(
            "dest_chain",
            sa.Text(),
            nullable=True,
            comment="CAIP-2 id; null when the destination is no chain of ours",
        ),
        sa.Column("dest_tx", sa.Text(), nullable=True, comment="Mint or delivery transaction"),
        sa.Column(
            "dest_address",
            sa.Text(),
            nullable=True,
            comment="Recipient; 32 bytes hex while its form is open",
        ),
        sa.Column(
            "amount_out",
            sa.Numeric(78, 0),
            nullable=True,
            comment="Destination chain base units, once delivered",
        ),
        sa.Column(
            "fee",
            sa.Numeric(78, 0),
            nullable=True,
            comment="Taken on the way, source chain base units; null if not known",
        ),
        sa.Column(
            "message_id", sa.Text(), nullable=True, comment="CCTP nonce, once known; OFT guid"
        ),
        sa.Column("sent_at", sa.BigInteger(), nullable=True, comment="Time of the source block"),
        sa.Column(
            "delivered_at", sa.BigInteger(), nullable=True, comment="Time of the destination block"
        ),
        sa.CheckConstraint("mechanism IN ('cctp', 'oft')", name=op.f("ck_movements_mechanism")),
        sa.CheckConstraint(
            "stage <> 'COMPLETED' OR dest_tx IS NOT NULL",
            name=op.f("ck_movements_completed_is_delivered"),
        ),
        sa.CheckConstraint(
            "stage IN ('ATTESTING', 'IN_FLIGHT', 'DELIVERING', 'ON_HOLD', 'COMPLETED')",
            name=op.f("ck_movements_stage"),
        ),
        sa.CheckConstraint(
            "source_tx IS NOT NULL OR dest_tx IS NOT NULL", name=op.f("ck_movements_seen_somewhere")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_movements")),
        schema="projections",
        comment="CCTP and OFT movements between chains, folded from both chains' facts",
    )
    op.create_index(
        "ix_movements_delivered_day",
        "movements",
        [sa.literal_column("('1970-01-01'::date + (delivered_at / 86400)::integer)")],
        unique=False,
        schema="projections",
        postgresql_where=sa.text("delivered_at IS NOT NULL"),
    )
    op.create_index(
        op.f("ix_movements_group_key"),
        "movements",
        ["group_key"],
        unique=False,
        schema="projections",
    )
    op.create_index(
        "ix_movements_sent_day",
        "movements",
        [sa.literal_column("('1970-01-01'::date + (sent_at / 86400)::integer)")],
        unique=False,
        schema="projections",
    )
    op.create_index(
        "ix_movements_waiting",
        "movements",
        ["mechanism"],
        unique=False,
        schema="projections",
        postgresql_where=sa.text("dest_tx IS NULL AND dest_chain IS NOT NULL"),
    )
    op.create_table(
        "offers",
        sa.Column("provider", sa.Text(), nullable=False, comment="Liquidity provider"),
        sa.Column("direction", sa.Text(), nullable=False, comment="onramp or offramp"),
        sa.Column("currency", sa.Text(), nullable=False, comment="ISO 4217 code"),
        sa.Column(
            "rails",
            sa.ARRAY(sa.Text(), as_tuple=True),
            nullable=False,
            comment="Rails with these very terms, sorted",
        ),
        sa.Column("rate", sa.Numeric(78, 0), nullable=False, comment="Fiat per 1 USDC"),
        sa.Column("min", sa.Numeric(78, 0), nullable=False, comment="Smallest order, USDC"),
        sa.Column(
            "max",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Largest order that would succeed now, USDC",
        ),
        sa.Column(
            "available", sa.Numeric(78, 0), nullable=False, comment="Provider's available escrow"
        ),
        sa.Column("locked", sa.Numeric(78, 0), nullable=False, comment="Provider's locked escrow"),
        sa.Column("tier", sa.BigInteger(), nullable=False, comment="Trust tier"),
        sa.Column("fee_bps", sa.BigInteger(), nullable=False, comment="Protocol fee, basis points"),
        sa.Column(
            "handles",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="Rail → published payment handle",
        ),
        sa.Column(
            "completed_orders",
            sa.BigInteger(),
            nullable=False,
            comment="Provider's fulfilled orders",
        ),
        sa.Column(
            "avg_fulfillment_seconds",
            sa.BigInteger(),
            nullable=False,
            comment="Provider's mean seconds to fulfilment, rounded; 0 if none",
        ),
        sa.Column("last_active_at", sa.BigInteger(), nullable=False, comment="Provider's last act"),
        sa.PrimaryKeyConstraint(
            "provider", "direction", "currency", "rails", name=op.f("pk_offers")
        ),
        schema="projections",
        comment="Offers listed now: one row a provider, direction, currency and set of equal terms",
    )
    op.create_table(
        "orders",
        sa.Column("order_id", sa.Text(), nullable=False, comment="Order id, 0x and 64 hex"),
        sa.Column("provider", sa.Text(), nullable=False, comment="Liquidity provider"),
        sa.Column("taker", sa.Text(), nullable=False, comment="Taker"),
        sa.Column("direction", sa.Text(), nullable=False, comment="onramp or offramp"),
        sa.Column("rail", sa.Text(), nullable=False, comment="Payment rail"),
        sa.Column("currency", sa.Text(), nullable=False, comment="ISO 4217 code"),
        sa.Column("amount", sa.Numeric(78, 0), nullable=False, comment="USDC requested"),
        sa.Column("rate", sa.Numeric(78, 0), nullable=False, comment="Fiat per 1 USDC at opening"),
        sa.Column("fiat_amount", sa.Numeric(78, 0), nullable=False, comment="Fiat"),
        sa.Column(
            "lp_lock", sa.Numeric(78, 0), nullable=False, comment="Locked of the provider's escrow"
        ),
        sa.Column(
            "taker_lock", sa.Numeric(78, 0), nullable=False, comment="Locked of the taker's USDC"
        ),
        sa.Column("payee_hash", sa.Text(), nullable=False, comment="Fiat payee at opening"),
        sa.Column("tier", sa.BigInteger(), nullable=False, comment="Trust tier at opening"),
        sa.Column("fee_bps", sa.BigInteger(), nullable=False, comment="Protocol fee at opening"),
        sa.Column(
            "created_at",
            sa.BigInteger(),
            nullable=False,
            comment="Close time of the opening ledger",
        ),
        sa.Column(
            "expires_at",
            sa.BigInteger(),
            nullable=False,
            comment="Active up to and including this time",
        ),
        sa.Column(
            "status",
            sa.Text(),
            nullable=False,
            comment="By the ledger clock: active, fulfilled, cancelled or expired",
        ),
        sa.Column(
            "chain_status",
            sa.Text(),
            nullable=False,
            comment="By events alone: open, fulfilled, cancelled or expired",
        ),
        sa.Column("open_tx", sa.Text(), nullable=False, comment="Transaction that opened it"),
        sa.Column("end_tx", sa.Text(), nullable=True, comment="Transaction of its terminal event"),
        sa.Column(
            "ended_at", sa.BigInteger(), nullable=True, comment="Close time of its terminal event"
        ),
        sa.Column("claim", sa.Text(), nullable=True, comment="proof or manual, once fulfilled"),
        sa.Column(
            "nullifier",
            sa.Text(),
            nullable=True,
            comment="Payment nullifier, once settled on a proof",
        ),
        sa.Column("released", sa.Numeric(78, 0), nullable=True, comment="Released, once fulfilled"),
        sa.Column("fee", sa.Numeric(78, 0), nullable=True, comment="Protocol fee, once fulfilled"),
        sa.Column("net", sa.Numeric(78, 0), nullable=True, comment="Paid out, once fulfilled"),
        sa.Column("recipient", sa.Text(), nullable=True, comment="Who was paid, once fulfilled"),
        sa.Column("fiat_paid", sa.Numeric(78, 0), nullable=True, comment="Fiat the claim proves"),
        sa.Column(
            "paid_at", sa.BigInteger(), nullable=True, comment="When the claim says it was paid"
        ),
        sa.CheckConstraint(
            "(chain_status = 'open') = (end_tx IS NULL)",
            name=op.f("ck_orders_ended_by_a_transaction"),
        ),
        sa.CheckConstraint(
            "chain_status IN ('open','fulfilled','cancelled','expired')",
            name=op.f("ck_orders_chain_status"),
        ),
        sa.CheckConstraint(
            "nullifier IS NULL OR chain_status = 'fulfilled'",
            name=op.f("ck_orders_nullifier_when_settled"),
        ),
        sa.CheckConstraint(
            "status <> 'fulfilled' OR chain_status = 'fulfilled'",
            name=op.f("ck_orders_fulfilled_on_chain"),
        ),
        sa.CheckConstraint(
            "status IN ('active','fulfilled','cancelled','expired')", name=op.f("ck_orders_status")
        ),
        sa.PrimaryKeyConstraint("order_id", name=op.f("pk_orders")),
        schema="projections",
        comment="Orders (intents), with the status of the chain and that of the ledger clock",
    )
    op.create_index(
        "ix_orders_created_day",
        "orders",
        [sa.literal_column("('1970-01-01'::date + (created_at / 86400)::integer)")],
        unique=False,
        schema="projections",
    )
    op.create_index(
        "ix_orders_ended_day",
        "orders",
        [sa.literal_column("('1970-01-01'::date + (ended_at / 86400)::integer)")],
        unique=False,
        schema="projections",
    )
    op.create_index(
        "ix_orders_newest",
        "orders",
        [sa.literal_column("created_at DESC"), "order_id"],
        unique=False,
        schema="projections",
    )
    op.create_index(
        "ix_orders_open",
        "orders",
        ["provider"],
        unique=False,
        schema="projections",
        postgresql_where=sa.text("chain_status = 'open'"),
    )
    op.create_index(
        "ix_orders_provider",
        "orders",
        ["provider", sa.literal_column("created_at DESC"), "order_id"],
        unique=False,
        schema="projections",
    )
    op.create_index(
        "ix_orders_unexpired",
        "orders",
        ["expires_at"],
        unique=False,
        schema="projections",
        postgresql_where=sa.text("status = 'active'"),
    )
    op.create_table(
        "payees",
        sa.Column("provider", sa.Text(), nullable=False, comment="Liquidity provider"),
        sa.Column("rail", sa.Text(), nullable=False, comment="Payment rail"),
        sa.Column("payee_hash", sa.Text(), nullable=False, comment="Hash of the payee"),
        sa.Column(
            "handle",
            sa.Text(),
            nullable=True,
            comment="Handle, only where it is published and its hash matches",
        ),
        sa.PrimaryKeyConstraint("provider", "rail", name=op.f("pk_payees")),
        schema="projections",
        comment="Registered fiat payees",
    )
    op.create_table(
        "provider_days",
        sa.Column("day", sa.Date(), nullable=False, comment="UTC day, by block or ledger time"),
        sa.Column(
            "provider", sa.Text(), nullable=False, comment="Liquidity provider's Stellar address"
        ),
        sa.Column(
            "opened", sa.BigInteger(), nullable=False, comment="Orders opened with it on the day"
        ),
        sa.Column(
            "fulfilled",
            sa.BigInteger(),
            nullable=False,
            comment="Orders fulfilled on the day, whenever they were opened",
        ),
        sa.Column(
            "cancelled", sa.BigInteger(), nullable=False, comment="Orders cancelled on the day"
        ),
        sa.Column(
            "expired",
            sa.BigInteger(),
            nullable=False,
            comment="Orders that the ledger clock passed on the day",
        ),
        sa.Column(
            "released",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Released by the fulfilled orders, gross of the fee, USDC 7 decimals",
        ),
        sa.Column(
            "fee",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Protocol fees of the fulfilled orders, USDC 7 decimals",
        ),
        sa.Column(
            "fulfillment_seconds",
            sa.BigInteger(),
            nullable=False,
            comment="Sum over the fulfilled orders of seconds since their opening",
        ),
        sa.Column(
            "deposited",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Deposited into escrow on the day, USDC 7 decimals",
        ),
        sa.Column(
            "withdrawn",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Withdrawn from escrow on the day, USDC 7 decimals",
        ),
        sa.Column(
            "available",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Available at the end of the day, USDC 7 decimals",
        ),
        sa.Column(
            "locked",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Locked by active orders at the end of the day, USDC 7 decimals",
        ),
        sa.Column(
            "locked_seconds",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Locked over time: USDC 7 decimals x seconds",
        ),
        sa.Column(
            "escrow_seconds",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Available + locked over time: USDC 7 decimals x seconds",
        ),
        sa.PrimaryKeyConstraint("day", "provider", name=op.f("pk_provider_days")),
        schema="projections",
        comment="Each provider on each day that is over: orders and escrow. Folded from facts",
    )
    op.create_table(
        "providers",
        sa.Column(
            "provider", sa.Text(), nullable=False, comment="Liquidity provider's Stellar address"
        ),
        sa.Column(
            "paused",
            sa.Boolean(),
            nullable=False,
            comment="Paused by the provider: takes no new orders",
        ),
        sa.Column("free", sa.Numeric(78, 0), nullable=False, comment="Free escrow on chain"),
        sa.Column(
            "locked",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Locked escrow on chain, expired orders that were not pruned included",
        ),
        sa.Column(
            "reclaimable",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Part of locked that belongs to clock-expired orders",
        ),
        sa.Column("pseq", sa.BigInteger(), nullable=False, comment="Last Escrow event number"),
        sa.Column("tseq", sa.BigInteger(), nullable=False, comment="Last RailTerms event number"),
        sa.Column(
            "active_orders",
            sa.BigInteger(),
            nullable=False,
            comment="Orders active by the ledger clock",
        ),
        sa.Column(
            "completed_orders",
            sa.BigInteger(),
            nullable=False,
            comment="Orders fulfilled, all time",
        ),
        sa.Column(
            "fulfillment_seconds",
            sa.BigInteger(),
            nullable=False,
            comment="Sum of seconds from opening to fulfilment",
        ),
        sa.Column(
            "last_active_at",
            sa.BigInteger(),
            nullable=True,
            comment="Last own act or settlement; null if none",
        ),
        sa.Column(
            "stale",
            sa.Text(),
            nullable=True,
            comment="Why its figures cannot be trusted (a gap); null when they can",
        ),
        sa.PrimaryKeyConstraint("provider", name=op.f("pk_providers")),
        schema="projections",
        comment="Liquidity providers: balances, counters and statistics",
    )
    op.create_table(
        "rails",
        sa.Column("rail", sa.Text(), nullable=False, comment="Payment rail"),
        sa.Column("enabled", sa.Boolean(), nullable=False, comment="Whether orders may open on it"),
        sa.Column(
            "tier",
            sa.BigInteger(),
            nullable=False,
            comment="Trust tier: 0 manual, 1 one attestor, 2 enclave or witnesses, 3 proof",
        ),
        sa.Column("fee_bps", sa.BigInteger(), nullable=False, comment="Protocol fee, basis points"),
        sa.Column("verifier", sa.Text(), nullable=False, comment="Who may claim by proof"),
        sa.Column(
            "currencies",
            sa.ARRAY(sa.Text(), as_tuple=True),
            nullable=False,
            comment="ISO 4217 codes",
        ),
        sa.PrimaryKeyConstraint("rail", name=op.f("pk_rails")),
        schema="projections",
        comment="Rails as last set",
    )
    op.create_table(
        "reconciliation",
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="As of when, database clock",
        ),
        sa.Column(
            "flows",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="What went between chains; amounts as digits",
        ),
        sa.Column(
            "stages",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="Transfers that are not over, by stage",
        ),
        sa.Column(
            "findings",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="What does not add up: check, detail",
        ),
        sa.PrimaryKeyConstraint("at", name=op.f("pk_reconciliation")),
        schema="projections",
        comment="Whether the money adds up, as it was looked at last: one row",
    )
    op.create_table(
        "route_days",
        sa.Column("day", sa.Date(), nullable=False, comment="UTC day, by block or ledger time"),
        sa.Column("mechanism", sa.Text(), nullable=False, comment="cctp (USDC) or oft (USDT0)"),
        sa.Column(
            "source_chain",
            sa.Text(),
            nullable=False,
            comment="CAIP-2 id; elsewhere when it is no chain of ours",
        ),
        sa.Column(
            "dest_chain",
            sa.Text(),
            nullable=False,
            comment="CAIP-2 id; elsewhere when it is no chain of ours",
        ),
        sa.Column("sent", sa.BigInteger(), nullable=False, comment="Movements sent on the day"),
        sa.Column(
            "amount_sent",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Sent, gross of fees, base units of the source chain",
        ),
        sa.Column(
            "delivered", sa.BigInteger(), nullable=False, comment="Movements delivered on the day"
        ),
        sa.Column(
            "amount_delivered",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Delivered, base units of the destination chain",
        ),
        sa.Column(
            "fee",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Taken on the way, base units of the source chain: of what was delivered (cctp), of what was sent (oft)",
        ),
        sa.PrimaryKeyConstraint(
            "day", "mechanism", "source_chain", "dest_chain", name=op.f("pk_route_days")
        ),
        schema="projections",
        comment="Money moved between chains on each day that is over, by route",
    )
    op.create_table(
        "stream_events",
        sa.Column(
            "id",
            sa.BigInteger(),
            sa.Identity(always=True),
            nullable=False,
            comment="Order of publication; given out under one lock, so none commits late",
        ),
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "ledger", sa.BigInteger(), nullable=False, comment="Ledger whose fold wrote the message"
        ),
        sa.Column("channel", sa.Text(), nullable=False, comment="orderbook or intent"),
        sa.Column(
            "op",
            sa.Text(),
            nullable=True,
            comment="add, update or remove on orderbook; null on intent",
        ),
        sa.Column(
            "entry",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="The offer or order, amounts as digit strings",
        ),
        sa.Column("last", sa.Boolean(), nullable=False, comment="Last message of its ledger"),
        sa.Column(
            "revised",
            sa.Boolean(),
            nullable=False,
            comment="Written by a rebuild: a client may have another book at this ledger",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stream_events")),
        schema="projections",
        comment="Outbox of the socket: about a day, written in the transaction that changed the book",
    )
    op.create_index(
        "ix_stream_events_chain_ledger",
        "stream_events",
        ["chain", "ledger"],
        unique=False,
        schema="projections",
    )
    op.create_table(
        "terms",
        sa.Column("provider", sa.Text(), nullable=False, comment="Liquidity provider"),
        sa.Column("direction", sa.Text(), nullable=False, comment="onramp or offramp"),
        sa.Column("rail", sa.Text(), nullable=False, comment="Payment rail"),
        sa.Column("currency", sa.Text(), nullable=False, comment="ISO 4217 code"),
        sa.Column("rate", sa.Numeric(78, 0), nullable=False, comment="Fiat per 1 USDC, 7 decimals"),
        sa.Column("min", sa.Numeric(78, 0), nullable=False, comment="Smallest order, USDC"),
        sa.Column(
            "max",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Largest order, USDC, as the provider set it",
        ),
        sa.PrimaryKeyConstraint("provider", "direction", "rail", "currency", name=op.f("pk_terms")),
        schema="projections",
        comment="Terms that stand: set and not deleted",
    )
    op.create_index(op.f("ix_terms_rail"), "terms", ["rail"], unique=False, schema="projections")
    op.create_table(
        "transfer_events",
        sa.Column("owner", sa.Text(), nullable=False, comment="Whose transfer it is"),
        sa.Column(
            "number",
            sa.BigInteger(),
            nullable=False,
            comment="Of the owner's, from 1, in the order in which they committed",
        ),
        sa.Column("transfer", sa.Text(), nullable=False, comment="Transfer id"),
        sa.Column("stage", sa.Text(), nullable=False, comment="Which it has now"),
        sa.Column("status", sa.Text(), nullable=False, comment="SEP-24's word for that"),
        sa.Column(
            "reason",
            sa.Text(),
            nullable=True,
            comment="Why it waits, or what it came to; null when neither",
        ),
        sa.Column(
            "told_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.PrimaryKeyConstraint("owner", "number", name=op.f("pk_transfer_events")),
        schema="projections",
        comment="Outbox of owners' streams and webhooks, written with what changed of a transfer",
    )
    op.create_table(
        "transfer_states",
        sa.Column("transfer", sa.Text(), nullable=False, comment="Transfer id"),
        sa.Column(
            "stage",
            sa.Text(),
            nullable=False,
            comment="AWAITING_FUNDS … COMPLETED: docs/transfers.md",
        ),
        sa.Column(
            "reason",
            sa.Text(),
            nullable=True,
            comment="Why it waits, or what it came to; null when neither",
        ),
        sa.Column(
            "detail", sa.Text(), nullable=True, comment="What a service or an operator says of it"
        ),
        sa.Column(
            "timeline",
            postgresql.JSONB(astext_type=sa.Text()),
            nullable=False,
            comment="Stages that it came to: stage, at, chain, tx, clock",
        ),
        sa.Column(
            "since",
            sa.BigInteger(),
            nullable=True,
            comment="When it came to the last stage that has a time",
        ),
        sa.Column("completed_at", sa.BigInteger(), nullable=True, comment="When it was delivered"),
        sa.Column(
            "external_tx",
            sa.Text(),
            nullable=True,
            comment="EVM transaction: burn or send, or delivery",
        ),
        sa.Column("stellar_tx", sa.Text(), nullable=True, comment="Stellar transaction"),
        sa.Column(
            "movement",
            sa.Text(),
            nullable=True,
            comment="What carries it: an id of movements, or a payment",
        ),
        sa.Column(
            "extras",
            sa.ARRAY(sa.Text()),
            nullable=False,
            comment="Further movements, delivered too",
        ),
        sa.Column(
            "keys",
            sa.ARRAY(sa.Text()),
            nullable=False,
            comment="Burn keys and guids: a refold finds it by them",
        ),
        sa.Column(
            "amount_delivered",
            sa.Numeric(78, 0),
            nullable=True,
            comment="Destination chain base units, once delivered",
        ),
        sa.Column(
            "self_finish",
            sa.Text(),
            nullable=True,
            comment="CCTP nonce of a message anybody may deliver now",
        ),
        sa.Column(
            "refund",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment="Money at its deposit address; null if none",
        ),
        sa.Column(
            "goes_back",
            sa.ARRAY(sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment="Tokens at its deposit address of which all that is there has to go back now",
        ),
        sa.Column("source_chain", sa.Text(), nullable=False, comment="CAIP-2 id"),
        sa.Column(
            "source_height",
            sa.BigInteger(),
            nullable=True,
            comment="Block of its source transaction; null before",
        ),
        sa.Column(
            "inputs",
            sa.BigInteger(),
            nullable=False,
            comment="Rows of clients and relay that it was folded from",
        ),
        sa.Column(
            "changed_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=True,
            comment="When what its owner is shown last changed, database clock; null since it was created",
        ),
        sa.CheckConstraint(
            "(stage = 'COMPLETED') = (completed_at IS NOT NULL)",
            name=op.f("ck_transfer_states_completed_at"),
        ),
        sa.PrimaryKeyConstraint("transfer", name=op.f("pk_transfer_states")),
        schema="projections",
        comment="Where each transfer is, folded from intake, relay and facts",
    )
    op.create_index(
        "ix_transfer_states_completed",
        "transfer_states",
        ["completed_at"],
        unique=False,
        schema="projections",
        postgresql_where=sa.text("completed_at IS NOT NULL"),
    )
    op.create_index(
        "ix_transfer_states_confirming",
        "transfer_states",
        ["source_chain", "source_height"],
        unique=False,
        schema="projections",
        postgresql_where=sa.text("stage = 'CONFIRMING'"),
    )
    op.create_index(
        "ix_transfer_states_goes_back",
        "transfer_states",
        ["source_chain"],
        unique=False,
        schema="projections",
        postgresql_where=sa.text("goes_back <> '{}'"),
    )
    op.create_index(
        "ix_transfer_states_keys",
        "transfer_states",
        ["keys"],
        unique=False,
        schema="projections",
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
    )
    op.create_index(
        op.f("ix_transfer_states_stage"),
        "transfer_states",
        ["stage"],
        unique=False,
        schema="projections",
    )
    op.create_table(
        "failure_resets",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False, comment="Row id"),
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "subject",
            sa.Text(),
            nullable=True,
            comment="Transfer whose failures are reset; null for all of the chain",
        ),
        sa.Column(
            "given_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Failures up to then no longer count, database clock",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_failure_resets")),
        schema="relay",
        comment="Resets of failure counts by operators",
    )
    op.create_index(
        "ix_failure_resets_chain",
        "failure_resets",
        ["chain", "subject"],
        unique=False,
        schema="relay",
    )
    op.create_table(
        "halts",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False, comment="Row id"),
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "account", sa.Text(), nullable=False, comment="Account that opens no further slots"
        ),
        sa.Column("reason", sa.Text(), nullable=False, comment="The sentence an operator reads"),
        sa.Column(
            "halted_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.Column(
            "resumed_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When an operator resumed it, database clock; null while halted",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_halts")),
        schema="relay",
        comment="Accounts that halted because their transactions kept failing",
    )
    op.create_index(
        "uq_halts_open",
        "halts",
        ["chain", "account"],
        unique=True,
        schema="relay",
        postgresql_where=sa.text("resumed_at IS NULL"),
    )
    op.create_table(
        "health",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column("account", sa.Text(), nullable=False, comment="Account that sends"),
        sa.Column(
            "duty",
            sa.Text(),
            nullable=False,
            comment="deliver: what transfers need on its chain; sponsor: trustlines of owners; "
            "submit: what owners signed",
        ),
        sa.Column(
            "well", sa.Boolean(), nullable=False, comment="Whether it can send what comes next"
        ),
        sa.Column("reason", sa.Text(), nullable=True, comment="Why it cannot; null when well"),
        sa.Column(
            "problem",
            sa.Text(),
            nullable=True,
            comment="Kind of the reason: halted, unrecorded, balance, budget, node or draining",
        ),
        sa.Column(
            "balance",
            sa.Numeric(78, 0),
            nullable=True,
            comment="Native base units; null when no node answered",
        ),
        sa.Column(
            "spent_today",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Of the UTC day, what is open at its most, native base units",
        ),
        sa.Column(
            "budget",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Most that it may spend in a UTC day, native base units",
        ),
        sa.Column(
            "floor",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Balance below which there is an alert, native base units",
        ),
        sa.Column("open", sa.Integer(), nullable=False, comment="Slots that may still take effect"),
        sa.Column(
            "seen_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When this was written, database clock: an old row is of a relay that is off",
        ),
        sa.CheckConstraint("duty IN ('deliver', 'sponsor', 'submit')", name=op.f("ck_health_duty")),
        sa.CheckConstraint(
            "problem IN ('halted', 'unrecorded', 'balance', 'budget', 'node', 'draining') AND reason IS NOT NULL OR problem IS NULL AND reason IS NULL",
            name=op.f("ck_health_problem"),
        ),
        sa.CheckConstraint("well = (reason IS NULL)", name=op.f("ck_health_reason")),
        sa.PrimaryKeyConstraint("chain", "account", name=op.f("pk_health")),
        schema="relay",
        comment="How each account of the relay is, written each turn. The api reads this and no more",
    )
    op.create_table(
        "leases",
        sa.Column(
            "kind", sa.Integer(), nullable=False, comment="What may be done: a number of locks.py"
        ),
        sa.Column(
            "name",
            sa.Text(),
            nullable=False,
            comment="What it may be done to: a chain, an account; empty where there is one",
        ),
        sa.Column(
            "term",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Fencing token: one more each time that a process takes the lease",
        ),
        sa.Column(
            "host",
            sa.Text(),
            server_default=sa.text("''"),
            nullable=False,
            comment="Machine of the process, for people",
        ),
        sa.Column(
            "pid",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Its process id there, for people",
        ),
        sa.Column(
            "since",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When it was taken, database clock",
        ),
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When another process may take it, database clock; null while it is free",
        ),
        sa.Column(
            "session_pid",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Postgres process of the session whose transactions it protects",
        ),
        sa.Column(
            "session_started_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Start of that session: another process of Postgres may get its number",
        ),
        sa.PrimaryKeyConstraint("kind", "name", name=op.f("pk_leases")),
        sa.UniqueConstraint("kind", "name", "term", name=op.f("uq_leases_kind_name_term")),
        schema="relay",
        comment="Which process signs for an account, and which posts to webhooks",
    )
    op.create_table(
        "standbys",
        sa.Column(
            "kind", sa.Integer(), nullable=False, comment="What may be done: a number of locks.py"
        ),
        sa.Column(
            "name",
            sa.Text(),
            nullable=False,
            comment="What it may be done to: a chain, an account; empty where there is one",
        ),
        sa.Column(
            "host",
            sa.Text(),
            server_default=sa.text("''"),
            nullable=False,
            comment="Machine of the process, for people",
        ),
        sa.Column(
            "pid",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Its process id there, for people",
        ),
        sa.Column(
            "since",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Since when it waits, database clock",
        ),
        sa.Column(
            "seen_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Its last heartbeat, database clock",
        ),
        sa.PrimaryKeyConstraint("kind", "name", "host", "pid", name=op.f("pk_standbys")),
        schema="relay",
        comment="Which processes wait for these leases",
    )
    op.create_table(
        "obstacles",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False, comment="Row id"),
        sa.Column("transfer", sa.Text(), nullable=False, comment="Transfer that cannot go on"),
        sa.Column(
            "kind",
            sa.Text(),
            nullable=False,
            comment="no_trustline: the recipient can mend it; frozen: its asset's issuer alone; paused: the issuer or the bridge; would_fail: what the owner signed, not sent as long as it stands",
        ),
        sa.Column("detail", sa.Text(), nullable=False, comment="The sentence that its owner reads"),
        sa.Column(
            "since",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.Column(
            "cleared_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When it was gone, database clock; null while it stands",
        ),
        sa.CheckConstraint(
            "kind IN ('no_trustline', 'frozen', 'paused', 'would_fail')",
            name=op.f("ck_obstacles_kind"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_obstacles")),
        schema="relay",
        comment="Why transfers cannot go on, as the relay found when it looked",
    )
    op.create_index(
        op.f("ix_obstacles_transfer"), "obstacles", ["transfer"], unique=False, schema="relay"
    )
    op.create_index(
        "uq_obstacles_standing",
        "obstacles",
        ["transfer"],
        unique=True,
        schema="relay",
        postgresql_where=sa.text("cleared_at IS NULL"),
    )
    op.create_table(
        "refund_orders",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False, comment="Row id"),
        sa.Column(
            "transfer", sa.Text(), nullable=False, comment="Transfer whose deposit address it is"
        ),
        sa.Column(
            "token",
            sa.Text(),
            nullable=False,
            comment="Contract of what is to go back; native for the chain's own coin",
        ),
        sa.Column(
            "ordered_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_refund_orders")),
        schema="relay",
        comment="What operators ordered back from deposit addresses",
    )
    op.create_index(
        op.f("ix_refund_orders_transfer"),
        "refund_orders",
        ["transfer"],
        unique=False,
        schema="relay",
    )
    op.create_table(
        "slots",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "account",
            sa.Text(),
            nullable=False,
            comment="Account whose number it is; of what an owner signed, the hash of that",
        ),
        sa.Column(
            "number",
            sa.BigInteger(),
            nullable=False,
            comment="Nonce on EVM chains, sequence number on Stellar",
        ),
        sa.Column(
            "purpose",
            sa.Text(),
            nullable=False,
            comment="What it is for: deliver, sweep, refund, submit, onboard",
        ),
        sa.Column(
            "key",
            sa.Text(),
            nullable=False,
            comment="What is to happen once, among those of its chain and purpose",
        ),
        sa.Column("subject", sa.Text(), nullable=False, comment="Transfer that it serves"),
        sa.Column(
            "opened_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="With its first signed transaction, database clock",
        ),
        sa.Column(
            "outcome",
            sa.Text(),
            nullable=True,
            comment="confirmed; reverted (included without effect); already_done (the same: another sender had done it); replaced (an empty transaction used the number); nonce_taken (a transaction that is not ours used it); expired (past its bounds, in no ledger). Each at finality; null while an attempt may still take effect",
        ),
        sa.Column(
            "spent",
            sa.Numeric(78, 0),
            nullable=True,
            comment="What it cost, native base units; null while open",
        ),
        sa.Column(
            "closed_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When the outcome was final, database clock; null while open",
        ),
        sa.CheckConstraint(
            "outcome IN ('confirmed', 'reverted', 'already_done', 'replaced', 'nonce_taken', 'expired')",
            name=op.f("ck_slots_outcome"),
        ),
        sa.CheckConstraint(
            "(outcome IS NULL) = (spent IS NULL) AND (outcome IS NULL) = (closed_at IS NULL)",
            name=op.f("ck_slots_closed_whole"),
        ),
        sa.CheckConstraint("number >= 0", name=op.f("ck_slots_number")),
        sa.PrimaryKeyConstraint("chain", "account", "number", name=op.f("pk_slots")),
        schema="relay",
        comment="Numbers of accounts of ours, each given to one purpose",
    )
    op.create_index(
        "ix_slots_closed", "slots", ["chain", "account", "closed_at"], unique=False, schema="relay"
    )
    op.create_index(
        "ix_slots_failed",
        "slots",
        ["chain", "purpose", "key"],
        unique=False,
        schema="relay",
        postgresql_where=sa.text("outcome IN ('reverted', 'already_done')"),
    )
    op.create_index(
        "ix_slots_open",
        "slots",
        ["chain", "account"],
        unique=False,
        schema="relay",
        postgresql_where=sa.text("outcome IS NULL"),
    )
    op.create_index(
        "ix_slots_opened", "slots", ["chain", "opened_at"], unique=False, schema="relay"
    )
    op.create_index(op.f("ix_slots_subject"), "slots", ["subject"], unique=False, schema="relay")
    op.create_index(
        "uq_slots_once",
        "slots",
        ["chain", "purpose", "key"],
        unique=True,
        schema="relay",
        postgresql_where=sa.text("outcome IS NULL OR outcome = 'confirmed'"),
    )
    op.create_table(
        "sponsors",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column("account", sa.Text(), nullable=False, comment="Account that sponsors"),
        sa.Column(
            "next_number",
            sa.BigInteger(),
            nullable=False,
            comment="Sequence number of its next transaction",
        ),
        sa.Column(
            "min_deposit",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Least deposit that it sponsors for, 10^-7 of the asset",
        ),
        sa.Column(
            "payer_budget",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Stroops a UTC day for all deposits of one paying address",
        ),
        sa.Column(
            "budget_left",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Stroops of its UTC day's budget that are left",
        ),
        sa.Column(
            "written_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.PrimaryKeyConstraint("chain", "account", name=op.f("pk_sponsors")),
        schema="relay",
        comment="What each sponsor would do next; the api makes onboarding transactions by it",
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("webhook", sa.Text(), nullable=False, comment="Id of a webhook"),
        sa.Column(
            "number",
            sa.BigInteger(),
            nullable=False,
            comment="Of the owner's event: projections.transfer_events",
        ),
        sa.Column("attempts", sa.Integer(), nullable=False, comment="How often it was posted"),
        sa.Column(
            "first_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="First attempt, database clock",
        ),
        sa.Column(
            "last_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Last attempt, database clock",
        ),
        sa.Column(
            "answer",
            sa.Integer(),
            nullable=True,
            comment="HTTP status of the last one; null when there was none",
        ),
        sa.Column(
            "error",
            sa.Text(),
            nullable=True,
            comment="Why there was none, such as TimeoutError or NotPublic",
        ),
        sa.Column(
            "outcome",
            sa.Text(),
            nullable=True,
            comment="delivered or given_up; null while it is tried",
        ),
        sa.CheckConstraint(
            "outcome IN ('delivered', 'given_up')", name=op.f("ck_webhook_deliveries_outcome")
        ),
        sa.CheckConstraint(
            "(answer IS NULL) <> (error IS NULL)", name=op.f("ck_webhook_deliveries_answer")
        ),
        sa.CheckConstraint("attempts > 0", name=op.f("ck_webhook_deliveries_attempts")),
        sa.PrimaryKeyConstraint("webhook", "number", name=op.f("pk_webhook_deliveries")),
        schema="relay",
        comment="What was posted to webhooks, and what came of it; forgotten with its event",
    )
    op.create_table(
        "webhook_senders",
        sa.Column(
            "public_key",
            sa.Text(),
            nullable=False,
            comment="Whose signatures webhooks carry, whpk_…",
        ),
        sa.Column(
            "seen_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When it was at work last, database clock",
        ),
        sa.PrimaryKeyConstraint("public_key", name=op.f("pk_webhook_senders")),
        schema="relay",
        comment="Keys that have signed for webhooks: the one that was seen last does",
    )
    op.create_table(
        "webhook_states",
        sa.Column("webhook", sa.Text(), nullable=False, comment="Id of a webhook"),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=False,
            comment="Events of the owner up to this number were delivered or given up",
        ),
        sa.Column(
            "failures",
            sa.Integer(),
            nullable=False,
            comment="Attempts in a row that were not taken",
        ),
        sa.Column(
            "given_up", sa.Integer(), nullable=False, comment="Events in a row that were given up"
        ),
        sa.Column(
            "next_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="No attempt before it; null after one that was taken",
        ),
        sa.Column(
            "stopped",
            sa.Text(),
            nullable=True,
            comment="Why nothing is sent there any more: gone (410), unreachable (events in a row were given up); null while something is",
        ),
        sa.Column(
            "is_prompt",
            sa.Boolean(),
            nullable=False,
            comment="Whether the last attempt was taken within 3 s: other places wait among themselves",
        ),
        sa.Column(
            "written_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock, of the last attempt",
        ),
        sa.CheckConstraint(
            "stopped IN ('gone', 'unreachable')", name=op.f("ck_webhook_states_stopped")
        ),
        sa.CheckConstraint(
            "position >= 0 AND failures >= 0 AND given_up >= 0",
            name=op.f("ck_webhook_states_counts"),
        ),
        sa.PrimaryKeyConstraint("webhook", name=op.f("pk_webhook_states")),
        schema="relay",
        comment="How far each webhook is that anything was sent to",
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
        comment="Transfers as requested",
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
        comment="Webhooks that their owners removed: nothing is sent there any more",
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
        "attempts",
        sa.Column(
            "id", sa.Integer(), sa.Identity(always=True), nullable=False, comment="Order of signing"
        ),
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column("account", sa.Text(), nullable=False, comment="Account whose number it has"),
        sa.Column(
            "number",
            sa.BigInteger(),
            nullable=False,
            comment="Nonce on EVM chains, sequence number on Stellar",
        ),
        sa.Column(
            "purpose",
            sa.Text(),
            nullable=False,
            comment="Of its slot; fill for one that only takes the number",
        ),
        sa.Column("subject", sa.Text(), nullable=False, comment="Transfer that it serves"),
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
            "most_cost",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Most that it can cost, native base units",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.Column(
            "sendings",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="How often it was sent",
        ),
        sa.Column(
            "sent_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When it was sent last, database clock; null if never",
        ),
        sa.Column("answer", sa.Text(), nullable=True, comment="Response of the node"),
        sa.CheckConstraint("(sendings = 0) = (sent_at IS NULL)", name=op.f("ck_attempts_sent")),
        sa.ForeignKeyConstraint(
            ["chain", "account", "number"],
            ["relay.slots.chain", "relay.slots.account", "relay.slots.number"],
            name=op.f("fk_attempts_chain_account_number"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("tx_hash", name=op.f("uq_attempts_tx_hash")),
        schema="relay",
        comment="Signed transactions of the service. A row exists before its transaction is sent",
    )
    op.create_index(
        "ix_attempts_slot", "attempts", ["chain", "account", "number"], unique=False, schema="relay"
    )
    op.create_index(
        op.f("ix_attempts_subject"), "attempts", ["subject"], unique=False, schema="relay"
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
            "sponsor", sa.Text(), nullable=False, comment="Account that is the transaction's source"
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
    # The kinds of locks.py that are rows, with BUCKETS of row_locks.py rows each.
    op.execute(
        "INSERT INTO locks.rows (kind, number)"
        " SELECT kind, number FROM unnest(ARRAY[7041, 7048, 7051, 7052]) AS kind,"
        " generate_series(0, 1023) AS number"
    )
