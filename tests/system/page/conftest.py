"""A market that is served, and readers in front of it."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright
from sqlalchemy import delete
from sqlalchemy.engine import URL

from tests.system.page.bridge import Bridge, running_bridge
from tests.system.page.chromium import FLAGS, NoBrowser, find_chromium
from tests.system.page.live import LiveMarket, furnish
from tests.system.page.serving import Serving
from tests.system.page.visiting import Visit
from warehouse_schema.engine import make_engine
from warehouse_schema.metadata import PROJECTIONS, metadata


def pytest_configure() -> None:
    """Without a browser nothing here can be tested, and one sentence says so."""
    try:
        find_chromium()
    except NoBrowser as error:
        raise pytest.UsageError(str(error)) from error


class Town:
    """A market and its server."""

    market: LiveMarket

    def __init__(self, database: URL, home: Path) -> None:
        self._engine = make_engine(database, role="indexer")
        self.serving = Serving(database, home)

    def begin(self) -> None:
        """The market's first ledger, in which nothing is offered."""
        self.market = LiveMarket(self._engine)

    def start_over(self) -> None:
        """Another market in the same place, with one offer. Its ledgers have the same numbers."""
        with self._engine.begin() as connection:
            for table in reversed(metadata.sorted_tables):
                if table.schema == PROJECTIONS:
                    connection.execute(delete(table))
        self.begin()
        with self.market.ledger():
            self.market.provider("zoe", 50, wise="@zoe")
            self.market.offer("zoe", "onramp", "GBP", "0.8", ("wise",))

    @property
    def url(self) -> str:
        """Where it is served."""
        return self.serving.url

    def get(self, path: str) -> Any:
        """What the API says."""
        answer = self.serving.get(f"/api/v1/{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def close(self) -> None:
        """Let go of the warehouse."""
        self._engine.dispose()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One headless Chromium for all tests, with a profile that is gone afterwards."""
    path = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=list(FLAGS), chromium_sandbox=False, headless=True
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def homes() -> Iterator[Callable[[], Path]]:
    """Call it for a folder."""
    root = Path(tempfile.mkdtemp(prefix="isthmus-page-"))
    yield lambda: Path(tempfile.mkdtemp(dir=root))
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def square(clone: Callable[[], URL], homes: Callable[[], Path]) -> Iterator[Town]:
    """A furnished market in which nothing happens any more: for tests that look."""
    town = Town(clone(), homes())
    town.begin()
    furnish(town.market)
    with town.serving:
        yield town
    town.close()


@pytest.fixture(scope="session")
def bridge(clone: Callable[[], URL], homes: Callable[[], Path]) -> Iterator[Bridge]:
    """The whole service on local chains."""
    with running_bridge(clone(), homes()) as running:
        yield running


@pytest.fixture
def empty_town(database: URL, homes: Callable[[], Path]) -> Iterator[Town]:
    """A server before the first ledger."""
    town = Town(database, homes())
    with town.serving:
        yield town
    town.close()


@pytest.fixture
def town(empty_town: Town) -> Town:
    """A furnished market of the test's own."""
    empty_town.begin()
    furnish(empty_town.market)
    return empty_town


@pytest.fixture
def visits(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Call it with a town or a bridge, and Playwright's options of a context, for a tab.

    What no page of ours may do (ask another host, complain on the console) fails the test.
    """
    opened: list[Visit] = []

    def visit(town: Town | Bridge, **options: Any) -> Visit:
        opened.append(Visit(browser, town.url, **options))
        return opened[-1]

    yield visit
    for visit_ in opened:
        visit_.close()
