"""`GET /api/v1/orderbook/history`."""

from datetime import date, timedelta

import pytest
from sqlalchemy import event

from api.orderbook.history import DAYS, FRESH_SECONDS, PriceHistoryCache
from tests.factories.projections import insert_day_done, insert_market_day

PATH = "/api/v1/orderbook/history"
LAST = date(2026, 11, 20)
DAY = timedelta(days=1)


def history(client, currency="EUR"):
    response = client.get(PATH, query_string={"currency": currency})
    assert response.status_code == 200, response.json
    return response.json


def test_day_has_the_rate_of_what_was_released(rows, client):
    insert_day_done(rows, LAST)
    insert_market_day(rows, LAST, released="30.5", fiat="28.365", opened=3, fulfilled=2)
    assert history(client) == {
        "currency": "EUR",
        "firstDay": "2026-10-22",
        "lastDay": "2026-11-20",
        "days": [
            {
                "day": "2026-11-20",
                "direction": "onramp",
                "rail": "revolut",
                "rate": "0.93",
                "volumeUsdc": "30.5",
                "volumeFiat": "28.365",
                "openedOrders": 3,
                "fulfilledOrders": 2,
                "cancelledOrders": 0,
                "expiredOrders": 0,
            }
        ],
    }


@pytest.mark.parametrize(
    ("released", "fiat", "rate"),
    [
        (3, 2, "0.6666667"),
        (3, 1, "0.3333333"),
        (4, "0.0000002", "0.0000001"),
        (0, 0, None),
        (3, None, None),
    ],
    ids=["up", "down", "half up", "nothing released", "absurd fiat"],
)
def test_rate_is_rounded_or_null(rows, client, released, fiat, rate):
    insert_day_done(rows, LAST)
    insert_market_day(rows, LAST, released=released, fiat=fiat)
    [day] = history(client)["days"]
    assert day["rate"] == rate
    assert (day["volumeFiat"] is None) == (fiat is None)


def test_days_are_sorted_and_of_one_currency(rows, client):
    insert_day_done(rows, LAST)
    markets = [
        (LAST - DAY, "onramp", "wise"),
        (LAST, "offramp", "revolut"),
        (LAST, "onramp", "revolut"),
        (LAST, "onramp", "wise"),
    ]
    for day, direction, rail in reversed(markets):
        insert_market_day(rows, day, direction=direction, rail=rail)
    insert_market_day(rows, LAST, currency="USD")
    shown = history(client, "eur")["days"]
    keys = [(each["day"], each["direction"], each["rail"]) for each in shown]
    assert keys == [(day.isoformat(), *market) for day, *market in markets]
    assert len(history(client, "USD")["days"]) == 1


def test_only_the_last_thirty_computed_days_are_shown(rows, client):
    insert_day_done(rows, LAST)
    for days_ago in (-1, 0, DAYS - 1, DAYS):
        insert_market_day(rows, LAST - days_ago * DAY)
    shown = [each["day"] for each in history(client)["days"]]
    assert shown == ["2026-10-22", "2026-11-20"]


def test_unknown_days_differ_from_days_without_orders(rows, client):
    unknown = history(client)
    assert unknown == {"currency": "EUR", "firstDay": None, "lastDay": None, "days": []}


def test_currency_without_orders_has_no_days_up_to_the_last(rows, client):
    insert_day_done(rows, LAST)
    assert history(client, "XXX")["lastDay"] == "2026-11-20"
    assert history(client, "XXX")["days"] == []


@pytest.mark.parametrize("query", ["", "?currency=", "?currency=EURO", "?currency=E1R"])
def test_missing_or_bad_currency_returns_400(client, query):
    response = client.get(PATH + query)
    assert (response.status_code, response.json["code"]) == (400, "BAD_FILTER")
    assert "currency" in response.json["message"]


def test_missing_database_returns_503(cut_off):
    response = cut_off.get(f"{PATH}?currency=EUR")
    assert (response.status_code, response.json["code"]) == (503, "DATABASE_UNAVAILABLE")


def test_unchanged_history_returns_304(rows, client):
    insert_day_done(rows, LAST)
    insert_market_day(rows, LAST)
    first = client.get(f"{PATH}?currency=EUR")
    tag = {"If-None-Match": first.headers["ETag"]}
    assert client.get(f"{PATH}?currency=EUR", headers=tag).status_code == 304


def test_any_number_of_requests_reads_once_a_minute(rows, reader):
    """Also for currencies that do not exist: those are what a stranger can vary."""
    statements = []
    listener = (reader, "before_cursor_execute", lambda *args: statements.append(args[2]))
    event.listen(*listener)
    now = [1_000.0]
    kept = PriceHistoryCache(reader, lambda: now[0])
    insert_day_done(rows, LAST)
    insert_market_day(rows, LAST)
    try:
        before = kept.of("EUR")
        read = len(statements)
        insert_market_day(rows, LAST - DAY)
        now[0] += FRESH_SECONDS - 1
        for number in range(300):
            kept.of(f"X{number:02}")
        assert kept.of("EUR") is before
        assert len(statements) == read
        now[0] += 2
        assert kept.of("EUR").plain != before.plain
        assert len(statements) == 2 * read
    finally:
        event.remove(*listener)
