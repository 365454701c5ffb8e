"""`GET /api/v1/orderbook`: fields, order and filters."""

import pytest

from tests.factories.projections import (
    CLOSE_TIME,
    PROVIDER,
    address,
    insert_offer,
)

PATH = "/api/v1/orderbook"


def providers_listed(client, query=""):
    response = client.get(f"{PATH}{query}")
    assert response.status_code == 200, response.get_data(as_text=True)
    return [offer["provider"] for offer in response.json]


def test_offer_has_the_specified_fields_and_types(client, book):
    insert_offer(
        book,
        available="812.5",
        locked=25,
        rails=["revolut", "wise"],
        handles={"revolut": "@lp"},
        tier=2,
        fee_bps=20,
        rate="0.9301",
        max="812.5",
        completed_orders=7,
        avg_fulfillment_seconds=431,
        last_active_at=CLOSE_TIME,
    )
    assert client.get(PATH).json == [
        {
            "provider": PROVIDER,
            "direction": "onramp",
            "availableUsdc": "812.5",
            "lockedUsdc": "25",
            "acceptedRails": ["revolut", "wise"],
            "paymentHandles": {"revolut": "@lp"},
            "trustTier": 2,
            "feeRateBps": 20,
            "rate": "0.9301",
            "currency": "EUR",
            "minAmount": "10",
            "maxAmount": "812.5",
            "completedOrders": 7,
            "avgFulfillmentSeconds": 431,
            "lastActiveAt": "2026-11-21T08:00:00Z",
        }
    ]


def test_empty_book_is_an_empty_list(client, book):
    response = client.get(PATH)
    assert response.json == []
    assert response.content_type == "application/json"


def test_missing_book_returns_503(client, rows):
    response = client.get(PATH)
    assert response.status_code == 503
    assert response.json["code"] == "ORDER_BOOK_NOT_READY"
    assert response.headers["Retry-After"] == "5"
    assert "X-Ledger" not in response.headers


def test_offers_are_sorted_by_direction_currency_rate(client, book):
    wanted = [
        # Who sells USDC wants much fiat for one, who buys wants to pay little.
        ("offramp", "EUR", "0.95", 100, address(11)),
        ("offramp", "EUR", "0.91", 100, address(12)),
        ("offramp", "USD", "1", 100, address(13)),
        ("onramp", "EUR", "0.91", 100, address(14)),
        ("onramp", "EUR", "0.95", 100, address(15)),
        # Equal rates: the larger first, then by name.
        ("onramp", "USD", "1", 300, address(16)),
        ("onramp", "USD", "1", 200, min(address(17), address(18))),
        ("onramp", "USD", "1", 200, max(address(17), address(18))),
        ("onramp", "USD", "10", 900, address(19)),
    ]
    for direction, currency, rate, available, provider in reversed(wanted):
        insert_offer(
            book,
            direction=direction,
            currency=currency,
            rate=rate,
            available=available,
            provider=provider,
        )
    assert providers_listed(client) == [provider for *_, provider in wanted]


def test_offers_equal_but_for_rails_have_a_fixed_order(client, book):
    insert_offer(book, rails=["wise"])
    insert_offer(book, rails=["revolut"])
    assert [offer["acceptedRails"] for offer in client.get(PATH).json] == [["revolut"], ["wise"]]


ONE, TWO, THREE = address(21), address(22), address(23)


@pytest.fixture
def three_offers(book):
    """ONE: onramp EUR on two rails, 10–500; TWO: onramp USD, 50–100; THREE: offramp EUR, 0.5–20."""
    insert_offer(book, provider=ONE, rails=["revolut", "wise"])
    insert_offer(book, provider=TWO, currency="USD", rails=["zelle"], min=50, max=100)
    insert_offer(
        book, provider=THREE, direction="offramp", rails=["wise"], min="0.5", max="20.0000001"
    )


@pytest.mark.usefixtures("three_offers")
def test_filters_select_matching_offers(client, subtests):
    cases = {
        "": {ONE, TWO, THREE},
        "?rail=wise": {ONE, THREE},
        "?rail=zelle": {TWO},
        "?rail=WISE": set(),
        "?rail=nosuchrail": set(),
        "?rail=revolut,wise": set(),
        "?rail=%F0%9F%92%B6": set(),
        "?rail=%25": set(),
        "?currency=EUR": {ONE, THREE},
        "?currency=eur": {ONE, THREE},
        "?currency=Usd": {TWO},
        "?currency=XXX": set(),
        "?direction=onramp": {ONE, TWO},
        "?direction=offramp": {THREE},
        "?direction=onramp&currency=EUR": {ONE},
        "?direction=offramp&rail=zelle": set(),
        # The offer must take an order of that size.
        "?minAmount=0": set(),
        "?minAmount=0.4999999": set(),
        "?minAmount=0.5": {THREE},
        "?minAmount=10": {ONE, THREE},
        "?minAmount=20.0000001": {ONE, THREE},
        "?minAmount=20.0000002": {ONE},
        "?minAmount=100": {ONE, TWO},
        "?minAmount=100.0000001": {ONE},
        "?minAmount=00050.50": {ONE, TWO},
        "?minAmount=500.0000001": set(),
        "?minAmount=99999999999999999999999999999999": set(),
        "?maxAmount=9": {THREE},
        "?maxAmount=50": {ONE, TWO},
        "?maxAmount=501": set(),
        # Of both sizes.
        "?minAmount=10&maxAmount=100": {ONE},
        "?minAmount=50&maxAmount=100": {ONE, TWO},
        "?minAmount=1&maxAmount=1": {THREE},
        "?minAmount=1&maxAmount=10": {THREE},
        # An empty value is no filter; what is not known is left alone.
        "?rail=&currency=&direction=&minAmount=&maxAmount=": {ONE, TWO, THREE},
        "?rail=wise&minAmount=": {ONE, THREE},
        "?limit=1&sort=rate": {ONE, TWO, THREE},
    }
    for query, expected in cases.items():
        with subtests.test(query):
            listed = providers_listed(client, query)
            assert set(listed) == expected
            assert len(listed) == len(expected)


@pytest.mark.usefixtures("three_offers")
def test_offer_matching_one_rail_shows_all_rails(client):
    offer = next(o for o in client.get(f"{PATH}?rail=wise").json if o["provider"] == ONE)
    assert offer["acceptedRails"] == ["revolut", "wise"]


BAD_FILTERS = [
    ("currency=EURO", "currency"),
    ("currency=E1R", "currency"),
    ("currency=€€€", "currency"),
    ("currency=ÉUR", "currency"),
    ("currency=%20EUR", "currency"),
    ("currency=EUR%0A", "currency"),
    ("direction=buy", "direction"),
    ("direction=Onramp", "direction"),
    ("minAmount=-1", "minAmount"),
    ("minAmount=%2B1", "minAmount"),
    ("minAmount=1e3", "minAmount"),
    ("minAmount=.5", "minAmount"),
    ("minAmount=5.", "minAmount"),
    ("minAmount=1,5", "minAmount"),
    ("minAmount=1_000", "minAmount"),
    ("minAmount=٣", "minAmount"),
    ("minAmount=NaN", "minAmount"),
    ("minAmount=Infinity", "minAmount"),
    ("minAmount=%20", "minAmount"),
    ("minAmount=1%0A", "minAmount"),
    ("minAmount=0.00000001", "minAmount"),
    ("minAmount=1.00000000", "minAmount"),
    ("minAmount=" + "9" * 5000, "minAmount"),
    ("maxAmount=0.12345678", "maxAmount"),
    ("maxAmount=x", "maxAmount"),
    ("minAmount=2&maxAmount=1", "minAmount"),
    ("minAmount=0.0000002&maxAmount=0.0000001", "minAmount"),
]


def test_bad_filter_returns_400_naming_it(cut_off, subtests):
    for query, named in BAD_FILTERS:
        with subtests.test(query=query, named=named):
            response = cut_off.get(f"{PATH}?{query}")
            assert response.status_code == 400
            assert response.json["code"] == "BAD_FILTER"
            assert response.json["message"].startswith(named)
