"""The stream of two server processes on real sockets and Postgres."""

from contextlib import ExitStack

import httpx
import pytest

from tests.factories.book import account
from tests.factories.streaming import Listener

SOMEBODY = account("provider 1")
QUERIES = [
    "",
    "rail=venmo",
    "currency=usd",
    "direction=onramp",
    "rail=wise&direction=offramp&currency=EUR",
    "channel=orderbook&rail=revolut",
]


@pytest.fixture
def square(market_square):
    """The book is not empty, wherever its history has come to."""
    while len(market_square.shown[market_square.market.ledger]) < 3:
        market_square.move(5, together=True)
    return market_square


@pytest.fixture
def listen(square):
    with ExitStack() as stack:
        yield lambda query="", **options: stack.enter_context(
            Listener(square.url, query, **options)
        )


def test_client_has_the_book_of_every_ledger(square, listen):
    listeners = [listen("markers=1") for _ in range(6)]
    for _ in range(12):
        for together in (1, 1, 5):
            ledger = square.move(together, together=True)
            for listener in listeners:
                assert listener.wait_for(ledger) == square.shown[ledger]


def test_client_without_markers_has_the_same_books(square, listen):
    begun = square.market.ledger
    listeners = [listen() for _ in range(6)]
    marked = listen("markers=1")
    for listener in (*listeners, marked):
        listener.wait_for(begun)
    for _ in range(60):
        square.move()
    last = square.market.ledger
    marked.wait_for(last)
    changed = {ledger for ledger in marked.books if changes(marked, ledger)}
    for listener in listeners:
        assert listener.wait_for(max(changed)) == square.shown[last]
        assert listener.books == {ledger: square.shown[ledger] for ledger in {begun, *changed}}


def changes(listener, ledger):
    """Whether the ledger changed an offer or an order."""
    told = {"orderbook", "intent"}
    return any(m["ledger"] == ledger and m["channel"] in told for m in listener.messages)


@pytest.mark.parametrize("query", QUERIES)
def test_filtered_stream_equals_filtered_rest(square, listen, query):
    listener = listen(f"{query}&markers=1")
    for _ in range(8):
        ledger = square.move(4, together=True)
        assert square.show(query) == (ledger, listener.wait_for(ledger))


def test_provider_filter_has_the_providers_offers(square, listen):
    listener = listen(f"provider={SOMEBODY}&markers=1")
    had_offers = False
    while not (had_offers and listener.orders):
        ledger = square.move(10, together=True)
        theirs = {key: entry for key, entry in square.shown[ledger].items() if key[0] == SOMEBODY}
        assert listener.wait_for(ledger) == theirs
        had_offers = had_offers or bool(theirs)
    assert {order["provider"] for order in listener.orders} == {SOMEBODY}


def test_snapshot_is_adds_of_one_ledger_with_last(square, listen):
    ledger = square.market.ledger
    listener = listen()
    listener.wait_for(ledger)
    snapshot = [m for m in listener.messages if m["ledger"] == ledger]
    assert {(m["channel"], m["op"]) for m in snapshot} == {("orderbook", "add")}
    assert [m for m in snapshot if m.get("last")] == [snapshot[-1]]
    members = {"channel", "op", "entry", "ledger", "seq", "prevSeq"}
    assert set(snapshot[0]) == members
    assert set(snapshot[-1]) == members | {"last", "closedAt"}


def test_empty_snapshot_sends_a_marker_if_requested(square, listen):
    ledger = square.market.ledger
    listener = listen("rail=nobodys&markers=1")
    assert listener.wait_for(ledger) == {}
    closed_at = square.market.closed_at(ledger)
    marker = {"channel": "ledger", "ledger": ledger, "last": True, "closedAt": closed_at}
    assert [bare(message) for message in listener.messages] == [marker]
    ledger = square.move()
    assert listener.wait_for(ledger) == {}
    assert len(listener.messages) == 2


def test_orders_equal_rest(square, listen):
    listener = listen("channel=intent&markers=1")
    listener.wait_for(square.market.ledger)
    while not {"active", "fulfilled"} <= {order["status"] for order in listener.orders}:
        listener.wait_for(square.move(10, together=True))
    assert {m["channel"] for m in listener.messages} == {"intent", "ledger"}
    statuses = {}
    for order in listener.orders:
        told = statuses.setdefault(order["intentId"], [])
        told.append(order["status"])
        assert told in (["active"], ["active", told[-1]], [told[-1]]), "once each"
    for order_id, told in statuses.items():
        shown = square.rest.get(f"/api/v1/intents/{order_id}").json
        assert shown in listener.orders
        assert shown["status"] == told[-1]


@pytest.mark.parametrize(("query", "step"), [("", 1), ("rail=venmo", 5), ("channel=intent", 5)])
def test_resume_at_any_ledger_sends_missed_changes(square, listen, query, step):
    first = square.market.ledger
    whole = listen(f"{query}&after={first}&markers=1", book=of(square, first, query))
    told = []
    while not told:
        last = square.move(12)
        whole.wait_for(last)
        told = [m for m in whole.messages if m["channel"] in ("orderbook", "intent")]
    known = [ledger for ledger in sorted(square.shown) if ledger >= first]
    for after in known[:-1:step]:
        back = listen(f"{query}&after={after}&markers=1", book=of(square, after, query))
        assert back.wait_for(last) == of(square, last, query)
        opening, *missed = back.messages
        assert (opening["mode"], opening["ledger"]) == ("resume", after)
        missed = [m for m in missed if m["channel"] != "ledger"]
        assert [said(m) for m in missed] == [said(m) for m in told if m["ledger"] > after]


def of(square, ledger, query):
    """The book of a ledger as a client with that query has it."""
    if "intent" in query:
        return {}
    rail = query.removeprefix("rail=")
    return {
        key: entry
        for key, entry in square.shown[ledger].items()
        if not rail or rail in entry["acceptedRails"]
    }


def bare(message):
    """What is said, but for the number it is said under."""
    return {name: message[name] for name in message if name not in ("seq", "prevSeq")}


def said(message):
    """The same whenever it is said: later it is not known when the ledger closed."""
    return {name: value for name, value in bare(message).items() if name != "closedAt"}


def test_resume_without_missed_changes_ends_at_once(square, listen):
    ledger = square.market.ledger
    listener = listen(f"after={ledger}", book=square.shown[ledger])
    assert listener.wait_for(ledger) == square.shown[ledger]
    assert [bare(m) for m in listener.messages] == [
        {
            "channel": "stream",
            "mode": "resume",
            "ledger": ledger,
            "last": True,
            "closedAt": square.market.closed_at(ledger),
        }
    ]


def test_future_ledger_gets_a_snapshot(square, listen):
    ledger = square.market.ledger
    listener = listen(f"after={ledger + 1}", book=square.shown[min(square.shown)])
    assert listener.wait_for(ledger) == square.shown[ledger]
    opening = listener.messages[0]
    assert (opening["mode"], opening["ledger"]) == ("snapshot", ledger)
    assert len(listener.messages) == 1 + len(square.shown[ledger])


def test_client_resumes_at_another_process(square, listen):
    """Whoever is ahead of a process waits for it, and is told nothing twice."""
    for _ in range(20):
        ledger = square.move()
        listener = listen(f"after={ledger}&markers=1", book=square.shown[ledger])
        assert listener.wait_for(ledger) == square.shown[ledger]
        assert listener.messages[0]["mode"] == "resume"
    ledger = square.move()
    assert listener.wait_for(ledger) == square.shown[ledger]


def test_open_streams_occupy_no_request_thread(square, listen):
    listeners = [listen("markers=1") for _ in range(40)]
    for listener in listeners:
        listener.wait_for(square.market.ledger)
    with httpx.Client(base_url=square.server.url, timeout=20) as http:
        for _ in range(20):
            assert http.get("/healthz").status_code == 200
        ledger = square.move()
        assert http.get("/api/v1/orderbook").headers["X-Ledger"] == str(ledger)
    for listener in listeners:
        assert listener.wait_for(ledger) == square.shown[ledger]
