"""Upgrade from an earlier revision while the API serves and a follower ingests.

`ISTHMUS_UPGRADE_FROM` names the revision to start from, by default the one before. The new build
has one more migration, which adds a column and a table. Burns go on throughout; requests go through
nginx to two API processes.
"""

import io
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path

import httpx
import pytest
from eth_utils.crypto import keccak
from sqlalchemy import func, select, text
from sqlalchemy.engine import make_url

from devnet.evm import EvmDevnet, dev_account
from devnet.evm_deployment import deploy
from devnet.evm_node import AnvilProcess
from devnet.supervisor import free_port
from devnet.world import remotes_of_evm
from indexer.config.settings import rpc_variable
from tests.api.proxy.conftest import MAX_CONNS, nginx
from warehouse_schema.embedded import Server
from warehouse_schema.engine import make_engine
from warehouse_schema.events import cctp_burns
from warehouse_schema.facts import cursors
from warehouse_schema.identifiers import ChainId

ROOT = Path(__file__).parents[3]
FROM = os.environ.get("ISTHMUS_UPGRADE_FROM", "HEAD~1")
PACKAGES = ("warehouse_schema", "indexer", "relay", "pipelines", "api")
CHAIN = ChainId("eip155:31337")
PATHS = ("/v1/routes", "/v1/status", "/healthz")
WAIT_SECONDS = 120.0
MIGRATE_ATTEMPTS = 5
"""A migration gives up rather than make writers wait long for its lock; it is run again."""
BURN = keccak(
    text="DepositForBurn(address,uint256,address,bytes32,uint32,bytes32,bytes32,uint256,uint32,bytes)"
)
MIGRATION = '''"""Drill."""

import sqlalchemy as sa
from alembic import op

revision = "drill"
down_revision = "{head}"


def upgrade() -> None:
    op.add_column("blocks", sa.Column("drill", sa.Text(), nullable=True), schema="facts")
    op.create_table("drill", sa.Column("id", sa.BigInteger(), primary_key=True), schema="facts")
'''


@dataclass
class Build:
    """A tree of the product, and the environment of its processes."""

    tree: Path
    env: dict[str, str]

    def command(self, *arguments: str) -> list[str]:
        code = (
            f"import sys; sys.path[0] = {str(self.tree)!r}; "
            "from indexer.cli.main import main; sys.exit(main())"
        )
        return [sys.executable, "-c", code, *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), env=self.env, cwd=self.tree, capture_output=True, text=True
        )

    @contextmanager
    def process(self, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process that ends by SIGTERM."""
        with log.open("ab") as out:
            process = subprocess.Popen(
                self.command(*arguments), env=self.env, cwd=self.tree, stdout=out, stderr=out
            )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(WAIT_SECONDS)


@dataclass
class Traffic:
    """Requests one after the other, through nginx."""

    url: str
    tls: ssl.SSLContext
    answered: int = 0
    refused: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with httpx.Client(base_url=self.url, verify=self.tls, timeout=WAIT_SECONDS) as client:
            for path in cycle(PATHS):
                if self.stop.is_set():
                    return
                try:
                    response = client.get(path)
                except httpx.TransportError as error:
                    self.refused.append(f"{path}: {error!r}")
                    continue
                self.answered += response.status_code == 200
                if response.status_code != 200:
                    self.refused.append(f"{path}: {response.status_code}")


@contextmanager
def nginx_before(first: int, second: int) -> Iterator[tuple[str, ssl.SSLContext]]:
    """The committed configuration with two API processes, as docs/operations/upgrade.md says."""
    port = free_port()
    edits = {"proxy_next_upstream off;": "proxy_next_upstream error;"}
    for options in (f"max_conns={MAX_CONNS} max_fails=0", "max_fails=0"):
        one = f"server 127.0.0.1:{first} {options};"
        edits[one] = f"{one} server 127.0.0.1:{second} {options};"
    with nginx(port, first, edits) as tls:
        yield f"https://localhost:{port}", tls


def build_of(revision: str, folder: Path, env: dict[str, str]) -> Build:
    """The packages of a git revision."""
    archive = subprocess.run(
        ["git", "archive", revision, *PACKAGES], cwd=ROOT, capture_output=True, check=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return Build(folder, env)


def next_build(folder: Path, env: dict[str, str], head: str) -> Build:
    """This checkout with a further migration."""
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    versions = folder / "warehouse_schema" / "migrations" / "versions"
    (versions / "9999_drill.py").write_text(MIGRATION.format(head=head))
    return Build(folder, env)


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def wait_for(what: str, is_done: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not is_done():
        assert time.monotonic() < until, what
        time.sleep(0.1)


@pytest.fixture
def evm(tmp_path: Path) -> Iterator[tuple[EvmDevnet, str]]:
    with (
        AnvilProcess(log_file=tmp_path / "anvil.log") as anvil,
        deploy(anvil.rpc_url, remotes_of_evm()) as devnet,
    ):
        yield devnet, anvil.rpc_url


def burn_until(stop: threading.Event, devnet: EvmDevnet) -> None:
    payer = dev_account(5)
    devnet.faucet_usdc(payer.address, 10**12)
    devnet.approve(payer, devnet.addresses.usdc, devnet.addresses.token_messenger, 10**12)
    while not stop.wait(0.1):
        devnet.deposit_for_burn(payer, amount=1_000_000, mint_recipient=b"\1" * 32)


@pytest.mark.timeout(600)
def test_upgrade_loses_no_event_and_refuses_no_request(
    postgres: Server, evm: tuple[EvmDevnet, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    devnet, node = evm
    url = postgres.url("isthmus_upgrade")
    env = {"PATH": os.environ["PATH"], "ISTHMUS_NETWORK": "devnet", "DATABASE_URL": url}
    env |= {"ISTHMUS_HOME": str(tmp_path), rpc_variable(CHAIN): node}
    old = build_of(FROM, tmp_path / "old", env)
    migrated = old.run("migrate")
    assert migrated.returncode == 0, migrated.stderr
    engine = make_engine(make_url(url))
    with engine.connect() as conn:
        head = conn.scalar(text("SELECT version_num FROM isthmus.alembic_version"))
    new = next_build(tmp_path / "new", env, str(head))
    ports, stop = (free_port(), free_port()), threading.Event()

    def stored() -> int:
        with engine.connect() as conn:
            return conn.scalar(select(func.count()).select_from(cctp_burns)) or 0

    def api(build: Build, port: int) -> AbstractContextManager[object]:
        log = tmp_path / f"api-{port}.log"
        return build.process(log, "api", "--bind", f"127.0.0.1:{port}", "--workers", "1")

    figures: dict[str, object] = {"name": "upgrade", "from": FROM}
    with ExitStack() as current, ExitStack() as old_apis, ExitStack() as old_writers:
        current.callback(engine.dispose)
        for name in (("follow", CHAIN), ("transfers",)):
            old_writers.enter_context(old.process(tmp_path / "writers.log", *name))
        apis = [old_apis.enter_context(ExitStack()) for _ in ports]
        for port, stack in zip(ports, apis, strict=True):
            stack.enter_context(api(old, port))
            wait_for("the old API", partial(answers, port))
        traffic = Traffic(*old_apis.enter_context(nginx_before(*ports)))
        threads = [
            threading.Thread(target=burn_until, args=(stop, devnet)),
            threading.Thread(target=traffic.run),
        ]
        for thread in threads:
            thread.start()
        try:
            wait_for("burns before the upgrade", lambda: stored() > 20)
            began = time.monotonic()
            attempts = 1
            while (migrated := new.run("migrate")).returncode != 0:
                assert attempts < MIGRATE_ATTEMPTS, migrated.stderr
                attempts += 1
            figures |= {"migrate_s": round(time.monotonic() - began, 1), "attempts": attempts}
            # The old processes go on with the new schema.
            before = stored()
            wait_for("burns by the old follower", lambda: stored() > before + 20)
            began = time.monotonic()
            old_writers.close()
            for name in (("follow", CHAIN), ("transfers",)):
                current.enter_context(new.process(tmp_path / "writers.log", *name))
            before = stored()
            wait_for("burns by the new follower", lambda: stored() > before)
            figures["ingestion_pause_s"] = round(time.monotonic() - began, 1)
            for port, stack in zip(ports, apis, strict=True):
                stack.close()
                current.enter_context(api(new, port))
                wait_for("the new API", partial(answers, port))
            before = traffic.answered
            wait_for("requests after the upgrade", lambda: traffic.answered > before + 50)
        finally:
            stop.set()
            threads[0].join()
            traffic.stop.set()
            threads[1].join()
        height = devnet.block_number()

        def cursor() -> int:
            with engine.connect() as conn:
                return conn.scalar(select(cursors.c.height).where(cursors.c.chain == CHAIN)) or 0

        wait_for("the head", lambda: cursor() >= height)
        burned = devnet.rpc(
            "eth_getLogs",
            {
                "fromBlock": "0x0",
                "toBlock": hex(height),
                "address": devnet.addresses.token_messenger,
            },
        )
        emitted = sum(1 for log in burned if log["topics"][0] == f"0x{BURN.hex()}")
        figures |= {"events": emitted, "lost": emitted - stored()}
    figures |= {"answered": traffic.answered, "refused": len(traffic.refused)}
    with capsys.disabled():
        sys.stdout.write(f"\n{json.dumps(figures)}\n")
    assert (traffic.refused, figures["lost"]) == ([], 0)
    assert emitted > 40
