"""Runs in lanes, several at a time: a lane is a process that does one run after another."""

import json
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tests.system.chaos.processes import PROJECT

Found = TypeVar("Found")


def say(line: str) -> None:
    """Every line at once, also into a pipe."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def show(figures: Mapping[str, Any]) -> None:
    """The line that a machine reads."""
    sys.stdout.write(f"{json.dumps(figures)}\n")
    sys.stdout.flush()


@dataclass
class Plan(Generic[Found]):
    """The runs still to be done, and what became of the others."""

    waiting: Mapping[str, deque[int]]
    """Seeds by kind of run."""
    deadline: float
    """`time.monotonic` after which no run begins."""
    read: Callable[[str], Found]
    """What became of a run, of a lane's line."""
    broke: Callable[[str, int, str], Found]
    """The same of a run that broke: its kind, its seed and why."""
    tell: Callable[[int, Found], None]
    """Told with each run how many there were."""
    outcomes: list[Found] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def work(self, lanes: Sequence[Sequence[str]]) -> None:
        """Do what waits, in as many lanes as are named; each by the kinds that it prefers."""
        threads = [threading.Thread(target=self._work, args=(kinds,)) for kinds in lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self, kinds: Sequence[str]) -> None:
        """A lane that broke is replaced."""
        while (outcome := self._in_one_lane(kinds)) is not None:
            self._note(outcome)

    def _in_one_lane(self, kinds: Sequence[str]) -> Found | None:
        """Runs until nothing waits (None) or one broke: what is to be said of that one."""
        lane: subprocess.Popen[bytes] | None = None
        while (following := self._next(kinds)) is not None:
            kind, seed = following
            lane = lane or _lane()
            assert lane.stdin is not None
            assert lane.stdout is not None
            lane.stdin.write(f"{kind} {seed}\n".encode())
            lane.stdin.flush()
            line = lane.stdout.readline()
            if not line:
                why = f"the run broke, code {lane.wait()}; its traceback is above"
                return self.broke(kind, seed, why)
            self._note(self.read(line.decode()))
        if lane is not None:
            assert lane.stdin is not None
            lane.stdin.close()
            lane.wait()
        return None

    def _next(self, kinds: Sequence[str]) -> tuple[str, int] | None:
        if time.monotonic() > self.deadline:
            return None
        with self._lock:
            for kind in kinds:
                if self.waiting[kind]:
                    return kind, self.waiting[kind].popleft()
        return None

    def _note(self, outcome: Found) -> None:
        with self._lock:
            self.outcomes.append(outcome)
            self.tell(len(self.outcomes), outcome)


def _lane() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.system.chaos.lane"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=PROJECT,
    )
