"""Names, amounts and events of the order book, with defaults that are good enough to ignore."""

import hashlib
from itertools import count
from typing import Any

from stellar_sdk import StrKey

from indexer.chains.events import Provenance
from indexer.market.escrow_events import (
    EscrowConfigSet,
    EscrowDeposit,
    OrderCancel,
    OrderExpire,
    OrderFulfill,
    OrderOpen,
)
from indexer.market.rail_terms_events import PayeeSet, RailSet, TermsSet
from indexer.orderbook.state import LedgerClose
from warehouse_schema.identifiers import (
    BaseUnits,
    BlockHash,
    Bytes32,
    ChainId,
    Height,
    StellarAddress,
    TxHash,
    UnixSeconds,
    bytes32,
)

CHAIN = ChainId("stellar:devnet")
ONE_USDC = 10_000_000

_positions = count(1)


def usdc(text: str | int) -> BaseUnits:
    """`usdc("1.02")` is 10,200,000: seven decimals, exactly."""
    whole, _, fraction = str(text).partition(".")
    return BaseUnits(int(whole) * ONE_USDC + int(fraction.ljust(7, "0") or 0))


def digest(*parts: object) -> bytes:
    return hashlib.sha256("|".join(map(str, parts)).encode()).digest()


def payee_hash_of(handle: str) -> Bytes32:
    """SHA-256 of the handle's UTF-8 bytes, as clients compute it."""
    return bytes32(hashlib.sha256(handle.encode("utf-8")).digest())


def word(*parts: object) -> Bytes32:
    return bytes32(digest(*parts))


def account(name: str) -> StellarAddress:
    """A valid `G…` address that nobody holds the key of."""
    return StellarAddress(StrKey.encode_ed25519_public_key(digest("account", name)))


def contract(name: str) -> StellarAddress:
    return StellarAddress(StrKey.encode_contract(digest("contract", name)))


PROVIDER = account("provider")
TAKER = account("taker")


def ledger_close(height: int = 1, close_time: int = 1_000) -> LedgerClose:
    return LedgerClose(CHAIN, Height(height), UnixSeconds(close_time))


def seen_in(ledger: LedgerClose, position: int | None = None) -> Provenance:
    """Where an event of that ledger was seen; positions grow from call to call."""
    position = next(_positions) if position is None else position
    return Provenance(
        chain=ledger.chain,
        height=ledger.height,
        block_hash=BlockHash(digest("ledger", ledger.height).hex()),
        tx_hash=TxHash(digest("tx", ledger.height, position).hex()),
        position=position,
        block_time=ledger.close_time,
    )


def make_seen(height: int = 1, close_time: int = 1_000) -> Provenance:
    return seen_in(ledger_close(height, close_time))


def make_config_set(**fields) -> EscrowConfigSet:
    defaults: dict[str, Any] = {
        "seen": make_seen(),
        "token": contract("usdc"),
        "rail_terms": contract("rail terms"),
        "admin": account("admin"),
        "fee_to": account("fees"),
        "order_ttl": 600,
        "bond_bps": 10_000,
        "max_open": 50,
    }
    return EscrowConfigSet(**defaults | fields)


def make_rail_set(rail: str = "venmo", **fields) -> RailSet:
    defaults: dict[str, Any] = {
        "seen": make_seen(),
        "rail": rail,
        "enabled": True,
        "tier": 2,
        "fee_bps": 50,
        "verifier": contract("verifier"),
        "currencies": ("EUR", "USD"),
    }
    return RailSet(**defaults | fields)


def make_terms_set(**fields) -> TermsSet:
    defaults: dict[str, Any] = {
        "seen": make_seen(),
        "provider": PROVIDER,
        "rail": "venmo",
        "currency": "USD",
        "direction": "onramp",
        "rate": usdc("1.02"),
        "min": usdc(10),
        "max": usdc(50),
        "tseq": 1,
    }
    return TermsSet(**defaults | fields)


def make_payee_set(**fields) -> PayeeSet:
    """Registers the payee of `make_order_open`, after `make_terms_set`."""
    defaults: dict[str, Any] = {
        "seen": make_seen(),
        "provider": PROVIDER,
        "rail": "venmo",
        "registered": True,
        "payee_hash": word("payee"),
        "handle": None,
        "tseq": 2,
    }
    return PayeeSet(**defaults | fields)


def make_deposit(**fields) -> EscrowDeposit:
    defaults: dict[str, Any] = {
        "seen": make_seen(),
        "provider": PROVIDER,
        "amount": usdc(100),
        "from_address": fields.get("provider", PROVIDER),
        "free_after": usdc(100),
        "locked_after": usdc(0),
        "pseq": 1,
    }
    return EscrowDeposit(**defaults | fields)


def make_order_open(**fields) -> OrderOpen:
    """An onramp order of 40 USDC at t = 1000 that expires at 1600, from a deposit of 100."""
    defaults: dict[str, Any] = {
        "seen": make_seen(),
        "provider": PROVIDER,
        "taker": TAKER,
        "order_id": word("order"),
        "direction": "onramp",
        "rail": "venmo",
        "currency": "USD",
        "amount": usdc(40),
        "rate": usdc("1.02"),
        "fiat_amount": usdc("40.8"),
        "lp_lock": usdc(40),
        "taker_lock": usdc(0),
        "payee_hash": word("payee"),
        "expires_at": UnixSeconds(1_600),
        "tier": 2,
        "fee_bps": 50,
        "free_after": usdc(60),
        "locked_after": usdc(40),
        "pseq": 2,
    }
    return OrderOpen(**defaults | fields)


def make_order_fulfill(**fields) -> OrderFulfill:
    """`make_order_open`'s order, released in full at t = 1300."""
    defaults: dict[str, Any] = {
        "seen": make_seen(2, 1_300),
        "provider": PROVIDER,
        "taker": TAKER,
        "order_id": word("order"),
        "claim": "proof",
        "nullifier": word("nullifier"),
        "released": usdc(40),
        "fee": usdc("0.2"),
        "net": usdc("39.8"),
        "recipient": TAKER,
        "lp_unlock": usdc(40),
        "lp_free_delta": usdc(0),
        "taker_refund": usdc(0),
        "fiat_paid": usdc("40.8"),
        "paid_at": UnixSeconds(1_290),
        "free_after": usdc(60),
        "locked_after": usdc(0),
        "pseq": 3,
    }
    return OrderFulfill(**defaults | fields)


def make_order_cancel(**fields) -> OrderCancel:
    """`make_order_open`'s order, cancelled by its taker at t = 1300."""
    defaults: dict[str, Any] = {
        "seen": make_seen(2, 1_300),
        "provider": PROVIDER,
        "taker": TAKER,
        "order_id": word("order"),
        "by": "taker",
        "lp_unlock": usdc(40),
        "taker_refund": usdc(0),
        "free_after": usdc(100),
        "locked_after": usdc(0),
        "pseq": 3,
    }
    return OrderCancel(**defaults | fields)


def make_order_expire(**fields) -> OrderExpire:
    """`make_order_open`'s order, pruned at t = 1700."""
    defaults: dict[str, Any] = {
        "seen": make_seen(3, 1_700),
        "provider": PROVIDER,
        "taker": TAKER,
        "order_id": word("order"),
        "by": account("anyone"),
        "lp_unlock": usdc(40),
        "taker_refund": usdc(0),
        "free_after": usdc(100),
        "locked_after": usdc(0),
        "pseq": 3,
    }
    return OrderExpire(**defaults | fields)
