"""`GET /api/v1/providers/{address}/activity`."""

import pytest

from tests.factories.projections import (
    CLOSE_TIME,
    LEDGER,
    PROVIDER,
    address,
    fulfilled,
    insert_order,
    insert_provider,
    units,
)

PATH = f"/api/v1/providers/{PROVIDER}/activity"
DAY = 86_400


def add(connection, number, status="fulfilled", *, age=3_600, took=300, **fields):
    created_at = CLOSE_TIME - age
    ended = {"chain_status": status, "end_tx": "cd" * 32, "ended_at": created_at + took}
    states = {
        "active": {},
        "fulfilled": fulfilled(ended_at=created_at + took, nullifier=f"0x{number:064x}"),
        "cancelled": ended,
        # The clock has passed it, the chain has not ended it.
        "expired": {},
    }
    row = {"status": status, **states[status], "created_at": created_at, **fields}
    insert_order(connection, order_id=f"0x{number:064x}", **row)


def test_activity_counts_orders_by_status(client, book):
    insert_provider(book)
    for number, (status, took) in enumerate(
        [
            ("fulfilled", 600),
            ("fulfilled", 100),
            ("fulfilled", 200),
            ("fulfilled", 900),
            ("cancelled", 50),
            ("expired", 0),
            ("active", 0),
        ]
    ):
        add(book, number, status, took=took, provider=PROVIDER)
    add(book, 90, provider=address(8))
    response = client.get(PATH)
    assert response.json == {
        "provider": PROVIDER,
        "since": "2026-10-22T08:00:00Z",
        "openedOrders": 7,
        "fulfilledOrders": 4,
        "cancelledOrders": 1,
        "expiredOrders": 1,
        "volumeUsdc": "100",
        "fillRate": "0.6666667",
        "medianFulfillmentSeconds": 200,
    }
    assert response.headers["X-Ledger"] == str(LEDGER)


def test_partial_release_counts_as_what_was_released(client, book):
    insert_provider(book)
    add(book, 1, released=units("12.5"))
    assert client.get(PATH).json["volumeUsdc"] == "12.5"


def test_what_is_not_known_is_null_not_zero(client, book):
    insert_provider(book)
    add(book, 1, "active")
    found = client.get(PATH).json
    assert (found["openedOrders"], found["volumeUsdc"]) == (1, "0")
    assert (found["fillRate"], found["medianFulfillmentSeconds"]) == (None, None)


def test_orders_before_thirty_days_are_left_out(client, book):
    insert_provider(book)
    for number, age in enumerate((30 * DAY, 30 * DAY + 1)):
        add(book, number, age=age)
    assert client.get(PATH).json["openedOrders"] == 1


def test_only_the_newest_orders_are_read(client, book, monkeypatch):
    monkeypatch.setattr("api.orderbook.activity.MAX_ORDERS", 2)
    insert_provider(book)
    for number in range(3):
        add(book, number, age=60 * (number + 1), took=0)
    found = client.get(PATH).json
    assert (found["openedOrders"], found["since"]) == (2, "2026-11-21T07:58:00Z")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"/api/v1/providers/{address(7)}/activity", 404, "PROVIDER_NOT_FOUND"),
        ("/api/v1/providers/GABC/activity", 400, "BAD_ADDRESS"),
    ],
)
def test_unknown_or_bad_provider_is_refused(client, book, path, status, code):
    response = client.get(path)
    assert (response.status_code, response.json["code"]) == (status, code)


def test_missing_book_returns_503(client, rows):
    assert client.get(PATH).json["code"] == "ORDER_BOOK_NOT_READY"
