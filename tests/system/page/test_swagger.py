"""`/docs` in a browser: the units of amounts, and a request that is sent as it is filled in."""

import pytest

from tests.system.page.accessibility import violations
from tests.system.page.visiting import DESKTOP, PHONE


def test_docs_show_units_and_send_the_filled_in_request(square, visits):
    visit = visits(square)
    page = visit.page
    page.goto(f"{square.url}/docs")
    page.get_by_text("The unit of each amount").click()
    row = page.get_by_role("row").filter(has_text="Quote.buy_amount")
    assert row.inner_text().split("\t") == [
        "Quote.buy_amount",
        "base units of buy_asset",
        '"99984400"',
    ]
    operation = page.locator("#operations-Order_book-listOffers")
    operation.get_by_role("button").first.click()
    operation.get_by_role("button", name="Try it out").click()
    with page.expect_response("**/api/v1/orderbook?*") as answer:
        operation.get_by_role("button", name="Execute").click()
    assert answer.value.status == 200
    assert answer.value.url.endswith("?currency=EUR&direction=onramp&minAmount=25")


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_docs_are_accessible_and_fit_a_phone(square, visits, viewport):
    visit = visits(square, viewport=viewport, bypass_csp=True)
    visit.page.goto(f"{square.url}/docs")
    visit.page.get_by_text("The unit of each amount").click()
    # Swagger UI's own structure: the link to an operation is inside of the button that opens it.
    assert violations(visit, ignored={"nested-interactive": ".opblock"}) == []
    assert not visit.too_wide()
