"""Reads the running service's responses, prints them, and compares them with the expected ones.

Everything is read over HTTP, as a client would, except the movements between chains: they have no
public endpoint, so they are read from `projections.movements` as the analyst role.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from sqlalchemy import Engine, select

from devnet.expectations import BookExpectation, Json
from devnet.progress import Progress
from indexer.config.networks import Network
from indexer.config.routes import Bridge
from isthmus_client import Isthmus, NotFound, NotReached, Readiness, Unavailable
from warehouse_schema.events import EVENT_TABLES
from warehouse_schema.projections import movements

DEADLINE_SECONDS = 600.0
"""Without a new height. Most of it is Dagster's first run, starting on a busy machine."""
_POLL_SECONDS = 0.2
_LEDGER_SECONDS = 1.0
"""Between two ledgers that are closed while a chain is not healthy."""

_ROUTES = (
    "usdc-deposit",
    "usdc-withdraw",
    "usdc-send",
    "usdt0-deposit",
    "usdt0-withdraw",
    "usdt0-send",
)

Stage: TypeAlias = Literal["ATTESTING", "IN_FLIGHT", "DELIVERING", "ON_HOLD", "COMPLETED"]


@dataclass(frozen=True)
class ExpectedMovement:
    """A row of `movements` as the scenario knows it; amounts in each chain's base units."""

    mechanism: Bridge
    stage: Stage
    source_chain: str
    source_tx: str
    source_address: str
    amount_in: int
    dest_chain: str
    dest_address: str
    fee: int | None
    dest_tx: str | None = None
    amount_out: int | None = None


@dataclass(frozen=True)
class Story:
    """The expected results of a scenario once both chains are ingested up to these heights."""

    book: BookExpectation
    movements: tuple[ExpectedMovement, ...]
    evm_height: int


@dataclass(frozen=True)
class Service:
    """The running service: its API, its warehouse under the analyst role, its network."""

    api: Isthmus
    engine: Engine
    network: Network
    began: int = 0
    """Unix seconds. Movements before then are of a generated history."""


class NotCaughtUp(Exception):
    """The service did not reach the scenario's end in time; the message says how far it is."""


def verify(
    story: Story,
    service: Service,
    *,
    log: Callable[[str], None],
    check: Callable[[], None],
    close_ledger: Callable[[], None],
    deadline_seconds: float = DEADLINE_SECONDS,
) -> list[str]:
    """Problems, a sentence each.

    `check` is called while waiting. `close_ledger` closes an empty ledger, once the order book is
    compared. Raises `NotCaughtUp`.
    """
    wait_until_caught_up(story, service, check=check, deadline_seconds=deadline_seconds)
    problems = [
        *_check_offers(story.book, service, log),
        *_check_summary(story.book, service, log),
        *_check_providers(story.book, service, log),
        *_check_orders(story.book, service, log),
        *_check_unknown(service),
        *_check_movements(story.movements, service, log),
        *_check_arrivals(story.movements, service),
    ]
    ready = wait_until_ready(
        service.api, check=check, close_ledger=close_ledger, deadline_seconds=deadline_seconds
    )
    return [*problems, *_check_routes(service, log), *_check_chains(ready, service, log)]


def wait_until_caught_up(
    story: Story, service: Service, *, check: Callable[[], None], deadline_seconds: float
) -> None:
    """Return once every answer is as of the story's last ledger and block, or later.

    Raises `NotCaughtUp` when no height has changed for `deadline_seconds`.
    """
    heights: dict[str, int] = {
        service.network.stellar.id: story.book.ledger,
        service.network.evm[0].id: story.evm_height,
    }
    progress = Progress(deadline_seconds)
    while True:
        reached, shown, where = _reached(service.api, heights)
        if reached:
            return
        progress.note(shown)
        if progress.has_stopped:
            raise NotCaughtUp(
                f"nothing was ingested for {deadline_seconds:g} s, and the service is not there"
                f" yet: {where}"
            )
        check()
        time.sleep(_POLL_SECONDS)


def _reached(
    api: Isthmus, heights: Mapping[str, int]
) -> tuple[bool, Mapping[str, int | None], str]:
    """Whether all heights are reached, the heights that are shown, and both in words."""
    try:
        ready = api.readiness()
        shown = {row.chain: row.height for row in ready.chains}
        api.summary()
    except (NotReached, Unavailable) as error:
        return False, {}, f"the API does not answer: {error}"
    there = all((shown.get(chain) or 0) >= height for chain, height in heights.items())
    return there, shown, f"/readyz says {ready.as_json()}, wanted {dict(heights)}"


def wait_until_ready(
    api: Isthmus,
    *,
    check: Callable[[], None],
    close_ledger: Callable[[], None],
    deadline_seconds: float,
) -> Readiness:
    """Wait until all chains are healthy; the answer of `/readyz` that says so.

    The demo closes ledgers on demand, so on a busy machine the scenario's last one may be old
    enough for the chain to stand still. Raises `NotCaughtUp` when no height of an unhealthy chain
    has changed for `deadline_seconds`.
    """
    progress = Progress(deadline_seconds)
    while not (ready := api.readiness()).is_ready:
        progress.note({row.chain: row.height for row in ready.chains if row.reason is not None})
        if progress.has_stopped:
            raise NotCaughtUp(f"/readyz says {ready.code}: {ready.message}")
        check()
        close_ledger()
        time.sleep(_LEDGER_SECONDS)
    return ready


# The order book


def _check_offers(book: BookExpectation, service: Service, log: Callable[[str], None]) -> list[str]:
    offers = [offer.as_json() for offer in service.api.offers()]
    streamed = next(service.api.follow(markers=True))
    log(f"\nGET /api/v1/orderbook (ledger {streamed.ledger})")
    columns = ("direction", "currency", "rate", "acceptedRails", "provider")
    amounts = ("minAmount", "maxAmount", "availableUsdc", "lockedUsdc", "trustTier", "feeRateBps")
    log(table(offers, (*columns, *amounts, "completedOrders")))
    problems = []
    if streamed.ledger != book.ledger:
        problems.append(f"the order book is as of ledger {streamed.ledger}, not {book.ledger}")
    problems += differences("the order book", offers, list(book.offers))
    streamed_offers = sorted((offer.as_json() for offer in streamed.offers.values()), key=str)
    expected = sorted(book.offers, key=str)
    problems += differences("the book that is streamed", streamed_offers, expected)
    for filters in ({"direction": "onramp"}, {"currency": "eur"}, {"rail": "wise"}):
        problems += _check_filter(book, service, filters)
    return problems


def _check_filter(book: BookExpectation, service: Service, filters: dict[str, Any]) -> list[str]:
    wanted = [offer for offer in book.offers if _fits(offer, filters)]
    shown = [offer.as_json() for offer in service.api.offers(**filters)]
    return differences(f"the order book with {filters}", shown, wanted)


def _fits(offer: Json, filters: Mapping[str, str]) -> bool:
    rails = offer["acceptedRails"]
    return (
        filters.get("direction", offer["direction"]) == offer["direction"]
        and filters.get("currency", offer["currency"]).upper() == offer["currency"]
        and filters.get("rail", rails[0]) in rails
    )


def _check_summary(
    book: BookExpectation, service: Service, log: Callable[[str], None]
) -> list[str]:
    summary = service.api.summary().as_json()
    log("\nGET /api/v1/orderbook/summary")
    log(table([summary], ("totalAvailableUsdc", "totalLockedUsdc", "offerCount")))
    log(table(summary["byRail"], ("rail", "availableUsdc", "offerCount")))
    return differences("the summary", summary, book.summary)


def _check_providers(
    book: BookExpectation, service: Service, log: Callable[[str], None]
) -> list[str]:
    shown = {name: service.api.provider(name).as_json() for name in book.providers}
    log("\nGET /api/v1/providers/{address}")
    columns = ("provider", "availableUsdc", "lockedUsdc", "completedOrders", "activeIntents")
    log(table(shown.values(), (*columns, "avgFulfillmentSeconds", "acceptedRails")))
    return [
        problem
        for name, wanted in book.providers.items()
        for problem in differences(f"provider {name}", shown[name], wanted)
    ]


def _check_orders(book: BookExpectation, service: Service, log: Callable[[str], None]) -> list[str]:
    shown = {each: service.api.order(each).as_json() for each in book.orders}
    log("\nGET /api/v1/intents/{id}")
    columns = ("intentId", "status", "direction", "rail", "currency", "amountUsdc", "fiatAmount")
    log(table(shown.values(), (*columns, "nullifier", "txHash")))
    return [
        problem
        for each, wanted in book.orders.items()
        for problem in differences(f"order {each}", shown[each], wanted)
    ]


def _check_unknown(service: Service) -> list[str]:
    """An unknown provider or order returns 404."""
    try:
        order = service.api.order("0" * 64)
    except NotFound:
        return []
    return [f"an order that was never opened is {order}"]


# The rest


def _check_routes(service: Service, log: Callable[[str], None]) -> list[str]:
    shown = [route.as_json() for route in service.api.routes()]
    log("\nGET /v1/routes")
    rows = [
        {
            **route,
            "from": [end["chain"] for end in route["source_chains"]],
            "to": [end["chain"] for end in route["dest_chains"]],
        }
        for route in shown
    ]
    log(table(rows, ("id", "mechanism", "enabled", "from", "to")))
    problems = differences("the routes", [route["id"] for route in shown], list(_ROUTES))
    for route in shown:
        ends = [*route["source_chains"], *route["dest_chains"]]
        if not route["enabled"] or not all(end["available"] for end in ends):
            problems.append(f"route {route['id']} is not as open as it must be: {route}")
    return problems


def _check_movements(
    expected: Sequence[ExpectedMovement], service: Service, log: Callable[[str], None]
) -> list[str]:
    with service.engine.connect() as connection:
        query = select(movements).where(movements.c.sent_at >= service.began)
        found = connection.execute(query.order_by(movements.c.sent_at))
        rows = {row["source_tx"]: dict(row) for row in found.mappings()}
    log("\nprojections.movements (read from the warehouse: no endpoint shows it)")
    columns = ("mechanism", "stage", "source_chain", "amount_in", "dest_chain", "amount_out", "fee")
    log(table(rows.values(), (*columns, "source_tx", "dest_tx")))
    problems = []
    for movement in expected:
        wanted = asdict(movement)
        row = rows.pop(movement.source_tx, None)
        shown = None if row is None else {name: row[name] for name in wanted}
        problems += differences(f"the movement of {movement.source_tx}", shown, wanted)
    return [*problems, *(f"nobody made the movement {row}" for row in rows.values())]


def _check_arrivals(expected: Sequence[ExpectedMovement], service: Service) -> list[str]:
    """A delivery to a watched address is stored as the token's own movement too."""
    watched = {address for chain in service.network.chains for address in chain.watched}
    wanted = {
        (each.dest_tx, each.dest_address, each.amount_out)
        for each in expected
        if each.stage == "COMPLETED" and each.dest_address in watched
    }
    found: set[tuple[Any, ...]] = set()
    with service.engine.connect() as connection:
        for name in ("Erc20Transfer", "AssetMovement"):
            row = EVENT_TABLES[name].c
            found.update(
                map(tuple, connection.execute(select(row.tx_hash, row.recipient, row.amount)))
            )
    return [f"no token movement is on record for {missing}" for missing in sorted(wanted - found)]


def _check_chains(ready: Readiness, service: Service, log: Callable[[str], None]) -> list[str]:
    chains = [chain.as_json() for chain in ready.chains]
    log("\nGET /readyz")
    log(table(chains, ("chain", "height", "lag_seconds", "age_seconds", "reason")))
    wanted = {chain.id for chain in service.network.chains}
    return differences("the chains of /readyz", {row["chain"] for row in chains}, wanted)


# Comparing and printing


def differences(what: str, shown: Any, wanted: Any) -> list[str]:
    """Differences of two values, member by member: a sentence each."""
    if isinstance(shown, dict) and isinstance(wanted, dict):
        return [
            problem
            for name in sorted({*shown, *wanted})
            for problem in differences(
                f"{what}: {name}", shown.get(name, _ABSENT), wanted.get(name, _ABSENT)
            )
        ]
    if isinstance(shown, list) and isinstance(wanted, list) and len(shown) == len(wanted):
        return [
            problem
            for index, (one, other) in enumerate(zip(shown, wanted, strict=True))
            for problem in differences(f"{what}[{index}]", one, other)
        ]
    return [] if shown == wanted else [f"{what} is {shown!r}, and must be {wanted!r}"]


class _Absent:
    def __repr__(self) -> str:
        return "absent"


_ABSENT = _Absent()


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Columns in line; long ids are shortened in the middle, lists joined."""
    lines = [list(columns), *([_cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join(
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ",".join(map(_cell, value)) or "-"
    text = str(value)
    return text if len(text) <= 32 else f"{text[:8]}…{text[-6:]}"
