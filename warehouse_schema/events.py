"""Decoded events, one table per type, next to the raw ones in `facts`.

A column is a field of the event's class in `indexer/bridges` or `indexer/market`, under its own
name. A key is where the event came from, as everywhere in `facts`.
"""

from sqlalchemy import Index, Table
from sqlalchemy.schema import SchemaItem

from warehouse_schema.columns import (
    amount,
    blob,
    flag,
    last_16_bytes,
    number,
    provenance,
    seconds,
    text,
    words,
)
from warehouse_schema.metadata import FACTS, metadata

EVENT_TABLES: dict[str, Table] = {}
"""Event type name → its table. The columns after the provenance are the event's own fields."""


def _event(event: str, name: str, comment: str, *columns: SchemaItem) -> Table:
    table = Table(
        name,
        metadata,
        *provenance(),
        *columns,
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
    text("refund_to", "Recipient"),
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
    flag("authorized", "Whether it may hold"),
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
    flag("opens", "Opening orders is paused"),
    flag("all", "Everything is paused"),
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
    flag("enabled", "Whether orders may open on it"),
    number("tier", "Trust tier: 0 manual … 3 proof checked by the contract"),
    number("fee_bps", "Protocol fee, basis points"),
    text("verifier", "Who may claim by proof"),
    words("currencies", "ISO 4217 codes"),
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
    flag("registered", "Whether a payee is registered"),
    text("payee_hash", "Hash of the payee", nullable=True),
    text("handle", "Handle in plain, if the provider publishes it", nullable=True),
    number("tseq", "Number of the provider's RailTerms event, from 1"),
)

providers_set = _event(
    "ProviderSet",
    "providers_set",
    "Providers pausing and resuming (provider_set)",
    text("provider", "Liquidity provider"),
    flag("paused", "Whether the provider takes no new orders"),
    number("tseq", "Number of the provider's RailTerms event, from 1"),
)
