"""Relay."""

# ruff: noqa: E501 - comments are data, and Alembic wrote them in one piece.

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Run with the time-outs of `env.py`, beside the code of the revision before."""
    op.execute("CREATE SCHEMA relay")
    op.execute(
        "COMMENT ON SCHEMA relay IS 'Transactions the service sends. Written by the relay alone.'"
    )
    op.create_table(
        "breaks",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False, comment="Row id"),
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "account", sa.Text(), nullable=False, comment="Account that opens no further slots"
        ),
        sa.Column("reason", sa.Text(), nullable=False, comment="The sentence an operator reads"),
        sa.Column(
            "broken_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="Database clock",
        ),
        sa.Column(
            "mended_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When an operator let it go on, database clock; null while it stands",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_breaks")),
        schema="relay",
        comment="Accounts that stopped by themselves because what they sent kept failing",
    )
    op.create_index(
        "uq_breaks_standing",
        "breaks",
        ["chain", "account"],
        unique=True,
        schema="relay",
        postgresql_where=sa.text("mended_at IS NULL"),
    )
    op.create_table(
        "leases",
        sa.Column(
            "kind",
            sa.Integer(),
            nullable=False,
            comment="What may be done: a number of locks.py",
        ),
        sa.Column(
            "name",
            sa.Text(),
            nullable=False,
            comment="What it may be done to: a chain, an account; empty where there is one",
        ),
        sa.Column(
            "key",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Second number of the advisory lock that the session holds; new for each",
        ),
        sa.Column(
            "pid",
            sa.Integer(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Postgres process of the session; the lease ends with it",
        ),
        sa.Column(
            "login",
            sa.Text(),
            server_default=sa.text("''"),
            nullable=False,
            comment="Database user of the session",
        ),
        sa.PrimaryKeyConstraint("kind", "name", name=op.f("pk_leases")),
        schema="relay",
        comment="Which session signs for an account, and which posts to webhooks",
    )
    op.create_table(
        "health",
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column("account", sa.Text(), nullable=False, comment="Account that sends"),
        sa.Column(
            "duty",
            sa.Text(),
            nullable=False,
            comment="deliver: what transfers need on its chain; sponsor: trustlines of owners",
        ),
        sa.Column(
            "well", sa.Boolean(), nullable=False, comment="Whether it can send what comes next"
        ),
        sa.Column("reason", sa.Text(), nullable=True, comment="Why it cannot; null when well"),
        sa.Column(
            "balance",
            sa.Numeric(78, 0),
            nullable=True,
            comment="Native base units; null when no node told",
        ),
        sa.Column(
            "spent_today",
            sa.Numeric(78, 0),
            nullable=False,
            comment="Of the UTC day, what is open at its most, native base units",
        ),
        sa.Column("open", sa.Integer(), nullable=False, comment="Slots that may still take effect"),
        sa.Column(
            "seen_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When this was written, database clock: an old row is of a relay that is off",
        ),
        sa.CheckConstraint("duty IN ('deliver', 'sponsor')", name=op.f("ck_health_duty")),
        sa.CheckConstraint("well = (reason IS NULL)", name=op.f("ck_health_reason")),
        sa.PrimaryKeyConstraint("chain", "account", name=op.f("pk_health")),
        schema="relay",
        comment="How each account of the relay is, written each turn. The api reads this and no more",
    )
    op.create_table(
        "obstacles",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False, comment="Row id"),
        sa.Column("transfer", sa.Text(), nullable=False, comment="Transfer that cannot go on"),
        sa.Column(
            "kind",
            sa.Text(),
            nullable=False,
            comment="no_trustline: the recipient can mend it; frozen: its asset's issuer alone; "
            "paused: the issuer or the bridge; would_fail: what the owner signed, not sent as long "
            "as it stands",
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
        "pardons",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False, comment="Row id"),
        sa.Column("chain", sa.Text(), nullable=False, comment="CAIP-2 chain id"),
        sa.Column(
            "subject",
            sa.Text(),
            nullable=True,
            comment="Transfer of which what failed may be tried anew; null for all of the chain",
        ),
        sa.Column(
            "given_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="What failed up to then counts no more, database clock",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pardons")),
        schema="relay",
        comment="Operators' word that what failed too often is to be tried again",
    )
    op.create_index(
        "ix_pardons_chain", "pardons", ["chain", "subject"], unique=False, schema="relay"
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
            comment="done; failed (included without effect); late (the same, for it had happened by then); filled (the number was only taken); overtaken (another transaction has it); expired (past its bounds, in no ledger). Each at finality; null while something may still take effect",
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
            "outcome IN ('done', 'failed', 'late', 'filled', 'overtaken', 'expired')",
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
        postgresql_where=sa.text("outcome IN ('failed', 'late')"),
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
        postgresql_where=sa.text("outcome IS NULL OR outcome = 'done'"),
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
            comment="What its owner was told up to this number was taken or given up",
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
        sa.Column("answer", sa.Text(), nullable=True, comment="What the node said to that"),
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
            sa.Numeric(precision=78, scale=0),
            nullable=False,
            comment="Least deposit that it sponsors for, 10^-7 of the asset",
        ),
        sa.Column(
            "payer_budget",
            sa.Numeric(precision=78, scale=0),
            nullable=False,
            comment="Stroops a UTC day for all deposits of one paying address",
        ),
        sa.Column(
            "budget_left",
            sa.Numeric(precision=78, scale=0),
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
