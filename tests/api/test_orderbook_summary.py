"""`GET /api/v1/orderbook/summary`."""

from tests.factories.projections import insert_book, insert_depth

PATH = "/api/v1/orderbook/summary"


def test_summary_has_totals_and_rails_by_name(client, rows):
    insert_book(rows, total_available="1234.5", total_locked="0.0000001", offer_count=3)
    insert_depth(rows, "wise", "1234.5", 2)
    insert_depth(rows, "revolut", 1000, 1)
    insert_depth(rows, "alipay", "0.5", 1)
    assert client.get(PATH).json == {
        "totalAvailableUsdc": "1234.5",
        "totalLockedUsdc": "0.0000001",
        "offerCount": 3,
        "byRail": [
            {"rail": "alipay", "availableUsdc": "0.5", "offerCount": 1},
            {"rail": "revolut", "availableUsdc": "1000", "offerCount": 1},
            {"rail": "wise", "availableUsdc": "1234.5", "offerCount": 2},
        ],
    }


def test_empty_book_has_zero_totals(client, book):
    assert client.get(PATH).json == {
        "totalAvailableUsdc": "0",
        "totalLockedUsdc": "0",
        "offerCount": 0,
        "byRail": [],
    }


def test_missing_book_returns_503(client, rows):
    assert client.get(PATH).status_code == 503


def test_book_of_another_network_returns_503(client, rows):
    insert_book(rows, chain="stellar:pubnet", total_available=5)
    assert client.get(PATH).status_code == 503
