"""A book that moves, what REST shows of it, and servers on it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, text
from sqlalchemy.engine import URL

from indexer.config.networks import load_network
from tests.factories.api_server import Server, serving
from tests.factories.app import make_app
from tests.factories.streaming import Book, Market, identity
from warehouse_schema.engine import make_engine

DEVNET = load_network("devnet")


@dataclass
class Stand:
    """A market, and the book that REST showed after each of its ledgers."""

    market: Market
    rest: FlaskClient
    shown: dict[int, Book] = field(default_factory=dict)

    def show(self, query: str = "") -> tuple[int, Book]:
        """The ledger and the book of `GET /api/v1/orderbook`."""
        answer = self.rest.get(f"/api/v1/orderbook?{query}")
        assert answer.status_code == 200
        return int(answer.headers["X-Ledger"]), {identity(each): each for each in answer.json}

    def move(self, ledgers: int = 1, *, together: bool = False) -> int:
        """Fold ledgers; the last one's number."""
        for _ in range(1 if together else ledgers):
            self.market.move(ledgers if together else 1, together=together)
            ledger, book = self.show()
            assert ledger == self.market.ledger
            self.shown[ledger] = book
        return self.market.ledger


def make_stand(engine: Engine, api_engine: Engine) -> Stand:
    """A book of twelve ledgers."""
    stand = Stand(Market(engine), make_app(api_engine, network=DEVNET).test_client())
    stand.move(10, together=True)
    stand.move(2)
    return stand


@pytest.fixture
def stand(indexer_engine: Engine, api_engine: Engine) -> Stand:
    """A book of twelve ledgers in a database of this test's own."""
    return make_stand(indexer_engine, api_engine)


@pytest.fixture
def serve(database: URL, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Call it for a server on the database of `stand`."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(serving(database, tmp_path, **options))


@dataclass
class Open(Stand):
    """A stand that two processes serve."""

    server: Server = field(kw_only=True)

    @property
    def url(self) -> str:
        """Where the stream is."""
        return self.server.stream_url


@pytest.fixture(scope="module")
def market_square(
    clone: Callable[[], URL], server_engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Open]:
    """A stand that the tests of a module share: it only ever moves on."""
    url = clone()
    engines = [make_engine(url, role="indexer"), make_engine(url, role="api")]
    stand = make_stand(*engines)
    with serving(url, tmp_path_factory.mktemp("home"), workers=2) as server:
        yield Open(stand.market, stand.rest, stand.shown, server=server)
    for engine in engines:
        engine.dispose()
    with server_engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {url.database} WITH (FORCE)"))
