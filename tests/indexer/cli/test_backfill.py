"""`isthmus backfill`: output, progress and errors."""

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import URL, Engine, func, select

from indexer.cli.main import main
from indexer.cli.progress_bar import Bar
from indexer.config.settings import load_settings, rpc_variable, start_variable
from indexer.ingest.backfill import BackfillProgress
from indexer.library_settings import ALLOCATOR
from tests.factories.fake_chain import ETHEREUM, FakeChain
from tests.factories.fake_evm_node import FakeEvmNode
from tests.factories.ingesting import ingest_once
from tests.system.replay.serving import serving
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import Height

START = 60


@pytest.fixture
def chain() -> FakeChain:
    """Ethereum, 100 blocks high."""
    network = load_settings(
        {"ISTHMUS_NETWORK": "mainnet", start_variable(ETHEREUM): str(START)}, needs_database=False
    )
    (ethereum,) = (each for each in network.network.evm if each.id == ETHEREUM)
    chain = FakeChain(replace(network.network, evm=(ethereum,)))
    chain.grow(100)
    return chain


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    database: URL,
    chain: FakeChain,
) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Call it with the command's arguments; exit code, output and complaints."""
    with serving(FakeEvmNode(chain)) as url:
        plain = database.set(drivername="postgresql").render_as_string(hide_password=False)
        for name, value in {
            "ISTHMUS_NETWORK": "mainnet",
            "DATABASE_URL": plain,
            rpc_variable(ETHEREUM): url,
            start_variable(ETHEREUM): str(START),
            # The node's headers have no more fields than these tests read.
            "ISTHMUS_LOG_PROOF_EIP155_1": "none",
            # The command sets both, for its process.
            "POLARS_MAX_THREADS": "2",
            ALLOCATOR: "narenas:1",
        }.items():
            monkeypatch.setenv(name, value)

        def call(*arguments: str) -> tuple[int, str, str]:
            code = main(["backfill", *arguments])
            out, err = capsys.readouterr()
            return code, out, err

        yield call


Run = Callable[..., tuple[int, str, str]]


def range_of(first: object, last: object, chain: str = ETHEREUM) -> list[str]:
    return ["--chain", chain, "--from", str(first), "--to", str(last)]


def test_backfill_prints_progress_lines(run: Run, indexer_engine: Engine):
    code, out, err = run(*range_of(5, 30))
    assert (code, err) == (0, "")
    *progress_lines, last = out.splitlines()
    assert last == "eip155:1: 5 to 30 is in"
    assert progress_lines[-1].startswith(f"eip155:1 5–30 facts [{'█' * 30}] 100.0%")
    assert progress_lines[-1].endswith("0:00:00 left")
    assert "\r" not in out
    with indexer_engine.connect() as conn:
        heights = func.count(), func.min(blocks.c.height), func.max(blocks.c.height)
        assert tuple(conn.execute(select(*heights)).one()) == (26, 5, 30)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (range_of("x", 30), "Invalid value for '--from': 'x' is not a valid integer"),
        (range_of(1, -3), "Invalid value for '--to': -3 is not in the range"),
        (range_of(30, 5), "Invalid value for --to: 5 is below --from 30"),
        (range_of(1, 2, "ethereum"), "--chain: network mainnet has no chain ethereum"),
        (range_of(1, 2, "eip155:5"), "--chain: network mainnet has no chain eip155:5"),
        (range_of(1, START), "value for --to: eip155:1: the follower begins at 60"),
        (range_of(1, 2)[:4], "Missing option '--to'"),
    ],
)
def test_invalid_argument_error_names_the_argument(run: Run, arguments: list[str], complaint: str):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert complaint in err
    assert "Traceback" not in err


def test_followed_range_is_refused_by_its_end(run: Run, indexer_engine: Engine, chain: FakeChain):
    ethereum = replace(chain.network.evm[0], confirmations=3)
    ingest_once(indexer_engine, chain, replace(chain.network, evm=(ethereum,)))
    code, _, err = run(*range_of(1, 99))
    assert code == 2
    assert "value for --to: eip155:1: the follower is at 100" in err


def test_chain_without_node_names_the_setting(run: Run):
    code, _, err = run(*range_of(1, 2, "eip155:8453"))
    assert code == 2
    assert "set ISTHMUS_RPC_EIP155_8453" in err


def test_ctrl_c_prints_that_it_can_resume(run: Run, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Bar, "__call__", interrupt)
    code, _, err = run(*range_of(1, 30))
    assert code == 130
    assert "run the same command to resume" in err
    assert "Traceback" not in err


# The bar


class Terminal(io.StringIO):
    """Somebody watches."""

    def isatty(self) -> bool:
        return True


def progress(done: int) -> BackfillProgress:
    return BackfillProgress(ETHEREUM, Height(1), Height(100), done, 0, blocks_per_second=10.0)


@pytest.mark.parametrize(("every", "out"), [(0.2, Terminal()), (10.0, io.StringIO())])
def test_progress_is_printed_at_intervals_and_at_the_end(every: float, out: io.StringIO):
    now = [0.0]
    with Bar(out, lambda: now[0]) as bar:
        for now[0], done in ((0.0, 1), (0.9 * every, 2), (1.1 * every, 3), (1.2 * every, 100)):
            bar(progress(done))
    lines = out.getvalue().replace("\r", "\n").replace("\x1b[K", "").split("\n")
    shares = [line.partition("%")[0].rpartition(" ")[2] for line in lines if line]
    assert shares == ["1.0", "3.0", "100.0"]


def test_terminal_line_overwrites_the_previous_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "60")
    out, now = Terminal(), [0.0]
    with Bar(out, lambda: now[0]) as bar:
        for now[0], done in ((0.0, 50), (1.0, 100)):
            bar(progress(done))
    assert out.getvalue().count("\r") == 2
    assert out.getvalue().endswith("\x1b[K\n")
    assert max(map(len, out.getvalue().replace("\x1b[K", "").split("\r"))) <= 60


@pytest.mark.parametrize("width", [5, 30, 60, 80, 200])
def test_progress_line_fits_the_width(width: int):
    line = progress(50).line(width)
    assert len(line) <= width
    if width >= 80:
        assert "[██" in line
        assert line.endswith("0:00:05 left")


def test_backfill_uses_little_memory() -> None:
    """One thread of polars, which gives freed memory back soon, and one arena of the C library.

    Polars reads its settings when it is imported, and its allocator prints them at the end.
    glibc gives a thread an arena of its own when it allocates while the others are in use.
    """
    script = """
import ctypes, threading
from indexer.cli.main import main
code = main(["backfill", "--chain", "eip155:1", "--from", "0", "--to", "1"])
import polars
print(code, polars.thread_pool_size(), flush=True)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
allocated = threading.Barrier(4)

def allocate():
    libc.malloc(ctypes.c_size_t(1000))
    allocated.wait()

threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={
            **os.environ,
            "DATABASE_URL": "mysql://x/y",
            "POLARS_MAX_THREADS": "2",
            "MALLOC_ARENA_MAX": "8",
            ALLOCATOR: "narenas:1,stats_print:true",
        },
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("2 1\n")
    assert done.stdout.count("<heap nr=") == 1
    settings = {"opt.narenas: 1\n", "opt.dirty_decay_ms: 100 (", "opt.muzzy_decay_ms: 0 ("}
    assert {each for each in settings if each in done.stderr} == settings
