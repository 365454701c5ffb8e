"""A ledger that cannot be decoded costs its own contents, until a build can decode it."""

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL, Connection, Engine, event, select, text
from sqlalchemy.exc import IntegrityError
from stellar_sdk import scval

from indexer import drain, quarantine
from indexer.backfill import backfill
from indexer.backfill.commit import backfiller
from indexer.builds import decoder_build
from indexer.chains import lake
from indexer.chains.lake import LakeReader
from indexer.chains.lake_store import LakeStore
from indexer.chains.ports import ChainReader, Range
from indexer.decode import close_meta
from indexer.drain import CHANNEL, drain_once
from indexer.errors import (
    FollowerConflict,
    InconsistentAnswer,
    NodeUnavailable,
    RetentionGap,
    UndecodableLedger,
)
from indexer.facts import quarantine as rows
from indexer.facts import store
from indexer.facts.checks import blocks_join, in_quarantine
from indexer.facts.status import chain_status
from indexer.networks import load_network
from indexer.projections.rebuild import differences
from indexer.quarantine import Trial, retry, retry_untried
from tests.factories.contents import contents
from tests.factories.stellar_lake import (
    DEVNET,
    FIRST,
    batch_of,
    compressed,
    name_of,
    write_lake,
)
from tests.indexer.devnet.stellar.chain import UNIT, Chain
from tests.indexer.devnet.stellar.market import Market
from tests.indexer.devnet.stellar.test_cctp import REMOTES
from tests.indexer.devnet.stellar.test_oft import send
from warehouse_schema import facts
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import Height, StellarAddress

OLDER = "an older build"


@dataclasses.dataclass(frozen=True)
class History:
    """A devnet's ledgers, of which some are worth losing."""

    metas: tuple[bytes, ...]
    provider: StellarAddress
    sent: Height
    """An OFT send."""
    terms: Height
    deposits: tuple[Height, ...]
    """The provider's Escrow events, in order."""

    @property
    def last(self) -> Height:
        return Height(FIRST + len(self.metas) - 1)


@cache
def history() -> History:
    chain = Chain(REMOTES)
    alice = chain.open("alice", usdt0=100 * UNIT)
    assert send(chain, alice, 5 * UNIT).succeeded
    sent = chain.node.latest.sequence
    market = Market(chain=chain)
    market.set_terms()
    terms = chain.node.latest.sequence
    market.set_payee()
    deposits = []
    for amount in (20, 5, 7):
        market.deposit(amount)
        deposits.append(Height(chain.node.latest.sequence))
    chain.node.close_ledger()
    node = chain.node
    return History(
        metas=tuple(node.ledger(at).meta for at in range(FIRST, node.latest.sequence + 1)),
        provider=StellarAddress(market.provider.public_key),
        sent=Height(sent),
        terms=Height(terms),
        deposits=tuple(deposits),
    )


@cache
def network():
    return dataclasses.replace(
        load_network("devnet"),
        stellar=dataclasses.replace(DEVNET, watched=(history().provider,)),
    )


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[LakeReader]:
    reader = LakeReader(network().stellar, LakeStore(write_lake(tmp_path, history().metas)))
    yield reader
    reader.close()


@pytest.fixture
def second_engine(clone: Callable[[], URL]) -> Iterator[Engine]:
    """Another empty warehouse, to compare with."""
    engine = make_engine(clone(), room="indexer")
    yield engine
    engine.dispose()


def drained(engine: Engine, reader: ChainReader, max_blocks: int = 200) -> int:
    """How many ledgers were put into quarantine on the way to the head."""
    count = 0
    while progress := drain_once(engine, reader, network(), max_blocks=max_blocks):
        count += progress.quarantined
    return count


@pytest.fixture
def by_an_older_build(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Drains with decoders that cannot read some ledgers, though they are sound."""
    genuine = close_meta.decode_meta

    def drain_all(engine: Engine, reader: ChainReader, *unreadable: Height, **options: int) -> None:
        def decode_meta(raw: bytes, chain: Any) -> Any:
            ledger, why = genuine(raw, chain)
            if ledger.block.height in unreadable:
                raise UndecodableLedger(f"ledger {ledger.block.height} cannot be decoded: 99 at 4")
            return ledger, why

        with monkeypatch.context() as older:
            older.setattr(lake, "decode_meta", decode_meta)
            older.setattr(drain, "decoder_build", lambda: OLDER)
            assert drained(engine, reader, **options) == len(unreadable)

    return drain_all


def standing(engine: Engine) -> list[rows.Quarantined]:
    with engine.connect() as conn:
        return rows.standing(conn)


def alarms(engine: Engine) -> list[tuple[str, str]]:
    with engine.connect() as conn:
        return [(alarm.kind, alarm.subject) for alarm in store.open_alarms(conn)]


def mended(engine: Engine) -> dict[str, list[str]]:
    """What must be as if nothing had ever been in quarantine."""
    return contents(engine, without=("facts.alarms", "projections.stream_events"))


def tried(engine: Engine, reader: ChainReader | None = None) -> list[Trial]:
    return list(retry(engine, network(), standing(engine), reader))


# In.


def test_a_ledger_that_cannot_be_decoded_is_kept_and_alarmed_and_stops_nothing(
    tmp_path: Path, reader: LakeReader, indexer_engine: Engine
) -> None:
    height = history().sent
    unknown = _damage(tmp_path, height)
    assert drained(indexer_engine, reader) == 1
    (row,) = standing(indexer_engine)
    assert (row.chain, row.height, row.state) == (DEVNET.id, height, "undecodable")
    assert (row.build, row.source) == (decoder_build(), tmp_path.as_uri())
    with indexer_engine.connect() as conn:
        assert rows.raw_of(conn, DEVNET.id, height) == unknown
        block = store.block_at(conn, DEVNET.id, height)
        assert block is not None
        assert (row.block_hash, row.block_time) == (block.hash, block.time)
        cursor = store.read_cursor(conn, DEVNET.id)
        assert cursor is not None
        assert cursor.height == history().last
    assert alarms(indexer_engine) == [("quarantined", str(height))]
    assert blocks_join(indexer_engine, DEVNET.id) == []
    assert differences(indexer_engine, network()) == []
    (status,) = [s for s in chain_status(indexer_engine, network()) if s.chain == DEVNET.id]
    assert (status.quarantined, status.open_alarms, status.held) == (1, 1, None)
    assert in_quarantine(indexer_engine, DEVNET.id) == [f"{height} (undecodable): {row.reason}"]


def test_quarantine_and_cursor_move_together(
    reader: LakeReader,
    indexer_engine: Engine,
    by_an_older_build: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    empty = contents(indexer_engine)

    def fail(*_: Any) -> None:
        raise RuntimeError("killed before commit")

    with monkeypatch.context() as patched:
        patched.setattr(drain, "_notify", fail)
        with pytest.raises(RuntimeError, match="killed before commit"):
            by_an_older_build(indexer_engine, reader, history().sent)
    assert contents(indexer_engine) == empty
    by_an_older_build(indexer_engine, reader, history().sent)
    assert [row.height for row in standing(indexer_engine)] == [history().sent]


def test_what_is_missing_of_a_provider_shows_at_its_next_event(
    reader: LakeReader, indexer_engine: Engine, by_an_older_build: Callable[..., None]
) -> None:
    first, second, third = history().deposits
    by_an_older_build(indexer_engine, reader, second, max_blocks=1)
    assert alarms(indexer_engine) == [
        ("quarantined", str(second)),
        ("sequence_gap", history().provider),
    ]
    assert first < second < third


# Out.


def everything_of_ours() -> tuple[Height, ...]:
    return (history().sent, history().terms, *history().deposits)


@pytest.mark.parametrize("pick", [slice(0, 1), slice(1, 2), slice(3, 4), slice(None)], ids=str)
def test_a_newer_build_leaves_what_a_straight_run_leaves(
    pick: slice,
    reader: LakeReader,
    indexer_engine: Engine,
    second_engine: Engine,
    by_an_older_build: Callable[..., None],
) -> None:
    drained(second_engine, reader)
    by_an_older_build(indexer_engine, reader, *everything_of_ours()[pick])
    assert mended(indexer_engine) != mended(second_engine)
    retry_untried(indexer_engine, network(), DEVNET.id)
    assert mended(indexer_engine) == mended(second_engine)
    assert alarms(indexer_engine) == []
    assert differences(indexer_engine, network()) == []
    assert messages(indexer_engine) == messages(second_engine)


def messages(engine: Engine) -> list[Any]:
    """What the socket's clients have of each offer in the end, and whether it is gone."""
    query = text(
        "SELECT DISTINCT ON (entry->>'provider', entry->>'rate') op = 'remove', entry"
        " FROM projections.stream_events WHERE channel = 'orderbook'"
        " ORDER BY entry->>'provider', entry->>'rate', id DESC"
    )
    with engine.connect() as conn:
        return [tuple(row) for row in conn.execute(query)]


def test_the_socket_hears_of_what_is_mended(
    reader: LakeReader, indexer_engine: Engine, by_an_older_build: Callable[..., None]
) -> None:
    by_an_older_build(indexer_engine, reader, history().terms)
    assert messages(indexer_engine) == []
    with psycopg.connect(
        indexer_engine.url.set(drivername="postgresql").render_as_string(hide_password=False),
        autocommit=True,
    ) as listening:
        listening.execute(f"LISTEN {CHANNEL}")
        tried(indexer_engine)
        (note,) = listening.notifies(timeout=10, stop_after=1)
    assert note.payload == f"{DEVNET.id}:{history().last}"
    ((is_gone, entry),) = messages(indexer_engine)
    assert (is_gone, entry["provider"]) == (False, history().provider)


def test_a_build_that_tried_tries_only_when_it_is_asked_to(
    tmp_path: Path, reader: LakeReader, indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _damage(tmp_path, history().sent)
    drained(indexer_engine, reader)
    (before,) = standing(indexer_engine)
    monkeypatch.setattr(quarantine, "decode_meta", pytest.fail)
    retry_untried(indexer_engine, network(), DEVNET.id)
    monkeypatch.undo()
    assert standing(indexer_engine) == [before]
    (trial,) = tried(indexer_engine)
    (after,) = standing(indexer_engine)
    assert trial.still == before.reason == after.reason
    assert (after.first_tried_at, after.build) == (before.first_tried_at, before.build)
    assert after.tried_at > before.tried_at
    assert len(alarms(indexer_engine)) == 1


def test_the_build_that_tried_last_is_written_down(
    reader: LakeReader,
    indexer_engine: Engine,
    by_an_older_build: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_an_older_build(indexer_engine, reader, history().sent)
    assert [row.build for row in standing(indexer_engine)] == [OLDER]

    def refuse(raw: bytes, chain: Any) -> Any:
        raise UndecodableLedger("98 at 4")

    monkeypatch.setattr(quarantine, "decode_meta", refuse)
    retry_untried(indexer_engine, network(), DEVNET.id)
    (row,) = standing(indexer_engine)
    assert (row.build, row.reason) == (decoder_build(), "98 at 4")
    with indexer_engine.connect() as conn:
        assert [alarm.detail for alarm in store.open_alarms(conn)] == ["98 at 4"]


def _damage(folder: Path, height: Height) -> bytes:
    """Cut a ledger in the lake short, behind its transactions."""
    raw = history().metas[height - FIRST][:-1000]
    path = folder / name_of(height, height, 1, 1)
    path.write_bytes(compressed(batch_of([raw], height)))
    return raw


def test_what_its_bytes_do_not_give_its_source_may(
    tmp_path: Path, reader: LakeReader, indexer_engine: Engine, second_engine: Engine
) -> None:
    _damage(tmp_path, history().sent)
    drained(indexer_engine, reader)
    (trial,) = tried(indexer_engine, reader)
    assert trial.still is not None
    write_lake(tmp_path, history().metas)
    (trial,) = tried(indexer_engine, reader)
    assert trial.still is None
    assert str(trial) == f"{DEVNET.id} {history().sent} is out of quarantine, 2 events"
    drained(second_engine, reader)
    assert mended(indexer_engine) == mended(second_engine)
    assert alarms(indexer_engine) == []


class Answering:
    """A reader that says one thing."""

    chain = DEVNET.id

    def __init__(self, said: Range | Exception) -> None:
        self.said = said

    def read(self, first: Height, last: Height, watched: Sequence[str]) -> Range:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@pytest.mark.parametrize("said", [NodeUnavailable("gone"), RetentionGap("gone"), "another"])
def test_a_source_that_does_not_have_it_changes_nothing(
    said: Any, tmp_path: Path, reader: LakeReader, indexer_engine: Engine
) -> None:
    _damage(tmp_path, history().sent)
    drained(indexer_engine, reader)
    before = mended(indexer_engine)
    if said == "another":
        said = reader.read(history().last, history().last, [])
    (trial,) = tried(indexer_engine, Answering(said))  # type: ignore[arg-type]
    assert "read anew" in str(trial.still)
    (row,) = standing(indexer_engine)
    assert (row.state, row.reason) == ("undecodable", trial.still)
    assert {**before, "facts.quarantined_ledgers": []} == {
        **mended(indexer_engine),
        "facts.quarantined_ledgers": [],
    }


def test_bytes_that_are_not_what_their_header_says_are_damaged(
    reader: LakeReader,
    indexer_engine: Engine,
    by_an_older_build: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_an_older_build(indexer_engine, reader, history().sent)

    def differ(raw: bytes, chain: Any) -> Any:
        raise InconsistentAnswer("its results do not hash")

    monkeypatch.setattr(quarantine, "decode_meta", differ)
    tried(indexer_engine)
    assert [row.state for row in standing(indexer_engine)] == ["damaged"]


# Once, whatever happens.

STEPS: tuple[tuple[Any, str], ...] = (
    (store, "remove_range"),
    (store, "append"),
    (rows, "release"),
    (quarantine, "refold_transfers"),
    (quarantine, "rebuild_book"),
    (quarantine, "_notify"),
)


def test_a_kill_at_any_step_leaves_it_in_quarantine_as_it_was(
    reader: LakeReader,
    indexer_engine: Engine,
    by_an_older_build: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_an_older_build(indexer_engine, reader, *everything_of_ours())
    before = contents(indexer_engine)
    ledgers = [row for row in standing(indexer_engine) if row.height == history().terms]
    reached = []
    for module, name in STEPS:
        for when in ("before", "after"):
            with monkeypatch.context() as patched:
                patched.setattr(module, name, _killed(getattr(module, name), when))
                with pytest.raises(RuntimeError, match="killed"):
                    list(retry(indexer_engine, network(), ledgers))
            reached.append(name)
            assert contents(indexer_engine) == before, f"{when} {name}"
    assert len(reached) == 2 * len(STEPS)
    retry_untried(indexer_engine, network(), DEVNET.id)
    assert standing(indexer_engine) == []


def _killed(genuine: Callable[..., Any], when: str) -> Callable[..., Any]:
    def killed(*arguments: Any, **options: Any) -> Any:
        if when == "after":
            genuine(*arguments, **options)
        raise RuntimeError("killed")

    return killed


def test_a_session_that_is_lost_leaves_it_in_quarantine(
    reader: LakeReader,
    indexer_engine: Engine,
    engine: Engine,
    by_an_older_build: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    by_an_older_build(indexer_engine, reader, history().terms)
    before = contents(indexer_engine)

    def lose(conn: Connection, *_: Any) -> None:
        pid = conn.scalar(text("SELECT pg_backend_pid()"))
        with engine.connect() as other:
            other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        conn.execute(text("SELECT 1"))

    with monkeypatch.context() as patched:
        patched.setattr(quarantine, "rebuild_book", lose)
        retry_untried(indexer_engine, network(), DEVNET.id)
    assert "quarantine waits chain=stellar:devnet" in caplog.text
    assert contents(indexer_engine) == before
    retry_untried(indexer_engine, network(), DEVNET.id)
    assert standing(indexer_engine) == []


def test_a_ledger_is_let_out_once(
    reader: LakeReader, indexer_engine: Engine, by_an_older_build: Callable[..., None]
) -> None:
    by_an_older_build(indexer_engine, reader, *everything_of_ours())
    ledgers = standing(indexer_engine)
    assert len(list(retry(indexer_engine, network(), ledgers))) == len(ledgers)
    after = contents(indexer_engine)
    assert list(retry(indexer_engine, network(), ledgers)) == []
    assert contents(indexer_engine) == after


def test_one_that_was_let_out_meanwhile_is_left_alone(
    reader: LakeReader,
    indexer_engine: Engine,
    by_an_older_build: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_an_older_build(indexer_engine, reader, history().sent)
    ledgers = standing(indexer_engine)
    genuine = close_meta.decode_meta

    def late(raw: bytes, chain: Any) -> Any:
        monkeypatch.undo()
        assert len(tried(indexer_engine)) == 1
        return genuine(raw, chain)

    monkeypatch.setattr(quarantine, "decode_meta", late)
    assert list(retry(indexer_engine, network(), ledgers)) == []
    assert differences(indexer_engine, network()) == []


def test_a_retry_does_not_meet_a_backfill(
    reader: LakeReader,
    indexer_engine: Engine,
    by_an_older_build: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    by_an_older_build(indexer_engine, reader, history().sent)
    with backfiller(indexer_engine, DEVNET.id):
        with pytest.raises(FollowerConflict, match="another backfill"):
            tried(indexer_engine)
        retry_untried(indexer_engine, network(), DEVNET.id)
    assert "quarantine waits chain=stellar:devnet: another backfill" in caplog.text
    assert len(standing(indexer_engine)) == 1


def test_a_retry_waits_for_nobody_for_long(
    reader: LakeReader,
    indexer_engine: Engine,
    engine: Engine,
    by_an_older_build: Callable[..., None],
) -> None:
    by_an_older_build(indexer_engine, reader, history().sent)

    @event.listens_for(indexer_engine, "begin")
    def hurry(conn: Connection) -> None:
        conn.exec_driver_sql("SET LOCAL lock_timeout = 50")

    with engine.begin() as busy:
        busy.execute(text("UPDATE facts.cursors SET held = NULL"))
        with pytest.raises(FollowerConflict, match="others write"):
            tried(indexer_engine)
    assert len(standing(indexer_engine)) == 1


def test_rows_that_the_warehouse_refuses_stay_out_of_it(
    reader: LakeReader,
    indexer_engine: Engine,
    by_an_older_build: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_an_older_build(indexer_engine, reader, history().sent)

    def refuse(conn: Connection, *_: Any) -> None:
        raise IntegrityError("INSERT", {}, psycopg.errors.CheckViolation("some check"))

    monkeypatch.setattr(quarantine, "refold_transfers", refuse)
    retry_untried(indexer_engine, network(), DEVNET.id)
    (row,) = standing(indexer_engine)
    assert row.reason == "the warehouse refuses its rows: some check"


# Beside backfills.


def test_a_backfill_lets_out_what_it_can_decode(
    reader: LakeReader,
    indexer_engine: Engine,
    second_engine: Engine,
    by_an_older_build: Callable[..., None],
) -> None:
    drained(second_engine, reader)
    by_an_older_build(indexer_engine, reader, *everything_of_ours())
    backfill(
        indexer_engine, reader, network(), Height(FIRST), history().last, lambda progress: None
    )
    assert mended(indexer_engine) == mended(second_engine)
    assert alarms(indexer_engine) == []


def test_a_backfill_puts_into_quarantine_what_it_cannot_decode(
    tmp_path: Path, reader: LakeReader, indexer_engine: Engine
) -> None:
    drained(indexer_engine, reader)
    _damage(tmp_path, history().sent)
    reader._kept = None
    backfill(
        indexer_engine, reader, network(), Height(FIRST), history().last, lambda progress: None
    )
    assert [row.height for row in standing(indexer_engine)] == [history().sent]
    assert alarms(indexer_engine) == [("quarantined", str(history().sent))]
    with indexer_engine.connect() as conn:
        stored = conn.scalars(
            select(facts.stellar_events.c.height).where(
                facts.stellar_events.c.height == history().sent
            )
        )
        assert stored.all() == []
    assert differences(indexer_engine, network()) == []


@pytest.fixture
def usual_recursion() -> Iterator[None]:
    """Python's own limit, whatever libraries of other tests have made of it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("usual_recursion")
def test_a_ledger_that_is_nested_too_deep_is_undecodable() -> None:
    """Depth is what anyone may put into a transaction."""
    deep = b"\0\0\0\x10\0\0\0\1\0\0\0\1" * 900 + b"\0\0\0\1"
    raw, symbol = history().metas[history().sent - FIRST], scval.to_symbol("transfer")
    at = raw.rindex(symbol.to_xdr_bytes())
    with pytest.raises(UndecodableLedger, match="depth"):
        close_meta.decode_meta(raw[:at] + deep + raw[at + len(symbol.to_xdr_bytes()) :], DEVNET)
