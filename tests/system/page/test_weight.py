"""What the market page weighs, as it is served."""

import pytest

from tests.factories.book import account

LARGEST_BYTES = 150_000
"""Of everything but the typeface."""


@pytest.mark.parametrize("path", ["/?currency=EUR", f"/?provider={account('ana')}"])
def test_page_is_light(square, visits, path):
    visit = visits(square)
    session = visit.context.new_cdp_session(visit.page)
    session.send("Network.enable")
    urls, sizes = {}, {}
    session.on(
        "Network.responseReceived",
        lambda event: urls.__setitem__(event["requestId"], event["response"]["url"]),
    )
    session.on(
        "Network.loadingFinished",
        lambda event: sizes.__setitem__(event["requestId"], event["encodedDataLength"]),
    )
    visit.go(path)
    visit.until(lambda: len(visit.orders()) > 0)
    weight = {urls[each]: size for each, size in sizes.items() if not urls[each].endswith("woff2")}
    assert len(weight) > 30
    assert sum(weight.values()) < LARGEST_BYTES, weight
