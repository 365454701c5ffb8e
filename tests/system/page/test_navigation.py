"""The navigation that market, transfers and status have in common."""

import pytest

from tests.system.page.accessibility import NARROWEST, focused, violations
from tests.system.page.visiting import DESKTOP, PHONE

PAGES = {"Market": "/", "Transfers": "/transfers", "Status": "/status"}
LINKS = [*PAGES, "API"]
TABLET = {"width": 700, "height": 900}


def opened(visit, path):
    visit.page.goto(f"{visit.url}{path}")
    visit.page.locator("nav.pages").wait_for()
    return visit


def current(visit):
    return visit.page.locator("nav.pages [aria-current=page]").all_inner_texts()


def test_links_lead_from_page_to_page(square, visits):
    visit = opened(visits(square), "/")
    for name in ["Transfers", "Status", "Market"]:
        visit.page.locator("nav.pages").get_by_role("link", name=name).click()
        visit.page.wait_for_url(f"{visit.url}{PAGES[name]}")
        assert current(visit) == [name]
        assert visit.page.locator("nav.pages a").all_inner_texts() == LINKS
    visit.page.locator("nav.pages").get_by_role("link", name="API").click()
    visit.page.wait_for_url(f"{visit.url}/docs")
    assert current(visit) == ["API"]
    assert visit.page.locator("nav.pages a").all_inner_texts() == LINKS
    for name, path in PAGES.items():
        visit.page.goto(f"{visit.url}/docs")
        visit.page.locator("nav.pages").get_by_role("link", name=name).click()
        visit.page.wait_for_url(f"{visit.url}{path}")


def test_links_of_a_transfer_lead_out_of_its_folder(square, visits):
    visit = opened(visits(square), f"/transfers/{'5e' * 16}")
    assert current(visit) == ["Transfers"]
    addresses = visit.page.locator("nav.pages a").evaluate_all("(all) => all.map((a) => a.href)")
    assert addresses == [f"{visit.url}{path}" for path in [*PAGES.values(), "/docs"]]


def test_market_link_leaves_a_provider_without_a_new_document(square, visits):
    visit = visits(square).go()
    visit.page.evaluate("window.isSame = true")
    visit.page.locator("#offers-table a").first.click()
    visit.until(lambda: visit.page.locator("#provider").is_visible())
    visit.page.locator("nav.pages").get_by_role("link", name="Market").click()
    visit.until(lambda: visit.page.locator("#overview").is_visible())
    assert visit.page.url == f"{visit.url}/"
    assert visit.page.evaluate("window.isSame")


@pytest.mark.parametrize("path", PAGES.values())
def test_links_are_reached_by_keyboard(square, visits, path):
    visit = opened(visits(square), path)
    trail = []
    for _ in range(6):
        visit.page.keyboard.press("Tab")
        trail.append(focused(visit))
    assert trail[0].startswith("Skip to the ")
    assert trail[1:] == ["Isthmus", *LINKS]
    visit.page.keyboard.press("Shift+Tab")
    # Not wait_for_url: on the status page it would be satisfied before anything happened.
    with visit.page.expect_navigation(url=f"{visit.url}/status"):
        visit.page.keyboard.press("Enter")


@pytest.mark.parametrize("path", PAGES.values())
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_bar_fits_every_width(square, visits, path, scheme):
    visit = opened(visits(square, color_scheme=scheme, bypass_csp=True), path)
    for viewport in (DESKTOP, TABLET, PHONE, NARROWEST):
        visit.page.set_viewport_size(viewport)
        assert not visit.too_wide()
        tops = visit.page.locator("nav.pages a").evaluate_all(
            "(all) => all.map((link) => link.getBoundingClientRect().top)"
        )
        assert len(set(tops)) == 1
        assert visit.page.locator(".top").bounding_box()["height"] < 105
    assert violations(visit) == []
