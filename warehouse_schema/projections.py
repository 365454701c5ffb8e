"""`projections`: what the facts mean. Every row can be rebuilt from `facts` and comes out the same.

The order book's amounts are 7-decimal integers; its clock is the close time of the last ingested
ledger. Times are unix seconds.
"""

from sqlalchemy import (
    CheckConstraint,
    Column,
    Identity,
    Index,
    PrimaryKeyConstraint,
    Table,
    func,
)
from sqlalchemy import (
    text as sql,
)

from warehouse_schema.columns import (
    amount,
    chain,
    day_of,
    flag,
    height,
    json,
    moment,
    number,
    recorded,
    seconds,
    text,
    words,
)
from warehouse_schema.metadata import PROJECTIONS, metadata

movements = Table(
    "movements",
    metadata,
    text("id", "cctp:<burn key>:<ordinal>, or oft:<guid>", primary_key=True),
    text("mechanism", "cctp or oft"),
    text("group_key", "Burn key or guid: what both sides share and a refold reads by", index=True),
    text("stage", "ATTESTING, IN_FLIGHT, DELIVERING, ON_HOLD or COMPLETED"),
    text("stage_reason", "Why it waits or is held; null when it does neither", nullable=True),
    text("source_chain", "CAIP-2 id; null while only the destination was seen", nullable=True),
    text("source_tx", "Burn or send transaction", nullable=True),
    text("source_address", "Depositor or sender as the chain names it", nullable=True),
    amount("amount_in", "Source chain base units", nullable=True),
    text("dest_chain", "CAIP-2 id; null when the destination is no chain of ours", nullable=True),
    text("dest_tx", "Mint or delivery transaction", nullable=True),
    text("dest_address", "Recipient; 32 bytes hex while its form is open", nullable=True),
    amount("amount_out", "Destination chain base units, once delivered", nullable=True),
    amount("fee", "Taken on the way, source chain base units; null if not known", nullable=True),
    text("message_id", "CCTP nonce, once known; OFT guid", nullable=True),
    seconds("sent_at", "Time of the source block", nullable=True),
    seconds("delivered_at", "Time of the destination block", nullable=True),
    CheckConstraint("mechanism IN ('cctp', 'oft')", name="mechanism"),
    CheckConstraint(
        "stage IN ('ATTESTING', 'IN_FLIGHT', 'DELIVERING', 'ON_HOLD', 'COMPLETED')", name="stage"
    ),
    CheckConstraint("source_tx IS NOT NULL OR dest_tx IS NOT NULL", name="seen_somewhere"),
    CheckConstraint("stage <> 'COMPLETED' OR dest_tx IS NOT NULL", name="completed_is_delivered"),
    # The keeper and the relay ask for what is under way, again and again. OFT sends to chains that
    # are not ours stay under way for ever.
    Index(
        "ix_movements_waiting",
        "mechanism",
        postgresql_where=sql("dest_tx IS NULL AND dest_chain IS NOT NULL"),
    ),
    # The views and the daily figures ask by day.
    Index("ix_movements_sent_day", day_of("sent_at")),
    # A backfill writes thousands that are not delivered.
    Index(
        "ix_movements_delivered_day",
        day_of("delivered_at"),
        postgresql_where=sql("delivered_at IS NOT NULL"),
    ),
    schema=PROJECTIONS,
    comment="CCTP and OFT movements between chains, folded from both chains' facts",
)

transfer_states = Table(
    "transfer_states",
    metadata,
    text("transfer", "Transfer id", primary_key=True),
    text("stage", "AWAITING_FUNDS … COMPLETED: docs/transfers.md", index=True),
    text("reason", "Why it waits, or what it came to; null when neither", nullable=True),
    text("detail", "What a service or an operator says of it", nullable=True),
    json("timeline", "Stages that it came to: stage, at, chain, tx, clock"),
    seconds("since", "When it came to the last stage that has a time", nullable=True),
    seconds("completed_at", "When it was delivered", nullable=True),
    text("external_tx", "EVM transaction: burn or send, or delivery", nullable=True),
    text("stellar_tx", "Stellar transaction", nullable=True),
    text("movement", "What carries it: an id of movements, or a payment", nullable=True),
    words("extras", "Further movements, delivered too"),
    words("keys", "Burn keys and guids: a refold finds it by them"),
    amount("amount_delivered", "Destination chain base units, once delivered", nullable=True),
    text("self_finish", "CCTP nonce of a message anybody may deliver now", nullable=True),
    json("refund", "Money at its deposit address; null if none", nullable=True),
    words(
        "goes_back",
        "Tokens at its deposit address of which all that is there has to go back now",
        server_default=sql("'{}'"),
    ),
    text("source_chain", "CAIP-2 id"),
    height("source_height", "Block of its source transaction; null before", nullable=True),
    number("inputs", "Rows of clients and relay that it was folded from"),
    moment(
        "changed_at",
        "When what its owner is shown last changed, database clock; null since it was created",
        nullable=True,
        server_default=func.clock_timestamp(),
    ),
    # What becomes final moves these on.
    Index(
        "ix_transfer_states_confirming",
        "source_chain",
        "source_height",
        postgresql_where=sql("stage = 'CONFIRMING'"),
    ),
    # Without a list of pending entries, which each look-up would read: 0.15 ms in place of 0.8.
    Index(
        "ix_transfer_states_keys",
        "keys",
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
    ),
    # The status page asks for the day's.
    Index(
        "ix_transfer_states_completed",
        "completed_at",
        postgresql_where=sql("completed_at IS NOT NULL"),
    ),
    Index(
        "ix_transfer_states_goes_back",
        "source_chain",
        postgresql_where=sql("goes_back <> '{}'"),
    ),
    CheckConstraint("(stage = 'COMPLETED') = (completed_at IS NOT NULL)", name="completed_at"),
    schema=PROJECTIONS,
    comment="Where each transfer is, folded from intake, relay and facts",
)

transfer_events = Table(
    "transfer_events",
    metadata,
    text("owner", "Whose transfer it is"),
    number("number", "Of the owner's, from 1, in the order in which they committed"),
    text("transfer", "Transfer id"),
    text("stage", "Which it has now"),
    text("status", "SEP-24's word for that"),
    text("reason", "Why it waits, or what it came to; null when neither", nullable=True),
    recorded("told_at"),
    PrimaryKeyConstraint("owner", "number"),
    schema=PROJECTIONS,
    comment="Outbox of owners' streams and webhooks, written with what changed of a transfer",
)

reconciliation = Table(
    "reconciliation",
    metadata,
    recorded("at", "As of when, database clock", primary_key=True),
    json("flows", "What went between chains; amounts as digits"),
    json("stages", "Transfers that are not over, by stage"),
    json("findings", "What does not add up: check, detail"),
    schema=PROJECTIONS,
    comment="Whether the money adds up, as it was looked at last: one row",
)

book = Table(
    "book",
    metadata,
    chain(primary_key=True),
    height("as_of_ledger", "Last ledger folded"),
    seconds("as_of", "Its close time; the order book's clock"),
    text("token", "USDC contract; null before config_set", nullable=True),
    text("rail_terms", "RailTerms contract; null before config_set", nullable=True),
    text("fee_to", "Fee recipient; null before config_set", nullable=True),
    number("order_ttl", "Seconds from opening to expiry; null before config_set", nullable=True),
    number("bond_bps", "Offramp bond; null before config_set", nullable=True),
    number("max_open", "Most open orders a provider may have", nullable=True),
    flag("opens_paused", "Opening orders is paused"),
    flag("all_paused", "The escrow is paused"),
    amount("total_available", "Available over distinct providers with a listed offer"),
    amount("total_locked", "Locked over all providers"),
    number("offer_count", "Offers listed"),
    schema=PROJECTIONS,
    comment="The order book's clock, configuration and totals; one row a chain",
)

rails = Table(
    "rails",
    metadata,
    text("rail", "Payment rail", primary_key=True),
    flag("enabled", "Whether orders may open on it"),
    number("tier", "Trust tier: 0 manual, 1 one attestor, 2 enclave or witnesses, 3 proof"),
    number("fee_bps", "Protocol fee, basis points"),
    text("verifier", "Who may claim by proof"),
    words("currencies", "ISO 4217 codes", as_tuple=True),
    schema=PROJECTIONS,
    comment="Rails as last set",
)

terms = Table(
    "terms",
    metadata,
    text("provider", "Liquidity provider"),
    text("direction", "onramp or offramp"),
    text("rail", "Payment rail", index=True),
    text("currency", "ISO 4217 code"),
    amount("rate", "Fiat per 1 USDC, 7 decimals"),
    amount("min", "Smallest order, USDC"),
    amount("max", "Largest order, USDC, as the provider set it"),
    PrimaryKeyConstraint("provider", "direction", "rail", "currency"),
    schema=PROJECTIONS,
    comment="Terms that stand: set and not deleted",
)

payees = Table(
    "payees",
    metadata,
    text("provider", "Liquidity provider"),
    text("rail", "Payment rail"),
    text("payee_hash", "Hash of the payee"),
    text("handle", "Handle, only where it is published and its hash matches", nullable=True),
    PrimaryKeyConstraint("provider", "rail"),
    schema=PROJECTIONS,
    comment="Registered fiat payees",
)

providers = Table(
    "providers",
    metadata,
    text("provider", "Liquidity provider's Stellar address", primary_key=True),
    flag("paused", "Paused by the provider: takes no new orders"),
    amount("free", "Free escrow on chain"),
    amount("locked", "Locked escrow on chain, expired orders that were not pruned included"),
    amount("reclaimable", "Part of locked that belongs to clock-expired orders"),
    number("pseq", "Last Escrow event number"),
    number("tseq", "Last RailTerms event number"),
    number("active_orders", "Orders active by the ledger clock"),
    number("completed_orders", "Orders fulfilled, all time"),
    number("fulfillment_seconds", "Sum of seconds from opening to fulfilment"),
    seconds("last_active_at", "Last own act or settlement; null if none", nullable=True),
    text("stale", "Why its figures cannot be trusted (a gap); null when they can", nullable=True),
    schema=PROJECTIONS,
    comment="Liquidity providers: balances, counters and statistics",
)

orders = Table(
    "orders",
    metadata,
    text("order_id", "Order id, 0x and 64 hex", primary_key=True),
    text("provider", "Liquidity provider"),
    text("taker", "Taker"),
    text("direction", "onramp or offramp"),
    text("rail", "Payment rail"),
    text("currency", "ISO 4217 code"),
    amount("amount", "USDC requested"),
    amount("rate", "Fiat per 1 USDC at opening"),
    amount("fiat_amount", "Fiat"),
    amount("lp_lock", "Locked of the provider's escrow"),
    amount("taker_lock", "Locked of the taker's USDC"),
    text("payee_hash", "Fiat payee at opening"),
    number("tier", "Trust tier at opening"),
    number("fee_bps", "Protocol fee at opening"),
    seconds("created_at", "Close time of the opening ledger"),
    seconds("expires_at", "Active up to and including this time"),
    text("status", "By the ledger clock: active, fulfilled, cancelled or expired"),
    text("chain_status", "By events alone: open, fulfilled, cancelled or expired"),
    text("open_tx", "Transaction that opened it"),
    text("end_tx", "Transaction of its terminal event", nullable=True),
    seconds("ended_at", "Close time of its terminal event", nullable=True),
    text("claim", "proof or manual, once fulfilled", nullable=True),
    text("nullifier", "Payment nullifier, once settled on a proof", nullable=True),
    amount("released", "Released, once fulfilled", nullable=True),
    amount("fee", "Protocol fee, once fulfilled", nullable=True),
    amount("net", "Paid out, once fulfilled", nullable=True),
    text("recipient", "Who was paid, once fulfilled", nullable=True),
    amount("fiat_paid", "Fiat the claim proves", nullable=True),
    seconds("paid_at", "When the claim says it was paid", nullable=True),
    CheckConstraint("status IN ('active','fulfilled','cancelled','expired')", name="status"),
    CheckConstraint(
        "chain_status IN ('open','fulfilled','cancelled','expired')", name="chain_status"
    ),
    # What settles an order is an event in a transaction; the clock alone never does.
    CheckConstraint("(chain_status = 'open') = (end_tx IS NULL)", name="ended_by_a_transaction"),
    # Not the other way round: a fulfilment after the expiry finds its order expired, for good.
    CheckConstraint(
        "status <> 'fulfilled' OR chain_status = 'fulfilled'", name="fulfilled_on_chain"
    ),
    CheckConstraint(
        "nullifier IS NULL OR chain_status = 'fulfilled'", name="nullifier_when_settled"
    ),
    Index(
        "ix_orders_unexpired",
        "expires_at",
        postgresql_where=sql("status = 'active'"),
    ),
    # Lists show the newest, of everybody or of one provider.
    Index("ix_orders_newest", sql("created_at DESC"), "order_id"),
    Index("ix_orders_provider", "provider", sql("created_at DESC"), "order_id"),
    Index("ix_orders_open", "provider", postgresql_where=sql("chain_status = 'open'")),
    # The views ask by day.
    Index("ix_orders_created_day", day_of("created_at")),
    Index("ix_orders_ended_day", day_of("ended_at")),
    schema=PROJECTIONS,
    comment="Orders (intents), with the status of the chain and that of the ledger clock",
)

offers = Table(
    "offers",
    metadata,
    text("provider", "Liquidity provider"),
    text("direction", "onramp or offramp"),
    text("currency", "ISO 4217 code"),
    words("rails", "Rails with these very terms, sorted", as_tuple=True),
    amount("rate", "Fiat per 1 USDC"),
    amount("min", "Smallest order, USDC"),
    amount("max", "Largest order that would succeed now, USDC"),
    amount("available", "Provider's available escrow"),
    amount("locked", "Provider's locked escrow"),
    number("tier", "Trust tier"),
    number("fee_bps", "Protocol fee, basis points"),
    json("handles", "Rail → published payment handle"),
    number("completed_orders", "Provider's fulfilled orders"),
    number("avg_fulfillment_seconds", "Provider's mean seconds to fulfilment, rounded; 0 if none"),
    seconds("last_active_at", "Provider's last act"),
    PrimaryKeyConstraint("provider", "direction", "currency", "rails"),
    schema=PROJECTIONS,
    comment="Offers listed now: one row a provider, direction, currency and set of equal terms",
)

depth = Table(
    "depth",
    metadata,
    text("rail", "Payment rail", primary_key=True),
    amount("available", "Available over distinct providers with an offer on the rail"),
    number("offer_count", "Offers that contain the rail"),
    schema=PROJECTIONS,
    comment="Depth by rail; rails without an offer have no row. Not additive over rails",
)

stream_events = Table(
    "stream_events",
    metadata,
    Column(
        "id",
        number("id", "").type,
        Identity(always=True),
        primary_key=True,
        comment="Order of publication; given out under one lock, so none commits late",
    ),
    chain(),
    height("ledger", "Ledger whose fold wrote the message"),
    text("channel", "orderbook or intent"),
    text("op", "add, update or remove on orderbook; null on intent", nullable=True),
    json("entry", "The offer or order, amounts as digit strings"),
    flag("last", "Last message of its ledger"),
    flag("revised", "Written by a rebuild: a client may have another book at this ledger"),
    # Old messages are looked for by age.
    Index("ix_stream_events_chain_ledger", "chain", "ledger"),
    schema=PROJECTIONS,
    comment="Outbox of the socket: about a day, written in the transaction that changed the book",
)
