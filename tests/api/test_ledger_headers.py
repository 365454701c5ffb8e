"""Ledger headers, ETags and conditional requests of order-book responses."""

import pytest
from sqlalchemy import event, text, update

from api.deps import snapshot
from tests.factories.app import make_app
from tests.factories.projections import (
    CLOSE_TIME,
    LEDGER,
    ORDER_ID,
    PROVIDER,
    address,
    insert_offer,
    insert_order,
    insert_provider,
)
from warehouse_schema import projections

FOUND = [
    "/api/v1/orderbook",
    "/api/v1/orderbook/summary",
    f"/api/v1/providers/{PROVIDER}",
    "/api/v1/intents",
    f"/api/v1/intents/{ORDER_ID[2:]}",
]
NOT_FOUND = [f"/api/v1/providers/{address(99)}", f"/api/v1/intents/{'00' * 32}"]


@pytest.fixture
def filled(book):
    insert_provider(book)
    insert_offer(book)
    insert_order(book)
    return book


def move_book(connection, **values):
    connection.execute(update(projections.book).values(**values))


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("path", FOUND + NOT_FOUND)
def test_response_has_ledger_and_age(client, path):
    headers = client.get(path).headers
    assert headers["X-Ledger"] == str(LEDGER)
    assert headers["X-Ledger-Age"] == "4"


@pytest.mark.usefixtures("filled")
def test_head_has_the_headers_of_get(client):
    whole, head = client.get(FOUND[0]), client.head(FOUND[0])
    assert (head.status_code, head.data) == (200, b"")
    for name in ("X-Ledger", "X-Ledger-Age", "ETag", "Content-Length"):
        assert head.headers[name] == whole.headers[name]


def test_error_has_no_ledger(client, filled):
    assert "X-Ledger" not in client.get("/api/v1/orderbook?direction=up").headers


def test_age_grows_with_the_clock(reader, filled):
    later = make_app(reader, now=CLOSE_TIME + 3600).test_client()
    assert later.get("/api/v1/orderbook").headers["X-Ledger-Age"] == "3600"


def test_age_is_never_negative(reader, filled):
    behind = make_app(reader, now=CLOSE_TIME - 10).test_client()
    assert behind.get("/api/v1/orderbook").headers["X-Ledger-Age"] == "0"


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("path", FOUND)
def test_unchanged_response_returns_304(client, path):
    first = client.get(path)
    again = client.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert first.headers["Cache-Control"] == "no-cache"
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["X-Ledger"] == str(LEDGER)
    assert again.headers["ETag"] == first.headers["ETag"]


def test_new_content_or_ledger_changes_the_etag(client, filled):
    def tag():
        return client.get("/api/v1/orderbook").headers["ETag"]

    first = tag()
    filled.execute(update(projections.offers).values(rate=1))
    second = tag()
    move_book(filled, as_of_ledger=LEDGER + 1)
    third = tag()
    assert len({first, second, third}) == 3
    assert tag() == third


def test_error_has_no_etag(client, filled):
    assert "ETag" not in client.get(NOT_FOUND[0]).headers


def test_header_and_body_are_of_one_ledger(reader, client, filled):
    """A ledger lands between the read of the clock and that of the offers."""
    landed = []

    def land(conn, cursor, statement, *rest):
        if "FROM projections.offers" in statement and not landed:
            landed.append(True)
            move_book(filled, as_of_ledger=LEDGER + 1)
            filled.execute(text("DELETE FROM projections.offers"))

    event.listen(reader, "before_cursor_execute", land)
    try:
        before = client.get("/api/v1/orderbook")
        after = client.get("/api/v1/orderbook")
    finally:
        event.remove(reader, "before_cursor_execute", land)
    assert landed
    assert (before.headers["X-Ledger"], len(before.json)) == (str(LEDGER), 1)
    assert (after.headers["X-Ledger"], len(after.json)) == (str(LEDGER + 1), 0)


def test_snapshot_transaction_is_read_only(owner):
    """Not even under a role that may: the transaction is read-only."""
    with make_app(owner).app_context(), snapshot() as connection:
        assert connection.scalar(text("SHOW transaction_read_only")) == "on"
        assert connection.scalar(text("SHOW transaction_isolation")) == "repeatable read"
