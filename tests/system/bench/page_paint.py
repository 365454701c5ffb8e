"""How soon the pages of a demo are seen, beside a text that the same API sends."""

from statistics import median
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from tests.system.page.chromium import FLAGS, find_chromium
from tests.system.page.screenshots import demo

LOADS = 7
PATHS = ("/", "/transfers", "/status")
_FLOOR = "/healthz"
_PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def measure() -> dict[str, Any]:
    """Milliseconds from the navigation to the first paint, the median of `LOADS` empty caches."""
    with demo() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        paints = {path: median(_paint(browser, url + path) for _ in range(LOADS)) for path in PATHS}
        floor = median(_paint(browser, url + _FLOOR) for _ in range(LOADS))
        browser.close()
    return {
        **{f"{path}_ms": round(ms) for path, ms in paints.items()},
        "floor_ms": round(floor),
        "ratio": round(max(paints.values()) / floor, 2),
    }


def _paint(browser: Browser, url: str) -> float:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(url)
        while (painted := page.evaluate(_PAINTED)) is None:
            page.wait_for_timeout(20)
        return float(painted)
