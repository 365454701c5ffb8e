"""The in-memory order book: served without Postgres, within its maximum age."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import orjson
import pytest
from sqlalchemy import Connection, Engine, delete, event, func, insert, select, text, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError

from api.errors import OrderBookNotReady
from api.notifications import Committed, NotificationListener
from api.orderbook.books import FRESH_SECONDS, BookAnswer, Books
from api.orderbook.filters import OfferFilters
from api.orderbook.recent import RecentOrders
from tests.api.notification_log import GAINED, LOST, NotificationLog
from tests.factories import book as factory
from tests.factories.book_history import RandomHistory
from tests.factories.book_walk import apply_range, refolded
from tests.factories.projections import (
    LEDGER,
    ORDER_ID,
    PROVIDER,
    STELLAR,
    address,
    insert_book,
    insert_depth,
    insert_offer,
    insert_order,
    insert_provider,
)
from warehouse_schema import channels
from warehouse_schema import projections as tables
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import ChainId, Height, StellarAddress

ALL = OfferFilters()
CHAIN = ChainId(STELLAR)


class Clock:
    """Stands until it is moved; seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def silent(reader: Engine, clock: Clock) -> Books:
    """A book that is never told anything."""
    return Books(reader, CHAIN, NotificationListener(reader), clock)


@dataclass(frozen=True)
class Wire:
    """What the book of `told` hears."""

    owner: Engine
    log: NotificationLog

    def commit(self, chain: str = STELLAR, height: int = LEDGER) -> None:
        """Returns when the book has heard of it."""
        with self.owner.begin() as connection:
            connection.execute(select(func.pg_notify(channels.INGESTED, f"{chain}:{height}")))
        self.log.until(Committed(ChainId(chain), Height(height)))

    def cut(self) -> None:
        """Returns when the book has heard that it is listening again."""
        with self.owner.begin() as connection:
            ours = "application_name = 'isthmus-api-changes' AND datname = current_database()"
            query = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}"
            connection.execute(text(query))
        self.log.until(LOST)
        self.log.until(GAINED)


@pytest.fixture
def told(
    api_database: URL, owner: Engine, reader: Engine, clock: Clock
) -> Iterator[tuple[Books, Wire]]:
    """A book that hears what commits, while time stands still."""
    engine, log = make_engine(api_database, role="api", pool_size=1), NotificationLog()
    changes = NotificationListener(engine)
    books = Books(reader, CHAIN, changes, clock)
    # Told after the book, so whatever it has heard the book has.
    changes.subscribe(log.append)
    changes.start()
    log.until(GAINED)
    yield books, Wire(owner, log)
    changes.stop()
    engine.dispose()


@contextmanager
def statements(engine: Engine) -> Iterator[list[str]]:
    """What is asked of Postgres meanwhile."""
    executed: list[str] = []

    def note(conn, cursor, statement, *rest):
        executed.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield executed
    event.remove(engine, "before_cursor_execute", note)


@contextmanager
def before_the_offers_are_read(engine: Engine, act: Callable[[], None]) -> Iterator[None]:
    done: list[bool] = []

    def note(conn, cursor, statement, *rest):
        if "FROM projections.offers" in statement and not done:
            done.append(True)
            act()

    event.listen(engine, "before_cursor_execute", note)
    yield
    event.remove(engine, "before_cursor_execute", note)
    assert done


def offer_count(answer: BookAnswer) -> int:
    return len(orjson.loads(answer.body.plain))


def add_offer(connection: Connection, number: int, *, ledger: int) -> None:
    """As a fold commits it: the offer, its message and the book's clock at once."""
    connection.execute(text("BEGIN"))
    insert_offer(connection, provider=address(number))
    message = {"chain": STELLAR, "ledger": ledger, "channel": "orderbook", "op": "add"}
    connection.execute(
        insert(tables.stream_events).values(message | {"entry": {}, "last": True, "revised": False})
    )
    move_on(connection, ledger)
    connection.execute(text("COMMIT"))


def move_on(connection: Connection, ledger: int) -> None:
    connection.execute(update(tables.book).values(as_of_ledger=ledger))


def test_cached_state_costs_no_statement(silent, book, reader):
    insert_offer(book)
    insert_provider(book)
    insert_order(book)

    def ask() -> list[BookAnswer]:
        return [
            silent.offers(ALL),
            silent.offers(OfferFilters(currency="USD")),
            silent.summary(),
            silent.provider(PROVIDER),
            silent.newest(RecentOrders()),
            silent.order(ORDER_ID),
        ]

    first = ask()
    with statements(reader) as executed:
        assert ask() == first
    assert executed == []


def test_notified_commit_is_in_the_next_answer(told, book):
    books, wire = told
    assert offer_count(books.offers(ALL)) == 0
    add_offer(book, 1, ledger=LEDGER + 1)
    wire.commit(height=LEDGER + 1)
    answer = books.offers(ALL)
    assert (answer.book.ledger, offer_count(answer)) == (LEDGER + 1, 1)


def test_unnotified_commit_is_seen_when_the_state_is_old(silent, book, clock):
    assert FRESH_SECONDS < 0.1
    silent.offers(ALL)
    add_offer(book, 1, ledger=LEDGER + 1)
    clock.now = FRESH_SECONDS
    answer = silent.offers(ALL)
    assert (answer.book.ledger, offer_count(answer)) == (LEDGER + 1, 1)


def test_commit_of_another_chain_keeps_the_cache(told, book, reader):
    books, wire = told
    books.offers(ALL)
    wire.commit("eip155:11155111", 7)
    with statements(reader) as executed:
        books.offers(ALL)
    assert executed == []


def test_check_without_changes_reads_only_the_version(silent, book, clock, reader):
    first = silent.offers(ALL)
    clock.now = 1.0
    with statements(reader) as executed:
        assert silent.offers(ALL).body is first.body
    assert sum("FROM projections.book" in statement for statement in executed) == 1
    assert not any("FROM projections.offers" in statement for statement in executed)


def test_ledger_without_changes_keeps_the_bytes(told, book, reader):
    books, wire = told
    insert_offer(book)
    insert_provider(book)
    first = books.offers(ALL)
    books.provider(PROVIDER)
    move_on(book, LEDGER + 1)
    book.execute(update(tables.providers).values(active_orders=3))
    wire.commit(height=LEDGER + 1)
    with statements(reader) as executed:
        second = books.offers(ALL)
    assert second.body is first.body
    assert second.book.ledger == LEDGER + 1
    [statement] = executed
    assert "FROM projections.book" in statement
    # A provider can change without a message.
    assert orjson.loads(books.provider(PROVIDER).body.plain)["activeIntents"] == 3


def test_depth_that_a_rebuild_repairs_alone_is_seen(silent, book, clock):
    """A rebuild writes the book's row, and messages about offers and orders only."""
    insert_depth(book, "wise", "12.5", 2)
    assert depth_of(silent) == [("wise", "12.5", 2)]
    book.execute(update(tables.depth).values(offer_count=3))
    move_on(book, LEDGER)
    clock.now = 1.0
    assert depth_of(silent) == [("wise", "12.5", 3)]
    book.execute(delete(tables.depth))
    move_on(book, LEDGER)
    clock.now = 2.0
    assert depth_of(silent) == []


def test_depth_of_any_size_is_exact(silent, book):
    large = "123456789012345678.1234567"
    insert_depth(book, "wise", large, 1)
    insert_depth(book, "Revolut", 1, 1)
    assert depth_of(silent) == [("Revolut", "1", 1), ("wise", large, 1)]


def depth_of(books: Books) -> list[tuple[str, str, int]]:
    rails = orjson.loads(books.summary().body.plain)["byRail"]
    return [(each["rail"], each["availableUsdc"], each["offerCount"]) for each in rails]


def test_lost_session_clears_the_cache(told, book):
    """The server that comes back may be another one, whose marks mean something else."""
    books, wire = told
    books.offers(ALL)
    # What a server that lost its last writes may hold: the same marks, other offers.
    insert_offer(book)
    wire.cut()
    assert offer_count(books.offers(ALL)) == 1


def test_commit_during_a_read_is_in_the_next_answer(told, book, reader):
    books, wire = told
    add_offer(book, 1, ledger=LEDGER + 1)

    def land() -> None:
        add_offer(book, 2, ledger=LEDGER + 2)
        wire.commit(height=LEDGER + 2)

    with before_the_offers_are_read(reader, land):
        during = books.offers(ALL)
    assert (during.book.ledger, offer_count(during)) == (LEDGER + 1, 1)
    after = books.offers(ALL)
    assert (after.book.ledger, offer_count(after)) == (LEDGER + 2, 2)


def test_record_is_as_of_the_ledger_it_names(silent, book):
    insert_provider(book)
    silent.offers(ALL)
    move_on(book, LEDGER + 1)
    book.execute(update(tables.providers).values(active_orders=3))
    record = silent.provider(PROVIDER)
    assert (record.book.ledger, b'"activeIntents":3' in record.body.plain) == (LEDGER + 1, True)
    # And it is not kept among what is as of the ledger before.
    move_on(book, LEDGER + 2)
    book.execute(update(tables.providers).values(active_orders=4))
    record = silent.provider(PROVIDER)
    assert (record.book.ledger, b'"activeIntents":4' in record.body.plain) == (LEDGER + 2, True)


def test_concurrent_requests_cause_one_read(silent, book, reader):
    insert_offer(book)
    everyone = threading.Barrier(8)

    def ask(_: int) -> BookAnswer:
        everyone.wait()
        return silent.offers(ALL)

    with statements(reader) as executed, ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, range(8)))
    assert len({id(answer.body) for answer in answers}) == 1
    assert sum("FROM projections.offers" in statement for statement in executed) == 1


def test_fresh_state_is_served_during_a_check(silent, book, clock, reader):
    silent.offers(ALL)
    add_offer(book, 1, ledger=LEDGER + 1)
    clock.now = FRESH_SECONDS * 0.9
    served = []
    with before_the_offers_are_read(reader, lambda: served.append(silent.offers(ALL))):
        looked = silent.offers(ALL)
    assert [answer.book.ledger for answer in served] == [LEDGER]
    assert looked.book.ledger == LEDGER + 1


def test_old_state_is_not_served_during_a_slow_check(silent, book, clock, reader):
    silent.offers(ALL)
    add_offer(book, 1, ledger=LEDGER + 1)
    clock.now = FRESH_SECONDS * 0.9
    with ThreadPoolExecutor(1) as threads:
        waiting = []

        def stall() -> None:
            clock.now = FRESH_SECONDS
            waiting.append(threads.submit(silent.offers, ALL))
            # Long enough for an answer from memory; it must be waiting for ours instead.
            wait(waiting, timeout=0.3)

        with before_the_offers_are_read(reader, stall):
            silent.offers(ALL)
        assert [each.result().book.ledger for each in waiting] == [LEDGER + 1]


def test_unknown_names_are_not_cached(silent, book):
    for number in range(50):
        assert silent.provider(address(number)).body is None
        assert silent.order(f"0x{number:064x}").body is None
        assert (
            silent.newest(RecentOrders(provider=StellarAddress(address(number)))).body.plain
            == b"[]"
        )
    assert len(silent._cached.state.records) == 0


def test_missing_book_is_not_cached(silent, rows):
    for _ in range(2):
        with pytest.raises(OrderBookNotReady):
            silent.offers(ALL)
    insert_book(rows)
    assert offer_count(silent.offers(ALL)) == 0


def test_deleted_book_is_not_served(silent, book, clock):
    silent.offers(ALL)
    book.execute(delete(tables.book))
    clock.now = 1.0
    with pytest.raises(OrderBookNotReady):
        silent.offers(ALL)


def test_lost_database_returns_503_not_old_state(database, engine, server_engine, clock):
    reader = make_engine(database, role="api")
    books = Books(reader, CHAIN, NotificationListener(reader), clock)
    with engine.begin() as connection:
        insert_book(connection)
    books.offers(ALL)
    with server_engine.connect() as server:
        server.execute(text(f"ALTER DATABASE {database.database} ALLOW_CONNECTIONS false"))
    reader.dispose()
    assert offer_count(books.offers(ALL)) == 0
    clock.now = FRESH_SECONDS
    with pytest.raises(OperationalError):
        books.offers(ALL)


def test_without_listener_nothing_is_cached(reader, book):
    books = Books(reader, CHAIN, None)
    assert offer_count(books.offers(ALL)) == 0
    insert_offer(book)
    assert offer_count(books.offers(ALL)) == 1


FILTERS = [
    ALL,
    OfferFilters(direction="onramp"),
    OfferFilters(currency="USD", min_amount=factory.usdc(20)),
    OfferFilters(rail="venmo", max_amount=factory.usdc("0.5")),
]


@pytest.mark.parametrize("seed", range(2))
def test_cache_equals_warehouse_at_every_ledger(seed, owner, reader, rows, clock):
    """The marks miss nothing, whichever writer wrote: ranges of ledgers, or a rebuild."""
    kept = Books(reader, factory.CHAIN, NotificationListener(reader), clock)
    anew = Books(reader, factory.CHAIN, None)
    story, randomly = RandomHistory(seed), random.Random(seed)
    history = []
    for _ in range(25):
        told = story.ledgers(randomly.choice([1, 1, 3]))
        history += told
        with owner.begin() as connection:
            if randomly.random() < 0.1:
                refolded(connection, history).replace_stored()
            else:
                apply_range(connection, told)
        clock.now += 1.0
        for ask in questions(rows):
            assert saying(ask(kept)) == saying(ask(anew))


def questions(rows: Connection) -> list[Callable[[Books], BookAnswer]]:
    providers = rows.scalars(select(tables.providers.c.provider).limit(4)).all()
    order_ids = rows.scalars(select(tables.orders.c.order_id).limit(4)).all()
    return [
        *(partial(Books.offers, filters=filters) for filters in FILTERS),
        Books.summary,
        partial(Books.newest, wanted=RecentOrders(limit=20)),
        *(partial(Books.provider, address=provider) for provider in providers),
        *(partial(Books.order, order_id=order_id) for order_id in order_ids),
    ]


def saying(answer: BookAnswer) -> tuple[object, bytes]:
    return answer.book, answer.body.plain
