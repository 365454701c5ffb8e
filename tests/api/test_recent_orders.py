"""`GET /api/v1/intents`."""

import pytest
from sqlalchemy import text

from api.operation import MAX_LIMIT
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


def test_bad_provider_returns_400(client, book):
    response = client.get(f"{PATH}?provider=x")
    assert (response.status_code, response.json["code"]) == (400, "BAD_ADDRESS")


def test_list_has_ledger_and_returns_304_if_unchanged(client, book):
    insert(book, 1)
    first = client.get(PATH)
    assert first.headers["X-Ledger"] == str(LEDGER)
    again = client.get(PATH, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")


@pytest.mark.parametrize("provider", [None, address(1)])
def test_newest_orders_are_read_from_an_index(connection, provider):
    """Not by sorting: a busy market has millions."""
    wanted = RecentOrders(provider=None if provider is None else stellar_holder(provider))
    sql = newest(wanted).compile(connection, compile_kwargs={"literal_binds": True})
    connection.execute(text("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off"))
    plan = "\n".join(connection.scalars(text(f"EXPLAIN {sql}")))
    assert "Index Scan" in plan
    assert "Sort" not in plan
