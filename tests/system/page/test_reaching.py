"""Accessibility of the page: keyboard, phone, screen reader, colour scheme and motion."""

import pytest

from tests.factories.book import account
from tests.system.page.accessibility import NARROWEST, focused, violations
from tests.system.page.visiting import DESKTOP, PHONE

ANA = f"/?provider={account('ana')}"


@pytest.mark.parametrize("path", ["/", "/?amount=1,5&rail=wise&currency=USD", ANA])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_accessibility_violation(square, visits, path, viewport, scheme):
    visit = visits(square, viewport=viewport, color_scheme=scheme, bypass_csp=True).go(path)
    visit.until(lambda: len(visit.orders()) > 0)
    assert violations(visit) == []


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_in_dialog_and_note(square, visits, viewport, scheme):
    visit = visits(square, viewport=viewport, color_scheme=scheme, bypass_csp=True)
    visit.go("/?currency=USD&direction=onramp")
    visit.until(lambda: len(visit.orders()) > 0)
    table = visit.page.locator("#offers-table")
    table.get_by_role("button", name="enclave or witnesses").first.click()
    assert visit.page.locator("#tier-2").is_visible()
    assert violations(visit) == []
    visit.page.keyboard.press("Escape")
    table.get_by_role("button", name="Take").first.click()
    visit.page.get_by_role("button", name="Show the published payee").click()
    assert violations(visit) == []
    assert not visit.too_wide()
    visit.page.keyboard.press("Escape")
    # The focus is where it was.
    assert focused(visit) == "Take"


@pytest.mark.parametrize("path", ["/", "/?direction=onramp&currency=USD", ANA])
@pytest.mark.parametrize("viewport", [PHONE, NARROWEST], ids=["phone", "narrowest"])
def test_phone_does_not_scroll_sideways(square, visits, path, viewport):
    visit = visits(square, viewport=viewport, is_mobile=True, has_touch=True).go(path)
    visit.until(lambda: len(visit.orders()) > 0)
    assert not visit.too_wide()
    if path == "/":
        visit.page.get_by_text("Depth as a table").click()
        visit.page.get_by_text("Prices as a table").click()
        assert not visit.too_wide()
        assert visit.page.locator("#chart canvas").bounding_box()["width"] < viewport["width"]


def test_chart_grows_with_the_window(square, visits):
    visit = visits(square, viewport=PHONE).go()
    chart = visit.page.locator("#chart canvas")
    narrow = chart.bounding_box()["width"]
    visit.page.set_viewport_size(DESKTOP)
    visit.until(lambda: chart.bounding_box()["width"] > 1.5 * narrow)
    visit.page.set_viewport_size(PHONE)
    visit.until(lambda: chart.bounding_box()["width"] == narrow)
    assert not visit.too_wide()


def test_page_works_by_keyboard_alone(square, visits):
    """From the top of the page to an offer's provider, and back."""
    visit = visits(square).go()
    page = visit.page
    keys = page.keyboard
    keys.press("Tab")
    assert focused(visit) == "Skip to the offers"
    trail = []
    for _ in range(9):
        keys.press("Tab")
        trail.append(focused(visit))
    assert trail[-5:] == ["API", "direction", "currency", "rail", "amount"]
    keys.type("100")
    visit.until(lambda: "100 USDC" in visit.text("#best-aside"))
    for _ in range(3):
        keys.press("Shift+Tab")
    keys.press("ArrowRight")
    visit.until(lambda: {row["Side"] for row in visit.offers()} == {"Buy"})
    assert "direction=onramp" in page.url
    page.locator(".skip").focus()
    keys.press("Enter")
    # Past the button for CSV, the headers that sort, and the first offer's trust tier.
    for _ in range(11):
        keys.press("Tab")
    address = page.evaluate("document.activeElement.title")
    assert address == page.locator("#offers-table a").first.get_attribute("title")
    keys.press("Enter")
    visit.until(lambda: visit.text("#provider-address") == address)
    assert focused(visit) == "provider-title"
    page.go_back()
    visit.until(lambda: page.locator("#overview").is_visible())


def test_focus_stays_on_a_link_whose_row_moves(town, visits):
    visit = visits(town).go("/?direction=onramp&currency=USD")
    ben = account("ben")
    link = visit.page.locator(f'#offers-table a[title="{ben}"]')
    link.focus()
    with town.market.ledger():
        town.market.offer("ben", "onramp", "USD", "1.0001", ("venmo",))
    visit.until(lambda: visit.offers()[0]["Rate"] == "1.0001 USD")
    assert visit.page.evaluate("document.activeElement.title") == ben


def test_open_choice_is_not_disturbed_by_ledgers(town, visits):
    visit = visits(town).go("/?currency=EUR")
    visit.page.locator("#filters").get_by_label("Order size").focus()
    visit.page.keyboard.type("12.")
    with town.market.ledger():
        # The last offer in BRL goes: the choices change, what is chosen does not.
        town.market.withdraw("davi", "1205")
    visit.until(
        lambda: "BRL" not in visit.page.locator("#filters").get_by_label("Currency").inner_text()
    )
    assert visit.page.locator("#filters").get_by_label("Order size").input_value() == "12."
    assert focused(visit) == "amount"
    assert visit.page.locator("#filters").get_by_label("Currency").input_value() == "EUR"


def test_reduced_motion_disables_motion(town, visits):
    running = "document.getAnimations().length"
    still = visits(town, reduced_motion="reduce").go()
    lively = visits(town, reduced_motion="no-preference").go()
    assert lively.page.evaluate(running) > 0
    # A change is marked for a second or so.
    lively.page.evaluate(
        """() => {
            window.most = 0;
            const look = () => {
                window.most = Math.max(window.most, document.getAnimations().length);
                requestAnimationFrame(look);
            };
            look();
        }"""
    )
    with town.market.ledger():
        town.market.offer("ben", "onramp", "USD", "1.0001", ("venmo",))
    lively.until(lambda: lively.page.evaluate("window.most") > 1)
    still.until(lambda: "1.0001 USD" in [row["Rate"] for row in still.offers()])
    assert still.page.evaluate(running) == 0


def test_colour_scheme_follows_the_browser(square, visits):
    visit = visits(square, color_scheme="light").go()

    def brightness():
        colour = visit.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))

    assert brightness() > 600
    visit.page.emulate_media(color_scheme="dark")
    visit.until(lambda: brightness() < 150)


def test_page_without_scripts_says_that_it_needs_them(square, visits):
    visit = visits(square, java_script_enabled=False)
    visit.page.goto(square.url)
    assert "This page needs JavaScript" in visit.text("noscript")
