"""`GET /v1/transfers`: pages contain each transfer once."""

from urllib.parse import quote_plus

import pytest
from sqlalchemy import func, select, update

from tests.factories.quotes import OTHER, asking
from tests.factories.started import PATH, insert_quote, insert_transfer, start
from warehouse_schema.intake import transfers


def page(client, query="", account=None):
    answer = client.get(f"{PATH}{query}", headers=asking(*([account] if account else [])))
    assert answer.status_code == 200, answer.json
    return answer.json


def pages(client, limit):
    """All of them, as a client reads them."""
    query = f"?limit={limit}"
    while True:
        shown = page(client, query)
        yield [each["id"] for each in shown["transfers"]]
        if shown["next_before"] is None:
            return
        query = f"?limit={limit}&before={shown['next_before']}"


def test_empty_list_has_no_next_page(starter):
    assert page(starter) == {"transfers": [], "next_before": None}


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
def test_pages_contain_each_transfer_once(kept, starter, limit):
    made = [insert_transfer(kept, ago=20 * number) for number in range(10, 17)]
    # As close to one another as two of an owner's can be.
    first = select(func.min(transfers.c.started_at)).scalar_subquery()
    closest = first + func.make_interval(0, 0, 0, 0, 0, 0, 0.000001)
    kept.execute(update(transfers).where(transfers.c.id == made[5]).values(started_at=closest))
    insert_transfer(kept, owner=OTHER)
    read = list(pages(starter, limit))
    assert [each for page in read for each in page] == made
    assert [len(page) for page in read[:-1]] == [limit] * (len(read) - 1)


def test_new_transfer_does_not_shift_pages(kept, starter):
    made = [insert_transfer(kept, ago=20 * number) for number in range(10, 14)]
    reading = pages(starter, 2)
    seen = next(reading)
    start(starter, insert_quote(kept))
    assert [*seen, *(each for page in reading for each in page)] == made


def test_default_page_has_fifty(kept, starter):
    made = [insert_transfer(kept, ago=20 * number) for number in range(51)]
    shown = page(starter)
    assert [each["id"] for each in shown["transfers"]] == made[:50]
    assert shown["next_before"] == shown["transfers"][-1]["started_at"]
    assert len(page(starter, "?limit=200")["transfers"]) == 51


def test_list_has_only_own_transfers(kept, starter):
    mine, others = insert_transfer(kept), insert_transfer(kept, owner=OTHER)
    assert [each["id"] for each in page(starter)["transfers"]] == [mine]
    assert [each["id"] for each in page(starter, account=OTHER)["transfers"]] == [others]


def test_iso_time_is_a_cursor(kept, starter):
    made = insert_transfer(kept)
    for before in (
        *("2999-01-01T00:00:00Z", "2999-01-01", "2999-01-01T00:00:00.123456+05:30"),
        *("2999-01-01 00:00", ""),
    ):
        [shown] = page(starter, f"?before={quote_plus(before)}")["transfers"]
        assert shown["id"] == made


def test_unescaped_plus_in_cursor_is_accepted(kept, starter):
    made = insert_transfer(kept)
    for offset in ("+00:00", "+0530"):
        assert page(starter, f"?before=2999-01-01T00:00:00{offset}")["transfers"][0]["id"] == made
        assert page(starter, f"?before=2001-01-01T00:00:00{offset}")["transfers"] == []


def test_earliest_cursor_returns_empty_page(kept, starter):
    insert_transfer(kept)
    for before in ("0001-01-01", "0001-01-01T00:00:00+14:00", "1969-12-31T23:59:59Z"):
        assert page(starter, f"?before={quote_plus(before)}")["transfers"] == []


BAD_CURSORS = (
    *("yesterday", "1763791234", "2026-13-01", "2026-11-22T25:00:00Z", "2026-W01-1", "now"),
    *("2026-11-22T00:00:00+0530x", "٢٠٢٦-١١-٢٢", "20261122", "2026-11-22T", "9" * 400),
    "2026-11-22T00:00:00+99:00",
)
BAD_LIMITS = ("0", "201", "-1", "1.0", "x", "+1", "٣", "9" * 50, "1e2", " 1")


def test_bad_cursor_or_limit_returns_400(starter):
    bad = [("before", "BAD_CURSOR", each) for each in BAD_CURSORS]
    bad += [("limit", "BAD_LIMIT", each) for each in BAD_LIMITS]
    for name, code, value in bad:
        answer = starter.get(f"{PATH}?{name}={quote_plus(value)}", headers=asking())
        assert (answer.status_code, answer.json["code"]) == (400, code), value
        assert name in answer.json["message"]


def test_unknown_parameter_returns_400(starter):
    answer = starter.get(f"{PATH}?after=1", headers=asking())
    assert (answer.status_code, answer.json["code"]) == (400, "UNKNOWN_PARAMETER")


def test_list_without_token_returns_401(starter):
    assert starter.get(PATH).status_code == 401
