"""A warehouse of its own on a durable Postgres, both chains, and what a figure needs to measure."""

import math
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from sqlalchemy import Engine, NullPool, create_engine, text

from devnet.databases import fresh_databases
from devnet.services import demo_settings, environment, with_world
from devnet.supervisor import Child, PostgresService, Supervisor
from devnet.world import Pace, World, start_world
from indexer.config.networks import load_network
from indexer.config.settings import Settings
from indexer.config.warehouse import database_url, embedded_postgres, open_engine
from tests.run_processes import run_pids
from tests.system.bench.processor import owner_of_port
from warehouse_schema import channels, locks


def print_line(line: str) -> None:
    """What a person may want to read; figures alone go to standard output."""
    sys.stderr.write(f"{line}\n")


@dataclass(frozen=True)
class Site:
    """Everything that runs for one figure."""

    supervisor: Supervisor
    settings: Settings
    world: World
    engine: Engine

    @property
    def variables(self) -> dict[str, str]:
        """Environment of the processes under measurement."""
        return environment(self.settings)


@contextmanager
def site(pace: Pace) -> Iterator[Site]:
    """Databases as an operator has them (fsync on), chains on free ports; all gone afterwards."""
    # Run as root, Postgres is user `nobody`, who must be able to enter the folder.
    folder = Path(tempfile.mkdtemp(prefix="isthmus-bench-"))
    folder.chmod(0o755)
    settings = demo_settings(Settings(load_network("devnet"), folder, None, {}))
    try:
        with Supervisor(settings.home, print_line) as supervisor:
            supervisor.start(PostgresService(embedded_postgres(settings)))
            fresh_databases(settings)
            with start_world(supervisor, evm_port=0, stellar_port=0, pace=pace) as world:
                settings = with_world(settings, world)
                engine = open_engine(settings, "analyst")
                yield Site(supervisor, settings, world, engine)
                engine.dispose()
    finally:
        shutil.rmtree(folder)


class Commits(threading.Thread):
    """Notes when each height of a chain was committed: the NOTIFY of the committing transaction.

    Times are `time.monotonic` of this process, which also runs the chain's clock.
    """

    def __init__(self, settings: Settings, chain: str) -> None:
        super().__init__(daemon=True)
        url = database_url(settings).set(drivername="postgresql")
        self._connection = psycopg.connect(
            url.render_as_string(hide_password=False), autocommit=True
        )
        self._connection.execute(f"LISTEN {channels.INGESTED}")
        self._chain = chain
        self._over = threading.Event()
        self.seen: list[tuple[int, float]] = []

    def run(self) -> None:
        """Listen until `stop`."""
        while not self._over.is_set():
            for notice in self._connection.notifies(timeout=0.2):
                now = time.monotonic()
                chain, _, height = notice.payload.rpartition(":")
                if chain == self._chain:
                    self.seen.append((int(height), now))

    def stop(self) -> None:
        """End the listening."""
        self._over.set()
        self.join()
        self._connection.close()

    def reached(self, height: int) -> bool:
        """Whether that height or a later one is committed."""
        return bool(self.seen) and self.seen[-1][0] >= height

    def when(self, height: int) -> float:
        """When that height was committed. Raises `ValueError` if it was not."""
        for seen, at in self.seen:
            if seen >= height:
                return at
        raise ValueError(f"height {height} was never committed; the last was {self.seen[-1:]}")


_SESSION = text("""
    SELECT a.client_port FROM locks.leases AS l JOIN pg_stat_activity AS a USING (pid)
     WHERE l.kind = :locks AND l.name = :chain
""")


def follower_pids(settings: Settings, code_server: Child) -> dict[str, int]:
    """The process of each chain's run: the one that holds the connection that holds its lock."""
    found = {}
    # As the owner: roles see of other sessions no more than that they are there.
    engine = create_engine(database_url(settings), poolclass=NullPool)
    with engine.connect() as conn:
        for chain in settings.network.chains:
            values = {"locks": locks.FOLLOWER, "chain": chain.id}
            port = conn.execute(_SESSION, values).scalar_one()
            name = f"run_{chain.id.partition(':')[0].replace('eip155', 'evm')}"
            found[name] = owner_of_port(port, run_pids(code_server.pid))
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank: the smallest value that `share` of all do not exceed."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def milliseconds(seconds: float) -> float:
    """Rounded to a tenth."""
    return round(seconds * 1000, 1)


def until(beat: float) -> None:
    """Sleep until `time.monotonic` says `beat`."""
    time.sleep(max(0.0, beat - time.monotonic()))
