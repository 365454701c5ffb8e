"""Faults of the fleet's parts, in the order in which they are planted."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from tests.system.chaos.chains import EVM, STELLAR
from tests.system.chaos.processes import children_of, kill
from tests.system.fleet.fleet import Fleet
from tests.system.fleet.hosts import BRIDGE, Host
from tests.system.fleet.machines import Machine
from tests.system.fleet.postgres import promote
from tests.system.fleet.programs import ROOT, FleetFailed, python
from tests.system.fleet.proxies import point_pgbouncer
from tests.system.fleet.service import FOLLOWERS
from tests.system.fleet.watch import Watch
from warehouse_schema import locks

LOSS, DELAY = 0.02, 0.05
_LEASES = {
    FOLLOWERS[EVM]: (locks.FOLLOWER, EVM),
    FOLLOWERS[STELLAR]: (locks.FOLLOWER, STELLAR),
    "attester": (locks.POLLER, ""),
    "relay": (locks.RELAY, EVM),
    "webhooks": (locks.WEBHOOKS, ""),
}
"""Process → kind of its lease, and how its name begins."""


@dataclass
class Scene:
    """What a fault is planted in."""

    fleet: Fleet
    watch: Watch
    seed: int
    victims: set[int] = field(default_factory=set)
    """Processes of the service that the fault hits."""

    def active(self, name: str) -> Machine:
        """The machine whose process has the lease; the first one for processes without any."""
        if name not in _LEASES:
            return self.fleet.machines[0]
        kind, start = _LEASES[name]
        for (own, lease), pid in self.watch.holders().items():
            if own != kind or not lease.startswith(start):
                continue
            for machine in self.fleet.machines:
                if machine.processes[name].pid == pid:
                    return machine
        raise FleetFailed(f"no process has the lease of {name}")


@dataclass(frozen=True)
class Fault:
    """`plant` is a context: what is in it is over when it ends."""

    part: str
    what: str
    seconds: float
    """How long it lasts at least."""
    plant: Callable[[Scene], AbstractContextManager[None]]

    @property
    def name(self) -> str:
        """Part and what happens to it."""
        return f"{self.part}: {self.what}"


def _killed(name: str) -> Fault:
    @contextmanager
    def plant(scene: Scene) -> Iterator[None]:
        machine = scene.active(name)
        process = machine.processes[name]
        if process.pid is not None:
            scene.victims.add(process.pid)
        machine.kill(name)
        yield

    return Fault(name, "kill -9", 4.0, plant)


@contextmanager
def _worker_killed(scene: Scene) -> Iterator[None]:
    pid = scene.fleet.machines[0].processes["api"].pid
    assert pid is not None
    kill(children_of(pid)[:1])
    yield


def _stopped(name: str) -> Fault:
    @contextmanager
    def plant(scene: Scene) -> Iterator[None]:
        machine = scene.active(name)
        pid = machine.processes[name].pid
        assert pid is not None
        scene.victims.add(pid)
        machine.signal(name, signal.SIGSTOP)
        try:
            yield
        finally:
            machine.signal(name, signal.SIGCONT)

    return Fault(name, "SIGSTOP, then SIGCONT", 6.0, plant)


def _cut(part: str, host_of: Callable[[Fleet], Host], seconds: float = 6.0) -> Fault:
    @contextmanager
    def plant(scene: Scene) -> Iterator[None]:
        host = host_of(scene.fleet)
        for machine in scene.fleet.machines:
            if machine.host == host:
                scene.victims |= {
                    each.pid for each in machine.processes.values() if each.pid is not None
                }
        host.cut()
        try:
            yield
        finally:
            host.mend()

    return Fault(part, "link cut", seconds, plant)


@contextmanager
def _haproxy_restarted(scene: Scene) -> Iterator[None]:
    for program in scene.fleet.balancers:
        program.kill()
        program.start()
    yield


@contextmanager
def _pgbouncer_killed(scene: Scene) -> Iterator[None]:
    program = scene.fleet.machines[0].programs["pgbouncer"]
    program.kill()
    program.start()
    yield


@contextmanager
def _standby_killed(scene: Scene) -> Iterator[None]:
    scene.fleet.standby.program.kill()
    try:
        yield
    finally:
        scene.fleet.standby.start()


@contextmanager
def _primary_replaced(scene: Scene) -> Iterator[None]:
    fleet = scene.fleet
    fleet.primary.program.kill()
    promote(fleet.standby)
    fleet.primary, fleet.standby = fleet.standby, fleet.primary
    for machine in fleet.machines:
        folder = fleet.folder / f"pgbouncer-{machine.host.name}"
        point_pgbouncer(folder, fleet.primary.host.address)
        machine.programs["pgbouncer"].signal(signal.SIGHUP)
    yield


@contextmanager
def _lossy(scene: Scene) -> Iterator[None]:
    host = scene.fleet.machines[0].host
    words = [BRIDGE, host.namespace, str(LOSS), str(DELAY), str(scene.seed)]
    with subprocess.Popen(
        python("tests.system.fleet.lossy_link", *words),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise FleetFailed("the lossy link did not come up")
        try:
            yield
        finally:
            process.communicate(timeout=20)


FAULTS = (
    *(_killed(name) for name in (*FOLLOWERS.values(), "attester", "keeper", "relay", "webhooks")),
    Fault("one API process", "kill -9", 4.0, _worker_killed),
    _killed("api"),
    *(_stopped(name) for name in (*FOLLOWERS.values(), "relay")),
    Fault("pgbouncer", "kill -9, started again", 4.0, _pgbouncer_killed),
    Fault("haproxy", "kill -9, started again", 4.0, _haproxy_restarted),
    _cut("app-1", lambda fleet: fleet.machines[0].host),
    _cut("app-2", lambda fleet: fleet.machines[1].host),
    Fault("app-1", f"{LOSS:.0%} loss, {DELAY * 1000:.0f} ms each way", 20.0, _lossy),
    _cut("standby", lambda fleet: fleet.standby.host, 4.0),
    Fault("standby", "kill -9, started again", 4.0, _standby_killed),
    _cut("primary", lambda fleet: fleet.primary.host, 4.0),
    Fault("primary", "kill -9, standby promoted", 6.0, _primary_replaced),
)
"""The last one leaves no standby."""
