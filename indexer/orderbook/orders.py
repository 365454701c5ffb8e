"""Orders (intents): the effect of each event and of the ledger clock on one order. Pure.

`chain_status` follows the contract's events; `status`, which clients see, follows events and clock:
active up to and including `expires_at`, expired strictly after. The clock is the close time of an
ingested ledger.

    from     by                                          status       chain_status
    –        order_open                                  active       open
    active   order_fulfill                               fulfilled    fulfilled
    active   order_cancel                                cancelled    cancelled
    active   now > expires_at, no event                  expired      open
    active   order_expire                                expired      expired
    any      order_fulfill, order_cancel after expiry    expired      fulfilled, cancelled; alarmed
    expired  order_expire (the chain catches up)         expired      expired
    final    any other terminal event                    refused, alarmed

Amounts are 7-decimal integers, times unix seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from indexer.market.escrow_events import (
    ClaimKind,
    OrderCancel,
    OrderDirection,
    OrderExpire,
    OrderFulfill,
    OrderOpen,
)
from indexer.orderbook.offers import PayeeRow, RailRow, TermsRow
from warehouse_schema.identifiers import BaseUnits, Bytes32, StellarAddress, TxHash, UnixSeconds

OrderStatus: TypeAlias = Literal["active", "fulfilled", "cancelled", "expired"]
OrderChainStatus: TypeAlias = Literal["open", "fulfilled", "cancelled", "expired"]
OrderEnd: TypeAlias = OrderFulfill | OrderCancel | OrderExpire


class OrderRow(NamedTuple):
    """One row of `projections.orders`, field for column."""

    order_id: Bytes32
    provider: StellarAddress
    taker: StellarAddress
    direction: OrderDirection
    rail: str
    currency: str
    amount: BaseUnits
    rate: BaseUnits
    fiat_amount: BaseUnits
    lp_lock: BaseUnits
    taker_lock: BaseUnits
    payee_hash: Bytes32
    tier: int
    fee_bps: int
    created_at: UnixSeconds
    expires_at: UnixSeconds
    status: OrderStatus
    chain_status: OrderChainStatus
    open_tx: TxHash
    end_tx: TxHash | None = None
    ended_at: UnixSeconds | None = None
    claim: ClaimKind | None = None
    nullifier: Bytes32 | None = None
    released: BaseUnits | None = None
    fee: BaseUnits | None = None
    net: BaseUnits | None = None
    recipient: StellarAddress | None = None
    fiat_paid: BaseUnits | None = None
    paid_at: UnixSeconds | None = None


AMOUNTS = frozenset(
    {
        *("amount", "rate", "fiat_amount", "lp_lock", "taker_lock"),
        *("released", "fee", "net", "fiat_paid"),
    }
)
"""Fields that are 7-decimal integers; JSON carries them as digit strings."""


def open_order(event: OrderOpen) -> OrderRow:
    """The order of an `order_open`."""
    return OrderRow(
        order_id=event.order_id,
        provider=event.provider,
        taker=event.taker,
        direction=event.direction,
        rail=event.rail,
        currency=event.currency,
        amount=event.amount,
        rate=event.rate,
        fiat_amount=event.fiat_amount,
        lp_lock=event.lp_lock,
        taker_lock=event.taker_lock,
        payee_hash=event.payee_hash,
        tier=event.tier,
        fee_bps=event.fee_bps,
        created_at=event.seen.block_time,
        expires_at=event.expires_at,
        status="active",
        chain_status="open",
        open_tx=event.seen.tx_hash,
    )


@dataclass(frozen=True, slots=True)
class OrderBasis:
    """What an opening must follow from: the book just before it."""

    bond_bps: int
    takes_orders: bool
    """Whether neither the contract nor the provider is paused."""
    rail: RailRow | None
    terms: TermsRow | None
    payee: PayeeRow | None


def opening_violations(event: OrderOpen, basis: OrderBasis) -> list[str]:
    """Sentences on contradictions between an opening and the book.

    A sound contract opens on stored terms only, and copies them. `rail_set`, `paused_set` and
    `config_set` have no sequence number that would show a gap; such a contradiction shows that one
    of them was not seen.
    """
    rail, terms, onramp = basis.rail, basis.terms, event.direction == "onramp"
    broken = []
    if not basis.takes_orders:
        broken.append("opened during a pause")
    if rail is None or not rail.enabled or event.currency not in rail.currencies:
        broken.append(f"opened on {event.rail} in {event.currency}, which is closed")
    elif (event.tier, event.fee_bps) != (rail.tier, rail.fee_bps):
        broken.append(
            f"opened at tier {event.tier} for {event.fee_bps} bps; {event.rail} has tier"
            f" {rail.tier} and takes {rail.fee_bps}"
        )
    if terms is None:
        broken.append(f"opened on {event.rail} in {event.currency} without terms")
    elif event.rate != terms.rate or not terms.min <= event.amount <= terms.max:
        broken.append(f"opened for {event.amount} at {event.rate}, outside the terms")
    if onramp and (basis.payee is None or event.payee_hash != basis.payee.payee_hash):
        broken.append("opened for a payee that is not the registered one")
    return [f"order {event.order_id} {each}" for each in [*broken, *_lock_violations(event, basis)]]


def _lock_violations(event: OrderOpen, basis: OrderBasis) -> list[str]:
    onramp = event.direction == "onramp"
    bond = event.amount if onramp else event.amount * basis.bond_bps // 10_000
    taker = 0 if onramp else event.amount
    # Rounded for the provider: up when it receives fiat, down when it pays.
    fiat, rest = divmod(event.amount * event.rate, 10_000_000)
    broken = []
    if (event.lp_lock, event.taker_lock) != (bond, taker):
        broken.append(f"locked {event.lp_lock} and {event.taker_lock} for {event.amount}")
    if event.fiat_amount != fiat + (onramp and rest > 0):
        broken.append(f"asks {event.fiat_amount} for {event.amount} at {event.rate}")
    return broken


def is_past_expiry(order: OrderRow, now: UnixSeconds) -> bool:
    """Whether the order has expired; at `expires_at` itself it has not."""
    return now > order.expires_at


def expire_order(order: OrderRow) -> OrderRow:
    """An active order after its expiry; on chain it is still open."""
    return order._replace(status="expired")


def end_problem(order: OrderRow | None, event: OrderEnd) -> tuple[str, str] | None:
    """Why a terminal event cannot end this order, as (alarm kind, sentence); None if it can.

    Such an event does not change the order.
    """
    if order is None:
        return "unknown_order", f"order {event.order_id} ended but its opening was never seen"
    if order.chain_status != "open":
        return "finished_order", f"order {order.order_id} was {order.chain_status} and ended again"
    if (order.provider, order.taker) != (event.provider, event.taker):
        return "order_mismatch", f"order {order.order_id} ended for other parties than it opened"
    return None


def end_order(order: OrderRow, event: OrderEnd, now: UnixSeconds) -> OrderRow:
    """The order after a terminal event without an `end_problem`.

    A fulfilment or cancellation after the expiry breaks the contract's rule (`end_violations`
    reports it). `expired` was published and is final, so the status stays. `chain_status` and the
    settlement are recorded: the lock is gone, so the order is no longer reclaimable.
    """
    outcome = _OUTCOMES[type(event)]
    settlement: dict[str, Any] = {}
    if isinstance(event, OrderFulfill):
        settlement = {name: getattr(event, name) for name in _SETTLEMENT}
    return order._replace(
        status="expired" if is_past_expiry(order, now) else outcome,
        chain_status=outcome,
        end_tx=event.seen.tx_hash,
        ended_at=event.seen.block_time,
        **settlement,
    )


_OUTCOMES: dict[type[OrderEnd], Literal["fulfilled", "cancelled", "expired"]] = {
    OrderFulfill: "fulfilled",
    OrderCancel: "cancelled",
    OrderExpire: "expired",
}


_SETTLEMENT = ("claim", "nullifier", "released", "fee", "net", "recipient", "fiat_paid", "paid_at")
"""Fields of a fulfilment, as event and order name them."""


def end_violations(order: OrderRow, event: OrderEnd, now: UnixSeconds) -> list[str]:
    """Sentences on the contract rules that a terminal event breaks; none from a sound contract.

    The rules: settle and cancel only up to the expiry, expire only after it; unlock what was
    locked; release at most the amount; fee = ⌊released × fee_bps / 10000⌋; an onramp returns the
    rest of the lock to the provider, an offramp returns the bond and credits released − fee.
    """
    late = is_past_expiry(order, now)
    broken = []
    if late and not isinstance(event, OrderExpire):
        broken.append(f"ended at {now}, after it expired {order.expires_at}")
    if not late and isinstance(event, OrderExpire):
        broken.append(f"expired at {now}, before {order.expires_at}")
    if event.lp_unlock != order.lp_lock:
        broken.append(f"locked {order.lp_lock}, unlocked {event.lp_unlock}")
    if isinstance(event, OrderFulfill):
        if event.released > order.amount:
            broken.append(f"of {order.amount} released {event.released}")
        if event.fee != event.released * order.fee_bps // 10_000:
            broken.append(f"took a fee of {event.fee} on {event.released}")
        credit = -event.released if order.direction == "onramp" else event.released - event.fee
        freed = order.lp_lock + credit
        if event.lp_free_delta != freed:
            broken.append(f"freed {event.lp_free_delta} instead of {freed}")
    return [f"order {order.order_id} {each}" for each in broken]


def order_entry(order: OrderRow) -> dict[str, str | int | None]:
    """The order as JSON members named as its columns; amounts are strings of digits."""
    entry: dict[str, str | int | None] = {}
    for name, value in zip(OrderRow._fields, order, strict=True):
        entry[name] = str(value) if name in AMOUNTS and value is not None else value
    return entry


def order_from_entry(entry: Mapping[str, Any]) -> OrderRow:
    """Inverse of `order_entry`."""
    amounts = {name: int(entry[name]) for name in AMOUNTS if entry[name] is not None}
    return OrderRow(**{**entry, **amounts})
