"""Responses of the order book that are sent without the app: equal to the app's, and never old."""

import logging
import random

import pytest
from flask import Flask
from flask.testing import FlaskClient
from limits import parse
from sqlalchemy import Connection, Engine, update

from api.browser_headers import BrowserPolicy
from api.metrics import Metrics
from api.notifications import Committed, NotificationListener
from api.rate_limits import READS, RateBudgets, RateLimiter
from tests.factories.app import make_app
from tests.factories.projections import (
    LEDGER,
    ORDER_ID,
    PROVIDER,
    STELLAR,
    insert_book,
    insert_depth,
    insert_offer,
    insert_order,
    insert_provider,
    insert_rail,
)
from warehouse_schema import projections as tables
from warehouse_schema.identifiers import ChainId, Height

PATHS = (
    "/api/v1/orderbook",
    "/api/v1/orderbook?direction=onramp",
    "/api/v1/orderbook/summary",
    f"/api/v1/providers/{PROVIDER}",
    f"/api/v1/providers/{PROVIDER}/activity",
    "/api/v1/intents?limit=1",
    f"/api/v1/intents/{ORDER_ID.removeprefix('0x')}",
)
BY_REQUEST = "X-Request-Id"


@pytest.fixture
def market(rows: Connection) -> Connection:
    """One of everything."""
    insert_book(rows)
    insert_rail(rows)
    insert_provider(rows)
    for number in range(20):
        insert_offer(rows, direction="onramp", currency=f"E{number:02d}"[:3])
    insert_depth(rows, "revolut", 1000, 1)
    insert_order(rows)
    return rows


def caching_app(reader: Engine, monkeypatch: pytest.MonkeyPatch, **others) -> Flask:
    """Its book is checked as often as a test clears it, not by time."""
    monkeypatch.setattr("api.orderbook.books._REFRESH_SECONDS", 1e9)
    monkeypatch.setattr("api.orderbook.books.FRESH_SECONDS", 1e9)
    return make_app(reader, listener=NotificationListener(reader), **others)


def without_app(app: Flask, monkeypatch: pytest.MonkeyPatch) -> FlaskClient:
    """A client of what lies ready: a request that reaches the app fails."""

    def reached(*_: object) -> None:
        raise AssertionError("the app was asked")

    monkeypatch.setattr(app.wsgi_app, "_app", reached)
    return app.test_client()


def shown(answer) -> tuple:
    headers = sorted((name, value) for name, value in answer.headers if name != BY_REQUEST)
    return answer.status, headers, answer.data


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_equals_the_apps_response(market, reader, monkeypatch, path, encoding):
    app = caching_app(reader, monkeypatch)
    headers = {"Accept-Encoding": encoding}
    first, second = (app.test_client().get(path, headers=headers) for _ in range(2))
    assert first.status_code == 200
    tagged = {**headers, "If-None-Match": second.headers["ETag"]}
    unchanged = app.test_client().get(path, headers=tagged)
    assert unchanged.status_code == 304
    client = without_app(app, monkeypatch)
    ready, not_modified = (client.get(path, headers=each) for each in (headers, tagged))
    assert shown(first) == shown(second) == shown(ready)
    assert shown(unchanged) == shown(not_modified)
    assert len(ready.headers[BY_REQUEST]) == 32
    assert ready.headers[BY_REQUEST] != second.headers[BY_REQUEST]


@pytest.mark.parametrize(
    "request_of",
    [
        {"method": "HEAD"},
        {"method": "OPTIONS"},
        {"method": "POST"},
        {"headers": {"If-Match": '"x"'}},
        {"data": b"{}"},
        {"query_string": "direction=" + "x" * 600},
        {"headers": {"If-None-Match": '"' + "x" * 600 + '"'}},
    ],
)
def test_other_requests_are_the_apps(market, reader, monkeypatch, request_of):
    app = caching_app(reader, monkeypatch)
    for _ in range(2):
        app.test_client().get(PATHS[0])
    answers = [app.test_client().open(PATHS[0], **request_of) for _ in range(2)]
    assert shown(answers[0]) == shown(answers[1])
    client = without_app(app, monkeypatch)
    with pytest.raises(AssertionError, match="the app was asked"):
        client.open(PATHS[0], **request_of)


@pytest.mark.parametrize(
    "path", ["/api/v1/orderbook?direction=up", "/api/v1/intents/" + "0" * 64, "/api/v1/nothing"]
)
def test_errors_are_the_apps(market, reader, monkeypatch, path):
    app = caching_app(reader, monkeypatch)
    for _ in range(2):
        assert app.test_client().get(path).status_code >= 400
    client = without_app(app, monkeypatch)
    with pytest.raises(AssertionError, match="the app was asked"):
        client.get(path)


def test_new_state_has_its_own_responses(market, reader, monkeypatch):
    app = caching_app(reader, monkeypatch)
    monkeypatch.setattr("api.orderbook.books._REFRESH_SECONDS", 0)
    monkeypatch.setattr("api.orderbook.books.FRESH_SECONDS", 0)
    client = app.test_client()
    for ledger in range(LEDGER, LEDGER + 3):
        market.execute(update(tables.book).values(as_of_ledger=ledger))
        assert [client.get(PATHS[0]).headers["X-Ledger"] for _ in range(2)] == [str(ledger)] * 2


def test_commit_is_seen_by_the_next_request(market, reader, monkeypatch):
    app = caching_app(reader, monkeypatch)
    listener = app.extensions["isthmus"].listener
    client = app.test_client()
    for ledger in range(LEDGER, LEDGER + 3):
        market.execute(update(tables.book).values(as_of_ledger=ledger))
        for subscriber in listener._subscribers:
            subscriber(Committed(ChainId(STELLAR), Height(ledger)))
        assert [client.get(PATHS[0]).headers["X-Ledger"] for _ in range(2)] == [str(ledger)] * 2


def test_each_request_is_counted_and_refused_alike(market, reader, monkeypatch):
    metrics = Metrics()
    limiter = RateLimiter(
        RateBudgets({READS: parse("3 per hour")}),
        clock=lambda: 0.0,
        on_refusal=metrics.rate_limited,
    )
    client = caching_app(reader, monkeypatch, limiter=limiter, metrics=metrics).test_client()
    answers = [client.get(PATHS[0]) for _ in range(5)]
    assert [each.status_code for each in answers] == [200, 200, 200, 429, 429]
    assert [each.headers["RateLimit"] for each in answers] == [
        *(f'"reads";r={left};t=3600' for left in (2, 1, 0)),
        *['"reads";r=0;t=3600'] * 2,
    ]
    assert value(metrics, "isthmus_rate_limited_total") == 2
    assert value(metrics, "isthmus_requests_total") == 5


def value(metrics: Metrics, name: str) -> float:
    """The sum over a metric's labels."""
    return sum(
        sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == name
    )


def test_log_line_and_request_id_are_the_apps(market, reader, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    app = caching_app(reader, monkeypatch)
    headers = {BY_REQUEST: "from-a-proxy"}
    for _ in range(2):
        app.test_client().get(PATHS[0], headers=headers)
    answer = without_app(app, monkeypatch).get(PATHS[0], headers=headers)
    assert answer.headers[BY_REQUEST] == "from-a-proxy"
    lines = [r for r in caplog.records if r.name == "api.request_log"]
    [(first, *others)] = [[line.getMessage().partition(" ms=")[0] for line in lines]]
    assert len(lines) == 3
    assert first == "request id=from-a-proxy method=GET path='/api/v1/orderbook' status=200"
    assert others == [first] * 2
    assert {(line.method, line.path, line.status) for line in lines} == {("GET", PATHS[0], 200)}


def test_named_origins_are_told_apart(market, reader, monkeypatch):
    ours, theirs = "https://app.example", "https://evil.example"
    policy = BrowserPolicy(origins=frozenset({ours}))
    client = caching_app(reader, monkeypatch, web=policy).test_client()
    for _ in range(3):
        for origin, allowed in ((ours, ours), (theirs, None)):
            answer = client.get(PATHS[0], headers={"Origin": origin})
            assert answer.headers.get("Access-Control-Allow-Origin") == allowed
            assert "Origin" in answer.headers["Vary"]


def test_memory_is_bounded(market, reader, monkeypatch):
    app = caching_app(reader, monkeypatch)
    monkeypatch.setattr("api.orderbook.books._MAX_RESPONSE_BYTES", 50_000)
    client = app.test_client()
    digits = random.Random(1)
    for _ in range(100):
        assert client.get(f"{PATHS[0]}?unknown={digits.random()}").status_code == 200
    [books] = [each for each in app.extensions.values() if type(each).__name__ == "Books"]
    assert 0 < len(books.state_without_reading().responses) < 50_000 // 4_000 + 1
