"""Changes read from the outbox, and when a snapshot is needed instead."""

from dataclasses import replace

import pytest
from sqlalchemy import delete, func, insert, select, update

from api.deps import read_snapshot
from api.errors import OrderBookNotReady
from api.stream import outbox
from api.stream.outbox import BookSnapshot, ReadPosition
from indexer.orderbook.store import RETAINED_LEDGERS
from tests.factories.book import CHAIN
from tests.factories.projections import CLOSE_TIME, insert_book
from warehouse_schema import projections as tables
from warehouse_schema.identifiers import Height, UnixSeconds

ROWS = tables.stream_events
MANY = 100_000
NEVER = UnixSeconds(0)


@pytest.fixture
def read(api_engine):
    """Call it for what a reader sees in one snapshot: `read(outbox.read_book_snapshot)`."""

    def one(ask, *arguments, **options):
        with read_snapshot(api_engine) as connection:
            return ask(connection, CHAIN, *arguments, **options)

    return one


@pytest.fixture
def read_news(api_engine):
    """Call it for what a reader sees that has read up to a position."""

    def one(since):
        with api_engine.connect() as connection:
            return outbox.read_since(connection.connection.driver_connection, CHAIN, since)

    return one


def missed(read, after, limit=MANY):
    return read(outbox.read_missed, Height(after), limit=limit)


def entries(book):
    return {offer.key: offer.entry for offer in book}


def test_snapshot_without_a_book_is_not_ready(read, read_news):
    with pytest.raises(OrderBookNotReady):
        read(outbox.read_book_snapshot)
    assert missed(read, 0) is None
    assert read_news(ReadPosition(Height(0), NEVER, 0)) is None


def test_changes_lead_from_one_book_to_the_next(stand, read, read_news):
    start = read(outbox.read_book_snapshot)
    book, standing = {offer.key: offer for offer in start.offers}, start.at
    for step in (1, 1, 3, 1, 20, 1):
        stand.move(step)
        news = read_news(standing)
        for batch in news.batches:
            assert standing.ledger < batch.ledger <= news.at.ledger
            assert standing.position < batch.position <= news.at.position
            batch.apply_to(book)
        standing = news.at
        fresh = read(outbox.read_book_snapshot)
        assert standing == fresh.at
        assert entries(book.values()) == entries(fresh.offers)
    assert read_news(standing).batches == ()


def test_missed_changes_of_any_ledger_lead_to_the_book(stand, read):
    starts = {}
    for _ in range(40):
        ledger = stand.move()
        starts[ledger] = read(outbox.read_book_snapshot)
    for ledger, start in starts.items():
        book, found = {offer.key: offer for offer in start.offers}, missed(read, ledger)
        assert found.at.position == starts[stand.market.ledger].at.position
        for batch in found.batches:
            assert batch.ledger > ledger
            batch.apply_to(book)
        assert entries(book.values()) == entries(starts[stand.market.ledger].offers)


def test_future_ledger_cannot_be_resumed(stand, read):
    ledger = stand.market.ledger
    assert missed(read, ledger).batches == ()
    assert missed(read, ledger + 1) is None


def test_too_many_missed_messages_cannot_be_resumed(stand, read):
    stand.move(20)
    first = min(stand.shown)
    rows = sum(len(batch.changes) for batch in missed(read, first).batches)
    assert missed(read, first, limit=rows) is not None
    assert missed(read, first, limit=rows - 1) is None


def test_deleted_rows_cannot_be_resumed(stand, read, engine):
    """Ledgers are dropped whole, the oldest first; at the edge nothing is claimed that may miss."""
    stand.move(40)
    with engine.begin() as connection:
        told = connection.scalars(select(ROWS.c.ledger).distinct().order_by(ROWS.c.ledger)).all()
        oldest = told[len(told) // 2]
        connection.execute(delete(ROWS).where(ROWS.c.ledger < oldest))
    for ledger in range(told[0], stand.market.ledger + 1):
        assert (missed(read, ledger) is None) == (ledger < oldest - 1)


def test_empty_outbox_resumes_only_the_current_ledger(stand, read, engine):
    with engine.begin() as connection:
        connection.execute(delete(ROWS))
    ledger = stand.market.ledger
    assert missed(read, ledger).batches == ()
    assert missed(read, ledger - 1) is None


def revise(stand, engine):
    """Let a rebuild mend something; the ledger as of which it does."""
    with engine.begin() as connection:
        connection.execute(update(tables.offers).values(rate=1))
    stand.market.rebuild()
    return stand.market.ledger


def test_ledger_of_a_rebuild_cannot_be_resumed(stand, read, read_news, engine):
    before = read(outbox.read_book_snapshot)
    ledger = revise(stand, engine)
    news = read_news(before.at)
    assert [batch.revised for batch in news.batches] == [True]
    assert missed(read, ledger) is None
    assert missed(read, ledger - 1).batches[-1] == news.batches[-1]
    later = stand.move(10)
    assert missed(read, ledger) is None
    assert missed(read, ledger + 1) is not None or ledger + 1 > later
    assert not any(batch.revised for batch in missed(read, ledger + 1).batches)


def test_rebuild_rows_do_not_prove_history(stand, read, engine):
    """What it says is the difference to nothing, and a client has something."""
    with engine.begin() as connection:
        connection.execute(delete(ROWS))
        connection.execute(delete(tables.offers))
    stand.market.rebuild()
    ledger = stand.market.ledger
    assert missed(read, ledger - 1) is None
    assert missed(read, ledger) is None
    stand.move(10)
    with engine.begin() as connection:
        usual = select(func.min(ROWS.c.ledger)).where(~ROWS.c.revised)
        first = connection.scalar(usual)
    for after in range(ledger, stand.market.ledger):
        assert (missed(read, after) is None) == (after < first - 1 or after == ledger)


@pytest.mark.parametrize("away", [RETAINED_LEDGERS, RETAINED_LEDGERS + 1])
def test_reader_beyond_retention_needs_a_snapshot(engine, read_news, away):
    with engine.begin() as connection:
        insert_book(connection, chain=CHAIN, as_of_ledger=1_000 + away)
    news = read_news(ReadPosition(Height(1_000), NEVER, 7))
    assert (news is None) == (away > RETAINED_LEDGERS)
    if news is not None:
        assert news.at == ReadPosition(Height(1_000 + away), CLOSE_TIME, 7)


def test_restored_warehouse_needs_a_snapshot(stand, read, read_news):
    standing = read(outbox.read_book_snapshot).at
    later = replace(standing, ledger=standing.ledger + 1)
    assert read_news(later) is None
    assert read_news(replace(standing, position=standing.position + 1)) is None


def test_reader_far_behind_needs_a_snapshot(stand, read, read_news, monkeypatch):
    standing = read(outbox.read_book_snapshot).at
    stand.move(30)
    monkeypatch.setattr(outbox, "MAX_UNREAD", 10)
    assert read_news(standing) is None


def test_outbox_of_another_chain_is_ignored(stand, read, read_news, engine):
    before = read(outbox.read_book_snapshot)
    with engine.begin() as connection:
        columns = [column for column in ROWS.columns if column.name != "id"]
        one = connection.execute(select(*columns).limit(1)).one()
        connection.execute(insert(ROWS).values({**one._mapping, "chain": "stellar:other"}))
    assert read_news(before.at).batches == ()
    assert missed(read, before.at.ledger).batches == ()


def test_snapshot_equals_rest(stand, read):
    start = read(outbox.read_book_snapshot)
    assert isinstance(start, BookSnapshot)
    assert start.at.ledger == stand.market.ledger
    assert len(start.offers) == len(stand.shown[stand.market.ledger])
