"""A ledger that cannot be decoded is quarantined until a build can decode it."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select, text
from stellar_sdk import scval

from indexer.chains.ports import Range
from indexer.chains.stellar.lake import LakeReader
from indexer.chains.stellar.xdr import close_meta
from indexer.chains.watchlist import Watched
from indexer.decode.build import decoder_build
from indexer.errors import (
    InconsistentAnswer,
    NodeUnavailable,
    RetentionGap,
    UndecodableLedger,
)
from indexer.facts import quarantine as rows
from indexer.facts import store
from indexer.facts.alarms import open_alarms
from indexer.facts.checks import block_faults, quarantine_lines
from indexer.facts.cursors import read_cursor
from indexer.facts.status import chain_status
from indexer.ingest import quarantine, ranges
from indexer.ingest.backfill import backfill
from indexer.ingest.projections import apply_range
from indexer.ingest.quarantine import retry_untried
from indexer.ingest.rebuild import differences
from indexer.ingest.rescan import rescan
from tests.factories.contents import contents
from tests.factories.notifications import queued_notifications
from tests.factories.quarantine import (
    OLDER,
    alarms,
    damage,
    drained,
    everything_of_ours,
    history,
    mended,
    network,
    standing,
    tried,
)
from tests.factories.stellar_lake import DEVNET, FIRST, write_lake
from warehouse_schema import channels, facts
from warehouse_schema.identifiers import Height

# In.


def test_undecodable_ledger_is_quarantined(
    tmp_path: Path, reader: LakeReader, indexer_engine: Engine
) -> None:
    height = history().sent
    unknown = damage(tmp_path, height)
    assert drained(indexer_engine, reader) == 1
    (row,) = standing(indexer_engine)
    assert (row.chain, row.height, row.state) == (DEVNET.id, height, "undecodable")
    assert (row.build, row.source) == (decoder_build(), tmp_path.as_uri())
    with indexer_engine.connect() as conn:
        assert rows.read_bytes(conn, DEVNET.id, height) == unknown
        block = store.block_at(conn, DEVNET.id, height)
        assert block is not None
        assert (row.block_hash, row.block_time) == (block.hash, block.time)
        cursor = read_cursor(conn, DEVNET.id)
        assert cursor is not None
        assert cursor.height == history().last
    assert alarms(indexer_engine) == [("quarantined", str(height))]
    assert block_faults(indexer_engine, DEVNET.id) == []
    assert differences(indexer_engine, network()) == []
    (status,) = [s for s in chain_status(indexer_engine, network()) if s.chain == DEVNET.id]
    assert (status.quarantined, status.open_alarms, status.held) == (1, 1, None)
    assert quarantine_lines(indexer_engine, DEVNET.id) == [f"{height} (undecodable): {row.reason}"]


def test_quarantine_is_atomic_with_cursor(
    reader: LakeReader,
    indexer_engine: Engine,
    by_an_older_build: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    empty = contents(indexer_engine)

    def fail(*arguments: Any) -> None:
        apply_range(*arguments)
        raise RuntimeError("killed before commit")

    with monkeypatch.context() as patched:
        patched.setattr(ranges, "apply_range", fail)
        with pytest.raises(RuntimeError, match="killed before commit"):
            by_an_older_build(indexer_engine, reader, history().sent)
    assert contents(indexer_engine) == empty
    by_an_older_build(indexer_engine, reader, history().sent)
    assert [row.height for row in standing(indexer_engine)] == [history().sent]


def test_missing_event_is_sequence_gap(
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


@pytest.mark.parametrize("pick", [slice(0, 1), slice(1, 2), slice(3, 4), slice(None)], ids=str)
def test_newer_build_gives_rows_of_straight_run(
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
    with indexer_engine.connect() as conn:
        changes = conn.scalars(select(facts.changed_days.c.changes)).all()
    assert changes == [len(everything_of_ours()[pick])], "its day's figures are due again"


def messages(engine: Engine) -> list[Any]:
    """What the socket's clients have of each offer in the end, and whether it is gone."""
    query = text(
        "SELECT DISTINCT ON (entry->>'provider', entry->>'rate') op = 'remove', entry"
        " FROM projections.stream_events WHERE channel = 'orderbook'"
        " ORDER BY entry->>'provider', entry->>'rate', id DESC"
    )
    with engine.connect() as conn:
        return [tuple(row) for row in conn.execute(query)]


def test_release_notifies_stream(
    reader: LakeReader, indexer_engine: Engine, by_an_older_build: Callable[..., None]
) -> None:
    by_an_older_build(indexer_engine, reader, history().terms)
    assert messages(indexer_engine) == []
    with indexer_engine.connect() as conn:
        before = queued_notifications(conn, channels.INGESTED)
        tried(indexer_engine)
        payload = f"{DEVNET.id}:{history().last}"
        assert queued_notifications(conn, channels.INGESTED) == sorted([*before, payload])
    ((is_gone, entry),) = messages(indexer_engine)
    assert (is_gone, entry["provider"]) == (False, history().provider)


def test_same_build_retries_only_on_request(
    tmp_path: Path, reader: LakeReader, indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(tmp_path, history().sent)
    drained(indexer_engine, reader)
    (before,) = standing(indexer_engine)
    monkeypatch.setattr(quarantine, "decode_meta", pytest.fail)
    retry_untried(indexer_engine, network(), DEVNET.id)
    monkeypatch.undo()
    assert standing(indexer_engine) == [before]
    (trial,) = tried(indexer_engine)
    (after,) = standing(indexer_engine)
    assert trial.failure == before.reason == after.reason
    assert (after.first_tried_at, after.build) == (before.first_tried_at, before.build)
    assert after.tried_at > before.tried_at
    assert len(alarms(indexer_engine)) == 1


def test_last_build_is_recorded(
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
        assert [alarm.detail for alarm in open_alarms(conn)] == ["98 at 4"]


def test_source_is_read_after_bytes_fail(
    tmp_path: Path, reader: LakeReader, indexer_engine: Engine, second_engine: Engine
) -> None:
    damage(tmp_path, history().sent)
    drained(indexer_engine, reader)
    (trial,) = tried(indexer_engine, reader)
    assert trial.failure is not None
    write_lake(tmp_path, history().metas)
    (trial,) = tried(indexer_engine, reader)
    assert trial.failure is None
    assert str(trial) == f"{DEVNET.id} {history().sent} is out of quarantine, 2 events"
    drained(second_engine, reader)
    assert mended(indexer_engine) == mended(second_engine)
    assert alarms(indexer_engine) == []


class Answering:
    """A reader that says one thing."""

    chain = DEVNET.id

    def __init__(self, said: Range | Exception) -> None:
        self.said = said

    def read(self, first: Height, last: Height, watched: Watched) -> Range:
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


@pytest.mark.parametrize("said", [NodeUnavailable("gone"), RetentionGap("gone"), "another"])
def test_source_without_ledger_changes_nothing(
    said: Any, tmp_path: Path, reader: LakeReader, indexer_engine: Engine
) -> None:
    damage(tmp_path, history().sent)
    drained(indexer_engine, reader)
    before = mended(indexer_engine)
    if said == "another":
        said = reader.read(history().last, history().last, [])
    (trial,) = tried(indexer_engine, Answering(said))  # type: ignore[arg-type]
    assert "read anew" in str(trial.failure)
    (row,) = standing(indexer_engine)
    assert (row.state, row.reason) == ("undecodable", trial.failure)
    assert {**before, "facts.quarantined_ledgers": []} == {
        **mended(indexer_engine),
        "facts.quarantined_ledgers": [],
    }


def test_wrong_bytes_are_damaged(
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


# Beside backfills.


def test_backfill_releases_decodable_ledger(
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


def test_backfill_quarantines_undecodable_ledger(
    tmp_path: Path, reader: LakeReader, indexer_engine: Engine
) -> None:
    drained(indexer_engine, reader)
    damage(tmp_path, history().sent)
    reader._last_batch = None
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
def test_deeply_nested_ledger_is_undecodable() -> None:
    """Depth is what anyone may put into a transaction."""
    deep = b"\0\0\0\x10\0\0\0\1\0\0\0\1" * 900 + b"\0\0\0\1"
    raw, symbol = history().metas[history().sent - FIRST], scval.to_symbol("transfer")
    at = raw.rindex(symbol.to_xdr_bytes())
    with pytest.raises(UndecodableLedger, match="depth"):
        close_meta.decode_meta(raw[:at] + deep + raw[at + len(symbol.to_xdr_bytes()) :], DEVNET)


def test_rescan_reports_unread_ledger(
    tmp_path: Path, reader: LakeReader, indexer_engine: Engine
) -> None:
    drained(indexer_engine, reader)
    first, last = Height(FIRST), history().last
    assert rescan(indexer_engine, reader.read, network().stellar, first, last) == []
    damage(tmp_path, history().sent)
    reader._last_batch = None
    (found,) = rescan(indexer_engine, reader.read, network().stellar, first, last)
    assert f"ledger {history().sent} cannot be decoded" in found
