"""Redecode beside live tables: no row lost, duplicated or missing during the swap."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pytest
from sqlalchemy import URL, Connection, Engine, Table, inspect, select, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from indexer.bridges.oft.events import OftReceived, OftSent
from indexer.chains.events import Event
from indexer.chains.ports import Block, Range, RawEvent, StellarEvent
from indexer.config.networks import Chain, Network
from indexer.decode import decode
from indexer.errors import ConfigurationError, FollowerConflict, Undecodable
from indexer.facts import decoding as event_decoding
from indexer.facts import rows
from indexer.facts.checks import alarm_lines
from indexer.ingest.backfill import backfill
from indexer.ingest.rebuild import differences, rebuild
from indexer.ingest.redecode import run as redecode
from indexer.ingest.redecode import shadow_tables
from indexer.movements import fold as transfers
from indexer.movements import mechanisms
from indexer.orderbook.state import BookEvent, LedgerClose
from tests.factories.book import digest
from tests.factories.book_history import RandomHistory
from tests.factories.fake_chain import ETHEREUM, FakeChain, fake_network, guid_of
from tests.factories.ingesting import ingest_once
from warehouse_schema import columns, facts, projections
from warehouse_schema import events as event_tables
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import BaseUnits, BlockHash, ChainId, Height, StellarAddress
from warehouse_schema.migrations.draft import missing

Decode: TypeAlias = Callable[[RawEvent, Chain], Event | None]
Contents: TypeAlias = dict[str, list[Any]]
NETWORK = fake_network(confirmations=4)
GROWN = 14


def old_decode(raw: RawEvent, chain: Chain) -> Event | None:
    """Cannot read every third block, and has the amount wrong in every other third."""
    event = decode(raw, chain)
    if raw.seen.height % 3 == 0:
        raise Undecodable("a shape this build does not know")
    if raw.seen.height % 3 == 1 and isinstance(event, OftSent):
        return replace(event, amount_sent=BaseUnits(1))
    return event


def new_decode(raw: RawEvent, chain: Chain) -> Event | None:
    """Right at last, but drops every fifth block and is stricter in every seventh."""
    if raw.seen.height % 5 == 0:
        return None
    if raw.seen.height % 7 == 0:
        raise Undecodable("refused since")
    return decode(raw, chain)


@contextmanager
def decoding(decoder: Decode) -> Iterator[None]:
    """Let live ingestion, backfills and redecodes decode by this."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(event_decoding, "decode", decoder)
        yield


def ingest(engine: Engine, chain: FakeChain, network: Network = NETWORK, size: int = 200) -> None:
    while ingest_once(engine, chain, network, max_blocks=size) is not None:
        pass


def make_chain(grown: int = GROWN, network: Network = NETWORK) -> FakeChain:
    chain = FakeChain(network)
    chain.grow(grown, sends=2)
    return chain


def fill(engine: Engine, network: Network = NETWORK, events: int = 3) -> list[int]:
    """Fill; the heights that were reached."""
    return [done.height for done in redecode.fill(engine, network, ETHEREUM, events=events)]


TABLES = (
    facts.blocks,
    facts.evm_logs,
    facts.stellar_events,
    facts.orphans,
    *event_tables.EVENT_TABLES.values(),
    projections.movements,
)


def contents(engine: Engine) -> Contents:
    """Facts, movements, cursors and open alarms, but for the database's own clocks and counters."""
    with engine.connect() as conn:
        found: Contents = {
            table.name: sorted(
                (tuple(row) for row in conn.execute(select(*_without_clocks(table)))), key=repr
            )
            for table in TABLES
        }
        found["cursors"] = [
            (row.chain, row.height, row.block_hash) for row in conn.execute(select(facts.cursors))
        ]
        alarm = facts.alarms.c
        open_ones = select(alarm.kind, alarm.subject, alarm.detail).where(
            alarm.cleared_at.is_(None)
        )
        found["alarms"] = sorted(map(tuple, conn.execute(open_ones)))
    return found


def _without_clocks(table: Table) -> list[Any]:
    return [column for column in table.c if column.name != "orphaned_at"]


@pytest.fixture(scope="module")
def straight(clone: Callable[[], URL]) -> Callable[[FakeChain, Network], Contents]:
    """What a warehouse that only ever knew the new decoder holds of a chain."""
    known: dict[BlockHash, Contents] = {}

    def run(chain: FakeChain, network: Network) -> Contents:
        head = chain.head().hash
        if head not in known:
            engine = make_engine(clone(), role="indexer")
            with decoding(new_decode):
                ingest(engine, chain, network)
            known[head] = contents(engine)
            engine.dispose()
        return deepcopy(known[head])

    return run


# The seam.


@pytest.mark.parametrize("offset", range(GROWN + 1))
def test_cutover_at_any_offset_keeps_every_row(
    engine: Engine,
    indexer_engine: Engine,
    straight: Callable[[FakeChain, Network], Contents],
    offset: int,
) -> None:
    # So many blocks lie between the redecode's cursor and the live one when the swap begins.
    network = fake_network(confirmations=offset)
    chain = make_chain(network=network)
    with decoding(old_decode):
        ingest(indexer_engine, chain, network)
    redecode.start(engine, network, [ETHEREUM])
    with decoding(new_decode):
        reached = fill(indexer_engine, network)
        assert (reached or [-1])[-1] == (GROWN - offset if offset < GROWN + 1 else -1)
        redecode.swap(indexer_engine, network)
    assert contents(indexer_engine) == straight(chain, network)
    assert differences(indexer_engine, network) == []


@pytest.mark.parametrize("filled", range(GROWN))
def test_ingestion_during_redecode_gives_equal_rows(
    engine: Engine,
    indexer_engine: Engine,
    straight: Callable[[FakeChain, Network], Contents],
    filled: int,
) -> None:
    chain = make_chain()
    redecode.start(engine, NETWORK, [ETHEREUM])
    with decoding(old_decode):
        for _ in range(filled):
            ingest_once(indexer_engine, chain, NETWORK, max_blocks=1)
    with decoding(new_decode):
        fill(indexer_engine)
    with decoding(old_decode):
        ingest(indexer_engine, chain)
    with decoding(new_decode):
        redecode.swap(indexer_engine, NETWORK)
    assert contents(indexer_engine) == straight(chain, NETWORK)


@pytest.mark.parametrize("events", [1, 2, 5, 1_000])
def test_redecode_range_size_changes_nothing(
    engine: Engine,
    indexer_engine: Engine,
    straight: Callable[[FakeChain, Network], Contents],
    events: int,
) -> None:
    chain = make_chain()
    with decoding(old_decode):
        ingest(indexer_engine, chain)
    redecode.start(engine, NETWORK, [ETHEREUM])
    with decoding(new_decode):
        fill(indexer_engine, events=events)
        redecode.swap(indexer_engine, NETWORK)
    assert contents(indexer_engine) == straight(chain, NETWORK)


def test_ingestion_continues_during_redecode(
    engine: Engine, indexer_engine: Engine, straight: Callable[[FakeChain, Network], Contents]
) -> None:
    chain = make_chain(30)
    ends = threading.Event()

    def follow() -> None:
        try:
            ingest(indexer_engine, chain, size=1)
        finally:
            ends.set()

    with decoding(new_decode):
        follower = threading.Thread(target=follow)
        redecode.start(engine, NETWORK, [ETHEREUM])
        follower.start()
        swaps = 0
        while not ends.is_set():
            fill(indexer_engine)
            redecode.check(indexer_engine, NETWORK)
            redecode.swap(indexer_engine, NETWORK)
            swaps += 1
            redecode.start(engine, NETWORK, [ETHEREUM])
        follower.join()
        redecode.swap(indexer_engine, NETWORK)
    assert swaps > 0
    assert contents(indexer_engine) == straight(chain, NETWORK)


# What the chain takes back.


def test_fill_ends_at_finality(engine: Engine, indexer_engine: Engine) -> None:
    ingest(indexer_engine, make_chain(10))
    redecode.start(engine, NETWORK, [ETHEREUM])
    assert fill(indexer_engine, events=4) == [2, 4, 6]
    assert fill(indexer_engine) == []


@pytest.mark.parametrize("depth", [1, 3, 4])
def test_reorg_during_redecode(
    engine: Engine,
    indexer_engine: Engine,
    straight: Callable[[FakeChain, Network], Contents],
    depth: int,
) -> None:
    chain = make_chain()
    redecode.start(engine, NETWORK, [ETHEREUM])
    with decoding(old_decode):
        ingest(indexer_engine, chain)
    with decoding(new_decode):
        fill(indexer_engine)
    chain.drop(depth)
    chain.grow(depth + 1, sends=2, fork="other")
    with decoding(old_decode):
        ingest(indexer_engine, chain)
    with decoding(new_decode):
        redecode.swap(indexer_engine, NETWORK)
    expected = straight(chain, NETWORK)
    found = contents(indexer_engine)
    assert len(found.pop("orphans")) == 2 * depth
    expected.pop("orphans")
    # Alarms of blocks that are gone stand until an operator has seen them.
    alarms = {subject for _, subject, _ in found.pop("alarms")}
    assert {subject for _, subject, _ in expected.pop("alarms")} <= alarms
    assert found == expected


@pytest.mark.parametrize("when", ["fold", "lock"])
def test_changes_between_fold_and_swap_are_kept(
    engine: Engine,
    indexer_engine: Engine,
    straight: Callable[[FakeChain, Network], Contents],
    monkeypatch: pytest.MonkeyPatch,
    when: str,
) -> None:
    chain = make_chain()
    with decoding(old_decode):
        ingest(indexer_engine, chain)
    redecode.start(engine, NETWORK, [ETHEREUM])
    beside = redecode._fold_snapshot

    def meanwhile() -> None:
        chain.drop(2)
        chain.grow(4, fork="other", sends=2)
        with decoding(old_decode):
            ingest(indexer_engine, chain)

    def fold(conn: Connection, network: Network) -> object:
        if when == "fold":
            conn.execute(select(1))  # the snapshot is taken
            meanwhile()
        folded = beside(conn, network)
        if when == "lock":
            meanwhile()
        return folded

    monkeypatch.setattr(redecode, "_fold_snapshot", fold)
    with decoding(new_decode):
        redecode.swap(indexer_engine, NETWORK)
    found, expected = contents(indexer_engine), straight(chain, NETWORK)
    for name in ("oft_sent", "evm_logs", "movements", "cursors"):
        assert found[name] == expected[name], name
    assert differences(indexer_engine, NETWORK) == []


def test_backfill_rewinds_redecode(
    engine: Engine, indexer_engine: Engine, straight: Callable[[FakeChain, Network], Contents]
) -> None:
    late = fake_network(confirmations=4, start_height=8)
    chain = make_chain(network=late)
    with decoding(old_decode):
        ingest(indexer_engine, chain, late)
    redecode.start(engine, late, [ETHEREUM])
    with decoding(new_decode):
        assert fill(indexer_engine, late)[-1] == GROWN - 4
    with decoding(old_decode):
        backfill(indexer_engine, chain, late, Height(1), Height(7), lambda progress: None)
    with decoding(new_decode):
        assert fill(indexer_engine, late, events=1_000) == [GROWN - 4]
        redecode.swap(indexer_engine, late)
    assert contents(indexer_engine) == straight(chain, NETWORK)


@pytest.mark.usefixtures("long_leases")
def test_swap_blocks_backfill(
    engine: Engine, indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = make_chain()
    ingest(indexer_engine, chain)
    beside = redecode._fold_snapshot

    def fold(conn: Connection, network: Network) -> object:
        with pytest.raises(FollowerConflict, match="backfill"):
            backfill(indexer_engine, chain, NETWORK, Height(1), Height(3), lambda progress: None)
        return beside(conn, network)

    monkeypatch.setattr(redecode, "_fold_snapshot", fold)
    redecode.swap(indexer_engine, NETWORK)
    backfill(indexer_engine, chain, NETWORK, Height(1), Height(3), lambda progress: None)


# Checking.


def test_check_lists_differences_by_table(engine: Engine, indexer_engine: Engine) -> None:
    with decoding(old_decode):
        ingest(indexer_engine, make_chain())
    redecode.start(engine, NETWORK, [ETHEREUM])
    with decoding(new_decode):
        before = contents(indexer_engine)
        found = redecode.check(indexer_engine, NETWORK)
    assert contents(indexer_engine) == before
    sent, logs = found.facts[ETHEREUM]
    # Of blocks 1 to 10, two logs each: 3, 6 and 9 decode by now; 5, 7 and 10 no longer do; 1 and 4
    # have another amount.
    assert (sent.table, sent.added, sent.removed, sent.changed) == ("facts.oft_sent", 6, 6, 4)
    assert (logs.table, logs.changed) == ("facts.evm_logs", 12)
    assert [line.partition("/")[0] for line in sent.first] == ["changed 1", "changed 1", "added 3"]
    assert "amount_sent 1 → 5000000" in sent.first[0]
    assert "event None → 'OftSent'" in logs.first[0]
    (movements,) = found.projections
    assert (movements.added, movements.removed, movements.changed) == (6, 6, 4)
    (progress,) = found.filled
    assert (progress.height, progress.final) == (10, 10)


def test_check_refuses_facts_that_a_backfill_changed(
    engine: Engine, indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = fake_network(confirmations=4, start_height=8)
    chain = make_chain(network=late)
    ingest(indexer_engine, chain, late)
    redecode.start(engine, late, [ETHEREUM])
    fill_first = redecode._fill_and_log

    def fill_and_backfill(engine: Engine, network: Network) -> None:
        fill_first(engine, network)
        backfill(engine, chain, network, Height(1), Height(7), lambda progress: None)

    with monkeypatch.context() as patched:
        patched.setattr(redecode, "_fill_and_log", fill_and_backfill)
        with pytest.raises(FollowerConflict, match="raw facts changed"):
            redecode.check(indexer_engine, late)
    found = redecode.check(indexer_engine, late)
    assert found.projections == []


def test_unchanged_decoder_swaps_nothing(engine: Engine, indexer_engine: Engine) -> None:
    ingest(indexer_engine, make_chain())
    redecode.start(engine, NETWORK, [ETHEREUM])
    before = contents(indexer_engine)
    found = redecode.check(indexer_engine, NETWORK)
    assert (found.facts, found.projections) == ({ETHEREUM: []}, [])
    assert redecode.swap(indexer_engine, NETWORK).facts == {ETHEREUM: []}
    assert contents(indexer_engine) == before


def test_future_facts_can_be_queried(engine: Engine, indexer_engine: Engine) -> None:
    with decoding(old_decode):
        ingest(indexer_engine, make_chain())
    redecode.start(engine, NETWORK, [ETHEREUM])
    with decoding(new_decode):
        fill(indexer_engine)
    query = text("SELECT DISTINCT height FROM revised.oft_sent ORDER BY height")
    with engine.connect() as conn:
        # Redecoded up to 10, as they are above it.
        assert conn.scalars(query).all() == [1, 2, 3, 4, 6, 8, 9, 11, 13, 14]


# Swapping.


def test_redecode_clears_undecodable_alarms(engine: Engine, indexer_engine: Engine) -> None:
    with decoding(old_decode):
        ingest(indexer_engine, make_chain())
    assert len(alarm_lines(indexer_engine, ETHEREUM)) == 8
    redecode.start(engine, NETWORK, [ETHEREUM])
    done = redecode.swap(indexer_engine, NETWORK)
    assert alarm_lines(indexer_engine, ETHEREUM) == []
    assert {item.table: (item.removed, item.added) for item in done.facts[ETHEREUM]} == {
        "facts.oft_sent": (10, 18),
        "facts.evm_logs": (8, 8),
    }
    with indexer_engine.connect() as conn:
        markers = conn.execute(select(facts.evm_logs.c.event, facts.evm_logs.c.undecodable))
        assert set(map(tuple, markers)) == {("OftSent", None)}


def test_redecode_keeps_migrated_tables(engine: Engine, indexer_engine: Engine) -> None:
    ingest(indexer_engine, make_chain())
    before = catalog(engine)
    redecode.start(engine, NETWORK, [ETHEREUM])
    assert catalog(engine) == before
    redecode.swap(indexer_engine, NETWORK)
    assert catalog(engine) == before
    redecode.abandon(engine)
    with engine.connect() as conn:
        assert not {"shadow", "revised"} & set(inspect(conn).get_schema_names())
        assert missing(conn).as_diffs() == []


def catalog(engine: Engine) -> list[object]:
    """Tables, indexes, constraints, comments and grants of the live schemas."""
    query = text(
        """
        SELECT c.oid, n.nspname, c.relname, c.relkind, c.relacl::text, obj_description(c.oid),
               coalesce(pg_get_indexdef(i.indexrelid), ''),
               (SELECT array_agg(pg_get_constraintdef(oid) ORDER BY oid)
                  FROM pg_constraint WHERE conrelid = c.oid)
          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          LEFT JOIN pg_index i ON i.indexrelid = c.oid
         WHERE n.nspname IN ('facts', 'projections') ORDER BY c.oid
        """
    )
    with engine.connect() as conn:
        return list(map(tuple, conn.execute(query)))


def test_readers_see_swap_atomically(
    engine: Engine, indexer_engine: Engine, api_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with decoding(old_decode):
        ingest(indexer_engine, make_chain())
    redecode.start(engine, NETWORK, [ETHEREUM])
    before = contents(api_engine)
    finish, seen = shadow_tables.finish, []

    def look_first(conn: Connection) -> None:
        seen.append(contents(api_engine))
        finish(conn)

    monkeypatch.setattr(shadow_tables, "finish", look_first)
    redecode.swap(indexer_engine, NETWORK)
    assert seen == [before]
    assert contents(api_engine) != before


def test_swap_blocks_ingestion(
    engine: Engine, indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(indexer_engine, make_chain())
    redecode.start(engine, NETWORK, [ETHEREUM])
    put_in_place, waited = shadow_tables.put_in_place, []

    def follower_first(conn: Connection, chain: ChainId) -> object:
        with indexer_engine.connect() as follower:
            follower.execute(text("SET LOCAL lock_timeout = '50ms'"))
            with pytest.raises(OperationalError, match="lock timeout"):
                follower.execute(text("UPDATE facts.cursors SET height = height + 1"))
        waited.append(chain)
        return put_in_place(conn, chain)

    monkeypatch.setattr(shadow_tables, "put_in_place", follower_first)
    redecode.swap(indexer_engine, NETWORK)
    assert waited == [ETHEREUM]


def test_second_redecode_is_refused(engine: Engine, indexer_engine: Engine) -> None:
    ingest(indexer_engine, make_chain())
    redecode.start(engine, NETWORK, [ETHEREUM])
    with pytest.raises(ConfigurationError, match="swap it or abandon it"):
        redecode.start(engine, NETWORK, [ETHEREUM])
    redecode.swap(indexer_engine, NETWORK)
    redecode.start(engine, NETWORK, [ETHEREUM])


def test_only_owner_starts_and_abandons(engine: Engine, indexer_engine: Engine) -> None:
    with pytest.raises(ProgrammingError, match="permission denied"):
        redecode.start(indexer_engine, NETWORK, [ETHEREUM])
    redecode.start(engine, NETWORK, [ETHEREUM])
    with pytest.raises(ProgrammingError, match="must be owner"):
        redecode.abandon(indexer_engine)


def test_fill_of_other_chain_is_refused(indexer_engine: Engine) -> None:
    with pytest.raises(ConfigurationError, match="no redecode of eip155:1"):
        fill(indexer_engine)


# Killed.

STEPS = (
    (shadow_tables, "end_of_range"),
    (shadow_tables, "write"),
    (redecode, "_fold_snapshot"),
    (shadow_tables, "put_in_place"),
    (shadow_tables, "_replace_outcomes"),
    (redecode, "refold_movements"),
    (redecode, "_replace_book"),
    (shadow_tables, "finish"),
    (redecode, "notify_changed"),
)


@pytest.mark.parametrize(("module", "step"), STEPS, ids=[step for _, step in STEPS])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_swap_changes_nothing(
    engine: Engine,
    indexer_engine: Engine,
    straight: Callable[[FakeChain, Network], Contents],
    module: object,
    step: str,
    after: bool,
) -> None:
    chain = make_chain()
    with decoding(old_decode):
        ingest(indexer_engine, chain)
    before = contents(indexer_engine)
    redecode.start(engine, NETWORK, [ETHEREUM])
    real = getattr(module, step)

    def killed(*arguments: object, **named: object) -> None:
        if after:
            real(*arguments, **named)
        raise RuntimeError(f"killed at {step}")

    with decoding(new_decode):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(module, step, killed)
            with pytest.raises(RuntimeError, match=step):
                redecode.swap(indexer_engine, NETWORK)
        assert contents(indexer_engine) == before
        redecode.swap(indexer_engine, NETWORK)
    assert contents(indexer_engine) == straight(chain, NETWORK)


def test_lost_session_during_swap_changes_nothing(
    engine: Engine, indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with decoding(old_decode):
        ingest(indexer_engine, make_chain())
    before = contents(indexer_engine)
    redecode.start(engine, NETWORK, [ETHEREUM])

    def lose_session(conn: Connection) -> None:
        with engine.connect() as admin:
            admin.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND application_name = 'isthmus-indexer'"
                )
            )
        conn.execute(select(1))

    with monkeypatch.context() as patched:
        patched.setattr(shadow_tables, "finish", lose_session)
        with pytest.raises(OperationalError, match="terminating connection"):
            redecode.swap(indexer_engine, NETWORK)
    indexer_engine.dispose()
    assert contents(indexer_engine) == before
    redecode.swap(indexer_engine, NETWORK)
    assert alarm_lines(indexer_engine, ETHEREUM) == []


def test_abandon_leaves_nothing(engine: Engine, indexer_engine: Engine) -> None:
    with decoding(old_decode):
        ingest(indexer_engine, make_chain())
    before = contents(indexer_engine)
    redecode.start(engine, NETWORK, [ETHEREUM])
    fill(indexer_engine)
    redecode.abandon(engine)
    assert contents(indexer_engine) == before
    redecode.start(engine, NETWORK, [ETHEREUM])
    assert fill(indexer_engine) != []


# A projection alone.


def test_projection_alone_is_swapped(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = make_chain()
    ingest(indexer_engine, chain)
    before = contents(indexer_engine)
    monkeypatch.setattr(mechanisms, "fold_oft", new_fold)
    found = redecode.check(indexer_engine, NETWORK)
    assert [(item.table, item.changed) for item in found.projections] == [
        ("projections.movements", 2 * GROWN)
    ]
    assert contents(indexer_engine) == before
    done = redecode.swap(indexer_engine, NETWORK)
    assert (done.facts, done.movements) == ({}, 2 * GROWN)
    assert differences(indexer_engine, NETWORK) == []
    after = contents(indexer_engine)
    rebuild(indexer_engine, NETWORK)
    assert contents(indexer_engine) == after != before


def test_reorged_movement_uses_new_fold(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Delivered, a movement is the same under both folds. Before the swap its delivery is taken
    # back, and the follower still has the old fold.
    chain = FakeChain(NETWORK)
    chain.mine([guid_of(7)])
    chain.grow(8, sends=0)
    chain.mine([guid_of(7)])
    beside = redecode._fold_snapshot

    def fold(conn: Connection, network: Network) -> object:
        folded = beside(conn, network)
        chain.drop(1)
        chain.grow(2, sends=0, fork="other")
        with monkeypatch.context() as old_build:
            old_build.setattr(mechanisms, "fold_oft", transfers.fold_oft)
            ingest(indexer_engine, chain)
        return folded

    with decoding(second_send_is_the_delivery):
        ingest(indexer_engine, chain)
        monkeypatch.setattr(mechanisms, "fold_oft", new_fold)
        assert redecode.check(indexer_engine, NETWORK).projections == []
        monkeypatch.setattr(redecode, "_fold_snapshot", fold)
        redecode.swap(indexer_engine, NETWORK)
    assert differences(indexer_engine, NETWORK) == []
    with indexer_engine.connect() as conn:
        reasons = conn.scalars(select(projections.movements.c.stage_reason))
        assert list(reasons) == ["said better"]


def second_send_is_the_delivery(raw: RawEvent, chain: Chain) -> Event | None:
    event = decode(raw, chain)
    if not isinstance(event, OftSent) or event.seen.height == 1:
        return event
    return OftReceived(event.seen, event.guid, event.dst_eid, event.from_address, event.amount_sent)


def new_fold(*arguments: Any) -> list[transfers.Movement]:
    """A newer build words the reason of a wait otherwise."""
    rows = transfers.fold_oft(*arguments)
    return [replace(row, stage_reason=row.stage_reason and "said better") for row in rows]


# A new event type, with a table of its own.


@dataclass(frozen=True, slots=True)
class BigSend(Event):
    """An OFT send told apart: a type that no build knew before."""

    guid: str
    amount: BaseUnits


def test_new_event_type_is_filled(
    engine: Engine, indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = make_chain()
    with decoding(lambda raw, chain: None):
        ingest(indexer_engine, chain)
    plant_big_sends(engine, monkeypatch)
    redecode.start(engine, NETWORK, [ETHEREUM])
    with decoding(decode_big_sends):
        fill(indexer_engine)
        assert heights_of(engine, "facts.big_sends") == []
        assert heights_of(engine, "shadow.big_sends") == [*range(1, GROWN - 3)]
        redecode.swap(indexer_engine, NETWORK)
        chain.grow(2)
        ingest(indexer_engine, chain)
    assert heights_of(engine, "facts.big_sends") == [*range(1, GROWN + 3)]
    with engine.connect() as conn:
        assert set(conn.scalars(select(facts.evm_logs.c.event))) == {"BigSend"}


def plant_big_sends(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the migration and the decoder table of a newer build would."""
    table = facts.blocks.metadata.tables.get("facts.big_sends")
    if table is None:
        table = event_tables._event(
            "BigSend",
            "big_sends",
            "Sends",
            columns.text("guid", "Message"),
            columns.amount("amount", "Sent"),
        )
    monkeypatch.setitem(event_tables.EVENT_TABLES, "BigSend", table)
    monkeypatch.setitem(rows.EVENT_MAPPINGS, BigSend, rows.mapping_of(BigSend, table))
    table.create(engine)


@pytest.fixture(autouse=True)
def _tables_as_they_are() -> Iterator[None]:
    """What a test plants among the tables does not outlive it."""
    yield
    planted = facts.blocks.metadata.tables.get("facts.big_sends")
    if planted is not None:
        event_tables.EVENT_TABLES.pop("BigSend", None)
        facts.blocks.metadata.remove(planted)
        shadow_tables._metadata.remove(shadow_tables.twin(planted))


def decode_big_sends(raw: RawEvent, chain: Chain) -> Event | None:
    event = decode(raw, chain)
    if not isinstance(event, OftSent):
        return event
    return BigSend(seen=event.seen, guid=event.guid, amount=event.amount_sent)


def heights_of(engine: Engine, table: str) -> list[int]:
    with engine.connect() as conn:
        query = text(f"SELECT DISTINCT height FROM {table} ORDER BY height")
        return list(conn.scalars(query))


# The order book.


@dataclass
class FakeLedgers:
    """Ledgers of the order book's contracts; a raw event says no more than which event it is."""

    network: Network
    history: list[tuple[LedgerClose, list[BookEvent]]]
    known: dict[str, BookEvent] = field(default_factory=dict)
    unread: frozenset[int] = frozenset()
    """Heights whose events the decoder cannot read."""

    def __post_init__(self) -> None:
        self.chain = self.network.stellar.id
        self.upto = len(self.history)

    def _block(self, index: int) -> Block:
        ledger, _ = self.history[index]
        own, parent = (BlockHash(digest("ledger", ledger.height - back).hex()) for back in (0, 1))
        return Block(self.chain, ledger.height, own, parent, ledger.close_time)

    def _raw(self, event: BookEvent) -> StellarEvent:
        seen = event.seen
        name = f"{seen.height}-{seen.position}"
        self.known[name] = event
        return StellarEvent(seen, name, StellarAddress("C"), (b"",), b"")

    def decode(self, raw: RawEvent, chain: Chain) -> Event | None:
        assert isinstance(raw, StellarEvent)
        if raw.seen.height in self.unread:
            raise Undecodable("a shape this build does not know")
        return self.known[raw.event_id]

    def head(self) -> Block:
        return self._block(self.upto - 1)

    def block(self, height: Height) -> Block:
        return self._block(height - self.history[0][0].height)

    def read(self, first: Height, last: Height, watched: object) -> Range:
        at = self.history[0][0].height
        indexes = range(first - at, last - at + 1)
        events = (event for index in indexes for event in self.history[index][1])
        return Range(tuple(map(self._block, indexes)), tuple(map(self._raw, events)))


def make_ledgers(count: int = 60) -> FakeLedgers:
    random = RandomHistory(seed=5)
    history = [random.ledger() for _ in range(count)]
    network = fake_network()
    stellar = replace(network.stellar, id=history[0][0].chain, start_height=history[0][0].height)
    return FakeLedgers(replace(network, stellar=stellar), history)


def ingest_ledgers(engine: Engine, ledgers: FakeLedgers) -> None:
    while ingest_once(engine, ledgers, ledgers.network, max_blocks=7) is not None:  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize("ingested_before", [0, 20, 59, 60])
def test_swap_repairs_order_book(
    engine: Engine, indexer_engine: Engine, ingested_before: int
) -> None:
    ledgers = make_ledgers()
    network, chain = ledgers.network, ledgers.chain
    ledgers.unread = frozenset(ledger.height for ledger, events in ledgers.history[5::9] if events)
    ledgers.upto = max(ingested_before, 1)
    redecode.start(engine, network, [chain])
    with decoding(ledgers.decode):
        ingest_ledgers(indexer_engine, ledgers)
        assert len(list(redecode.fill(indexer_engine, network, chain, events=5))) > 0
        ledgers.upto = 60
        ingest_ledgers(indexer_engine, ledgers)
        assert stale_providers(indexer_engine) > 0
        before_swap = messages(indexer_engine)

        ledgers.unread = frozenset()
        restart_redecode(engine, ledgers)
        found = redecode.check(indexer_engine, network)
        assert "projections.providers" in {item.table for item in found.projections}
        assert redecode.swap(indexer_engine, network).book
    assert stale_providers(indexer_engine) == 0
    assert alarm_lines(indexer_engine, chain) == []
    assert differences(indexer_engine, network) == []
    assert messages(indexer_engine) > before_swap


def restart_redecode(engine: Engine, ledgers: FakeLedgers) -> None:
    """The newer build did not fill what the older one did: begin its redecode now."""
    redecode.abandon(engine)
    redecode.start(engine, ledgers.network, [ledgers.chain])


def stale_providers(engine: Engine) -> int:
    with engine.connect() as conn:
        stale = projections.providers.c.stale.is_not(None)
        return len(conn.scalars(select(projections.providers.c.provider).where(stale)).all())


def messages(engine: Engine) -> int:
    with engine.connect() as conn:
        return len(conn.scalars(select(projections.stream_events.c.id)).all())


def test_ledgers_between_fold_and_swap_are_in_book(
    engine: Engine, indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledgers = make_ledgers()
    ledgers.upto = 40
    ledgers.unread = frozenset(ledger.height for ledger, _ in ledgers.history[5::9])
    beside = redecode._fold_snapshot

    def fold(conn: Connection, network: Network) -> object:
        folded = beside(conn, network)
        ledgers.upto = 60
        ingest_ledgers(indexer_engine, ledgers)
        return folded

    with decoding(ledgers.decode):
        ingest_ledgers(indexer_engine, ledgers)
        redecode.start(engine, ledgers.network, [ledgers.chain])
        ledgers.unread = frozenset()
        monkeypatch.setattr(redecode, "_fold_snapshot", fold)
        redecode.swap(indexer_engine, ledgers.network)
    assert stale_providers(indexer_engine) == 0
    assert differences(indexer_engine, ledgers.network) == []
