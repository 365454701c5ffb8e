"""A follower of Stellar stores the same rows of ledgers, as columns and one by one."""

from collections.abc import Callable, Iterator
from itertools import chain
from types import ModuleType
from typing import Any

import pytest
from polars.exceptions import ComputeError
from sqlalchemy import insert, select
from sqlalchemy.engine import URL

from indexer.chains.stellar import event_columns, event_pages
from indexer.chains.stellar.reader import StellarReader
from indexer.facts import columns_decode
from indexer.ingest import ranges
from indexer.ingest.rebuild import differences
from tests.devnet.stellar.chain import UNIT
from tests.devnet.stellar.market import Market
from tests.factories.book_stand import NETWORK, follow_up, reading
from tests.factories.contents import contents
from tests.factories.intake import ask
from tests.factories.stage_history import make_terms
from warehouse_schema.engine import make_engine
from warehouse_schema.events import asset_movements
from warehouse_schema.facts import blocks, stellar_events
from warehouse_schema.intake import watched_addresses
from warehouse_schema.projections import transfer_states

CHAIN = NETWORK.stellar.id
ALL, NONE = 1, 10**9


class Followed:
    """Two warehouses of one market: by columns wherever there is an event, and without columns."""

    def __init__(
        self,
        market: Market,
        url: URL,
        reader: StellarReader,
        least: int,
        patched: pytest.MonkeyPatch,
    ) -> None:
        self.owner, self.engine = make_engine(url), make_engine(url, role="indexer")
        self._reader, self._least, self._patched = reader, least, patched
        terms = make_terms(
            mechanism="payment",
            source_chain=CHAIN,
            source_address=market.taker.public_key,
            source_token=NETWORK.stellar.usdc_contract,
            dest_chain=CHAIN,
            dest_address=market.provider.public_key,
            deposit_address=None,
            amount_in=7 * UNIT,
            started_at=market.chain.now // 1000,
            expires_at=market.chain.now // 1000 + 10_000,
        )
        with self.owner.begin() as conn:
            ask(conn, terms)
            watched = [market.taker.public_key, market.provider.public_key]
            rows = [{"chain": CHAIN, "address": each, "reason": "payer"} for each in watched]
            conn.execute(insert(watched_addresses), rows)

    def look(self, ledgers: int = 200) -> None:
        """Bring in what is new, so many ledgers in one transaction."""
        self._patched.setattr(event_pages, "MIN_COLUMNAR", self._least)
        follow_up(self.engine, self._reader, NETWORK, ledgers=ledgers)

    def contents(self) -> dict[str, list[str]]:
        """All rows, but for a quote that ends by this machine's clock."""
        return contents(self.engine, without=["intake.quotes"])

    def close(self) -> None:
        self.owner.dispose()
        self.engine.dispose()


@pytest.fixture
def market() -> Market:
    return Market()


@pytest.fixture
def both(
    market: Market, clone: Callable[[], URL], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Followed, Followed]]:
    with reading(market) as one, reading(market) as other:
        found = (
            Followed(market, clone(), one, ALL, monkeypatch),
            Followed(market, clone(), other, NONE, monkeypatch),
        )
        for each in found:
            each.look()
        yield found
        for each in found:
            each.close()


def play(market: Market) -> Iterator[Any]:
    """Transfers of watched accounts beside orders."""
    yield market.deposit(100)
    yield market.set_terms()
    yield market.set_payee()
    yield market.chain.pay(market.taker, market.provider.public_key, 7 * UNIT)
    order = market.open(40)
    yield order
    yield market.fulfill(order, 40 * UNIT, nullifier=b"\x01" * 32)
    yield market.chain.pay(market.provider, market.taker.public_key, UNIT)
    yield market.withdraw(10)


def test_columns_store_the_rows_of_events(
    market: Market, both: tuple[Followed, Followed], monkeypatch: pytest.MonkeyPatch
) -> None:
    columnar, plain = both
    heights = spied(monkeypatch)
    for _ in play(market):
        columnar.look()
        plain.look()
    assert len(heights) == 8
    assert {len(each) for each in heights} == {1}
    _assert_same(columnar, plain, heights)


@pytest.mark.parametrize("ledgers", [2, 3, 200])
def test_ledgers_behind_are_the_same_rows(
    market: Market,
    both: tuple[Followed, Followed],
    monkeypatch: pytest.MonkeyPatch,
    ledgers: int,
) -> None:
    columnar, plain = both
    heights = spied(monkeypatch)
    for _ in play(market):
        pass
    columnar.look(ledgers)
    plain.look(ledgers)
    assert 1 < len(heights[0]) <= ledgers
    assert sum(map(len, heights)) == 8
    _assert_same(columnar, plain, heights)


def _assert_same(columnar: Followed, plain: Followed, heights: list[list[int]]) -> None:
    assert columnar.contents() == plain.contents()
    assert differences(columnar.engine, NETWORK) == []
    with columnar.engine.connect() as conn:
        assert len(conn.execute(select(asset_movements)).all()) > 4
        assert {row.event for row in conn.execute(select(stellar_events))} > {"AssetMovement"}
        [transfer] = conn.execute(select(transfer_states))
        assert transfer.stage == "COMPLETED"
        counted = select(blocks.c.events).where(blocks.c.height.in_(chain.from_iterable(heights)))
        assert all(conn.scalars(counted))


def spied(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Heights of each range that is read as columns from now on."""
    heights: list[list[int]] = []
    real = ranges._decode_columns

    def spy(of: Any, read: Any) -> Any:
        heights.append([block.height for block in read.blocks])
        return real(of, read)

    monkeypatch.setattr(ranges, "_decode_columns", spy)
    return heights


@pytest.mark.parametrize("fault", [ValueError, KeyError, TypeError, ComputeError])
@pytest.mark.parametrize(
    ("module", "function"),
    [
        (event_columns, "_wanted"),
        (columns_decode, "decode_columns"),
        (ranges, "payments_among"),
    ],
)
def test_fault_in_columns_alone_stops_no_chain(
    market: Market,
    both: tuple[Followed, Followed],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    module: ModuleType,
    function: str,
    fault: type[Exception],
) -> None:
    def fail(*_: Any) -> Any:
        raise fault("a fault of ours")

    monkeypatch.setattr(module, function, fail)
    for _ in play(market):
        for each in both:
            each.look()
    assert "no columns" in caplog.text
    columnar, plain = both
    assert columnar.contents() == plain.contents()


def test_failed_commit_leaves_nothing(
    market: Market, both: tuple[Followed, Followed], monkeypatch: pytest.MonkeyPatch
) -> None:
    columnar, plain = both
    before = columnar.contents()
    market.chain.pay(market.taker, market.provider.public_key, 7 * UNIT)
    with monkeypatch.context() as patched:

        def fail(*_: Any) -> None:
            raise RuntimeError("killed")

        patched.setattr(ranges, "apply_range", fail)
        with pytest.raises(RuntimeError, match="killed"):
            columnar.look()
    assert columnar.contents() == before
    columnar.look()
    plain.look()
    assert columnar.contents() == plain.contents()
