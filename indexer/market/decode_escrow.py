"""Events of the Escrow contract, version 1 (`v` = 1 in every event's data)."""

from collections.abc import Callable, Mapping

from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.xdr.scval import (
    ScMap,
    Topics,
    address,
    amount,
    boolean,
    count,
    one_of,
    seconds,
    symbol,
    u32,
    word,
)
from indexer.market.escrow_events import (
    EscrowConfigSet,
    EscrowDeposit,
    EscrowEvent,
    EscrowPausedSet,
    EscrowUpgraded,
    EscrowWithdraw,
    OrderCancel,
    OrderExpire,
    OrderFulfill,
    OrderOpen,
)

VERSION = 1

order_direction = one_of("onramp", "offramp")
"""Reader of `OrderDirection`."""
_claim = one_of("proof", "manual")
_cancelled_by = one_of("taker", "provider", "admin")


def _config_set(event: StellarEvent) -> EscrowConfigSet:
    Topics.of(event, 1)
    data = ScMap.of(event, VERSION)
    return EscrowConfigSet(
        seen=event.seen,
        token=data.read("token", address),
        rail_terms=data.read("rail_terms", address),
        admin=data.read("admin", address),
        fee_to=data.read("fee_to", address),
        order_ttl=data.read("order_ttl", count),
        bond_bps=data.read("bond_bps", u32),
        max_open=data.read("max_open", u32),
    )


def _deposit(event: StellarEvent) -> EscrowDeposit:
    topics, data = Topics.of(event, 2), ScMap.of(event, VERSION)
    return EscrowDeposit(
        seen=event.seen,
        provider=topics.read(1, address),
        amount=data.read("amount", amount),
        from_address=data.read("from", address),
        free_after=data.read("free_after", amount),
        locked_after=data.read("locked_after", amount),
        pseq=data.read("pseq", count),
    )


def _withdraw(event: StellarEvent) -> EscrowWithdraw:
    topics, data = Topics.of(event, 2), ScMap.of(event, VERSION)
    return EscrowWithdraw(
        seen=event.seen,
        provider=topics.read(1, address),
        amount=data.read("amount", amount),
        to_address=data.read("to", address),
        free_after=data.read("free_after", amount),
        locked_after=data.read("locked_after", amount),
        pseq=data.read("pseq", count),
    )


def _order_open(event: StellarEvent) -> OrderOpen:
    topics, data = Topics.of(event, 4), ScMap.of(event, VERSION)
    return OrderOpen(
        seen=event.seen,
        provider=topics.read(1, address),
        taker=topics.read(2, address),
        order_id=topics.read(3, word),
        direction=data.read("direction", order_direction),
        rail=data.read("rail", symbol),
        currency=data.read("currency", symbol),
        amount=data.read("amount", amount),
        rate=data.read("rate", amount),
        fiat_amount=data.read("fiat_amount", amount),
        lp_lock=data.read("lp_lock", amount),
        taker_lock=data.read("taker_lock", amount),
        payee_hash=data.read("payee_hash", word),
        expires_at=data.read("expires_at", seconds),
        tier=data.read("tier", u32),
        fee_bps=data.read("fee_bps", u32),
        free_after=data.read("free_after", amount),
        locked_after=data.read("locked_after", amount),
        pseq=data.read("pseq", count),
    )


def _order_fulfill(event: StellarEvent) -> OrderFulfill:
    topics, data = Topics.of(event, 4), ScMap.of(event, VERSION)
    return OrderFulfill(
        seen=event.seen,
        provider=topics.read(1, address),
        taker=topics.read(2, address),
        order_id=topics.read(3, word),
        claim=data.read("claim", _claim),
        nullifier=data.optional("nullifier", word),
        released=data.read("released", amount),
        fee=data.read("fee", amount),
        net=data.read("net", amount),
        recipient=data.read("recipient", address),
        lp_unlock=data.read("lp_unlock", amount),
        lp_free_delta=data.read("lp_free_delta", amount),
        taker_refund=data.read("taker_refund", amount),
        fiat_paid=data.optional("fiat_paid", amount),
        paid_at=data.optional("paid_at", seconds),
        free_after=data.read("free_after", amount),
        locked_after=data.read("locked_after", amount),
        pseq=data.read("pseq", count),
    )


def _order_cancel(event: StellarEvent) -> OrderCancel:
    topics, data = Topics.of(event, 4), ScMap.of(event, VERSION)
    return OrderCancel(
        seen=event.seen,
        provider=topics.read(1, address),
        taker=topics.read(2, address),
        order_id=topics.read(3, word),
        by=data.read("by", _cancelled_by),
        lp_unlock=data.read("lp_unlock", amount),
        taker_refund=data.read("taker_refund", amount),
        free_after=data.read("free_after", amount),
        locked_after=data.read("locked_after", amount),
        pseq=data.read("pseq", count),
    )


def _order_expire(event: StellarEvent) -> OrderExpire:
    topics, data = Topics.of(event, 4), ScMap.of(event, VERSION)
    return OrderExpire(
        seen=event.seen,
        provider=topics.read(1, address),
        taker=topics.read(2, address),
        order_id=topics.read(3, word),
        by=data.read("by", address),
        lp_unlock=data.read("lp_unlock", amount),
        taker_refund=data.read("taker_refund", amount),
        free_after=data.read("free_after", amount),
        locked_after=data.read("locked_after", amount),
        pseq=data.read("pseq", count),
    )


def _paused_set(event: StellarEvent) -> EscrowPausedSet:
    Topics.of(event, 1)
    data = ScMap.of(event, VERSION)
    return EscrowPausedSet(
        seen=event.seen, opens=data.read("opens", boolean), all=data.read("all", boolean)
    )


def _upgraded(event: StellarEvent) -> EscrowUpgraded:
    Topics.of(event, 1)
    data = ScMap.of(event, VERSION)
    return EscrowUpgraded(
        seen=event.seen,
        wasm_hash=data.read("wasm_hash", word),
        schema=data.read("schema", u32),
    )


DECODERS: Mapping[str, Callable[[StellarEvent], EscrowEvent]] = {
    "config_set": _config_set,
    "deposit": _deposit,
    "withdraw": _withdraw,
    "order_open": _order_open,
    "order_fulfill": _order_fulfill,
    "order_cancel": _order_cancel,
    "order_expire": _order_expire,
    "paused_set": _paused_set,
    "upgraded": _upgraded,
}
"""Decoders of all events, by topic 0. Each raises `Undecodable` for another shape."""
