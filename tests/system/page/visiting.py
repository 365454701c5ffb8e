"""A reader in front of the page: what it shows, read off as text."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request

from tests.system.page.reading import is_shown, offer_row
from tests.system.page.serving import Serving

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 740}

# Every cell of a table by the name of its column, as its reader sees it.
_READ_TABLE = """
(table) => [...table.tBodies[0].rows].map((row) => Object.fromEntries(
    [...row.cells].map((cell) => [cell.dataset.label, cell.innerText.trim()])
))
"""


# The elements that reach beyond the window, if the page can be scrolled sideways.
_FIND_TOO_WIDE = """
() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return [];
    const beyond = [...document.querySelectorAll("body *")]
        .map((element) => [element, Math.ceil(element.getBoundingClientRect().right)])
        .filter(([, right]) => right > clientWidth);
    return [`${scrollWidth} > ${clientWidth}`, ...beyond.map(([element, right]) =>
        `${element.tagName}#${element.id}.${element.className} ends at ${right}`)];
}
"""


class Visit:
    """One tab, and whatever it did that it must not do."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        self.url = url
        self.context: BrowserContext = browser.new_context(
            **{"viewport": DESKTOP, "reduced_motion": "reduce", **options}
        )
        self.context.set_default_timeout(20_000)
        self.page: Page = self.context.new_page()
        self.requests: list[str] = []
        self.problems: list[str] = []
        self.expected: tuple[str, ...] = ()
        """Regular expressions of problems that the test brings about itself."""
        self.page.on("request", self._note_request)
        self.page.on("websocket", lambda socket: self._note_address(socket.url))
        self.page.on("console", self._note_console)
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))

    def _note_request(self, request: Request) -> None:
        self._note_address(request.url)

    def _note_address(self, url: str) -> None:
        self.requests.append(url)
        host = self.url.partition("://")[2]
        if not re.match(rf"(http|ws)://{re.escape(host)}/", url):
            self.problems.append(f"asked another host: {url}")

    def _note_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console: {message.text} ({message.location.get('url')})")

    def close(self) -> None:
        """Leave; whatever the page did wrong fails the test."""
        self.context.close()
        wrong = [
            problem
            for problem in self.problems
            if not any(re.search(pattern, problem) for pattern in self.expected)
        ]
        assert not wrong, wrong

    def go(self, path: str = "/") -> "Visit":
        """Open an address, and wait until the book has come."""
        self.page.goto(f"{self.url}{path}")
        self.until_ledger(lambda ledger: ledger is not None)
        return self

    def ledger(self) -> int | None:
        """The ledger that the page says it is as of."""
        text = self.page.locator("#ledger").inner_text()
        return int(text.replace(",", "")) if text else None

    def phase(self) -> str | None:
        """connecting, live, stale or waiting."""
        return self.page.locator("#link").get_attribute("data-phase")

    def until_ledger(self, holds: Callable[[int | None], bool]) -> None:
        """Wait for a ledger."""
        self.until(lambda: holds(self.ledger()))

    def until(self, holds: Callable[[], bool], seconds: float = 20.0) -> None:
        """Wait for something that the page shows."""
        for _ in range(int(seconds * 20)):
            if holds():
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never came true on:\n{self.page.locator('body').inner_text()}")

    @contextmanager
    def shows_meanwhile(self, element: Locator, text: str) -> Iterator[None]:
        """Wait at the end of the block until the element has shown the text since its beginning."""
        element.evaluate(
            """(element, text) => {
                window.shown_meanwhile = false;
                const look = () => {
                    if (element.innerText === text) window.shown_meanwhile = true;
                    else requestAnimationFrame(look);
                };
                look();
            }""",
            text,
        )
        yield
        self.until(lambda: bool(self.page.evaluate("window.shown_meanwhile")))

    def offers(self) -> list[dict[str, str]]:
        """The rows of the offers' table; all of them are shown first."""
        while self.page.locator("#offers-more").is_visible():
            self.page.locator("#offers-more").click()
        return self.first_offers()

    def first_offers(self) -> list[dict[str, str]]:
        """The rows that are shown without asking for more."""
        return self._table("#offers-table")

    def is_up_to_date(self, serving: Serving) -> bool:
        """Whether it shows just what the API says, as of the same ledger."""
        answer = serving.get("/api/v1/orderbook")
        return self.ledger() == int(answer.headers["X-Ledger"]) and is_shown(
            self.offers(), map(offer_row, answer.json())
        )

    def orders(self) -> list[dict[str, str]]:
        """The rows of the orders' table."""
        return self._table("#orders-table")

    def _table(self, selector: str) -> list[dict[str, str]]:
        rows: list[dict[str, str]] = self.page.locator(selector).evaluate(_READ_TABLE)
        return rows

    def text(self, selector: str) -> str:
        """What is to be read there, white space straightened."""
        return re.sub(r"\s+", " ", self.page.locator(selector).inner_text()).strip()

    def too_wide(self) -> list[str]:
        """What makes the page wider than its window: nothing, as it should be."""
        found: list[str] = self.page.evaluate(_FIND_TOO_WIDE)
        return found
