"""Prices by day, sorting, CSV, trust tiers, activity of a provider, explorer links."""

import csv
import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from tests.factories.book import account
from tests.system.page.reading import is_shown, offer_row, order_row

TOPICS = [
    {"direction": "offramp"},
    {"currency": "USD"},
    {"rail": "pix"},
    {"rail": "wise", "currency": "USD", "direction": "onramp"},
]
YESTERDAY = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()


def query_of(names):
    return "&".join(f"{name}={text}" for name, text in names.items())


def daily_rates(history, rail=""):
    """(day, side) → rate, USDC, orders; over the rails that are asked for."""
    found = {}
    for day in history["days"]:
        if rail in ("", day["rail"]):
            key = day["day"], "Buy" if day["direction"] == "onramp" else "Sell"
            fiat, usdc, orders = found.get(key, (0, 0, 0))
            found[key] = (
                fiat + Decimal(day["volumeFiat"]),
                usdc + Decimal(day["volumeUsdc"]),
                orders + day["fulfilledOrders"],
            )
    return {
        key: ((fiat / usdc).quantize(Decimal("1e-7")), usdc, orders)
        for key, (fiat, usdc, orders) in found.items()
    }


@pytest.mark.parametrize("topic", TOPICS, ids=str)
def test_recent_orders_obey_the_filters(square, visits, topic):
    visit = visits(square).go(f"/?{query_of(topic)}")
    expected = [order_row(order) for order in square.get(f"intents?{query_of(topic)}")]
    assert 0 < len(expected) < 5
    visit.until(lambda: is_shown(visit.orders(), expected))


def test_no_order_that_fits_is_said(square, visits):
    visit = visits(square).go("/?rail=pix&currency=USD")
    said = "None of the newest 1,000 orders fits these filters."
    visit.until(lambda: visit.text("#orders-empty") == said)


def test_new_order_outside_the_filters_is_not_shown(town, visits):
    visit = visits(town).go("/?direction=offramp")
    visit.until(lambda: len(visit.orders()) == 1)
    with town.market.ledger():
        town.market.order("femi", 20, "onramp", "wise", "USD")
        town.market.order("femi", 21, "offramp", "wise", "USD")
    visit.until(lambda: [row["USDC"] for row in visit.orders()] == ["21", "80"])


@pytest.mark.parametrize("rail", ["", "wise"])
def test_price_table_equals_the_history(square, visits, rail):
    visit = visits(square).go(f"/?currency=EUR&rail={rail}")
    visit.until(lambda: visit.text("#history-currency") == "EUR")
    assert visit.page.locator("#history-rail").input_value() == rail
    visit.page.get_by_text("Prices as a table").click()
    rows = visit.page.locator("#history-table tbody tr")
    visit.until(lambda: rows.count() > 0)
    shown = {}
    for row in rows.all():
        day, side, rate, usdc, orders = (cell.inner_text() for cell in row.locator("td").all())
        shown[day, side] = Decimal(rate), Decimal(usdc), int(orders)
    expected = daily_rates(square.get("orderbook/history?currency=EUR"), rail)
    assert shown == expected
    assert len(expected) > 20


def test_whole_chart_is_summed_up_in_a_sentence(square, visits):
    visit = visits(square).go("/?currency=EUR")
    visit.until(lambda: visit.text("#history-readout").startswith("Sold at "))
    rates = daily_rates(square.get("orderbook/history?currency=EUR"))
    for side, done in (("Sell", "Sold"), ("Buy", "Bought")):
        days = [figures for (_, of), figures in rates.items() if of == side]
        volume, orders = sum(usdc for _, usdc, _ in days), sum(count for _, _, count in days)
        part = visit.text("#history-readout").split(f"{done} at ")[1].split(").")[0]
        assert part.endswith(f" EUR ({volume.normalize():,f} USDC in {orders} orders")


def test_price_chart_pointer_shows_each_day(square, visits):
    visit = visits(square).go("/?currency=EUR")
    visit.page.locator("#history-chart").scroll_into_view_if_needed()
    box = visit.page.locator("#history-chart .u-over").bounding_box()
    said = set()
    for part in range(1, 90):
        visit.page.mouse.move(box["x"] + box["width"] * part / 90, box["y"] + 60)
        said.add(visit.text("#history-readout"))
    rates = daily_rates(square.get("orderbook/history?currency=EUR"))
    for (day, side), (rate, usdc, orders) in rates.items():
        done = {"Buy": "bought", "Sell": "sold"}[side]
        text = f"{done} at {rate.normalize():f} EUR ({usdc.normalize():f} USDC in {orders} order"
        assert any(each.startswith(day) and text in each for each in said), (day, text)


def test_prices_follow_the_currency_and_name_what_is_missing(square, visits):
    visit = visits(square).go("/?currency=BRL")
    visit.until(lambda: visit.text("#history-empty").startswith("Nothing was settled in BRL from"))
    assert visit.text("#history-empty").endswith(f"to {YESTERDAY}.")
    visit.page.locator("#best").get_by_role("button", name="USD").click()
    visit.until(lambda: "0.93 to 0.93 USD" in visit.text("#history-readout"))
    visit.page.locator("#history-rail").select_option("venmo")
    assert visit.page.url.endswith("currency=USD")


def test_prices_before_the_first_closed_day_are_not_zero(empty_town, visits):
    empty_town.begin()
    with empty_town.market.ledger():
        empty_town.market.provider("zoe", 50)
        empty_town.market.offer("zoe", "offramp", "GBP", "0.8", ("wise",))
    visit = visits(empty_town).go()
    said = "No day is closed and computed yet."
    visit.until(lambda: visit.text("#history-empty") == said)
    visit.until(lambda: visit.text("#orders-empty") == "No orders yet.")


def test_prices_without_offers_are_not_waited_for(empty_town, visits):
    empty_town.begin()
    visit = visits(empty_town).go()
    said = "No offers, so no currency to show prices of."
    visit.until(lambda: visit.text("#history-empty") == said)


def header(visit, table, name):
    return visit.page.locator(f"#{table}").get_by_role("button", name=name, exact=True)


def test_mouse_sorts_offers_and_the_third_click_restores_the_order(square, visits):
    visit = visits(square).go()
    book = square.get("orderbook")
    available = [Decimal(offer["availableUsdc"]) for offer in book]
    column = visit.page.locator("#offers-table th:has([data-sort=available])")
    button = header(visit, "offers-table", "Available, USDC")

    def shown():
        cells = (row["Available, USDC"] for row in visit.offers())
        return [Decimal(cell.split()[0].replace(",", "")) for cell in cells]

    for direction in ("ascending", "descending"):
        button.click()
        wanted = sorted(available, reverse=direction == "descending")
        visit.until(lambda wanted=wanted: shown() == wanted)
        assert column.get_attribute("aria-sort") == direction
        assert visit.text("#offers-order") == f"by Available, USDC, {direction}"
    button.click()
    visit.until(lambda: is_shown(visit.offers(), map(offer_row, book)))
    assert column.get_attribute("aria-sort") is None
    assert visit.text("#offers-order") == "best rate first"


def test_keyboard_sorts_orders_by_rate_within_a_currency(square, visits):
    visit = visits(square).go()
    visit.until(lambda: len(visit.orders()) > 3)
    header(visit, "orders-table", "Rate").focus()
    visit.page.keyboard.press("Enter")
    visit.page.keyboard.press("Space")

    def shown():
        return [tuple(reversed(row["Rate"].split())) for row in visit.orders()]

    wanted = sorted(shown(), key=lambda row: (row[0], -Decimal(row[1])))
    visit.until(lambda: shown() == wanted)
    column = visit.page.locator("#orders-table th:has([data-sort=rate])")
    assert column.get_attribute("aria-sort") == "descending"
    assert [currency for currency, _ in wanted].count("USD") == 3


def test_sorted_table_stays_sorted_through_ledgers(town, visits):
    visit = visits(town).go()
    header(visit, "offers-table", "Available, USDC").click()
    with town.market.ledger():
        town.market.withdraw("chloe", "3300")
    visit.until(lambda: visit.offers()[0]["Available, USDC"] == "100.25")


def download(visit, button):
    with visit.page.expect_download() as started:
        visit.page.locator(button).click()
    assert started.value.suggested_filename.endswith(".csv")
    text = started.value.path().read_bytes().decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_csv_has_the_offers_that_are_listed(square, visits):
    visit = visits(square).go("/?currency=EUR")
    visit.until(lambda: len(visit.offers()) == 4)
    expected = [
        {
            name: " ".join(value) if isinstance(value, list) else str(value)
            for name, value in offer.items()
            # Personal data.
            if name != "paymentHandles"
        }
        for offer in square.get("orderbook?currency=EUR")
    ]
    rows = download(visit, "#offers-csv")
    assert rows == expected


def test_csv_has_the_orders_that_are_listed(square, visits):
    visit = visits(square).go("/?direction=onramp")
    orders = square.get("intents?direction=onramp")
    visit.until(lambda: is_shown(visit.orders(), map(order_row, orders)))
    rows = download(visit, "#orders-csv")
    assert [row["intentId"] for row in rows] == [order["intentId"] for order in orders]
    for row, order in zip(rows, orders, strict=True):
        assert all(row[name] == str(order.get(name, "")) for name in row)


@pytest.mark.parametrize(
    ("tier", "name", "meaning"),
    [
        (0, "hand", "the party that receives the fiat confirms it"),
        (1, "one attestor", "One service signs"),
        (2, "enclave or witnesses", "at least two independent witnesses"),
        (3, "proof", "The contract itself verifies a proof"),
    ],
)
def test_trust_tier_is_explained(square, visits, tier, name, meaning):
    visit = visits(square).go()
    note = visit.page.locator(f"#tier-{tier}")
    assert not note.is_visible()
    visit.page.locator("#offers-table").get_by_role("button", name=name, exact=True).first.press(
        "Enter"
    )
    visit.until(note.is_visible)
    assert meaning in visit.text(f"#tier-{tier}")
    assert f"(trust tier {tier})" in visit.text(f"#tier-{tier}")
    visit.page.keyboard.press("Escape")
    visit.until(lambda: not note.is_visible())


def test_activity_of_a_provider_is_shown(square, visits):
    ana = account("ana")
    visit = visits(square).go(f"/?provider={ana}")
    activity = square.get(f"providers/{ana}/activity")
    assert activity["fulfilledOrders"] == activity["openedOrders"] == 1
    visit.until(lambda: visit.text("#activity-volume") == activity["volumeUsdc"])
    assert visit.text("#activity-fill") == "100 %"
    seconds = activity["medianFulfillmentSeconds"]
    assert visit.text("#activity-median") == f"3 min {seconds - 180} s"
    assert visit.text("#activity-opened") == "1"
    assert visit.text("#activity-since") == f"since {activity['since'][:10]}"


def test_unknown_activity_is_no_zero(square, visits):
    visit = visits(square).go(f"/?provider={account('elif')}")
    visit.until(lambda: visit.text("#activity-opened") == "0")
    assert visit.text("#activity-fill") == visit.text("#activity-median") == "–"


def test_explorer_links_name_transaction_and_accounts(square, visits):
    """The devnet has no explorer: the page is given one, as that of a public network has."""
    visit = visits(square)
    # Between the end of the document and the page's modules.
    visit.page.add_init_script(
        """addEventListener("readystatechange", () => {
            const { dataset } = document.body;
            const chains = JSON.parse(dataset.chains);
            for (const chain of Object.values(chains)) {
                chain.explorer_tx = "https://explorer.example/tx/{tx}";
                chain.explorer_account = "https://explorer.example/account/{address}";
                chain.explorer_contract = "https://explorer.example/contract/{address}";
            }
            dataset.chains = JSON.stringify(chains);
        }, { capture: true, once: true });"""
    )
    visit.go()
    orders = square.get("intents")
    visit.until(lambda: len(visit.orders()) == len(orders))
    links = visit.page.locator("#orders-table a.explorer")
    hrefs = {link.get_attribute("href") for link in links.all()}
    settled = {order["txHash"] for order in orders if "txHash" in order}
    assert hrefs == {
        *(f"https://explorer.example/tx/{tx}" for tx in settled),
        *(f"https://explorer.example/account/{order['buyer']}" for order in orders),
    }
    assert settled
    assert all(link.get_attribute("rel") == "noopener noreferrer" for link in links.all())
    visit.page.goto(f"{square.url}/?provider={account('ana')}")
    link = visit.page.locator("#provider-explorer a")
    assert link.get_attribute("href") == f"https://explorer.example/account/{account('ana')}"


def test_devnet_has_no_explorer_link(square, visits):
    visit = visits(square).go(f"/?provider={account('ana')}")
    visit.until(lambda: len(visit.orders()) > 0)
    assert visit.page.locator("a.explorer").count() == 0


def test_taker_and_settlement_are_copied_where_there_is_no_explorer(square, visits):
    visit = visits(square, permissions=["clipboard-read", "clipboard-write"])
    visit.go(f"/?provider={account('ana')}")
    visit.until(lambda: len(visit.orders()) == 1)
    [order] = square.get(f"intents?provider={account('ana')}")
    for name, whole in {"Taker": order["buyer"], "The settlement": order["txHash"]}.items():
        button = visit.page.get_by_role("button", name=f"Copy {name}")
        with visit.shows_meanwhile(button, "Copied"):
            button.click()
        assert visit.page.evaluate("navigator.clipboard.readText()") == whole
        visit.until(lambda button=button: button.inner_text() == "Copy")


def test_footer_links_to_the_documents(square, visits):
    visit = visits(square).go()
    visit.page.get_by_role("link", name="The API, to read and to try").click()
    visit.page.wait_for_url(f"{square.url}/docs")
