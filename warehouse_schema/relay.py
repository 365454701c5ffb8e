"""`relay`: the transactions that the service itself sends, and what became of each.

A slot reserves a nonce or sequence number of an account for one job. All attempts of a slot share
its number, so at most one takes effect. A job has at most one slot that may still take effect or
has. Constraints of the tables enforce both.
"""

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
)
from sqlalchemy import text as sql

from warehouse_schema.columns import (
    amount,
    blob,
    chain,
    flag,
    moment,
    number,
    recorded,
    small,
    text,
)
from warehouse_schema.lock_tables import lease_columns, standby_columns
from warehouse_schema.metadata import RELAY, metadata

leases = Table(
    "leases",
    metadata,
    *lease_columns(),
    schema=RELAY,
    comment="Which process signs for an account, and which posts to webhooks",
)

standbys = Table(
    "standbys",
    metadata,
    *standby_columns(),
    schema=RELAY,
    comment="Which processes wait for these leases",
)

slots = Table(
    "slots",
    metadata,
    chain(),
    text("account", "Account whose number it is; of what an owner signed, the hash of that"),
    number("number", "Nonce on EVM chains, sequence number on Stellar"),
    text("purpose", "What it is for: deliver, sweep, refund, submit, onboard"),
    text("key", "What is to happen once, among those of its chain and purpose"),
    text("subject", "Transfer that it serves", index=True),
    recorded("opened_at", "With its first signed transaction, database clock"),
    text(
        "outcome",
        "confirmed; reverted (included without effect); already_done (the same: another sender had "
        "done it); replaced (an empty transaction used the number); nonce_taken (a transaction "
        "that is not ours used it); expired (past its bounds, in no ledger). Each at finality; "
        "null while an attempt may still take effect",
        nullable=True,
    ),
    amount("spent", "What it cost, native base units; null while open", nullable=True),
    moment(
        "closed_at", "When the outcome was final, database clock; null while open", nullable=True
    ),
    PrimaryKeyConstraint("chain", "account", "number"),
    CheckConstraint(
        "outcome IN ('confirmed', 'reverted', 'already_done', 'replaced', 'nonce_taken',"
        " 'expired')",
        name="outcome",
    ),
    CheckConstraint(
        "(outcome IS NULL) = (spent IS NULL) AND (outcome IS NULL) = (closed_at IS NULL)",
        name="closed_whole",
    ),
    CheckConstraint("number >= 0", name="number"),
    # What is to happen once: one slot that may do it, and none after the one that did.
    Index(
        "uq_slots_once",
        "chain",
        "purpose",
        "key",
        unique=True,
        postgresql_where=sql("outcome IS NULL OR outcome = 'confirmed'"),
    ),
    Index("ix_slots_open", "chain", "account", postgresql_where=sql("outcome IS NULL")),
    # A day's budget, and what failed in a row: by what is recent, however much went before.
    Index("ix_slots_opened", "chain", "opened_at"),
    Index("ix_slots_closed", "chain", "account", "closed_at"),
    Index(
        "ix_slots_failed",
        *("chain", "purpose", "key"),
        postgresql_where=sql("outcome IN ('reverted', 'already_done')"),
    ),
    schema=RELAY,
    comment="Numbers of accounts of ours, each given to one purpose",
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True, comment="Order of signing"),
    chain(),
    text("account", "Account whose number it has"),
    number("number", "Nonce on EVM chains, sequence number on Stellar"),
    text("purpose", "Of its slot; fill for one that only takes the number"),
    text("subject", "Transfer that it serves", index=True),
    text("tx_hash", "Hash of the signed transaction, known before it is sent", unique=True),
    blob("signed", "Signed bytes, stored before broadcast so that a resend is the same bytes"),
    amount("most_cost", "Most that it can cost, native base units"),
    recorded("created_at"),
    small("sendings", "How often it was sent", server_default=sql("0")),
    moment("sent_at", "When it was sent last, database clock; null if never", nullable=True),
    text("answer", "Response of the node", nullable=True),
    ForeignKeyConstraint(
        ["chain", "account", "number"],
        ["relay.slots.chain", "relay.slots.account", "relay.slots.number"],
    ),
    CheckConstraint("(sendings = 0) = (sent_at IS NULL)", name="sent"),
    Index("ix_attempts_slot", "chain", "account", "number"),
    schema=RELAY,
    comment="Signed transactions of the service. A row exists before its transaction is sent",
)

sponsors = Table(
    "sponsors",
    metadata,
    chain(),
    text("account", "Account that sponsors"),
    number("next_number", "Sequence number of its next transaction"),
    amount("min_deposit", "Least deposit that it sponsors for, 10^-7 of the asset"),
    amount("payer_budget", "Stroops a UTC day for all deposits of one paying address"),
    amount("budget_left", "Stroops of its UTC day's budget that are left"),
    recorded("written_at", "Database clock"),
    PrimaryKeyConstraint("chain", "account"),
    schema=RELAY,
    comment="What each sponsor would do next; the api makes onboarding transactions by it",
)

obstacles = Table(
    "obstacles",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True, comment="Row id"),
    text("transfer", "Transfer that cannot go on", index=True),
    text(
        "kind",
        "no_trustline: the recipient can mend it; frozen: its asset's issuer alone; "
        "paused: the issuer or the bridge; would_fail: what the owner signed, not sent as long "
        "as it stands",
    ),
    text("detail", "The sentence that its owner reads"),
    recorded("since"),
    moment("cleared_at", "When it was gone, database clock; null while it stands", nullable=True),
    CheckConstraint("kind IN ('no_trustline', 'frozen', 'paused', 'would_fail')", name="kind"),
    Index(
        "uq_obstacles_standing",
        "transfer",
        unique=True,
        postgresql_where=sql("cleared_at IS NULL"),
    ),
    schema=RELAY,
    comment="Why transfers cannot go on, as the relay found when it looked",
)

halts = Table(
    "halts",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True, comment="Row id"),
    chain(),
    text("account", "Account that opens no further slots"),
    text("reason", "The sentence an operator reads"),
    recorded("halted_at"),
    moment(
        "resumed_at",
        "When an operator resumed it, database clock; null while halted",
        nullable=True,
    ),
    Index(
        "uq_halts_open",
        "chain",
        "account",
        unique=True,
        postgresql_where=sql("resumed_at IS NULL"),
    ),
    schema=RELAY,
    comment="Accounts that halted because their transactions kept failing",
)

failure_resets = Table(
    "failure_resets",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True, comment="Row id"),
    chain(),
    text(
        "subject",
        "Transfer whose failures are reset; null for all of the chain",
        nullable=True,
    ),
    recorded("given_at", "Failures up to then no longer count, database clock"),
    Index("ix_failure_resets_chain", "chain", "subject"),
    schema=RELAY,
    comment="Resets of failure counts by operators",
)

health = Table(
    "health",
    metadata,
    chain(),
    text("account", "Account that sends"),
    text(
        "duty",
        "deliver: what transfers need on its chain; sponsor: trustlines of owners; "
        "submit: what owners signed",
    ),
    flag("well", "Whether it can send what comes next"),
    text("reason", "Why it cannot; null when well", nullable=True),
    text(
        "problem",
        "Kind of the reason: halted, unrecorded, balance, budget, node or draining",
        nullable=True,
    ),
    amount("balance", "Native base units; null when no node answered", nullable=True),
    amount("spent_today", "Of the UTC day, what is open at its most, native base units"),
    amount("budget", "Most that it may spend in a UTC day, native base units"),
    amount("floor", "Balance below which there is an alert, native base units"),
    small("open", "Slots that may still take effect"),
    recorded(
        "seen_at", "When this was written, database clock: an old row is of a relay that is off"
    ),
    PrimaryKeyConstraint("chain", "account"),
    CheckConstraint("well = (reason IS NULL)", name="reason"),
    CheckConstraint(
        "problem IN ('halted', 'unrecorded', 'balance', 'budget', 'node', 'draining')"
        " AND reason IS NOT NULL"
        " OR problem IS NULL AND reason IS NULL",
        name="problem",
    ),
    CheckConstraint("duty IN ('deliver', 'sponsor', 'submit')", name="duty"),
    schema=RELAY,
    comment="How each account of the relay is, written each turn. The api reads this and no more",
)

refund_orders = Table(
    "refund_orders",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True, comment="Row id"),
    text("transfer", "Transfer whose deposit address it is", index=True),
    text("token", "Contract of what is to go back; native for the chain's own coin"),
    recorded("ordered_at"),
    schema=RELAY,
    comment="What operators ordered back from deposit addresses",
)

webhook_states = Table(
    "webhook_states",
    metadata,
    text("webhook", "Id of a webhook", primary_key=True),
    number("position", "Events of the owner up to this number were delivered or given up"),
    small("failures", "Attempts in a row that were not taken"),
    small("given_up", "Events in a row that were given up"),
    moment("next_at", "No attempt before it; null after one that was taken", nullable=True),
    text(
        "stopped",
        "Why nothing is sent there any more: gone (410), unreachable (events in a row were given "
        "up); null while something is",
        nullable=True,
    ),
    flag(
        "is_prompt",
        "Whether the last attempt was taken within 3 s: other places wait among themselves",
    ),
    recorded("written_at", "Database clock, of the last attempt"),
    CheckConstraint("stopped IN ('gone', 'unreachable')", name="stopped"),
    CheckConstraint("position >= 0 AND failures >= 0 AND given_up >= 0", name="counts"),
    schema=RELAY,
    comment="How far each webhook is that anything was sent to",
)

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    text("webhook", "Id of a webhook"),
    number("number", "Of the owner's event: projections.transfer_events"),
    small("attempts", "How often it was posted"),
    recorded("first_at", "First attempt, database clock"),
    recorded("last_at", "Last attempt, database clock"),
    small("answer", "HTTP status of the last one; null when there was none", nullable=True),
    text("error", "Why there was none, such as TimeoutError or NotPublic", nullable=True),
    text("outcome", "delivered or given_up; null while it is tried", nullable=True),
    PrimaryKeyConstraint("webhook", "number"),
    CheckConstraint("attempts > 0", name="attempts"),
    CheckConstraint("(answer IS NULL) <> (error IS NULL)", name="answer"),
    CheckConstraint("outcome IN ('delivered', 'given_up')", name="outcome"),
    schema=RELAY,
    comment="What was posted to webhooks, and what came of it; forgotten with its event",
)

webhook_senders = Table(
    "webhook_senders",
    metadata,
    text("public_key", "Whose signatures webhooks carry, whpk_…", primary_key=True),
    recorded("seen_at", "When it was at work last, database clock"),
    schema=RELAY,
    comment="Keys that have signed for webhooks: the one that was seen last does",
)
