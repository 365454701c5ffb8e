"""Servers on the hub: Postgres, RabbitMQ and the node, each with its restart."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg

from tests.system.chaos.processes import await_death, children_of
from tests.system.chaos.processes import kill as kill_processes
from tests.system.engine.lab import (
    HUB_ADDRESS,
    ROOT,
    Lab,
    NotInstalled,
    kill,
    require,
    wait_until,
)
from tests.system.engine.node import PORT
from tests.system.failover.nodes import blocks
from warehouse_schema.embedded.programs import find_binaries

_RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_BROKER_PORT = 5672
_USER = "nobody"
_STANDBY = "isthmus_standby"
"""Name and slot of the standby, as the page has it."""
_PASSWORD = "engine"


class PostgresServer:
    """A cluster that machines reach by TCP, and the test by a socket in its folder."""

    def __init__(self, lab: Lab, name: str, address: str) -> None:
        self._hub = lab.hub
        self._address = address
        self.folder = lab.hub.folder / name
        self._data = self.folder / "data"
        self._programs = find_binaries().folder

    def create(self) -> None:
        """Make the cluster and start it."""
        self._make_folder()
        command = [str(self._programs / "initdb"), "-D", str(self._data), "-U", "isthmus"]
        self._hub.run([*command, "-A", "trust", "-E", "UTF8", "--locale=C"], {}, _USER)
        with (self._data / "pg_hba.conf").open("a") as file:
            file.write("host all,replication all 10.213.0.0/24 trust\n")
        self._configure("shared_buffers = 256MB", "jit = off", "max_connections = 200")
        self.start()

    def create_standby_of(self, primary: "PostgresServer") -> None:
        """Copy a running cluster and start the copy; the primary's commits wait for it then."""
        self._make_folder()
        source = f"host={primary._address} user=isthmus application_name={_STANDBY}"
        command = [str(self._programs / "pg_basebackup"), "-D", str(self._data), "-d", source]
        self._hub.run([*command, "-R", "-C", "-S", _STANDBY, "--checkpoint=fast"], {}, _USER)
        self._configure()
        self.start()
        primary.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{_STANDBY}'")
        primary.execute("SELECT pg_reload_conf()")
        wait_until(primary._is_synchronous, "commits wait for the standby")

    def _make_folder(self) -> None:
        self.folder.mkdir()
        shutil.chown(self.folder, _USER)

    def _configure(self, *lines: str) -> None:
        """Add lines to postgresql.conf, of which the last one of a setting counts."""
        own = (
            f"listen_addresses = '{self._address}'",
            f"unix_socket_directories = '{self.folder}'",
        )
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{line}\n" for line in (*own, *lines))

    def _is_synchronous(self) -> bool:
        query = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        with psycopg.connect(self.socket_url("postgres")) as conn:
            return conn.execute(query).fetchone() == (1,)

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
        log = self.folder / "log"
        control = [str(self._programs / "pg_ctl"), "-D", str(self._data), "-l", str(log), "-w"]
        self._hub.run([*control, "start"], {}, _USER)

    def stop(self, mode: str = "immediate") -> None:
        """Stop it as a crash does, or `fast`."""
        control = [str(self._programs / "pg_ctl"), "-D", str(self._data), "-w", "-m", mode]
        self._hub.run([*control, "stop"], {}, _USER)

    def restart(self, seconds: float) -> None:
        """Crash, nothing for so long, recovery."""
        self.stop()
        time.sleep(seconds)
        self.start()

    def kill(self) -> None:
        """SIGKILL to the server and all of its processes at once."""
        postmaster = int((self._data / "postmaster.pid").read_text().split()[0])
        victims = [postmaster, *children_of(postmaster)]
        kill_processes(victims)
        await_death(victims)

    def promote(self) -> None:
        """Run the commands by which docs/operations/failover.md makes a standby the primary."""
        _, commands = blocks("sh", "Promote")
        control = f"{self._programs}/pg_ctl -w -D {self._data}"
        env = {
            "PATH": f"{self._programs}:{os.environ['PATH']}",
            "PGHOST": str(self.folder),
            "PGUSER": "isthmus",
        }
        script = commands.replace("pg_ctlcluster 15 main", control)
        self._hub.run(["bash", "-euc", script], env, _USER)

    def socket_url(self, database: str) -> str:
        """libpq's URL for this process."""
        return f"postgresql://isthmus@/{database}?host={self.folder}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        """One statement outside of a transaction."""
        with psycopg.connect(self.socket_url(database), autocommit=True) as conn:
            conn.execute(statement.encode())

    def processor_seconds(self) -> float:
        """Of all processes of the server so far."""
        from tests.system.bench.processor import family_seconds

        return family_seconds(int((self._data / "postmaster.pid").read_text().split()[0]))


class RabbitMQ:
    """Debian's broker with a folder, a user and a port of its own."""

    def __init__(self, lab: Lab) -> None:
        """Raises `NotInstalled`."""
        require("rabbitmq-server", "rabbitmq-server")
        if not _RABBITMQ.exists():
            raise NotInstalled(f"{_RABBITMQ} is missing: apt-get install rabbitmq-server")
        self._hub = lab.hub
        self._folder = lab.hub.folder / "rabbitmq"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The broker's URL for machines."""
        return f"amqp://isthmus:{_PASSWORD}@{HUB_ADDRESS}:{_BROKER_PORT}//"

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
        self._folder.mkdir(exist_ok=True)
        (self._folder / "plugins").write_text("[].")
        (self._folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = {HUB_ADDRESS}:{_BROKER_PORT}\n"
            f"default_user = isthmus\ndefault_pass = {_PASSWORD}\nloopback_users = none\n"
        )
        self._process = self._hub.start(
            [str(_RABBITMQ)],
            {
                "HOME": str(self._folder),
                "RABBITMQ_NODENAME": "engine@localhost",
                "RABBITMQ_CONFIG_FILE": str(self._folder / "rabbitmq.conf"),
                "RABBITMQ_MNESIA_BASE": str(self._folder / "mnesia"),
                "RABBITMQ_LOG_BASE": str(self._folder / "log"),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
                "RABBITMQ_DIST_PORT": "25672",
                "LANG": "C.UTF-8",
            },
            "rabbitmq.log",
        )
        wait_until(self._answers, "RabbitMQ accepts connections")

    def restart(self) -> None:
        """Kill it, and start it on what it had written."""
        assert self._process is not None
        kill(self._process, signal.SIGKILL)
        self.start()

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._hub.folder / "rabbitmq.log").read_text()[-2000:]
        probe = f"import socket; socket.create_connection(('{HUB_ADDRESS}', {_BROKER_PORT}), 1)"
        return _succeeds(self._hub.namespace, probe)


def start_node(lab: Lab, blocks: int) -> None:
    """Start the generated chain's node."""
    command = [sys.executable, "-m", "tests.system.engine.node", HUB_ADDRESS, str(PORT)]
    # Above finality, so that all of them may be read.
    lab.hub.start([*command, str(blocks + 100)], {"PYTHONPATH": str(ROOT)}, "node.log")
    probe = f"import socket; socket.create_connection(('{HUB_ADDRESS}', {PORT}), 1)"
    wait_until(lambda: _succeeds(lab.hub.namespace, probe), "the node accepts connections")


def _succeeds(namespace: str, program: str) -> bool:
    command = ["ip", "netns", "exec", namespace, sys.executable, "-S", "-c", program]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
