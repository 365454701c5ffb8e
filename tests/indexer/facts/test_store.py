"""Facts read from the warehouse equal the facts written."""

import dataclasses
import json
from decimal import Decimal
from itertools import groupby
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    Connection,
    Engine,
    Numeric,
    func,
    literal,
    select,
    text,
)
from sqlalchemy.exc import DataError, IntegrityError, OperationalError

from indexer.bridges.cctp.events import DepositForBurn, MessageSent, MintAndWithdraw
from indexer.bridges.oft.events import OftReceived, OftSent
from indexer.chains.events import Event
from indexer.chains.raw import RawEvent
from indexer.errors import FollowerConflict
from indexer.facts import store
from indexer.facts.alarms import Alarm, clear_alarm, open_alarms, raise_alarm
from indexer.facts.cursors import Cursor, move_cursor, put_on_hold, read_cursor
from indexer.facts.rows import EVENT_TYPES, copy_rows, storage_error, stream_rows
from indexer.facts.store import DecodedEvent
from indexer.market.rail_terms_events import PayeeSet, RailSet
from tests.factories.events import (
    EVM,
    STELLAR,
    make_block,
    make_event,
    make_evm_log,
    make_provenance,
    make_sparse_event,
    make_stellar_event,
)
from warehouse_schema import facts, projections
from warehouse_schema.identifiers import Height, UnixSeconds, is_evm

ALL_TYPES = sorted(EVENT_TYPES.values(), key=lambda event_type: event_type.__name__)


def decoded(event: Event) -> DecodedEvent:
    raw: RawEvent = (
        make_evm_log(event.seen) if is_evm(event.seen.chain) else make_stellar_event(event.seen)
    )
    return DecodedEvent(raw, event, None)


def append_events(conn: Connection, *events: Event) -> None:
    """With the blocks that they were seen in."""
    places = sorted({(event.seen.chain, event.seen.height) for event in events})
    for chain, group in groupby(places, key=lambda place: place[0]):
        blocks = [make_block(height, chain=chain) for _, height in group]
        here = [decoded(event) for event in events if event.seen.chain == chain]
        store.append(conn, blocks, here)


def count(conn: Connection, table: Any) -> int:
    return int(conn.scalar(select(func.count()).select_from(table)) or 0)


# Round trips.


def test_every_event_type_round_trips(connection: Connection) -> None:
    for event_type in ALL_TYPES:
        full = make_event(event_type, make_provenance(100, 0))
        sparse = make_sparse_event(event_type, make_provenance(100, 2**63 - 1))
        with connection.begin_nested() as savepoint:
            append_events(connection, full, sparse)
            assert list(store.read_events(connection, [event_type])) == [full, sparse], event_type
            savepoint.rollback()


def test_types_round_trip(connection: Connection) -> None:
    event = make_event(RailSet)
    append_events(connection, event)
    (back,) = store.read_events(connection, [RailSet])
    assert type(back.currencies) is tuple
    burn = make_event(DepositForBurn, make_provenance(101))
    append_events(connection, burn)
    (read,) = store.read_events(connection, [DepositForBurn])
    assert (type(read.amount), type(read.hook_data)) == (int, bytes)


def test_negative_amount_is_stored(connection: Connection) -> None:
    event = make_event(EVENT_TYPES["AssetMovement"], kind="fee", amount=-(2**127))
    append_events(connection, event)
    assert list(store.read_events(connection, [type(event)])) == [event]


def test_raw_stellar_events_round_trip(connection: Connection) -> None:
    raws = [make_stellar_event(make_provenance(100 + i, i, chain=STELLAR)) for i in range(3)]
    blocks = [make_block(height, chain=STELLAR) for height in (100, 101, 102)]
    store.append(connection, blocks, [DecodedEvent(raw, None, None) for raw in raws])
    read = list(store.read_raw(connection, STELLAR, Height(100), Height(101)))
    assert read == raws[:2]


def test_raw_logs_round_trip(connection: Connection) -> None:
    raws = [make_evm_log(make_provenance(100, i), topics=topics) for i, topics in enumerate(TOPICS)]
    store.append(connection, [make_block(100)], [DecodedEvent(raw, None, "why") for raw in raws])
    assert list(store.read_raw(connection, EVM, Height(100), Height(100))) == raws


TOPICS: list[tuple[str, ...]] = [(), ("0x" + "11" * 32,), ("0x" + "11" * 32, "0x" + "22" * 32)]


def test_raw_event_has_outcome(connection: Connection) -> None:
    event = make_event(MessageSent, make_provenance(100, 0))
    broken = DecodedEvent(make_evm_log(make_provenance(100, 1)), None, "bad length")
    foreign = DecodedEvent(make_evm_log(make_provenance(100, 2)), None, None)
    store.append(connection, [make_block(100)], [decoded(event), broken, foreign])
    outcomes = select(facts.evm_logs.c.event, facts.evm_logs.c.undecodable)
    assert connection.execute(outcomes.order_by(facts.evm_logs.c.position)).all() == [
        ("MessageSent", None),
        (None, "bad length"),
        (None, None),
    ]


def test_block_has_event_count(connection: Connection) -> None:
    blocks = [make_block(100), make_block(101)]
    raws = [make_evm_log(make_provenance(101, i)) for i in range(2)]
    store.append(connection, blocks, [DecodedEvent(raw, None, None) for raw in raws])
    query = select(facts.blocks.c.height, facts.blocks.c.events).order_by(facts.blocks.c.height)
    assert connection.execute(query).all() == [(100, 0), (101, 2)]


def test_repeated_append_raises(connection: Connection) -> None:
    append_events(connection, make_event(MessageSent))
    with pytest.raises(IntegrityError, match='unique constraint "pk_'):
        append_events(connection, make_event(MessageSent))


# Reading.


def test_event_types_are_merged_in_order(connection: Connection) -> None:
    happened = [
        make_event(DepositForBurn, make_provenance(100, 1)),
        make_event(MessageSent, make_provenance(100, 2)),
        make_event(DepositForBurn, make_provenance(100, 10)),
        make_event(MessageSent, make_provenance(101, 0)),
        make_event(DepositForBurn, make_provenance(101, 1)),
    ]
    append_events(connection, *reversed(happened))
    assert list(store.read_events(connection, [MessageSent, DepositForBurn])) == happened
    assert list(store.read_events(connection, [MessageSent])) == [happened[1], happened[3]]


def test_events_of_chain_and_range(connection: Connection) -> None:
    here = [make_event(OftSent, make_provenance(height)) for height in range(100, 104)]
    there = make_event(OftSent, make_provenance(101, chain=STELLAR))
    append_events(connection, *here, there)
    assert list(store.read_events(connection, [OftSent], STELLAR)) == [there]
    assert list(store.read_events(connection, [OftSent])) == [*here, there]
    some = store.read_events(connection, [OftSent], EVM, Height(101), Height(102))
    assert list(some) == here[1:3]


def test_reading_streams_rows(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_BATCH", 10)
    events = [make_event(OftSent, make_provenance(100, position)) for position in range(35)]
    append_events(connection, *events)
    reading = store.read_events(connection, [OftSent])
    assert next(reading) == events[0]
    # What a server-side cursor has not fetched yet can still be counted on the server.
    assert connection.scalar(text("SELECT count(*) FROM pg_cursors WHERE NOT is_holdable")) == 1
    assert list(reading) == events[1:]


def test_large_numbers_are_exact(connection: Connection) -> None:
    numbers = [10**77 + 1, -(2**127), 0, None]
    numeric = select(func.unnest(literal(numbers, ARRAY(Numeric)), type_=Numeric))
    assert list(stream_rows(connection, numeric, 3)) == [
        [(each,) for each in numbers[:3]],
        [(None,)],
    ]
    with pytest.raises(ValueError, match="invalid literal"):
        list(stream_rows(connection, select(literal(Decimal("1.5"), Numeric)), 1))


def test_events_by_key(connection: Connection) -> None:
    one, other = "0x" + "01" * 32, "0x" + "02" * 32
    events = [
        make_event(OftReceived, make_provenance(100, 1), guid=one),
        make_event(OftReceived, make_provenance(100, 0), guid=other),
        make_event(OftReceived, make_provenance(101, 0), guid="0x" + "03" * 32),
    ]
    append_events(connection, *events)
    assert store.events_by_key(connection, OftReceived, "guid", [one, other]) == [
        events[1],
        events[0],
    ]
    assert store.events_by_key(connection, OftReceived, "guid", []) == []


def test_events_of_transactions(connection: Connection) -> None:
    wanted = [
        make_event(DepositForBurn, make_provenance(100, 0, tx=1)),
        make_event(MessageSent, make_provenance(100, 1, tx=1)),
        make_event(MessageSent, make_provenance(101, 0, tx=1)),
    ]
    others = [
        make_event(MessageSent, make_provenance(100, 2, tx=2)),
        make_event(MintAndWithdraw, make_provenance(100, 3, tx=1)),
    ]
    append_events(connection, *wanted, *others)
    places = [wanted[2].seen, wanted[0].seen, wanted[1].seen]
    types: list[type[Event]] = [MessageSent, DepositForBurn]
    assert store.events_of_transactions(connection, types, places) == wanted
    assert store.events_of_transactions(connection, types, []) == []


def test_stored_blocks_are_read(connection: Connection) -> None:
    blocks = [make_block(height) for height in (100, 101, 102)]
    store.append(connection, blocks, [])
    ledger = make_block(101, chain=STELLAR)
    store.append(connection, [ledger], [])
    assert store.block_at(connection, EVM, Height(101)) == blocks[1]
    assert store.block_at(connection, STELLAR, Height(101)) == ledger
    assert store.block_at(connection, EVM, Height(103)) is None
    between = store.blocks_between(connection, EVM, Height(101), Height(105))
    assert list(between) == blocks[1:]


# Taking back.


def test_deleted_events_move_to_orphans(connection: Connection) -> None:
    events = [
        make_event(OftSent, make_provenance(100)),
        make_event(OftReceived, make_provenance(101)),
        make_event(OftSent, make_provenance(102)),
        make_event(OftSent, make_provenance(102, chain=STELLAR)),
    ]
    append_events(connection, *events)
    assert store.delete_above(connection, EVM, above=Height(100)) == events[1:3]
    types: list[type[Event]] = [OftSent, OftReceived]
    assert list(store.read_events(connection, types)) == [events[0], events[3]]
    assert count(connection, facts.evm_logs) == 1
    assert count(connection, facts.stellar_events) == 1
    assert count(connection, facts.blocks) == 2
    orphans = connection.execute(select(facts.orphans).order_by(facts.orphans.c.height)).all()
    assert [(row.height, row.event) for row in orphans] == [(101, "OftReceived"), (102, "OftSent")]
    assert json.loads(orphans[0].row)["topics"] == ["0x" + "11" * 32, "0x" + "22" * 32]
    # The same blocks may come again.
    append_events(connection, *events[1:3])


def test_deleting_nothing_changes_nothing(connection: Connection) -> None:
    append_events(connection, make_event(OftSent))
    assert store.delete_above(connection, EVM, above=Height(100)) == []
    assert count(connection, facts.blocks) == 1


# Copying.


def test_copy_rows_of_any_table(connection: Connection) -> None:
    rows = [("rail", True, 1, 25, "verifier", ("EUR", 'a "b"', ""))]
    assert copy_rows(connection, projections.rails, rows) == 1
    assert connection.execute(select(projections.rails)).all() == rows
    assert copy_rows(connection, projections.rails, iter(())) == 0


def test_fractional_amount_raises(connection: Connection) -> None:
    with pytest.raises(TypeError, match="float"):
        copy_rows(connection, projections.depth, [("rail", 1.5, 2)])


def test_rejected_row_raises_sqlalchemy_error(connection: Connection) -> None:
    with pytest.raises(DataError, match="bigint"), connection.begin_nested():
        copy_rows(connection, projections.depth, [("rail", 1, 2**63)])
    with pytest.raises(IntegrityError, match="pk_depth"), connection.begin_nested():
        copy_rows(connection, projections.depth, [("rail", 1, 2), ("rail", 1, 2)])


def test_lost_server_raises_sqlalchemy_error(engine: Engine) -> None:
    with engine.connect() as connection, engine.connect() as killer:
        pid = connection.scalar(text("SELECT pg_backend_pid()"))
        killer.scalar(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
        with pytest.raises(OperationalError):
            copy_rows(connection, projections.depth, [("rail", 1, 2)])
        assert connection.invalidated
        connection.rollback()


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (make_event(PayeeSet), None),
        (make_event(PayeeSet, handle="a\0b"), "handle: 'a\\x00b' has a NUL"),
        (make_event(PayeeSet, handle="\ud800"), "handle: '\\ud800' has half a surrogate pair"),
        (make_event(RailSet, currencies=("EUR", "\0")), "currencies: '\\x00' has a NUL"),
        (make_event(RailSet, tier=2**63), f"tier: {2**63} is beyond {2**63 - 1}"),
        (make_event(PayeeSet, tseq=2**63), f"tseq: {2**63} is beyond {2**63 - 1}"),
        (make_event(OftSent, amount_sent=10**78), f"amount_sent: {10**78} is beyond {10**78 - 1}"),
        (make_sparse_event(PayeeSet), None),
    ],
)
def test_unstorable_event_has_reason(
    connection: Connection, event: Event, reason: str | None
) -> None:
    assert storage_error(event) == reason
    if reason is None:
        append_events(connection, event)
        return
    with pytest.raises((DataError, UnicodeEncodeError)), connection.begin_nested():
        append_events(connection, event)


# Cursors.


def make_cursor(height: int = 100, fork: str = "main") -> Cursor:
    block = make_block(height, fork=fork)
    return Cursor(
        EVM, block.height, block.hash, block.time, Height(height + 5), UnixSeconds(block.time + 60)
    )


def test_cursor_moves_from_expected(connection: Connection) -> None:
    assert read_cursor(connection, EVM) is None
    move_cursor(connection, None, make_cursor(100))
    assert read_cursor(connection, EVM) == make_cursor(100)
    move_cursor(connection, make_cursor(100), make_cursor(101))
    assert read_cursor(connection, EVM) == make_cursor(101)
    assert read_cursor(connection, STELLAR) is None


@pytest.mark.parametrize("expected", [None, make_cursor(99), make_cursor(100, fork="other")])
def test_unexpected_cursor_is_not_moved(connection: Connection, expected: Cursor | None) -> None:
    move_cursor(connection, None, make_cursor(100))
    with pytest.raises(FollowerConflict, match=EVM):
        move_cursor(connection, expected, make_cursor(101))
    assert read_cursor(connection, EVM) == make_cursor(100)


def test_concurrent_cursor_move_conflicts(indexer_engine: Engine) -> None:
    with indexer_engine.begin() as first:
        move_cursor(first, None, make_cursor(100))
    with indexer_engine.begin() as second:
        assert read_cursor(second, EVM) == make_cursor(100)
        with indexer_engine.begin() as first:
            move_cursor(first, make_cursor(100), make_cursor(101))
        with pytest.raises(FollowerConflict):
            move_cursor(second, make_cursor(100), make_cursor(102))


def test_hold_ends_when_cursor_moves(connection: Connection) -> None:
    def held() -> str | None:
        return connection.scalar(select(facts.cursors.c.held))

    move_cursor(connection, None, make_cursor(100))
    put_on_hold(connection, EVM, "deep reorg")
    assert held() == "deep reorg"
    move_cursor(connection, make_cursor(100), make_cursor(101))
    assert held() is None


# Alarms.


def test_alarm_is_open_once_until_cleared(connection: Connection) -> None:
    raise_alarm(connection, EVM, "undecodable", "log 1", "first")
    raise_alarm(connection, EVM, "undecodable", "log 1", "again")
    raise_alarm(connection, EVM, "undecodable", "log 2", "second")
    assert open_alarms(connection) == [
        Alarm(EVM, "undecodable", "log 1", "again"),
        Alarm(EVM, "undecodable", "log 2", "second"),
    ]
    clear_alarm(connection, EVM, "undecodable", "log 1")
    clear_alarm(connection, EVM, "undecodable", "log 1")
    assert [alarm.subject for alarm in open_alarms(connection)] == ["log 2"]
    raise_alarm(connection, EVM, "undecodable", "log 1", "back")
    assert [alarm.detail for alarm in open_alarms(connection)] == ["second", "back"]
    assert count(connection, facts.alarms) == 3


def test_indexer_role_may_write_facts(indexer_engine: Engine) -> None:
    with indexer_engine.begin() as connection:
        append_events(connection, make_event(OftSent))
        move_cursor(connection, None, make_cursor(100))
        put_on_hold(connection, EVM, "why")
        raise_alarm(connection, EVM, "kind", "subject", "detail")
        clear_alarm(connection, EVM, "kind", "subject")
        assert len(store.delete_above(connection, EVM, above=Height(99))) == 1
        move_cursor(connection, make_cursor(100), make_cursor(99))


def test_items_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        make_cursor().height = Height(1)  # type: ignore[misc]
