"""The hosts of the fleet with what runs on them, for each part of `make fleet`."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from devnet.supervisor import free_port
from tests.factories.machines import pooled_login
from tests.system.chaos.transfers.crew import Spec
from tests.system.fleet.hosts import OUTSIDE, Host, hosts
from tests.system.fleet.machines import Machine, machine
from tests.system.fleet.postgres import (
    Postgres,
    create_primary,
    create_standby,
    read_write_url,
)
from tests.system.fleet.programs import Program, wait_for
from tests.system.fleet.proxies import (
    API_PORT,
    HOST,
    forwarder,
    haproxy,
    is_up,
    pgbouncer,
    processes_for,
)

APPS = ("app-1", "app-2")
PRIMARY, STANDBY = "db-1", "db-2"
_POOLER_PORT = 6432


@dataclass
class Fleet:
    """Everything that runs. `url` is the API's, as clients have it."""

    folder: Path
    primary: Postgres
    standby: Postgres
    machines: Sequence[Machine]
    balancers: Sequence[Program]
    ports: Sequence[int]

    @property
    def url(self) -> str:
        """The API at the first HAProxy."""
        return f"http://{HOST}:{self.ports[0]}"

    @property
    def addresses(self) -> list[str]:
        """HOST:PORT of each HAProxy."""
        return [f"{HOST}:{port}" for port in self.ports]

    def is_healthy(self) -> bool:
        """Whether every HAProxy finds all machines ready."""
        number = len(self.machines)
        return all(is_up(self.folder, each.name, number) for each in self.balancers)

    def await_api(self) -> None:
        """Wait for that. Raises `FleetFailed`."""
        wait_for("the API is ready on all machines", self.is_healthy)


@dataclass(frozen=True)
class Plan:
    """What is to run."""

    sockets: int
    specs: Callable[[Host, Mapping[str, str], str, Path], Sequence[Spec]]
    """Processes of an API machine, by host, the variables that name Postgres, the API's URL and a
    folder for files."""
    forwarded: Sequence[int] = ()
    """Ports of this machine's loopback address that machines have at their own."""


@contextmanager
def running(plan: Plan) -> Iterator[Fleet]:
    """A fleet whose programs run, gone afterwards."""
    with ExitStack() as stack:
        # Run as root, Postgres is user `nobody`, who must be able to enter the folder.
        folder = Path(tempfile.mkdtemp(prefix="isthmus-fleet-"))
        folder.chmod(0o755)
        stack.callback(shutil.rmtree, folder)
        db_1, db_2, *apps = stack.enter_context(hosts([PRIMARY, STANDBY, *APPS]))
        primary = create_primary(db_1, folder / PRIMARY)
        stack.callback(primary.program.kill)
        standby = create_standby(primary, db_2, folder / STANDBY)
        stack.callback(standby.program.kill)
        login = pooled_login(primary.url)
        databases = {
            "DATABASE_URL": read_write_url([primary, standby]),
            "ISTHMUS_POOLER_URL": login.url.set(
                drivername="postgresql", host=HOST, port=_POOLER_PORT
            ).render_as_string(hide_password=False),
            "ISTHMUS_REPLICA_URL": login.url.set(
                drivername="postgresql", host=db_2.address
            ).render_as_string(hide_password=False),
        }
        ports = [free_port() for _ in range(processes_for(plan.sockets))]
        url = f"http://{HOST}:{ports[0]}"
        machines = [
            stack.enter_context(machine(host, plan.specs(host, databases, url, folder), folder))
            for host in apps
        ]
        for each in machines:
            each.programs["pgbouncer"] = pgbouncer(each.host, login, folder)
            if plan.forwarded:
                name = f"forward-{each.host.name}"
                each.programs["forwarder"] = forwarder(
                    name, HOST, OUTSIDE, plan.forwarded, folder, each.host
                )
            for program in each.programs.values():
                stack.callback(program.kill)
        if plan.forwarded:
            outer = forwarder("forward-outside", OUTSIDE, HOST, plan.forwarded, folder, None)
            stack.callback(outer.kill)
            outer.start()
        balancers = [
            haproxy(f"haproxy-{n}", port, apps, folder, sockets=-(-plan.sockets // len(ports)))
            for n, port in enumerate(ports)
        ]
        for program in balancers:
            stack.callback(program.kill)
            program.start()
        yield Fleet(folder, primary, standby, machines, balancers, ports)


def api_spec(host: Host, workers: int, variables: Mapping[str, str]) -> Spec:
    """The API of a machine, on so many processes."""
    bind = f"{host.address}:{API_PORT}"
    # As deploy/haproxy.cfg wants it.
    own = {"ISTHMUS_PROXIES": "1", "ISTHMUS_SHUTDOWN_SECONDS": "10", **variables}
    return Spec("api", ("api", "--bind", bind, "--workers", str(workers)), own)
