"""Projections."""

# ruff: noqa: E501 - comments are data, and Alembic wrote them in one piece.

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Run with the time-outs of `env.py`, beside the code of the revision before."""
    op.execute("CREATE SCHEMA projections")
    op.execute(
        "COMMENT ON SCHEMA projections IS 'What the facts mean. Rebuildable; written by the indexer alone.'"
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
        sa.PrimaryKeyConstraint("figure", "day", name=op.f("pk_days_done")),
        schema="projections",
        comment="Which days were computed, and from which state of the facts. A day whose facts have changed since, or that has no row, is due",
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
            comment="Asked for by them, USDC 7 decimals",
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
            comment="Of the fulfilled, those that released less than was asked for",
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
        "offers",
        sa.Column("provider", sa.Text(), nullable=False, comment="Liquidity provider"),
        sa.Column("direction", sa.Text(), nullable=False, comment="onramp or offramp"),
        sa.Column("currency", sa.Text(), nullable=False, comment="ISO 4217 code"),
        sa.Column(
            "rails",
            sa.ARRAY(sa.Text()),
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
        sa.Column("amount", sa.Numeric(78, 0), nullable=False, comment="USDC asked for"),
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
            "paused", sa.Boolean(), nullable=False, comment="Takes no new orders by its own wish"
        ),
        sa.Column("free", sa.Numeric(78, 0), nullable=False, comment="Free escrow on chain"),
        sa.Column(
            "locked",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Locked escrow on chain, expired orders that nobody pruned included",
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
        sa.Column("currencies", sa.ARRAY(sa.Text()), nullable=False, comment="ISO 4217 codes"),
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
            comment="Told by a rebuild: a client may stand at this ledger with another book",
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
        "transfer_progress",
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
        sa.CheckConstraint(
            "mechanism IN ('cctp', 'oft')", name=op.f("ck_transfer_progress_mechanism")
        ),
        sa.CheckConstraint(
            "stage <> 'COMPLETED' OR dest_tx IS NOT NULL",
            name=op.f("ck_transfer_progress_completed_is_delivered"),
        ),
        sa.CheckConstraint(
            "stage IN ('ATTESTING', 'IN_FLIGHT', 'DELIVERING', 'ON_HOLD', 'COMPLETED')",
            name=op.f("ck_transfer_progress_stage"),
        ),
        sa.CheckConstraint(
            "source_tx IS NOT NULL OR dest_tx IS NOT NULL",
            name=op.f("ck_transfer_progress_seen_somewhere"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_transfer_progress")),
        schema="projections",
        comment="CCTP and OFT movements between chains, folded from both chains' facts",
    )
    op.create_index(
        "ix_transfer_progress_delivered_day",
        "transfer_progress",
        [sa.literal_column("('1970-01-01'::date + (delivered_at / 86400)::integer)")],
        unique=False,
        schema="projections",
    )
    op.create_index(
        op.f("ix_transfer_progress_group_key"),
        "transfer_progress",
        ["group_key"],
        unique=False,
        schema="projections",
    )
    op.create_index(
        "ix_transfer_progress_sent_day",
        "transfer_progress",
        [sa.literal_column("('1970-01-01'::date + (sent_at / 86400)::integer)")],
        unique=False,
        schema="projections",
    )
    op.create_index(
        "ix_transfer_progress_waiting",
        "transfer_progress",
        ["mechanism"],
        unique=False,
        schema="projections",
        postgresql_where=sa.text("dest_tx IS NULL"),
    )
    op.create_table(
        "transfer_stages",
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
            comment="What carries it: an id of transfer_progress, or a payment",
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
            name=op.f("ck_transfer_stages_completed_at"),
        ),
        sa.PrimaryKeyConstraint("transfer", name=op.f("pk_transfer_stages")),
        schema="projections",
        comment="Where each transfer is, folded from intake, relay and facts",
    )
    op.create_index(
        "ix_transfer_stages_confirming",
        "transfer_stages",
        ["source_chain", "source_height"],
        unique=False,
        schema="projections",
        postgresql_where=sa.text("stage = 'CONFIRMING'"),
    )
    op.create_index(
        "ix_transfer_stages_goes_back",
        "transfer_stages",
        ["source_chain"],
        unique=False,
        schema="projections",
        postgresql_where=sa.text("goes_back <> '{}'"),
    )
    op.create_index(
        "ix_transfer_stages_keys",
        "transfer_stages",
        ["keys"],
        unique=False,
        schema="projections",
        postgresql_using="gin",
    )
    op.create_index(
        op.f("ix_transfer_stages_stage"),
        "transfer_stages",
        ["stage"],
        unique=False,
        schema="projections",
    )
