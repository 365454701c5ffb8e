"""The order book worked out of every event ever emitted, each figure by its definition.

Written from the formulas of `docs/orderbook.md` §2 and §3 and nothing else: it shares no line with
`indexer.projections`, keeps no state, counts everything again each time, and is slow. It knows
sound histories only: for a contract that breaks its rules there is no right answer.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import floor
from typing import Any

from indexer.market.escrow_events import (
    EscrowConfigSet,
    EscrowPausedSet,
    OrderCancel,
    OrderExpire,
    OrderFulfill,
    OrderOpen,
)
from indexer.market.rail_terms_events import PayeeSet, ProviderSet, RailSet, TermsDel, TermsSet
from warehouse_schema.metadata import PROJECTIONS, metadata

Row = dict[str, Any]
Books = dict[str, list[Row]]
"""Table → its rows, column → value, in no order."""

_END = {OrderFulfill: "fulfilled", OrderCancel: "cancelled", OrderExpire: "expired"}
_SETTLEMENT = ("claim", "nullifier", "released", "fee", "net", "recipient", "fiat_paid", "paid_at")
_CONFIG = ("token", "rail_terms", "fee_to", "order_ttl", "bond_bps", "max_open")


def slow_book(history: Sequence[Any], chain: str, height: int, now: int) -> Books:
    """The whole book as of the ledger of that height, which closed at `now`."""
    ends = {event.order_id: event for event in _all(history, *_END)}
    orders = [_order(opening, ends, now) for opening in _all(history, OrderOpen)]
    names = sorted({event.provider for event in history if hasattr(event, "provider")})
    providers = [_provider(history, name, orders, now) for name in names]
    offers = [offer for figures in providers for offer in _listed(history, figures)]
    return {
        "book": [_clock(history, chain, height, now, providers, offers)],
        "rails": [_rail(rail) for rail in _rails(history).values()],
        "terms": [_terms(event) for name in names for event in _standing(history, name)],
        "payees": [_payee(event) for event in _payees(history).values()],
        "providers": providers,
        "orders": orders,
        "offers": offers,
        "depth": _depth(offers),
    }


def slow_rows(history: Sequence[Any], chain: str, height: int, now: int) -> dict[str, list[Any]]:
    """The same as the rows of the tables, in order of their keys."""
    return {
        name: _sorted_rows(metadata.tables[f"{PROJECTIONS}.{name}"], rows)
        for name, rows in slow_book(history, chain, height, now).items()
    }


def _sorted_rows(table: Any, rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    columns = [column.name for column in table.columns]
    keys = [column.name for column in table.primary_key]
    in_order = sorted(rows, key=lambda row: tuple(row[name] for name in keys))
    return [tuple(row[name] for name in columns) for row in in_order]


def _all(history: Iterable[Any], *kinds: Any) -> list[Any]:
    return [event for event in history if isinstance(event, kinds)]


def _of(history: Iterable[Any], name: str) -> list[Any]:
    return [event for event in history if getattr(event, "provider", None) == name]


def _last(events: Sequence[Any]) -> Any:
    return events[-1] if events else None


# Orders: §2.4 and §3.


def _order(opening: OrderOpen, ends: dict[str, Any], now: int) -> Row:
    end = ends.get(opening.order_id)
    by_clock = "expired" if now > opening.expires_at else "active"
    copied = (
        *("order_id", "provider", "taker", "direction", "rail", "currency", "amount", "rate"),
        *("fiat_amount", "lp_lock", "taker_lock", "payee_hash", "tier", "fee_bps", "expires_at"),
    )
    return {
        **{name: getattr(opening, name) for name in copied},
        "created_at": opening.seen.block_time,
        "status": _END[type(end)] if end else by_clock,
        "chain_status": _END[type(end)] if end else "open",
        "open_tx": opening.seen.tx_hash,
        "end_tx": end.seen.tx_hash if end else None,
        "ended_at": end.seen.block_time if end else None,
        **{name: getattr(end, name, None) for name in _SETTLEMENT},
    }


# Providers: §2 and §2.3.


def _provider(history: Sequence[Any], name: str, orders: list[Row], now: int) -> Row:
    events = _of(history, name)
    mine = [order for order in orders if order["provider"] == name]
    done = [order for order in mine if order["status"] == "fulfilled"]
    escrow = _last([event for event in events if hasattr(event, "pseq")])
    terms = _last([event for event in events if hasattr(event, "tseq")])
    pause = _last(_all(events, ProviderSet))
    unpruned = [o for o in mine if o["chain_status"] == "open" and now > o["expires_at"]]
    return {
        "provider": name,
        "paused": bool(pause and pause.paused),
        "free": escrow.free_after if escrow else 0,
        "locked": escrow.locked_after if escrow else 0,
        "reclaimable": sum(order["lp_lock"] for order in unpruned),
        "pseq": escrow.pseq if escrow else 0,
        "tseq": terms.tseq if terms else 0,
        "active_orders": sum(order["status"] == "active" for order in mine),
        "completed_orders": len(done),
        "fulfillment_seconds": sum(order["ended_at"] - order["created_at"] for order in done),
        "last_active_at": max((e.seen.block_time for e in events if _is_own_act(e)), default=None),
        "stale": None,
    }


def _is_own_act(event: Any) -> bool:
    if isinstance(event, OrderCancel):
        return event.by == "provider"
    return not isinstance(event, OrderOpen | OrderExpire)


def _available(figures: Row) -> int:
    return int(figures["free"] + figures["reclaimable"])


def _locked(figures: Row) -> int:
    return int(figures["locked"] - figures["reclaimable"])


# What stands: the last word of each kind.


def _rails(history: Sequence[Any]) -> dict[str, RailSet]:
    return {event.rail: event for event in _all(history, RailSet)}


def _rail(event: RailSet) -> Row:
    return {
        "rail": event.rail,
        "enabled": event.enabled,
        "tier": event.tier,
        "fee_bps": event.fee_bps,
        "verifier": event.verifier,
        "currencies": event.currencies,
    }


def _standing(history: Sequence[Any], name: str) -> list[TermsSet]:
    latest = {
        (event.direction, event.rail, event.currency): event
        for event in _all(_of(history, name), TermsSet, TermsDel)
    }
    return [event for event in latest.values() if isinstance(event, TermsSet)]


def _terms(event: TermsSet) -> Row:
    names = ("provider", "direction", "rail", "currency", "rate", "min", "max")
    return {name: getattr(event, name) for name in names}


def _payees(history: Sequence[Any]) -> dict[tuple[str, str], PayeeSet]:
    latest = {(event.provider, event.rail): event for event in _all(history, PayeeSet)}
    return {key: event for key, event in latest.items() if event.registered}


def _payee(event: PayeeSet) -> Row:
    return {
        "provider": event.provider,
        "rail": event.rail,
        "payee_hash": event.payee_hash,
        "handle": _handle(event),
    }


def _handle(event: PayeeSet) -> str | None:
    shown_handle = event.handle
    if (
        shown_handle is None
        or len(shown_handle) > 256
        or any(not letter.isprintable() for letter in shown_handle)
    ):
        return None
    canonical = "0x" + hashlib.sha256(shown_handle.encode("utf-8")).hexdigest()
    return shown_handle if canonical == event.payee_hash else None


def _takes_no_orders(history: Sequence[Any]) -> bool:
    pause = _last(_all(history, EscrowPausedSet))
    return bool(pause and (pause.opens or pause.all))


# Offers: §2.1.


def _listed(history: Sequence[Any], figures: Row) -> list[Row]:
    if figures["paused"] or _takes_no_orders(history):
        return []
    rails, payees = _rails(history), _payees(history)
    groups: dict[tuple[Any, ...], list[TermsSet]] = defaultdict(list)
    for terms in _standing(history, figures["provider"]):
        rail = rails.get(terms.rail)
        is_open = rail and rail.enabled and terms.currency in rail.currencies
        has_payee = terms.direction == "offramp" or (terms.provider, terms.rail) in payees
        fits = min(terms.max, _available(figures)) >= max(terms.min, 10_000_000)
        if rail and is_open and has_payee and fits:
            same = (terms.direction, terms.currency, terms.rate, terms.min, terms.max)
            groups[*same, rail.tier, rail.fee_bps].append(terms)
    offers = [_offer(key, group, figures, payees) for key, group in groups.items()]
    offers.sort(key=lambda offer: (offer["direction"], offer["currency"], offer["rails"]))
    return offers[:64]


def _offer(
    key: tuple[Any, ...],
    group: list[TermsSet],
    figures: Row,
    payees: dict[tuple[str, str], PayeeSet],
) -> Row:
    direction, currency, rate, low, high, tier, fee_bps = key
    rails = tuple(sorted(terms.rail for terms in group))
    name, completed = figures["provider"], figures["completed_orders"]
    handles = {rail: _handle(payees[name, rail]) for rail in rails if (name, rail) in payees}
    mean = Fraction(figures["fulfillment_seconds"], completed) if completed else Fraction(0)
    return {
        "provider": name,
        "direction": direction,
        "currency": currency,
        "rails": rails,
        "rate": rate,
        "min": low,
        "max": min(high, _available(figures)),
        "available": _available(figures),
        "locked": _locked(figures),
        "tier": tier,
        "fee_bps": fee_bps,
        "handles": {
            rail: shown_handle for rail, shown_handle in handles.items() if shown_handle is not None
        }
        if direction == "onramp"
        else {},
        "completed_orders": completed,
        "avg_fulfillment_seconds": floor(mean + Fraction(1, 2)),
        "last_active_at": figures["last_active_at"],
    }


# Depth: §2.2.


def _depth(offers: list[Row]) -> list[Row]:
    rows = []
    for rail in {rail for offer in offers for rail in offer["rails"]}:
        on_it = [offer for offer in offers if rail in offer["rails"]]
        escrows = {offer["provider"]: offer["available"] for offer in on_it}
        rows.append({"rail": rail, "available": sum(escrows.values()), "offer_count": len(on_it)})
    return rows


def _clock(
    history: Sequence[Any],
    chain: str,
    height: int,
    now: int,
    providers: list[Row],
    offers: list[Row],
) -> Row:
    config = _last(_all(history, EscrowConfigSet))
    pause = _last(_all(history, EscrowPausedSet))
    listed = {offer["provider"]: offer["available"] for offer in offers}
    return {
        "chain": chain,
        "as_of_ledger": height,
        "as_of": now,
        **{name: getattr(config, name, None) for name in _CONFIG},
        "opens_paused": bool(pause and pause.opens),
        "all_paused": bool(pause and pause.all),
        "total_available": sum(listed.values()),
        "total_locked": sum(_locked(figures) for figures in providers),
        "offer_count": len(offers),
    }
