"""A warehouse of its own on a durable Postgres, both chains, and what a figure needs to measure."""

import math
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from sqlalchemy import Engine, NullPool, create_engine, text

from devnet import services
from devnet.databases import fresh_databases
from devnet.supervisor import Child, PostgresService, Supervisor
from devnet.world import Pace, World, start_world
from indexer.config.networks import load_network
from indexer.config.settings import Settings
from indexer.config.warehouse import database_url, embedded_postgres, open_engine
from tests.memory import server_folder
from warehouse_schema import locks


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
        return services.environment(self.settings)


@contextmanager
def site(pace: Pace) -> Iterator[Site]:
    """Databases as an operator has them (fsync on), chains on free ports; all gone afterwards."""
    with (
        warehouse() as (supervisor, settings),
        start_world(supervisor, evm_port=0, stellar_port=0, pace=pace) as world,
    ):
        settings = services.with_world(settings, world)
        engine = open_engine(settings, "analyst")
        yield Site(supervisor, settings, world, engine)
        engine.dispose()


def start_orchestrator(running: Site) -> dict[str, Child]:
    """Dagster's code server, page and daemon without the relay, once they serve."""
    ports = services.choose_ports()
    variables = services.environment(running.settings, ports)
    # Page and daemon would wait a minute for a relay's code server that never starts.
    del variables["ISTHMUS_RELAY_SERVER_PORT"]
    code = running.supervisor.run(services.code_server(ports, variables))
    page, daemon = running.supervisor.run_together(
        services.webserver(ports, variables), services.daemon(ports, variables)
    )
    return {"code_server": code, "page": page, "daemon": daemon}


@contextmanager
def warehouse() -> Iterator[tuple[Supervisor, Settings]]:
    """The databases of a site alone, with the settings of a demo that has no chains yet."""
    with server_folder("bench", memory=None) as folder:
        settings = services.demo_settings(Settings(load_network("devnet"), folder, None, {}))
        with Supervisor(settings.home, print_line) as supervisor:
            supervisor.start(PostgresService(embedded_postgres(settings)))
            fresh_databases(settings)
            yield supervisor, settings


_COMMIT_POLL_SECONDS = 0.002


class Commits(threading.Thread):
    """Notes when each height of a chain was committed, by polling its cursor.

    Times are `time.monotonic` of this process, which also runs the chain's clock. They are up to
    2 ms late, and a height that the next one follows at once has the next one's.
    """

    def __init__(self, settings: Settings, chain: str) -> None:
        super().__init__(daemon=True)
        url = database_url(settings).set(drivername="postgresql")
        self._connection = psycopg.connect(
            url.render_as_string(hide_password=False), autocommit=True
        )
        self._chain = chain
        self._over = threading.Event()
        self.seen: list[tuple[int, float]] = []

    def run(self) -> None:
        """Poll until `stop`."""
        query = "SELECT height FROM facts.cursors WHERE chain = %s"
        # What is stored already was committed at an unknown time.
        last = self._connection.execute(query, (self._chain,)).fetchone()
        while not self._over.wait(_COMMIT_POLL_SECONDS):
            row = self._connection.execute(query, (self._chain,)).fetchone()
            if row != last and row is not None:
                self.seen.append((row[0], time.monotonic()))
                last = row

    def stop(self) -> None:
        """End the polling."""
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


_PROCESS = text("""
    SELECT pid FROM locks.leases WHERE kind = :kind AND name = :chain AND expires_at > now()
""")


def follower_pids(settings: Settings) -> dict[str, int]:
    """The process of each chain's run, which its lease names."""
    found = {}
    engine = create_engine(database_url(settings), poolclass=NullPool)
    with engine.connect() as conn:
        for chain in settings.network.chains:
            values = {"kind": locks.FOLLOWER, "chain": chain.id}
            name = f"run_{chain.id.partition(':')[0].replace('eip155', 'evm')}"
            found[name] = conn.execute(_PROCESS, values).scalar_one()
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
