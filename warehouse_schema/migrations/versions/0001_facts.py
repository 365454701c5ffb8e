"""Facts."""

# ruff: noqa: E501 - comments are data, and Alembic wrote them in one piece.

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Run with the time-outs of `env.py`, beside the code of the revision before."""
    op.execute("CREATE SCHEMA facts")
    op.execute(
        "COMMENT ON SCHEMA facts IS 'What the chains said. Append-only; written by the indexer alone.'"
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
            "chain", "block_hash", "position", name=op.f("pk_asset_authorizations")
        ),
        schema="facts",
        comment="set_authorized events of Stellar assets",
    )
    op.create_index(
        "ix_asset_authorizations_chain_height",
        "asset_authorizations",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_asset_movements")),
        schema="facts",
        comment="Stellar unified asset events (CAP-67) whose emitter is the asset's own contract",
    )
    op.create_index(
        "ix_asset_movements_chain_height",
        "asset_movements",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.Column("first", sa.BigInteger(), nullable=False, comment="First height of the range"),
        sa.Column("last", sa.BigInteger(), nullable=False, comment="Last height of the range"),
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
        sa.PrimaryKeyConstraint("chain", "first", "last", name=op.f("pk_backfills")),
        schema="facts",
        comment="Backfills under way, and how far each is. A row goes when its backfill is finished",
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
        sa.Column(
            "source_tx", sa.Text(), nullable=False, comment="Transaction that was asked about"
        ),
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
        comment="Attested CCTP messages. A message attested anew is a further row; the newest holds",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_cctp_burns")),
        schema="facts",
        comment="CCTP V2 burns (DepositForBurn). Amounts have 6 decimals on every chain",
    )
    op.create_index(
        "ix_cctp_burns_chain_height",
        "cctp_burns",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_cctp_forwards")),
        schema="facts",
        comment="Payments of the Stellar CctpForwarder to recipients (mint_and_forward)",
    )
    op.create_index(
        "ix_cctp_forwards_chain_height",
        "cctp_forwards",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
            "chain", "block_hash", "position", name=op.f("pk_cctp_messages_received")
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
        "ix_cctp_messages_received_chain_height",
        "cctp_messages_received",
        ["chain", "height"],
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
        sa.PrimaryKeyConstraint(
            "chain", "block_hash", "position", name=op.f("pk_cctp_messages_sent")
        ),
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
    op.create_index(
        "ix_cctp_messages_sent_chain_height",
        "cctp_messages_sent",
        ["chain", "height"],
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_cctp_mints")),
        schema="facts",
        comment="CCTP V2 mints (MintAndWithdraw). Amounts have 6 decimals on every chain",
    )
    op.create_index(
        "ix_cctp_mints_chain_height",
        "cctp_mints",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        comment="Days whose facts changed behind a chain's cursor: by a reorg, a backfill, a revision. What was computed or exported of a day counts by this number; without a row it is 0",
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
        sa.Column("refund_to", sa.Text(), nullable=False, comment="Whom it went to"),
        sa.Column("amount", sa.Numeric(78, 0), nullable=False, comment="Token base units"),
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_deposit_refunds")),
        schema="facts",
        comment="What deposit addresses gave back of known tokens (Refunded of our deposit factory)",
    )
    op.create_index(
        "ix_deposit_refunds_chain_height",
        "deposit_refunds",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_erc20_transfers")),
        schema="facts",
        comment="ERC-20 transfers of known tokens to watched addresses",
    )
    op.create_index(
        "ix_erc20_transfers_chain_height",
        "erc20_transfers",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint(
            "chain", "block_hash", "position", name=op.f("pk_escrow_config_sets")
        ),
        schema="facts",
        comment="Escrow configuration (config_set)",
    )
    op.create_index(
        "ix_escrow_config_sets_chain_height",
        "escrow_config_sets",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_escrow_deposits")),
        schema="facts",
        comment="Provider deposits into escrow (deposit)",
    )
    op.create_index(
        "ix_escrow_deposits_chain_height",
        "escrow_deposits",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint(
            "chain", "block_hash", "position", name=op.f("pk_escrow_paused_sets")
        ),
        schema="facts",
        comment="Escrow pauses (paused_set)",
    )
    op.create_index(
        "ix_escrow_paused_sets_chain_height",
        "escrow_paused_sets",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_escrow_upgrades")),
        schema="facts",
        comment="Escrow code changes (upgraded)",
    )
    op.create_index(
        "ix_escrow_upgrades_chain_height",
        "escrow_upgrades",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint(
            "chain", "block_hash", "position", name=op.f("pk_escrow_withdrawals")
        ),
        schema="facts",
        comment="Provider withdrawals from escrow (withdraw)",
    )
    op.create_index(
        "ix_escrow_withdrawals_chain_height",
        "escrow_withdrawals",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_evm_logs")),
        schema="facts",
        comment="Raw EVM logs of the contracts and addresses we watch",
    )
    op.create_index(
        "ix_evm_logs_chain_height", "evm_logs", ["chain", "height"], unique=False, schema="facts"
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
        comment="Source transactions of transfers that a chain took back: they are expected again, and nobody is asked to pay twice meanwhile",
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
            "chain", "block_hash", "position", name=op.f("pk_lz_packets_delivered")
        ),
        schema="facts",
        comment="LayerZero packets that a destination endpoint delivered (PacketDelivered)",
    )
    op.create_index(
        "ix_lz_packets_delivered_chain_height",
        "lz_packets_delivered",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_lz_packets_sent")),
        schema="facts",
        comment="LayerZero packets of our OFTs at their source (PacketSent)",
    )
    op.create_index(
        "ix_lz_packets_sent_chain_height",
        "lz_packets_sent",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint(
            "chain", "block_hash", "position", name=op.f("pk_lz_packets_verified")
        ),
        schema="facts",
        comment="LayerZero packets that a destination endpoint verified (PacketVerified)",
    )
    op.create_index(
        "ix_lz_packets_verified_chain_height",
        "lz_packets_verified",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint(
            "chain", "block_hash", "position", name=op.f("pk_lz_receive_alerts")
        ),
        schema="facts",
        comment="Reports that executing a packet failed (LzReceiveAlert). Hints: anyone can emit one",
    )
    op.create_index(
        "ix_lz_receive_alerts_chain_height",
        "lz_receive_alerts",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.Column("attempts", sa.Integer(), nullable=False, comment="Times asked since"),
        sa.Column(
            "due_at",
            sa.BigInteger(),
            nullable=False,
            comment="Not to be asked again before, unix seconds",
        ),
        sa.CheckConstraint("service IN ('iris', 'lz_scan')", name=op.f("ck_message_polls_service")),
        sa.PrimaryKeyConstraint("service", "chain", "subject", name=op.f("pk_message_polls")),
        schema="facts",
        comment="When services are asked again about messages. A message without a row is due at once",
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
        sa.Column(
            "detail",
            sa.Text(),
            nullable=True,
            comment="What it says beside that; null when nothing",
        ),
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_oft_received")),
        schema="facts",
        comment="OFT credits (OFTReceived, oft_received). Amounts in the emitting chain's local decimals",
    )
    op.create_index(
        "ix_oft_received_chain_height",
        "oft_received",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_oft_sent")),
        schema="facts",
        comment="OFT sends (OFTSent, oft_sent). Amounts in the emitting chain's local decimals",
    )
    op.create_index(
        "ix_oft_sent_chain_height", "oft_sent", ["chain", "height"], unique=False, schema="facts"
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
        sa.PrimaryKeyConstraint(
            "chain", "block_hash", "position", name=op.f("pk_orders_cancelled")
        ),
        schema="facts",
        comment="Orders cancelled (order_cancel)",
    )
    op.create_index(
        "ix_orders_cancelled_chain_height",
        "orders_cancelled",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_orders_expired")),
        schema="facts",
        comment="Expired orders that the chain caught up with (order_expire)",
    )
    op.create_index(
        "ix_orders_expired_chain_height",
        "orders_expired",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint(
            "chain", "block_hash", "position", name=op.f("pk_orders_fulfilled")
        ),
        schema="facts",
        comment="Orders settled (order_fulfill)",
    )
    op.create_index(
        "ix_orders_fulfilled_chain_height",
        "orders_fulfilled",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_orders_opened")),
        schema="facts",
        comment="Orders opened (order_open), with the terms they were opened at",
    )
    op.create_index(
        "ix_orders_opened_chain_height",
        "orders_opened",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_payees_set")),
        schema="facts",
        comment="Providers' fiat payees (payee_set)",
    )
    op.create_index(
        "ix_payees_set_chain_height",
        "payees_set",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_providers_set")),
        schema="facts",
        comment="Providers pausing and resuming (provider_set)",
    )
    op.create_index(
        "ix_providers_set_chain_height",
        "providers_set",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
            comment="Decoders that tried last, as `python -m indexer quarantine` names them",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_rails_set")),
        schema="facts",
        comment="Rails as the administrator set them (rail_set)",
    )
    op.create_index(
        "ix_rails_set_chain_height", "rails_set", ["chain", "height"], unique=False, schema="facts"
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_stellar_events")),
        schema="facts",
        comment="Raw Stellar contract events of the contracts and accounts we watch",
    )
    op.create_index(
        "ix_stellar_events_chain_height",
        "stellar_events",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_terms_deleted")),
        schema="facts",
        comment="Terms taken back (terms_del)",
    )
    op.create_index(
        "ix_terms_deleted_chain_height",
        "terms_deleted",
        ["chain", "height"],
        unique=False,
        schema="facts",
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
        sa.PrimaryKeyConstraint("chain", "block_hash", "position", name=op.f("pk_terms_set")),
        schema="facts",
        comment="Providers' terms (terms_set); each is a full replacement",
    )
    op.create_index(
        "ix_terms_set_chain_height", "terms_set", ["chain", "height"], unique=False, schema="facts"
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
