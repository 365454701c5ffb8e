"""Redecode commands beside ingestion: killed in the middle and run again."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import URL, Engine, func, select, text, update

from devnet.services import isthmus
from indexer.ingest.rebuild import differences
from indexer.ingest.redecode import shadow_tables
from tests.factories.fake_chain import FakeChain, fake_network
from tests.factories.ingesting import ingest_once
from warehouse_schema.events import oft_sent
from warehouse_schema.facts import cursors, evm_logs
from warehouse_schema.identifiers import Height
from warehouse_schema.projections import movements

ROOT = Path(__file__).parents[3]
NETWORK = fake_network(confirmations=65)
BLOCKS, SENDS = 130, 60
FINAL_EVENTS = (BLOCKS - 65) * SENDS


@contextmanager
def redecoding(database: URL, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`isthmus redecode …`, killed when the block ends before it did."""
    url = database.set(drivername="postgresql").render_as_string(hide_password=False)
    process = subprocess.Popen(
        isthmus("redecode", *arguments),
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url, "ISTHMUS_NETWORK": "mainnet"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def run(database: URL, *arguments: str, answer: str = "") -> tuple[int, str]:
    with redecoding(database, *arguments) as process:
        out, err = process.communicate(answer, timeout=400)
        assert "Traceback" not in err, err
        return process.returncode, out


def wrong_sends(engine: Engine) -> int:
    with engine.connect() as conn:
        wrong = select(func.count()).where(oft_sent.c.amount_sent == 1)
        return conn.scalar(wrong) or 0


def standing(engine: Engine) -> tuple[list[object], ...]:
    tables = (cursors, oft_sent, evm_logs, movements)
    with engine.connect() as conn:
        return tuple(sorted(map(tuple, conn.execute(select(t))), key=repr) for t in tables)


@pytest.fixture
def chain(engine: Engine, indexer_engine: Engine) -> FakeChain:
    """A followed chain whose sends were all decoded wrong, as by an older build."""
    chain = FakeChain(NETWORK)
    chain.grow(BLOCKS, sends=SENDS)
    assert ingest_once(indexer_engine, chain, NETWORK) is not None
    with engine.begin() as conn:
        conn.execute(update(oft_sent).values(amount_sent=1))
        conn.execute(update(movements).values(amount_in=1))
    return chain


@pytest.mark.timeout(900)
def test_killed_redecode_commands_resume_and_swap_once(
    database: URL, engine: Engine, indexer_engine: Engine, chain: FakeChain
) -> None:
    before = standing(engine)
    start_and_kill_after_a_range(database, engine)
    code, output = run(database, "fill")
    assert (code, "decoded again to 65 of 65" in output) == (0, True)
    assert "to 34 of 65" not in output, "it began from zero"

    code, output = run(database, "check")
    assert code == 0
    assert f"facts.oft_sent of eip155:1: 0 added, 0 removed, {FINAL_EVENTS} changed" in output
    assert run(database, "swap", answer="no\n") == (1, output + refusal())

    kill_while_it_swaps(database, engine)
    assert standing(engine) == before

    chain.grow(3, sends=SENDS)
    assert ingest_once(indexer_engine, chain, NETWORK) is not None
    code, output = run(database, "swap", "--yes")
    assert (code, "ingestion waited" in output) == (0, True)
    assert wrong_sends(engine) == 0
    assert differences(engine, NETWORK) == []
    with engine.connect() as conn:
        assert conn.scalar(select(func.count()).select_from(oft_sent)) == (BLOCKS + 3) * SENDS
        assert conn.scalar(select(cursors.c.height)) == Height(BLOCKS + 3)
    assert run(database, "abandon")[0] == 0


def start_and_kill_after_a_range(database: URL, engine: Engine) -> None:
    """Start a redecode and kill it after its first range; repeat when the kill came too late."""
    for _ in range(10):
        assert run(database, "start", "eip155:1")[0] == 0
        with redecoding(database, "fill") as process:
            assert process.stdout is not None
            assert "decoded again to 34 of 65" in process.stdout.readline()
        with engine.connect() as conn:
            if shadow_tables.heights(conn)["eip155:1"] == 34:
                return
        assert run(database, "abandon")[0] == 0
    raise AssertionError("ten kills came too late")


def refusal() -> str:
    return "Swap the tables? Type yes: nothing was changed\n"


def kill_while_it_swaps(database: URL, engine: Engine) -> None:
    """Hold the table of its last write, so that it waits with all others done; kill it there."""
    waits = text(
        "SELECT count(*) FROM pg_locks JOIN pg_class ON pg_class.oid = relation"
        " WHERE NOT granted AND relname = 'movements'"
    )
    with engine.connect() as holder, engine.connect() as looker:
        holder.execute(text("LOCK TABLE projections.movements IN SHARE MODE"))
        with redecoding(database, "swap", "--yes") as process:
            while looker.scalar(waits) == 0:
                assert process.poll() is None, "it ended before it was killed"
                looker.rollback()
                time.sleep(0.02)
        holder.rollback()
