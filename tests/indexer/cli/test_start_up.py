"""What a start imports. Modules are compared, not seconds, which depend on the machine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.engine import URL

from devnet.evm_node import AnvilProcess
from indexer.facts.cursors import read_cursor
from warehouse_schema.identifiers import ChainId

CHAIN = ChainId("eip155:31337")
SCRIPT = """
import atexit, sys
atexit.register(lambda: open(sys.argv[1], "w").write(chr(10).join(sys.modules)))
from indexer.cli.main import main
sys.exit(main(sys.argv[2:]))
"""
TIMEOUT_SECONDS = 60.0

HEAVY = frozenset(
    {
        *("aiohttp", "alembic", "dagster", "duckdb", "flask", "obstore", "polars", "requests"),
        *("eth_abi", "eth_account", "eth_keys", "eth_utils", "rlp", "stellar_sdk", "trie", "web3"),
        *("Crypto", "zstandard", "warehouse_schema.embedded"),
        "indexer.analytics",
        "indexer.chains.services.circle",
        *("indexer.chains.stellar.reader", "indexer.chains.stellar.xdr.scval"),
        *("indexer.decode.stellar", "indexer.orderbook", "indexer.ingest.quarantine"),
    }
)
"""Libraries and parts that no follower of an EVM chain uses."""


def test_help_imports_click_alone(tmp_path: Path) -> None:
    imported = tmp_path / "modules"
    command = [sys.executable, "-c", SCRIPT, str(imported), "follow", "--help"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "Follow one chain" in shown.stdout
    packages = {name.partition(".")[0] for name in imported.read_text().splitlines()}
    # Modules of extensions that the interpreter's own .pth files load at each start.
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    )
    at_each_start = {name.partition(".")[0] for name in bare.stdout.split()}
    assert packages - at_each_start - sys.stdlib_module_names == {"click", "indexer"}


def test_evm_follower_imports_nothing_of_other_parts(
    tmp_path: Path, database: URL, indexer_engine: Engine
) -> None:
    imported = tmp_path / "modules"
    with AnvilProcess(tmp_path / "anvil.log") as node, follower(imported, node, database):
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not has_cursor(indexer_engine):
            assert time.monotonic() < deadline, "the follower commits nothing"
            time.sleep(0.05)
    modules = set(imported.read_text().splitlines())
    assert {"indexer.movements.store", "indexer.chains.evm.reader"} <= modules
    assert HEAVY & modules == set()


@contextmanager
def follower(imported: Path, node: AnvilProcess, database: URL) -> Iterator[None]:
    """A follower of the chain, stopped afterwards by SIGTERM as an operator does."""
    plain = database.set(drivername="postgresql").render_as_string(hide_password=False)
    variables = {
        "ISTHMUS_NETWORK": "devnet",
        "DATABASE_URL": plain,
        "ISTHMUS_RPC_EIP155_31337": f"{node.rpc_url}, {node.ws_url}",
    }
    command = [sys.executable, "-c", SCRIPT, str(imported), "follow", CHAIN]
    process = subprocess.Popen(command, env={**os.environ, **variables})
    try:
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_SECONDS) == 0
    finally:
        process.kill()
        process.wait()


def has_cursor(engine: Engine) -> bool:
    with engine.begin() as conn:
        return read_cursor(conn, CHAIN) is not None


@pytest.mark.parametrize("module", ["pipelines.definitions"])
def test_code_location_imports_no_library_before_its_runs(module: str, database: URL) -> None:
    plain = database.set(drivername="postgresql").render_as_string(hide_password=False)
    variables = {"ISTHMUS_NETWORK": "devnet", "DATABASE_URL": plain}
    shown = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )
    heavy = {"polars", "stellar_sdk", "web3", "eth_account", "eth_abi", "obstore", "flask"}
    assert heavy & set(shown.stdout.split()) == set()
