"""A ledger is released from quarantine once, despite kills and concurrent writers."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import IntegrityError

from indexer.chains.stellar.lake import LakeReader
from indexer.chains.stellar.xdr import close_meta
from indexer.errors import (
    FollowerConflict,
)
from indexer.facts import quarantine as rows
from indexer.facts import store
from indexer.ingest import quarantine
from indexer.ingest.backfill_lease import backfill_lease
from indexer.ingest.quarantine import retry, retry_untried
from indexer.ingest.rebuild import differences
from tests.factories.contents import contents
from tests.factories.quarantine import everything_of_ours, history, network, standing, tried
from tests.factories.stellar_lake import DEVNET

STEPS: tuple[tuple[Any, str], ...] = (
    (store, "remove_range"),
    (store, "append"),
    (rows, "release_ledger"),
    (quarantine, "refold_movements"),
    (quarantine, "rebuild_book"),
    (quarantine, "notify_changed"),
)


def test_killed_release_changes_nothing(
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


def test_lost_session_changes_nothing(
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


def test_concurrent_release_happens_once(
    reader: LakeReader, indexer_engine: Engine, by_an_older_build: Callable[..., None]
) -> None:
    by_an_older_build(indexer_engine, reader, *everything_of_ours())
    ledgers = standing(indexer_engine)
    assert len(list(retry(indexer_engine, network(), ledgers))) == len(ledgers)
    after = contents(indexer_engine)
    assert list(retry(indexer_engine, network(), ledgers)) == []
    assert contents(indexer_engine) == after


def test_released_ledger_is_skipped(
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


@pytest.mark.usefixtures("long_leases")
def test_retry_conflicts_with_backfill(
    reader: LakeReader,
    indexer_engine: Engine,
    by_an_older_build: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    by_an_older_build(indexer_engine, reader, history().sent)
    with backfill_lease(indexer_engine, DEVNET.id):
        with pytest.raises(FollowerConflict, match="another backfill"):
            tried(indexer_engine)
        retry_untried(indexer_engine, network(), DEVNET.id)
    assert "quarantine waits chain=stellar:devnet: another backfill" in caplog.text
    assert len(standing(indexer_engine)) == 1


def test_retry_fails_on_lock_timeout(
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


def test_rejected_rows_stay_in_quarantine(
    reader: LakeReader,
    indexer_engine: Engine,
    by_an_older_build: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_an_older_build(indexer_engine, reader, history().sent)

    def refuse(conn: Connection, *_: Any) -> None:
        raise IntegrityError("INSERT", {}, psycopg.errors.CheckViolation("some check"))

    monkeypatch.setattr(quarantine, "refold_movements", refuse)
    retry_untried(indexer_engine, network(), DEVNET.id)
    (row,) = standing(indexer_engine)
    assert row.reason == "the warehouse refuses its rows: some check"
