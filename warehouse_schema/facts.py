"""`facts`: blocks, raw logs and events as the chains gave them; `events` has their decoded form.

A row's key is where it came from, `(chain, height, position)`, so that reading a range again
changes nothing and a reorganised block can be taken back whole; its block's hash stands beside it.
Nothing here is ever updated, except a chain's cursor, an alarm's end, the count of a day's changes
and whether a block's proof is wanted. Answers of services about messages stand at the end.
Attestations stay; a status, the progress of a backfill and the last verdict on a quarantined ledger
are replaced.
"""

from sqlalchemy import (
    ARRAY,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    false,
)
from sqlalchemy.schema import SchemaItem

from warehouse_schema.columns import (
    amount,
    blob,
    chain,
    day,
    flag,
    height,
    moment,
    number,
    provenance,
    recorded,
    seconds,
    small,
    text,
    words,
)
from warehouse_schema.metadata import FACTS, metadata

blocks = Table(
    "blocks",
    metadata,
    chain(),
    height(),
    text("hash", "Block or ledger hash"),
    text("parent_hash", "Hash of the block before; rows join by it"),
    seconds("time", "Block timestamp or ledger close time, unix seconds"),
    small("protocol_version", "Stellar protocol version; null on EVM", nullable=True),
    number(
        "close_time_ms",
        "Ledger close time, unix milliseconds; null before Stellar protocol 30 and on EVM",
        nullable=True,
    ),
    number("events", "Raw logs or events of ours kept from this block"),
    PrimaryKeyConstraint("chain", "height"),
    UniqueConstraint("chain", "hash"),
    schema=FACTS,
    comment="Every EVM block and Stellar ledger that was ingested, also those without our events",
)

cursors = Table(
    "cursors",
    metadata,
    chain(primary_key=True),
    height(comment="Last height whose facts and projections are committed"),
    text("block_hash", "Hash at that height"),
    seconds("block_time", "Its time, unix seconds"),
    height("head_height", "Head that the node named when this was committed"),
    seconds("head_time", "Time of that head, unix seconds"),
    height("safe_height", "Stored blocks up to it are safe, as its node says", nullable=True),
    height("final_height", "Stored blocks up to it are final and stay", nullable=True),
    text("held", "Why the chain is on hold; null when it is not", nullable=True),
    recorded("updated_at", "When the chain last moved, database clock"),
    recorded("reported_at", "When its follower last reported, database clock"),
    text("failure", "Why its node could not be read last; null when it could", nullable=True),
    small(
        "protocol_ahead",
        "Protocol that its node is ready for and its follower cannot read; null: none",
        nullable=True,
    ),
    schema=FACTS,
    comment="How far each chain is. Moves in the transaction that writes the rows it stands for",
)

alarms = Table(
    "alarms",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True, comment="Row id"),
    chain(),
    text("kind", "What went wrong: undecodable, wrong_contract, sequence_gap, deep_reorg, …"),
    text("subject", "What it is about: an event id, a provider, a height"),
    text("detail", "The sentence an operator reads"),
    recorded("raised_at"),
    moment("cleared_at", "When it was found mended; null while it stands", nullable=True),
    Index(
        "uq_alarms_open",
        "chain",
        "kind",
        "subject",
        unique=True,
        postgresql_where=Column("cleared_at").is_(None),
    ),
    # The status page asks for those of the last days.
    Index("ix_alarms_cleared_at", "cleared_at"),
    schema=FACTS,
    comment="What an operator must look at. One open row for each (chain, kind, subject)",
)


def _raw_outcome() -> list[SchemaItem]:
    return [
        text("event", "Type it was decoded to; null when it was not decoded", nullable=True),
        text("undecodable", "Why it could not be decoded; null when it could", nullable=True),
        CheckConstraint("event IS NULL OR undecodable IS NULL", name="one_outcome"),
    ]


evm_logs = Table(
    "evm_logs",
    metadata,
    *provenance(),
    text("address", "Contract that emitted the log, lower-case"),
    words("topics", "0x-prefixed topics, topic 0 first"),
    blob("data", "ABI-encoded data"),
    *_raw_outcome(),
    schema=FACTS,
    comment="Raw EVM logs of the contracts and addresses we watch",
)

stellar_events = Table(
    "stellar_events",
    metadata,
    *provenance(),
    text("event_id", "Stellar RPC event id: TOID and event index"),
    text("contract", "Strkey of the contract that emitted the event"),
    Column(
        "topics", ARRAY(LargeBinary), nullable=False, comment="SCVal XDR of each topic, in order"
    ),
    blob("value", "SCVal XDR of the data"),
    *_raw_outcome(),
    schema=FACTS,
    comment="Raw Stellar contract events of the contracts and accounts we watch",
)

orphans = Table(
    "orphans",
    metadata,
    chain(),
    height(),
    text("block_hash", "Hash of the block that was reorganised away"),
    text("tx_hash", "Transaction"),
    number("position", "Order within the block"),
    text("event", "Type it was decoded to; null for a raw log without one", nullable=True),
    text("row", "The raw row, as JSON"),
    recorded("orphaned_at"),
    Index("ix_orphans_chain_tx_hash", "chain", "tx_hash"),
    schema=FACTS,
    comment="Raw logs of blocks that a chain took back",
)

unproven_blocks = Table(
    "unproven_blocks",
    metadata,
    chain(),
    text("block_hash", "Hash of the block"),
    height(),
    flag("wanted", "Whether a transfer's deposit or delivery rests on it", server_default=false()),
    PrimaryKeyConstraint("chain", "block_hash"),
    Index("ix_unproven_blocks_chain_height", "chain", "height"),
    Index("ix_unproven_blocks_wanted", "chain", postgresql_where=Column("wanted")),
    schema=FACTS,
    comment="EVM blocks with logs of ours whose logs only one node's word stands for. No deposit "
    "is funded and no transfer completed by them. A row goes when the logs are proven",
)

quarantined_ledgers = Table(
    "quarantined_ledgers",
    metadata,
    chain(),
    height(comment="Ledger sequence; `blocks` has its header, and no event of it is stored"),
    text("block_hash", "Hash of the ledger, which its header proves"),
    seconds("block_time", "Ledger close time, unix seconds"),
    text("state", "undecodable, or damaged: it can be read and is not what its header says"),
    text("reason", "What the build that tried last says of it"),
    text("source", "Where the bytes were read: a lake's URL without credentials"),
    blob("raw", "LedgerCloseMeta XDR of the whole ledger, compressed with zstd"),
    text("build", "Decoders that tried last, as `isthmus quarantine` names them"),
    recorded("first_tried_at", "When it came here, database clock"),
    recorded("tried_at", "When it was last tried, database clock"),
    PrimaryKeyConstraint("chain", "height"),
    CheckConstraint("state IN ('undecodable', 'damaged')", name="state"),
    CheckConstraint("octet_length(raw) > 0", name="kept"),
    CheckConstraint("first_tried_at <= tried_at", name="in_order"),
    schema=FACTS,
    comment="Ledgers that no build could decode so far. A row goes when one has: then the ledger's "
    "events are stored like any other's",
)

cctp_attestations = Table(
    "cctp_attestations",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True, comment="Order of storing"),
    number("source_domain", "CCTP domain of the burn"),
    text("nonce", "32 bytes chosen by the attestation service"),
    text("message_hash", "keccak256 of the message: what attesters sign"),
    text("source_chain", "CAIP-2 id of the burn's chain"),
    text("source_tx", "Transaction of the query"),
    text("burn_key", "Of the message; null when it is no burn", nullable=True),
    blob("message", "Attested message"),
    blob("attestation", "Signatures of 65 bytes, one after another"),
    text("status", "The service's own word for the message"),
    number("finality_threshold_executed", "1000 fast, 2000 finalized", nullable=True),
    amount("fee_executed", "Taken from the mint, 6 decimals", nullable=True),
    amount("expiration_block", "Refused there from this block on; 0 is never", nullable=True),
    words("attesters", "Who signed, in order of signatures"),
    flag("verified", "Whether anything may rest on it"),
    text("refusal", "Why nothing may; null when verified", nullable=True),
    recorded("judged_at", "When it was verified or refused, database clock"),
    CheckConstraint("verified = (refusal IS NULL)", name="one_verdict"),
    CheckConstraint("NOT verified OR burn_key IS NOT NULL", name="verified_is_a_burn"),
    UniqueConstraint("source_domain", "nonce", "message_hash", "source_tx"),
    Index("ix_cctp_attestations_burn_key", "burn_key"),
    Index("ix_cctp_attestations_source_chain_source_tx", "source_chain", "source_tx"),
    schema=FACTS,
    comment="Attested CCTP messages. A re-attested message is a further row; the newest holds",
)

message_status = Table(
    "message_status",
    metadata,
    text("service", "iris (Circle's attestation service) or lz_scan (LayerZero Scan)"),
    text("message_id", "iris: chain, transaction and log position of the burn; lz_scan: guid"),
    text("group_key", "Burn key or guid: what a refold reads by", index=True),
    text("status", "The service's own word, or ours for its silence"),
    text("detail", "Its further words; null when none", nullable=True),
    recorded("fetched_at"),
    PrimaryKeyConstraint("service", "message_id"),
    CheckConstraint("service IN ('iris', 'lz_scan')", name="service"),
    schema=FACTS,
    comment="Why a message waits, as services say. Hints: they explain a stage, never decide one",
)

message_polls = Table(
    "message_polls",
    metadata,
    text("service", "iris or lz_scan"),
    chain("CAIP-2 id of the source chain"),
    text("subject", "iris: source transaction; lz_scan: guid"),
    text("purpose", "attestation, reattestation or status: what is waited for"),
    seconds("since", "When the wait began, unix seconds"),
    small("attempts", "Queries since"),
    seconds("due_at", "Not queried again before, unix seconds"),
    PrimaryKeyConstraint("service", "chain", "subject"),
    CheckConstraint("service IN ('iris', 'lz_scan')", name="service"),
    schema=FACTS,
    comment="When services are queried about messages again. One without a row is due at once",
)

expiries = Table(
    "expiries",
    metadata,
    text("transfer", "Transfer id", primary_key=True),
    recorded("expired_at"),
    schema=FACTS,
    comment="Transfers whose time ran out while nothing irreversible had happened: their source "
    "chain had been read beyond that time, and had nothing of theirs",
)

lost_sources = Table(
    "lost_sources",
    metadata,
    text("transfer", "Transfer id"),
    chain("CAIP-2 id of its source chain"),
    text("tx_hash", "Burn, send or payment to the deposit address"),
    text("block_hash", "Hash of the block that was reorganised away"),
    amount(
        "paid", "Paid to the deposit address, in the transfer's token; null if not", nullable=True
    ),
    recorded("lost_at"),
    PrimaryKeyConstraint("transfer", "tx_hash", "block_hash"),
    schema=FACTS,
    comment="Source transactions of transfers that a chain took back: they are expected again, and "
    "no owner is asked to pay twice meanwhile",
)

backfills = Table(
    "backfills",
    metadata,
    chain(),
    height("range_first", "First height of the backfill"),
    height("range_last", "Last height of the backfill"),
    height("first", "First height of the span, a part that one process reads"),
    height("last", "Last height of the span"),
    height("done", "Last height whose facts are committed; first - 1 before any are"),
    height("folded", "Last height whose facts the movements have; at most `done`"),
    number("events", "Raw logs or events kept so far"),
    recorded("updated_at"),
    PrimaryKeyConstraint("chain", "range_first", "range_last", "first"),
    CheckConstraint("folded <= done AND done <= last", name="in_order"),
    schema=FACTS,
    comment="Spans of backfills under way, and how far each is. Rows go with the last one",
)

changed_days = Table(
    "changed_days",
    metadata,
    chain(),
    day("UTC day of the blocks"),
    number("changes", "Times that facts of the day were taken back, put in its place, or replaced"),
    PrimaryKeyConstraint("chain", "day"),
    schema=FACTS,
    comment="Days whose facts changed behind a chain's cursor: by a reorg, a backfill, a redecode. "
    "What was computed or exported of a day counts by this number; without a row it is 0",
)
