"""`GET /api/v1/intents`."""

import pytest
from sqlalchemy import text

from api.operation import MAX_LIMIT
from api.orderbook.filters import OfferFilters
from api.orderbook.recent import RecentOrders, newest
from indexer.addresses import stellar_holder
from tests.factories.projections import (
    CLOSE_TIME,
    LEDGER,
    address,
    fulfilled,
    insert_order,
)

PATH = "/api/v1/intents"


def order_id(number):
    return f"{number:064x}"


def insert(connection, number, **fields):
    insert_order(connection, order_id=f"0x{order_id(number)}", **fields)


def ids(response):
    assert response.status_code == 200, response.json
    return [int(order["intentId"], 16) for order in response.json]


def test_orders_are_sorted_by_time_then_id(client, book):
    insert(book, 3, created_at=CLOSE_TIME - 60)
    insert(book, 2, created_at=CLOSE_TIME - 60)
    insert(book, 1, created_at=CLOSE_TIME - 90)
    insert(book, 9, created_at=CLOSE_TIME - 30)
    assert ids(client.get(PATH)) == [9, 2, 3, 1]


def test_listed_order_equals_the_order_itself(client, book):
    insert(book, 7, **fulfilled())
    assert client.get(PATH).json == [client.get(f"{PATH}/{order_id(7)}").json]


def test_provider_filter_selects_its_orders(client, book):
    insert(book, 1, provider=address(1))
    insert(book, 2, provider=address(2))
    assert ids(client.get(f"{PATH}?provider={address(2)}")) == [2]
    assert ids(client.get(f"{PATH}?provider={address(3)}")) == []


MARKETS = {
    1: {"rail": "wise", "currency": "EUR", "direction": "onramp", "taker": address(8)},
    2: {"rail": "wise", "currency": "USD", "direction": "onramp", "taker": address(9)},
    3: {"rail": "revolut", "currency": "EUR", "direction": "offramp", "taker": address(8)},
}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("rail=wise", [1, 2]),
        ("currency=eur", [1, 3]),
        ("direction=offramp", [3]),
        ("rail=wise&currency=EUR&direction=onramp", [1]),
        ("rail=wise&direction=offramp", []),
        ("rail=&currency=&direction=", [1, 2, 3]),
        ("rail=wise&limit=1", [1]),
        (f"rail=wise&provider={address(3)}", []),
        (f"buyer={address(8)}", [1, 3]),
        (f"buyer={address(8)}&rail=wise&limit=5", [1]),
        (f"buyer={address(7)}", []),
        ("buyer=", [1, 2, 3]),
        # Public reads ignore unknown parameters: docs/api.md.
        (f"taker={address(8)}", [1, 2, 3]),
    ],
)
def test_filters_select_orders(client, book, query, expected):
    for number, market in MARKETS.items():
        insert(book, number, **market)
    assert ids(client.get(f"{PATH}?{query}")) == expected


def test_filters_look_at_the_newest_orders_only(client, book, monkeypatch):
    monkeypatch.setattr("api.orderbook.recent.MAX_FILTERED", 2)
    for number, market in MARKETS.items():
        insert(book, number, created_at=CLOSE_TIME - number, **market)
    assert ids(client.get(f"{PATH}?direction=offramp")) == []
    assert ids(client.get(f"{PATH}?rail=wise")) == [1, 2]


@pytest.mark.parametrize("query", ["currency=euro", "direction=up"])
def test_bad_filter_returns_400(client, book, query):
    response = client.get(f"{PATH}?{query}")
    assert (response.status_code, response.json["code"]) == (400, "BAD_FILTER")


def test_limit_defaults_to_fifty(client, book):
    for number in range(60):
        insert(book, number, created_at=CLOSE_TIME - number)
    assert ids(client.get(f"{PATH}?limit=3")) == [0, 1, 2]
    assert ids(client.get(f"{PATH}?limit=")) == list(range(50))
    assert len(ids(client.get(f"{PATH}?limit={MAX_LIMIT}"))) == 60


@pytest.mark.parametrize("limit", ["0", "201", "-1", "1.5", "x", "９", "1e1", "9" * 30])
def test_bad_limit_returns_400(client, book, limit):
    response = client.get(PATH, query_string={"limit": limit})
    assert (response.status_code, response.json["code"]) == (400, "BAD_LIMIT")
    assert "limit" in response.json["message"]


@pytest.mark.parametrize("name", ["provider", "buyer"])
def test_bad_address_returns_400(client, book, name):
    response = client.get(f"{PATH}?{name}=x")
    assert (response.status_code, response.json["code"]) == (400, "BAD_ADDRESS")
    assert response.json["message"].startswith(f"{name}: ")


def test_list_has_ledger_and_returns_304_if_unchanged(client, book):
    insert(book, 1)
    first = client.get(PATH)
    assert first.headers["X-Ledger"] == str(LEDGER)
    again = client.get(PATH, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")


@pytest.mark.parametrize("provider", [None, address(1)])
@pytest.mark.parametrize("topic", [OfferFilters(), OfferFilters(rail="wise")])
def test_newest_orders_are_read_from_an_index(connection, provider, topic):
    """Not by sorting: a busy market has millions."""
    holder = None if provider is None else stellar_holder(provider)
    wanted = RecentOrders(provider=holder, topic=topic)
    sql = newest(wanted).compile(connection, compile_kwargs={"literal_binds": True})
    connection.execute(text("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off"))
    plan = "\n".join(connection.scalars(text(f"EXPLAIN {sql}")))
    assert "Index Scan" in plan
    assert "Sort" not in plan
