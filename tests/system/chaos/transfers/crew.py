"""The processes that serve transfers, each bare, and who kills them.

Every kill is SIGKILL: of a process, of the API with all its workers or of one of them, of Postgres
with all it runs, of everything at once; at a commit point where one can be met, else at any moment.
"""

import random
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.system.bench.processor import owner_of_port
from tests.system.chaos.processes import KillableServer, Nursery, children_of, kill, last_line
from tests.system.chaos.transfers.aim import AFTER, BEFORE, Aim, Point, tables_of
from tests.system.chaos.transfers.outcome import Run
from tests.system.chaos.transfers.points import POINTS, Doors, Met, Sessions

_MEET_SECONDS = 4.0
"""How long to wait at tables' doors."""
_COMMIT_SECONDS = 1.0
_RESTART_SECONDS = 0.6
"""After that at most, somebody starts again what was killed."""
_DEATH_SECONDS = 20.0


@dataclass(frozen=True)
class Spec:
    """A process: its name here, and how it is started."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass
class Process:
    """One of the service's processes, started as often as needed."""

    spec: Spec
    nursery: Nursery
    log: Path
    pid: int | None = None
    ended: list[str] = field(default_factory=list)
    """How it ended when nobody had killed it."""

    def start(self) -> None:
        """Start it unless it runs."""
        if not self.runs():
            arguments, environment = [*self.spec.arguments], self.spec.environment
            self.pid = self.nursery.bear(arguments, environment, self.log)

    def runs(self) -> bool:
        """Whether it runs; one that ended by itself is noted."""
        if self.pid is None:
            return False
        code = self.nursery.code(self.pid)
        if code is None:
            return True
        self.ended.append(f"{self.spec.name} code {code}: {last_line(self.log)}")
        self.pid = None
        return False

    def has_port(self, port: int) -> bool:
        """Whether it, or a child of it, has the near end of a connection from that port."""
        if self.pid is None:
            return False
        try:
            owner_of_port(port, [self.pid, *children_of(self.pid)])
        except (LookupError, OSError):
            # Another's; or it is gone.
            return False
        return True

    def kill(self) -> int:
        """SIGKILL to it and its children; how many there were."""
        if not self.runs():
            return 0
        assert self.pid is not None
        killed = kill([self.pid, *children_of(self.pid)])
        code = self.nursery.wait(self.pid)
        if code != -signal.SIGKILL:
            self.ended.append(f"{self.spec.name} code {code}: {last_line(self.log)}")
        self.pid = None
        return killed

    def kill_child(self, chance: random.Random) -> bool:
        """SIGKILL to one of its children; False where there is none."""
        children = children_of(self.pid) if self.pid is not None else []
        return bool(children) and kill([chance.choice(children)]) == 1


class Crew:
    """All processes and Postgres. Whatever is killed comes back by itself. Close it."""

    def __init__(
        self,
        postgres: KillableServer,
        url: str,
        processes: Sequence[Process],
        chance: random.Random,
        run: Run,
    ) -> None:
        self.processes = {each.spec.name: each for each in processes}
        self._postgres = postgres
        self._url = url
        self._sessions = Sessions(url)
        self._chance = chance
        self._run = run
        self._aim = Aim(POINTS, run.seed)

    def start(self) -> None:
        """Everything that does not run."""
        for process in self.processes.values():
            process.start()

    def close(self) -> None:
        """End everything."""
        for process in self.processes.values():
            process.kill()
        self._sessions.close()

    def unexpected_ends(self) -> list[str]:
        """How processes ended by themselves, but for what a dead session's lock explains."""
        return [
            ended
            for process in self.processes.values()
            for ended in process.ended
            if "FollowerConflict" not in ended
        ]

    def kill_for(self, calm: threading.Event, over: threading.Event) -> None:
        """Kill something every now and then, until `calm`; look after all of it until `over`."""
        while not calm.wait(self._chance.uniform(0, 0.5)):
            self.kill()
            self.start()
        while not over.wait(_RESTART_SECONDS):
            self.start()

    def kill(self) -> None:
        """One kill, and everything back after a moment."""
        self.start()
        how = self._chance.random()
        if how < 0.75:
            self._kill_at_point()
        elif how < 0.85:
            self._kill_process(self._any())
        elif how < 0.9:
            self._kill_worker()
        elif how < 0.95:
            self._kill_postgres("postgres")
        else:
            self._kill_everything()
        time.sleep(self._chance.uniform(0, _RESTART_SECONDS))

    # At a commit point

    def _kill_at_point(self) -> None:
        """Close the doors of what is aimed at: whoever comes first is met there."""
        points = self._aim.next()
        whole = self._chance.random() < 0.2
        with closing(Doors(self._url, tables_of(points))) as doors:
            found = self._meet(points)
            if found is None:
                doors.close()
                self._kill_process(self._any())
                return
            point, met = found
            name, when = point.process, self._aim.way(point)
            xid = self._sessions.xid(met)
            if when != BEFORE:
                xid = self._let_go_on(doors, met, when, xid)
            killed = f"postgres under {name}" if whole else name
            if whole:
                self._postgres.kill_all()
                self._run.kills["postgres"] += 1
            elif self.processes[name].kill():
                self._run.kills[name] += 1
        if whole:
            self._postgres.start()
        self._run.points[f"{killed}|{met.table}|{self._became(when, xid)}"] += 1

    def _meet(self, points: Sequence[Point]) -> tuple[Point, Met] | None:
        deadline = time.monotonic() + _MEET_SECONDS
        tables = tables_of(points)
        while time.monotonic() < deadline:
            for met in self._sessions.at(tables):
                for point in points:
                    if point.table == met.table and self.processes[point.process].has_port(
                        met.port
                    ):
                        return point, met
            time.sleep(0.004)
        return None

    def _let_go_on(self, doors: Doors, met: Met, when: str, xid: str | None) -> str | None:
        """Up to the moment of the kill; the transaction's number, had it one."""
        first = self._sessions.next_xid()
        doors.close()
        until = time.monotonic()
        until += _COMMIT_SECONDS if when == AFTER else self._chance.uniform(0, 0.02)
        while time.monotonic() < until:
            xid = xid or self._sessions.xid(met)
            if self._sessions.is_over(met):
                return xid or self._sessions.one_of(first, self._sessions.next_xid())
            time.sleep(0.0005)
        return xid or self._sessions.xid(met)

    def _became(self, when: str, xid: str | None) -> str:
        """What became of the transaction that was met."""
        if xid is None:
            return "nothing written" if when == BEFORE else "not known"
        deadline = time.monotonic() + _DEATH_SECONDS
        while (status := self._sessions.status(xid)) in (None, "in progress"):
            # The session of a dead process ends when Postgres next speaks to it.
            if time.monotonic() > deadline:
                return "not known"
            time.sleep(0.01)
        return str(status)

    # At any moment

    def _any(self) -> str:
        return self._chance.choice([*self.processes])

    def _kill_process(self, name: str) -> None:
        if self.processes[name].kill():
            self._run.kills[name] += 1
            self._run.points[f"{name}|any moment|not known"] += 1

    def _kill_worker(self) -> None:
        if self.processes["api"].kill_child(self._chance):
            self._run.kills["a worker of the api"] += 1

    def _kill_postgres(self, what: str) -> None:
        self._postgres.kill_all()
        self._run.kills[what] += 1
        time.sleep(self._chance.uniform(0, _RESTART_SECONDS))
        self._postgres.start()

    def _kill_everything(self) -> None:
        for process in self.processes.values():
            process.kill()
        self._kill_postgres("everything")
