"""Figures on the page equal those of the API."""

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import pytest

from tests.factories.book import account
from tests.system.page.reading import depth, grouped, is_shown, offer_row, order_row, short

FILTERS = [
    {"direction": "onramp"},
    {"direction": "offramp", "currency": "USD"},
    {"currency": "EUR"},
    {"rail": "wise"},
    {"amount": "450"},
    {"amount": "5"},
    {"rail": "venmo", "currency": "USD", "direction": "onramp", "amount": "399.5"},
    {"rail": "pix", "currency": "USD"},
]


def of_the_api(filters):
    """The same filters as the API names them."""
    amount = {"minAmount": filters["amount"]} if "amount" in filters else {}
    named = {name: text for name, text in filters.items() if name != "amount"} | amount
    return "&".join(f"{name}={text}" for name, text in named.items())


def test_shown_book_equals_served_book(square, visits):
    visit = visits(square).go()
    book = square.get("orderbook")
    assert len(book) == 13
    assert is_shown(visit.offers(), map(offer_row, book))
    assert visit.text("#offers-count") == "13"
    links = visit.page.locator("#offers-table td a").all()
    assert [link.get_attribute("title") for link in links] == [offer["provider"] for offer in book]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_filters_in_the_url_match_the_api(square, visits, filters):
    query = "&".join(f"{name}={text}" for name, text in filters.items())
    visit = visits(square).go(f"/?{query}")
    expected = [offer_row(offer) for offer in square.get(f"orderbook?{of_the_api(filters)}")]
    if expected:
        visit.until(lambda: is_shown(visit.offers(), expected))
    else:
        assert visit.text("#offers-empty") == "No offer fits these filters."


def test_filters_set_by_hand_go_into_the_url(square, visits):
    visit = visits(square).go()
    page = visit.page
    page.get_by_role("radio", name="Buy USDC").check()
    page.locator("#filters").get_by_label("Currency").select_option("USD")
    page.locator("#filters").get_by_label("Rail").select_option("wise")
    page.locator("#filters").get_by_label("Order size").fill("300")
    expected = square.get("orderbook?direction=onramp&currency=USD&rail=wise&minAmount=300")
    assert expected
    visit.until(lambda: is_shown(visit.offers(), map(offer_row, expected)))
    assert page.url.endswith("/?direction=onramp&currency=USD&rail=wise&amount=300")
    page.reload()
    visit.until(lambda: is_shown(visit.offers(), map(offer_row, expected)))
    assert page.locator("#filters").get_by_label("Order size").input_value() == "300"
    page.get_by_role("button", name="Clear").click()
    visit.until(lambda: len(visit.offers()) == 13)
    assert page.url.endswith("/")
    assert page.get_by_role("radio", name="All").is_checked()


def test_order_size_in_local_money_selects_and_fills_in_the_take_dialog(square, visits):
    visit = visits(square).go()
    fields = visit.page.locator("#filters")
    fiat = fields.get_by_label("Or in local money")
    assert not fiat.is_visible()
    fields.get_by_label("Order size").fill("25")
    fields.get_by_label("Currency").select_option("USD")
    visit.until(fiat.is_visible)
    assert visit.text("#fiat-unit") == "USD"
    fiat.fill("450")
    visit.until(lambda: visit.page.url.endswith("/?currency=USD&fiat=450"))
    assert fields.get_by_label("Order size").input_value() == ""
    expected = []
    for offer in square.get("orderbook?currency=USD"):
        rounding = {"onramp": ROUND_FLOOR, "offramp": ROUND_CEILING}[offer["direction"]]
        usdc = (Decimal(450) / Decimal(offer["rate"])).quantize(Decimal("1e-7"), rounding)
        if Decimal(offer["minAmount"]) <= usdc <= Decimal(offer["maxAmount"]):
            expected.append((offer, usdc))
    assert 0 < len(expected) < len(square.get("orderbook?currency=USD"))
    visit.until(lambda: is_shown(visit.offers(), [offer_row(offer) for offer, _ in expected]))
    assert visit.text("#best-aside") == "fiat for 1 USDC, in an order of 450 USD"
    visit.page.get_by_role("button", name="Take").first.click()
    assert Decimal(visit.page.locator("#take-amount").input_value()) == expected[0][1]
    visit.page.get_by_role("button", name="Close").click()
    fields.get_by_label("Currency").select_option("")
    visit.until(lambda: not fiat.is_visible())
    assert visit.page.url.endswith("/")


def test_invalid_order_size_is_reported_and_filters_no_offer(square, visits):
    visit = visits(square).go()
    size = visit.page.locator("#filters").get_by_label("Order size")
    size.fill("1,5")
    visit.until(lambda: "An order size is a number" in visit.text("#amount-problem"))
    assert size.get_attribute("aria-invalid") == "true"
    assert len(visit.offers()) == 13
    size.fill("15")
    visit.until(lambda: size.get_attribute("aria-invalid") == "false")


def test_best_rates_are_first_offers_of_each_side(square, visits):
    visit = visits(square).go()
    rows = [
        [cell.inner_text().split("\n")[0] for cell in row.locator("th, td").all()]
        for row in visit.page.locator("#best tbody tr").all()
    ]
    assert rows == [
        ["BRL", "5.3125", "5.48", "3.15 %"],
        ["EUR", "0.9155", "0.94", "2.68 %"],
        ["USD", "0.9912", "1.0175", "2.65 %"],
    ]


def test_best_rates_follow_the_order_size(square, visits):
    visit = visits(square).go("/?amount=1000")
    visit.until(lambda: "1,000 USDC" in visit.text("#best-aside"))
    assert visit.text("#best tbody") == (
        "EUR – 0.94 10 – 1,200 USD 0.9801 10 – 1,500 1.0333 10 – 1,500 5.43 %"
    )


@pytest.mark.parametrize("currency", ["BRL", "EUR", "USD"])
def test_depth_sums_distinct_providers_at_rate_or_better(square, visits, currency):
    visit = visits(square).go()
    visit.page.locator("#best").get_by_role("button", name=currency).click()
    visit.until(lambda: visit.text("#depth-currency") == currency)
    visit.page.get_by_text("Depth as a table").click()
    rows = visit.page.locator("#depth-table tbody tr")
    # The table is made when it is opened, in the next frame.
    visit.until(lambda: rows.count() > 0)
    shown = [tuple(cell.inner_text() for cell in row.locator("td").all()) for row in rows.all()]
    book = square.get("orderbook")
    assert shown == [
        *(("Sell", *row) for row in depth(book, currency, "offramp")),
        *(("Buy", *row) for row in depth(book, currency, "onramp")),
    ]
    assert shown


def test_chart_pointer_shows_exact_depth(square, visits):
    visit = visits(square).go("/?currency=USD")
    readouts = set()
    box = visit.page.locator("#chart .u-over").bounding_box()
    assert box is not None
    for part in range(1, 40):
        visit.page.mouse.move(box["x"] + box["width"] * part / 40, box["y"] + 60)
        readouts.add(visit.text("#readout"))
    book = square.get("orderbook")
    for direction, phrase in (
        ("onramp", "Buy at up to {} USD"),
        ("offramp", "Sell at {} USD or more"),
    ):
        for rate, total, providers in depth(book, "USD", direction):
            crowd = "provider" if providers == "1" else "providers"
            assert f"{phrase.format(rate)}: {total} USDC from {providers} {crowd}" in readouts


def test_totals_equal_the_summary(square, visits):
    visit = visits(square).go("/?currency=EUR")
    summary = square.get("orderbook/summary")
    visit.until(lambda: visit.text("#total-locked") == grouped(summary["totalLockedUsdc"]))
    assert summary["totalLockedUsdc"] != "0"
    assert visit.text("#total-available") == grouped(summary["totalAvailableUsdc"])
    assert visit.text("#total-offers") == str(summary["offerCount"])
    assert visit.text("#total-providers") == "6"


def test_recent_orders_are_the_newest_of_the_api(square, visits):
    visit = visits(square).go()
    orders = square.get("intents")
    assert {order["status"] for order in orders} == {"active", "fulfilled", "cancelled", "expired"}
    visit.until(lambda: is_shown(visit.orders(), map(order_row, orders)))


def test_provider_has_its_own_page(square, visits):
    visit = visits(square).go()
    ana = account("ana")
    visit.page.locator(f'#offers-table a[title="{ana}"]').first.click()
    assert visit.page.url.endswith(f"/?provider={ana}")
    record = square.get(f"providers/{ana}")
    visit.until(lambda: visit.text("#provider-available") == grouped(record["availableUsdc"]))
    assert visit.text("#provider-address") == ana
    assert visit.text("#provider-completed") == str(record["completedOrders"]) == "1"
    seconds = record["avgFulfillmentSeconds"]
    assert 230 <= seconds <= 240
    assert visit.text("#provider-span") == f"3 min {seconds - 180} s"
    assert visit.text("#provider-active") == str(record["activeIntents"])
    assert visit.text("#provider-rails").split() == record["acceptedRails"]
    offers = [offer for offer in square.get("orderbook") if offer["provider"] == ana]
    assert is_shown(visit.offers(), map(offer_row, offers))
    orders = square.get(f"intents?provider={ana}")
    visit.until(lambda: is_shown(visit.orders(), map(order_row, orders)))
    assert not visit.page.locator("#overview").is_visible()
    visit.page.go_back()
    visit.until(lambda: len(visit.offers()) == 13)
    visit.page.go_forward()
    visit.until(lambda: visit.page.title() == f"{short(ana)} · Isthmus")
    assert visit.text("#provider-address") == ana
    visit.page.get_by_role("link", name="The whole market").click()
    visit.until(lambda: len(visit.offers()) == 13)


def test_unknown_provider_is_reported(square, visits):
    visit = visits(square)
    visit.expected = (r"404 \(NOT FOUND\)",)
    visit.go(f"/?provider={account('nobody')}")
    visit.until(lambda: "has been seen" in visit.text("#provider-problem"))
    assert visit.text("#offers-empty") == "Nothing on offer now."


def test_invalid_provider_address_is_reported(square, visits):
    visit = visits(square).go("/?provider=../../x%3Cimg%3E")
    visit.until(lambda: "not the address" in visit.text("#provider-problem"))
    assert visit.text("#provider-address") == "../../x<img>"


def test_page_shows_network_and_age_of_data(square, visits):
    visit = visits(square).go()
    assert visit.text(".network") == "devnet"
    assert re.fullmatch(r"\d+ min|(\d+ min )?\d+ s", visit.text("#age"))
    assert visit.ledger() == int(square.serving.get("/api/v1/orderbook").headers["X-Ledger"])
