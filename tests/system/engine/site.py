"""A warehouse, a chain, a broker and workers, and runs of our jobs on them."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

from tests.system.engine.lab import (
    HUB_ADDRESS,
    ISTHMUS,
    ROOT,
    STANDBY_ADDRESS,
    Lab,
    Machine,
    kill,
    wait_until,
)
from tests.system.engine.node import PORT
from tests.system.engine.servers import PostgresServer, RabbitMQ, start_node
from warehouse_schema.migrate import migrate

CHAIN = "eip155:31337"
TEMPLATE = "isthmus_template"
EXPORTER = "exporter"
"""Name of the worker that has the export folder."""


@dataclass
class Worker:
    """A process that takes steps from the broker, on a machine of its own."""

    machine: Machine
    process: subprocess.Popen[bytes]

    def is_writing(self, server: PostgresServer, database: str) -> bool:
        """Whether it has a session of the indexer: it is in the middle of a step."""
        query = """
            SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND client_addr = %s::inet
               AND application_name = 'isthmus-indexer'
        """
        with psycopg.connect(server.socket_url("postgres")) as conn:
            row = conn.execute(query, (database, self.machine.address)).fetchone()
        assert row is not None
        return bool(row[0])


@dataclass
class Site:
    """What all runs share: servers on the hub, and a chain of so many blocks."""

    lab: Lab
    postgres: PostgresServer
    """The primary."""
    broker: RabbitMQ
    blocks: int
    standby: PostgresServer | None = None
    workers: dict[str, Worker] = field(default_factory=dict)

    def create_warehouse(self, name: str) -> None:
        """A migrated warehouse and an empty database of Dagster's."""
        self.postgres.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        self.postgres.execute(f"CREATE DATABASE {name}_dagster")

    def variables(self, machine: Machine, warehouse: str, executor: str) -> dict[str, str]:
        """The environment of an installation on a machine, with state in its own folder."""
        secret = machine.folder / "broker-url"
        secret.touch(mode=0o600)
        secret.write_text(self.broker.url)
        temporary = machine.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        return {
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(temporary),
            "ISTHMUS_NETWORK": "devnet",
            "ISTHMUS_HOME": str(machine.folder / "home"),
            "ISTHMUS_RPC_EIP155_31337": f"http://{HUB_ADDRESS}:{PORT}",
            "ISTHMUS_RPC_STELLAR_DEVNET": "",
            "ISTHMUS_START_EIP155_31337": str(self.blocks + 1),
            # The node's headers have no more fields than readers need.
            "ISTHMUS_LOG_PROOF_EIP155_31337": "none",
            "ISTHMUS_EXECUTOR": executor,
            "ISTHMUS_BROKER_URL_FILE": str(secret),
            "DATABASE_URL": _url(warehouse),
            "ISTHMUS_DAGSTER_URL": _url(f"{warehouse}_dagster"),
        }

    def add_standby(self) -> None:
        """Start a standby that commits wait for."""
        standby = PostgresServer(self.lab, "standby", STANDBY_ADDRESS)
        standby.create_standby_of(self.postgres)
        self.standby = standby

    def fail_over(self) -> None:
        """Kill the primary, and promote the standby."""
        assert self.standby is not None
        self.postgres.kill()
        self.standby.promote()
        self.postgres, self.standby = self.standby, None

    def start_worker(self, name: str, warehouse: str, *queues: str) -> Worker:
        """Start a worker; a machine that had one keeps its address and folder."""
        known = self.lab.machines.get(name)
        machine = known or self.lab.machine(name)
        chosen = [f"--queue={queue}" for queue in queues or ("dagster",)]
        log = machine.folder / "worker.log"
        before = log.stat().st_size if log.exists() else 0
        process = machine.start(
            [*ISTHMUS, "worker", f"--name={name}@{name}", *chosen],
            self.variables(machine, warehouse, "celery"),
            "worker.log",
        )
        worker = self.workers[name] = Worker(machine, process)

        def is_ready() -> bool:
            text = log.read_bytes()[before:].decode()
            assert process.poll() is None, text[-2_000:]
            return f"{name}@{name} ready" in text

        wait_until(is_ready, f"worker {name} is ready")
        return worker

    def stop_workers(self) -> None:
        """End all workers."""
        for worker in self.workers.values():
            kill(worker.process)
        self.workers.clear()

    def start_run(
        self,
        warehouse: str,
        job: str,
        config: Mapping[str, Any],
        tags: Mapping[str, str] | None = None,
        executor: str = "celery",
    ) -> subprocess.Popen[bytes]:
        """Start a run on the hub."""
        command = [sys.executable, "-m", "tests.system.engine.run", job]
        variables = self.variables(self.lab.hub, warehouse, executor)
        return self.lab.hub.start(
            [*command, json.dumps(config), json.dumps(tags or {})], variables, f"{warehouse}.log"
        )

    def await_run(self, run: subprocess.Popen[bytes], warehouse: str, seconds: float) -> None:
        """Wait for a run's end. Raises `AssertionError` with its last lines when it failed."""
        code = run.wait(seconds)
        log = self.lab.hub.folder / f"{warehouse}.log"
        assert code == 0, log.read_text()[-6_000:]

    def query(self, database: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of a query."""
        with psycopg.connect(self.postgres.socket_url(database)) as conn:
            return conn.execute(statement.encode(), values).fetchall()

    def committed(self, warehouse: str) -> int:
        """Blocks that are stored."""
        return int(self.query(warehouse, "SELECT count(*) FROM facts.blocks")[0][0])


def _url(database: str) -> str:
    """The URL for machines: of whichever server takes writes."""
    hosts = f"{HUB_ADDRESS}:5432,{STANDBY_ADDRESS}:5432"
    return f"postgresql://isthmus@{hosts}/{database}?target_session_attrs=read-write"


@contextmanager
def open_site(blocks: int) -> Iterator[Site]:
    """Servers in a folder of their own; all gone afterwards. Raises `NotInstalled`."""
    with tempfile.TemporaryDirectory(prefix="isthmus-engine-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        # Postgres runs as `nobody`, who must be able to enter.
        folder.chmod(0o755)
        with Lab(folder) as lab:
            (folder / "hub").chmod(0o755)
            postgres = PostgresServer(lab, "postgres", HUB_ADDRESS)
            site = Site(lab, postgres, RabbitMQ(lab), blocks)
            site.postgres.create()
            migrate(make_url(site.postgres.socket_url(TEMPLATE)))
            site.broker.start()
            start_node(lab, blocks)
            yield site


def backfill_config(blocks: int, span: int, *, report_seconds: float = 1) -> dict[str, Any]:
    """Configuration of a backfill of all blocks."""
    range_ = {"chain": CHAIN, "first": 1, "last": blocks, "blocks": span}
    config = range_ | {"report_seconds": report_seconds}
    return {"ops": {"read_range": {"config": config}}}
