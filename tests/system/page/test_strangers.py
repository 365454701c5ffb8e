"""On-chain text on the page is escaped; CSP, framing and requests of the page."""

import re

import pytest

from tests.factories.book import account
from tests.system.page.reading import depth, is_shown, offer_row
from tests.system.page.visiting import PHONE

HOSTILE = [
    "<img src=x onerror=\"document.title='owned'\">",
    "<script>document.title='owned'</script>",
    "\"><svg onload=document.title='owned'>",
    "javascript:document.title='owned'",
    "{{constructor.constructor('document.title=1')()}}",
    "@" + "w" * 255,
    "e\u0301" * 100,
]
LARGEST = "17014118346046923173168730371588.4105727"


@pytest.fixture
def visited(town):
    """A market in which somebody tries everything that an event has room for."""
    with town.market.ledger():
        for number, handle in enumerate(HOSTILE):
            town.market.provider(f"mallory-{number}", 100, venmo=handle)
            town.market.offer(f"mallory-{number}", "onramp", "USD", "1.03")
        rail = "A" * 32
        town.market.contracts.rail_set(rail, tier=99, fee_bps=10_000, currencies=("USD", "XXX"))
        town.market.provider("eve", 100, **{rail: "@eve"})
        town.market.offer("eve", "onramp", "USD", LARGEST, (rail,))
        town.market.offer("eve", "onramp", "XXX", LARGEST, (rail,))
        town.market.offer("eve", "offramp", "USD", "0.0000001", (rail,))
    return town


def test_handle_with_markup_is_shown_as_text(visited, visits):
    visit = visits(visited).go()
    for number, handle in enumerate(HOSTILE):
        visit.page.goto(f"{visited.url}/?provider={account(f'mallory-{number}')}")
        visit.until(lambda: len(visit.offers()) == 1)
        assert handle not in visit.page.content()
        visit.page.get_by_role("button", name="Take").click()
        visit.page.get_by_role("button", name="Show the published payee").click()
        assert visit.page.locator("#take-handle .handle").text_content() == handle
        assert not visit.too_wide()
        visit.page.keyboard.press("Escape")
        visit.until(lambda: visit.page.locator("#take-handle .handle").count() == 0)
    assert "owned" not in visit.page.title()
    assert visit.page.locator("main img, main svg, main script").count() == 0


def test_long_text_does_not_scroll_a_phone_sideways(visited, visits):
    for path in ("/", "/?currency=XXX", f"/?provider={account('eve')}"):
        visit = visits(visited, viewport=PHONE, is_mobile=True, has_touch=True).go(path)
        visit.until(lambda visit=visit: len(visit.offers()) > 0)
        assert not visit.too_wide(), path
    for path in ("/", "/?currency=XXX"):
        wide = visits(visited).go(path)
        wide.until(lambda wide=wide: len(wide.offers()) > 0)
        assert not wide.too_wide(), path


def test_largest_contract_number_is_shown_exactly(visited, visits):
    visit = visits(visited).go()
    book = visited.get("orderbook")
    assert any(offer["rate"] == LARGEST for offer in book)
    known = [offer for offer in book if offer["trustTier"] < 4]
    strange = [row for row in visit.offers() if row["Verified by"] == "tier 99"]
    assert len(strange) == 3
    assert "17,014,118,346,046,923,173,168,730,371,588.4105727 XXX" in [r["Rate"] for r in strange]
    rest = [row for row in visit.offers() if row["Verified by"] != "tier 99"]
    assert is_shown(rest, map(offer_row, known))


def test_extreme_rate_does_not_flatten_the_chart(visited, visits):
    visit = visits(visited).go("/?currency=USD")
    box = visit.page.locator("#chart .u-over").bounding_box()
    readouts = set()
    for part in range(1, 60):
        visit.page.mouse.move(box["x"] + box["width"] * part / 60, box["y"] + 60)
        readouts.add(visit.text("#readout").partition(":")[0])
    book = visited.get("orderbook")
    near = [rate for rate, *_ in depth(book, "USD", "onramp") if len(rate) < 10]
    assert len(near) == 4
    assert {f"Buy at up to {rate} USD" for rate in near} <= readouts
    assert not any(text.startswith("Buy at up to 17,0") for text in readouts)
    visit.page.mouse.move(0, 0)
    visit.until(lambda: "2 far worse rates are in the table alone." in visit.text("#readout"))
    visit.page.get_by_text("Depth as a table").click()
    visit.until(lambda: "17,014,118," in visit.text("#depth-table"))


def test_content_security_policy_blocks_injected_scripts(square, visits):
    """The policy holds even if a bug lets markup or a host in."""
    visit = visits(square)
    visit.expected = (r"Content Security Policy", r"Trusted ?(HTML|Script|Type)", r"asked another")
    visit.go()
    refused = visit.page.evaluate(
        """async () => {
            const tried = [];
            const attempt = async (what, act) => {
                try { await act(); tried.push(what); } catch { }
            };
            await attempt("markup", () => { document.body.innerHTML = "<p>"; });
            await new Promise((over) => setTimeout(async () => {
                await attempt("eval", () => Function("return 1")());
                over();
            }));
            await attempt("elsewhere", () => fetch("http://127.0.0.1:1/"));
            const inline = document.createElement("style");
            inline.textContent = "body { display: none }";
            document.head.append(inline);
            if (getComputedStyle(document.body).display === "none") tried.push("style");
            return tried;
        }"""
    )
    assert refused == []


def test_page_cannot_be_framed(square, visits):
    visit = visits(square)
    visit.expected = (r"frame-ancestors|X-Frame-Options|ERR_BLOCKED", r"favicon\.ico")
    # A page that says nothing of what it may frame, so that it is ours that refuses.
    framing = f"{square.url}/framing"
    visit.page.route(framing, lambda route: route.fulfill(body="<p>", content_type="text/html"))
    visit.page.goto(framing)
    visit.page.evaluate(
        """() => new Promise((resolve) => {
            const frame = document.createElement("iframe");
            frame.src = "/";
            frame.onload = resolve;
            document.body.append(frame);
        })"""
    )
    assert visit.page.frames[1].locator("#offers").count() == 0


def test_page_requests_few_paths_of_its_own_host(square, visits):
    visit = visits(square).go()
    visit.until(lambda: len(visit.orders()) > 0)
    visit.until(lambda: "bought at" in visit.text("#history-readout").lower())
    # That nothing else is asked is looked at after every test.
    paths = {re.sub(r"^(http|ws)://[^/]+|\?.*", "", url) for url in visit.requests}
    assert {path for path in paths if not path.startswith("/assets/")} == {
        "/",
        "/api/v1/intents",
        "/api/v1/orderbook/history",
        "/api/v1/orderbook/summary",
        "/api/v1/stream",
    }
