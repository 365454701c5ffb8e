"""`facts`: blocks, raw logs and events as the chains gave them, and their decoded form beside them.

A row's key is where it came from, `(chain, block_hash, position)`, so that reading a range again
changes nothing and a reorganised block can be taken back whole. Nothing here is ever updated,
except a chain's cursor, an alarm's end and the count of a day's changes. What services beside the
chains say of a message stands at the end: attestations stay, a status gives way to the next one,
and so does what a backfill under way has done, or what was last said of a ledger in quarantine.
"""

from sqlalchemy import (
    ARRAY,
    Boolean,
    CheckConstraint,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.schema import SchemaItem

from warehouse_schema.columns import (
    amount,
    blob,
    chain,
    day,
    height,
    last_16_bytes,
    moment,
    number,
    recorded,
    seconds,
    small,
    text,
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
    recorded("updated_at", "When this row was last written, database clock"),
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
    schema=FACTS,
    comment="What an operator must look at. One open row for each (chain, kind, subject)",
)


def _provenance() -> list[SchemaItem]:
    """The columns of `indexer.events.common.Provenance`, and their key."""
    return [
        chain(),
        height(),
        text("block_hash", "Hash of the block or ledger"),
        text("tx_hash", "Transaction hash: 0x-prefixed on EVM, bare hex on Stellar"),
        number("position", "Order within the block; log index on EVM, packed event id on Stellar"),
        seconds("block_time", "Block timestamp or ledger close time, unix seconds"),
        PrimaryKeyConstraint("chain", "block_hash", "position"),
    ]


def _raw_outcome() -> list[SchemaItem]:
    return [
        text("event", "Type it was decoded to; null when it was not decoded", nullable=True),
        text("undecodable", "Why it could not be decoded; null when it could", nullable=True),
        CheckConstraint("event IS NULL OR undecodable IS NULL", name="one_outcome"),
    ]


evm_logs = Table(
    "evm_logs",
    metadata,
    *_provenance(),
    text("address", "Contract that emitted the log, lower-case"),
    Column("topics", ARRAY(Text), nullable=False, comment="0x-prefixed topics, topic 0 first"),
    blob("data", "ABI-encoded data"),
    *_raw_outcome(),
    Index("ix_evm_logs_chain_height", "chain", "height"),
    schema=FACTS,
    comment="Raw EVM logs of the contracts and addresses we watch",
)

stellar_events = Table(
    "stellar_events",
    metadata,
    *_provenance(),
    text("event_id", "Stellar RPC event id: TOID and event index"),
    text("contract", "Strkey of the contract that emitted the event"),
    Column(
        "topics", ARRAY(LargeBinary), nullable=False, comment="SCVal XDR of each topic, in order"
    ),
    blob("value", "SCVal XDR of the data"),
    *_raw_outcome(),
    Index("ix_stellar_events_chain_height", "chain", "height"),
    schema=FACTS,
    comment="Raw Stellar contract events of the contracts and accounts we watch",
)


EVENT_TABLES: dict[str, Table] = {}
"""Event type name → its table. The columns after the provenance are the event's own fields."""


def _event(event: str, name: str, comment: str, *columns: SchemaItem) -> Table:
    table = Table(
        name,
        metadata,
        *_provenance(),
        *columns,
        Index(f"ix_{name}_chain_height", "chain", "height"),
        schema=FACTS,
        comment=comment,
    )
    EVENT_TABLES[event] = table
    return table


cctp_burns = _event(
    "DepositForBurn",
    "cctp_burns",
    "CCTP V2 burns (DepositForBurn). Amounts have 6 decimals on every chain",
    text("burn_token", "Token burned: EVM address or Stellar contract"),
    amount("amount", "Burned, gross of the fee, 6 decimals"),
    text("depositor", "Caller of the messenger; a router when one was used"),
    text("mint_recipient", "Recipient on the destination, 32 bytes hex"),
    number("destination_domain", "CCTP domain of the destination"),
    text("destination_token_messenger", "Messenger there, 32 bytes hex"),
    text("destination_caller", "Only this address may mint; zero means anyone"),
    amount("max_fee", "Most the burner pays, 6 decimals"),
    number("min_finality_threshold", "1000 fast, 2000 standard"),
    blob("hook_data", "Hook bytes, without length prefix"),
    Index("ix_cctp_burns_label", last_16_bytes("hook_data")),
)

cctp_messages_sent = _event(
    "MessageSent",
    "cctp_messages_sent",
    "CCTP V2 messages at their source (MessageSent)",
    blob("message", "Source bytes; the attested message differs in four ranges"),
    number("source_domain", "CCTP domain"),
    number("destination_domain", "CCTP domain"),
    text("sender", "Sending messenger, 32 bytes hex"),
    text("recipient", "Receiving messenger, 32 bytes hex"),
    text("burn_key", "Equal on the burn and the mint of one transfer", nullable=True, index=True),
)

cctp_mints = _event(
    "MintAndWithdraw",
    "cctp_mints",
    "CCTP V2 mints (MintAndWithdraw). Amounts have 6 decimals on every chain",
    text("mint_recipient", "Recipient; on Stellar the forwarder contract"),
    amount("amount", "Minted, net of the fee, 6 decimals"),
    text("mint_token", "Token minted"),
    amount("fee_collected", "Fee taken from the mint, 6 decimals"),
)

cctp_messages_received = _event(
    "MessageReceived",
    "cctp_messages_received",
    "CCTP V2 messages accepted at their destination (MessageReceived)",
    text("caller", "Who delivered it"),
    number("source_domain", "CCTP domain"),
    text("nonce", "32 bytes chosen by the attestation service", index=True),
    text("sender", "Sending messenger, 32 bytes hex"),
    number("finality_threshold_executed", "1000 fast, 2000 finalized"),
    blob("message_body", "Burn message body as attested"),
    text("burn_key", "Equal on the burn and the mint of one transfer", nullable=True, index=True),
    # A burn body ends with the burn's hook data.
    Index("ix_cctp_messages_received_label", last_16_bytes("message_body")),
)

cctp_forwards = _event(
    "MintAndForward",
    "cctp_forwards",
    "Payments of the Stellar CctpForwarder to recipients (mint_and_forward)",
    amount("amount", "Paid, 7 decimals"),
    text("forward_recipient", "Recipient strkey, perhaps muxed"),
    text("token", "Token contract"),
)

oft_sent = _event(
    "OftSent",
    "oft_sent",
    "OFT sends (OFTSent, oft_sent). Amounts in the emitting chain's local decimals",
    text("guid", "LayerZero message id", index=True),
    number("dst_eid", "Endpoint id of the destination"),
    text("from_address", "Caller of send; a router when one was used", index=True),
    amount("amount_sent", "Debited, local decimals"),
    amount("amount_received", "To be credited there, local decimals of the source"),
)

oft_received = _event(
    "OftReceived",
    "oft_received",
    "OFT credits (OFTReceived, oft_received). Amounts in the emitting chain's local decimals",
    text("guid", "LayerZero message id", index=True),
    number("src_eid", "Endpoint id of the source"),
    text("to_address", "Who was credited"),
    amount("amount_received", "Credited, local decimals"),
)

lz_packets_sent = _event(
    "PacketSent",
    "lz_packets_sent",
    "LayerZero packets of our OFTs at their source (PacketSent)",
    text("guid", "LayerZero message id", index=True),
    amount("nonce", "Counts the packets of one path from 1"),
    number("src_eid", "Endpoint id of the source"),
    text("sender", "Sending OFT, 32 bytes hex"),
    number("dst_eid", "Endpoint id of the destination"),
    text("receiver", "Receiving OFT, 32 bytes hex"),
    text("send_to", "Recipient in the OFT message, 32 bytes hex"),
    amount("amount_shared", "amountSD, 6 shared decimals"),
    blob("packet", "Packet bytes"),
    blob("options", "Executor options"),
    text("send_library", "Send library"),
)

lz_packets_verified = _event(
    "PacketVerified",
    "lz_packets_verified",
    "LayerZero packets that a destination endpoint verified (PacketVerified)",
    text("guid", "LayerZero message id, computed from the origin", index=True),
    number("src_eid", "Endpoint id of the source"),
    text("sender", "Sending OFT, 32 bytes hex"),
    amount("nonce", "Nonce of the path"),
    text("receiver", "Receiving OFT"),
    text("payload_hash", "keccak256 of guid and message"),
)

lz_packets_delivered = _event(
    "PacketDelivered",
    "lz_packets_delivered",
    "LayerZero packets that a destination endpoint delivered (PacketDelivered)",
    text("guid", "LayerZero message id, computed from the origin", index=True),
    number("src_eid", "Endpoint id of the source"),
    text("sender", "Sending OFT, 32 bytes hex"),
    amount("nonce", "Nonce of the path"),
    text("receiver", "Receiving OFT"),
)

lz_receive_alerts = _event(
    "LzReceiveAlert",
    "lz_receive_alerts",
    "Reports that executing a packet failed (LzReceiveAlert). Hints: anyone can emit one",
    text("guid", "LayerZero message id", index=True),
    number("src_eid", "Endpoint id of the source"),
    text("sender", "Sending OFT, 32 bytes hex"),
    amount("nonce", "Nonce of the path"),
    text("receiver", "Receiving OFT"),
    text("executor", "Who reports"),
    amount("gas", "Gas of the failed execution"),
    amount("value", "Value of the failed execution"),
    blob("message", "OFT message"),
    blob("extra_data", "Extra data"),
    blob("reason", "Revert data"),
)

erc20_transfers = _event(
    "Erc20Transfer",
    "erc20_transfers",
    "ERC-20 transfers of known tokens to watched addresses",
    text("token", "Token contract"),
    text("sender", "From"),
    text("recipient", "To, watched", index=True),
    amount("amount", "Token base units"),
)

deposit_refunds = _event(
    "DepositRefunded",
    "deposit_refunds",
    "What deposit addresses gave back of known tokens (Refunded of our deposit factory)",
    text("deposit", "Deposit address; anybody may have made up its terms", index=True),
    text("token", "Token contract"),
    text("refund_to", "Whom it went to"),
    amount("amount", "Token base units"),
)

asset_movements = _event(
    "AssetMovement",
    "asset_movements",
    "Stellar unified asset events (CAP-67) whose emitter is the asset's own contract",
    text("kind", "transfer, mint, burn, clawback or fee"),
    text("contract", "Asset contract"),
    text("asset", "stellar:CODE:ISSUER or stellar:native"),
    text("sender", "From; null for a mint", nullable=True, index=True),
    text("recipient", "To; null for a burn, clawback or fee", nullable=True),
    amount("amount", "7 decimals; negative only for a fee refund"),
    text("to_muxed_id", "Recipient's muxed id or memo", nullable=True),
)

asset_authorizations = _event(
    "AssetAuthorization",
    "asset_authorizations",
    "set_authorized events of Stellar assets",
    text("contract", "Asset contract"),
    text("asset", "stellar:CODE:ISSUER"),
    text("holder", "Account allowed or frozen"),
    Column("authorized", Boolean, nullable=False, comment="Whether it may hold"),
)


def _balances_after() -> list[SchemaItem]:
    return [
        amount("free_after", "Provider's free escrow after the event, 7 decimals"),
        amount("locked_after", "Provider's locked escrow after the event, 7 decimals"),
        number("pseq", "Number of the provider's Escrow event, from 1"),
    ]


def _order_parties() -> list[SchemaItem]:
    return [
        text("provider", "Liquidity provider"),
        text("taker", "Taker"),
        text("order_id", "Order id, 0x and 64 hex", index=True),
    ]


escrow_config_sets = _event(
    "EscrowConfigSet",
    "escrow_config_sets",
    "Escrow configuration (config_set)",
    text("token", "USDC contract"),
    text("rail_terms", "RailTerms contract"),
    text("admin", "Administrator"),
    text("fee_to", "Fee recipient"),
    number("order_ttl", "Seconds from opening to expiry"),
    number("bond_bps", "Offramp bond in basis points of the amount"),
    number("max_open", "Most open orders a provider may have"),
)

escrow_deposits = _event(
    "EscrowDeposit",
    "escrow_deposits",
    "Provider deposits into escrow (deposit)",
    text("provider", "Liquidity provider"),
    amount("amount", "USDC, 7 decimals"),
    text("from_address", "Who paid"),
    *_balances_after(),
)

escrow_withdrawals = _event(
    "EscrowWithdraw",
    "escrow_withdrawals",
    "Provider withdrawals from escrow (withdraw)",
    text("provider", "Liquidity provider"),
    amount("amount", "USDC, 7 decimals"),
    text("to_address", "Who was paid"),
    *_balances_after(),
)

orders_opened = _event(
    "OrderOpen",
    "orders_opened",
    "Orders opened (order_open), with the terms they were opened at",
    *_order_parties(),
    text("direction", "onramp or offramp"),
    text("rail", "Payment rail"),
    text("currency", "ISO 4217 code"),
    amount("amount", "USDC, 7 decimals"),
    amount("rate", "Fiat per 1 USDC, 7 decimals"),
    amount("fiat_amount", "Fiat, 7 decimals"),
    amount("lp_lock", "Locked of the provider's escrow"),
    amount("taker_lock", "Locked of the taker's USDC (offramp)"),
    text("payee_hash", "Hash of the fiat payee, 0x and 64 hex"),
    seconds("expires_at", "Active up to and including this time"),
    number("tier", "Trust tier of the rail at opening"),
    number("fee_bps", "Protocol fee at opening, basis points"),
    *_balances_after(),
)

orders_fulfilled = _event(
    "OrderFulfill",
    "orders_fulfilled",
    "Orders settled (order_fulfill)",
    *_order_parties(),
    text("claim", "proof or manual"),
    text("nullifier", "Payment nullifier; null for a manual release", nullable=True),
    amount("released", "Released, gross of the fee"),
    amount("fee", "Protocol fee"),
    amount("net", "Paid to the recipient"),
    text("recipient", "Who was paid"),
    amount("lp_unlock", "Taken off the provider's locked balance"),
    amount("lp_free_delta", "Added to the provider's free balance"),
    amount("taker_refund", "Returned to the taker (offramp)"),
    amount("fiat_paid", "Fiat the claim proves; null if it says none", nullable=True),
    seconds("paid_at", "When the claim says it was paid", nullable=True),
    *_balances_after(),
)

orders_cancelled = _event(
    "OrderCancel",
    "orders_cancelled",
    "Orders cancelled (order_cancel)",
    *_order_parties(),
    text("by", "taker, provider or admin"),
    amount("lp_unlock", "Returned to the provider's free balance"),
    amount("taker_refund", "Returned to the taker (offramp)"),
    *_balances_after(),
)

orders_expired = _event(
    "OrderExpire",
    "orders_expired",
    "Expired orders that the chain caught up with (order_expire)",
    *_order_parties(),
    text("by", "Who called"),
    amount("lp_unlock", "Returned to the provider's free balance"),
    amount("taker_refund", "Returned to the taker (offramp)"),
    *_balances_after(),
)

escrow_paused_sets = _event(
    "EscrowPausedSet",
    "escrow_paused_sets",
    "Escrow pauses (paused_set)",
    Column("opens", Boolean, nullable=False, comment="Opening orders is paused"),
    Column("all", Boolean, nullable=False, comment="Everything is paused"),
)

escrow_upgrades = _event(
    "EscrowUpgraded",
    "escrow_upgrades",
    "Escrow code changes (upgraded)",
    text("wasm_hash", "New code hash"),
    number("schema", "Event schema version"),
)

rails_set = _event(
    "RailSet",
    "rails_set",
    "Rails as the administrator set them (rail_set)",
    text("rail", "Payment rail"),
    Column("enabled", Boolean, nullable=False, comment="Whether orders may open on it"),
    number("tier", "Trust tier: 0 manual … 3 proof checked by the contract"),
    number("fee_bps", "Protocol fee, basis points"),
    text("verifier", "Who may claim by proof"),
    Column("currencies", ARRAY(Text), nullable=False, comment="ISO 4217 codes"),
)

terms_set = _event(
    "TermsSet",
    "terms_set",
    "Providers' terms (terms_set); each is a full replacement",
    text("provider", "Liquidity provider"),
    text("rail", "Payment rail"),
    text("currency", "ISO 4217 code"),
    text("direction", "onramp or offramp"),
    amount("rate", "Fiat per 1 USDC, 7 decimals"),
    amount("min", "Smallest order, USDC 7 decimals"),
    amount("max", "Largest order, USDC 7 decimals"),
    number("tseq", "Number of the provider's RailTerms event, from 1"),
)

terms_deleted = _event(
    "TermsDel",
    "terms_deleted",
    "Terms taken back (terms_del)",
    text("provider", "Liquidity provider"),
    text("rail", "Payment rail"),
    text("currency", "ISO 4217 code"),
    text("direction", "onramp or offramp"),
    number("tseq", "Number of the provider's RailTerms event, from 1"),
)

payees_set = _event(
    "PayeeSet",
    "payees_set",
    "Providers' fiat payees (payee_set)",
    text("provider", "Liquidity provider"),
    text("rail", "Payment rail"),
    Column("registered", Boolean, nullable=False, comment="Whether a payee is registered"),
    text("payee_hash", "Hash of the payee", nullable=True),
    text("handle", "Handle in plain, if the provider publishes it", nullable=True),
    number("tseq", "Number of the provider's RailTerms event, from 1"),
)

providers_set = _event(
    "ProviderSet",
    "providers_set",
    "Providers pausing and resuming (provider_set)",
    text("provider", "Liquidity provider"),
    Column("paused", Boolean, nullable=False, comment="Whether the provider takes no new orders"),
    number("tseq", "Number of the provider's RailTerms event, from 1"),
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
    text("build", "Decoders that tried last, as `python -m indexer quarantine` names them"),
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
    text("source_tx", "Transaction that was asked about"),
    text("burn_key", "Of the message; null when it is no burn", nullable=True),
    blob("message", "Attested message"),
    blob("attestation", "Signatures of 65 bytes, one after another"),
    text("status", "The service's own word for the message"),
    number("finality_threshold_executed", "1000 fast, 2000 finalized", nullable=True),
    amount("fee_executed", "Taken from the mint, 6 decimals", nullable=True),
    amount("expiration_block", "Refused there from this block on; 0 is never", nullable=True),
    Column("attesters", ARRAY(Text), nullable=False, comment="Who signed, in order of signatures"),
    Column("verified", Boolean, nullable=False, comment="Whether anything may rest on it"),
    text("refusal", "Why nothing may; null when verified", nullable=True),
    recorded("judged_at", "When it was verified or refused, database clock"),
    CheckConstraint("verified = (refusal IS NULL)", name="one_verdict"),
    CheckConstraint("NOT verified OR burn_key IS NOT NULL", name="verified_is_a_burn"),
    UniqueConstraint("source_domain", "nonce", "message_hash", "source_tx"),
    Index("ix_cctp_attestations_burn_key", "burn_key"),
    Index("ix_cctp_attestations_source_chain_source_tx", "source_chain", "source_tx"),
    schema=FACTS,
    comment="Attested CCTP messages. A message attested anew is a further row; the newest holds",
)

message_status = Table(
    "message_status",
    metadata,
    text("service", "iris (Circle's attestation service) or lz_scan (LayerZero Scan)"),
    text("message_id", "iris: chain, transaction and log position of the burn; lz_scan: guid"),
    text("group_key", "Burn key or guid: what a refold reads by", index=True),
    text("status", "The service's own word, or ours for its silence"),
    text("detail", "What it says beside that; null when nothing", nullable=True),
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
    small("attempts", "Times asked since"),
    seconds("due_at", "Not to be asked again before, unix seconds"),
    PrimaryKeyConstraint("service", "chain", "subject"),
    CheckConstraint("service IN ('iris', 'lz_scan')", name="service"),
    schema=FACTS,
    comment="When services are asked again about messages. A message without a row is due at once",
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
    "nobody is asked to pay twice meanwhile",
)

backfills = Table(
    "backfills",
    metadata,
    chain(),
    height("first", "First height of the range"),
    height("last", "Last height of the range"),
    height("done", "Last height whose facts are committed; first - 1 before any are"),
    height("folded", "Last height whose facts the movements have; at most `done`"),
    number("events", "Raw logs or events kept so far"),
    recorded("updated_at"),
    PrimaryKeyConstraint("chain", "first", "last"),
    CheckConstraint("folded <= done AND done <= last", name="in_order"),
    schema=FACTS,
    comment="Backfills under way, and how far each is. A row goes when its backfill is finished",
)

changed_days = Table(
    "changed_days",
    metadata,
    chain(),
    day("UTC day of the blocks"),
    number("changes", "Times that facts of the day were taken back, put in its place, or replaced"),
    PrimaryKeyConstraint("chain", "day"),
    schema=FACTS,
    comment="Days whose facts changed behind a chain's cursor: by a reorg, a backfill, a revision. "
    "What was computed or exported of a day counts by this number; without a row it is 0",
)
