"""A run through the whole stack: Postgres, Dagster's code server and daemon, sensors and runs.

Nothing here starts a follower: the chain's sensor does. At a moment of chance everything is killed
at once - Postgres with all its processes, the daemon, the code server and the followers' runs in
its group - and started again as an operator's machine would. The sensor for orphaned runs has to
find the dead, and the chain's sensors have to start new ones.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from devnet.services import isthmus
from devnet.supervisor import free_port, listens
from tests.system.chaos import phases
from tests.system.chaos.bare import await_head
from tests.system.chaos.chains import CHAINS, fresh_chains
from tests.system.chaos.comparing import compare, drain_straight
from tests.system.chaos.faults import FaultyNodes
from tests.system.chaos.history import History
from tests.system.chaos.outcome import Outcome
from tests.system.chaos.processes import (
    PROJECT,
    await_death,
    children_of,
    group_of,
    kill,
    last_line,
)
from tests.system.chaos.site import DAGSTER_TEMPLATE, Site, database

_TIMEOUT = 300.0
_READY_SECONDS = 180.0
"""Far more than it takes: how loaded the machine is must not decide what a run finds."""


class StackFailed(Exception):
    """A process of the stack did not come up, or ended by itself."""


def stack_run(site: Site, seed: int, *, acts: int = 60) -> Outcome:
    """One run, from fresh chains to the comparison."""
    began = time.monotonic()
    outcome = Outcome(seed, "stack")
    chance = random.Random(seed)
    name = f"chaos_{seed}"
    folder = site.folder / name
    folder.mkdir()
    with ExitStack() as stack:
        url = stack.enter_context(database(site.postgres, name))
        dagster = stack.enter_context(database(site.postgres, f"{name}_dagster", DAGSTER_TEMPLATE))
        straight_url = stack.enter_context(database(site.straight, name))
        chains = stack.enter_context(fresh_chains(folder, random.Random(chance.random())))
        # A chain on hold waits for a person under the orchestrator, and nobody is here.
        nodes = FaultyNodes(chains, random.Random(chance.random()), stopping=False)
        stack.callback(nodes.close)
        orchestra = Orchestra(folder, _environment(folder, url, dagster, nodes))
        stack.callback(orchestra.kill)
        watch = phases.Watch(url)
        stack.callback(watch.close)
        history = History(chains, random.Random(chance.random()))
        try:
            orchestra.start()
            for step in history.set_up():
                step()
            _play(history, nodes, chance, acts // 3)
            _await_moment(chance, watch, history)
            for chain in CHAINS:
                phase = watch.look(chain).phase
                outcome.phases[f"{chain.partition(':')[0]} {phase}"] += 1
            _kill_all(site, orchestra)
            outcome.kills["whole stack"] += 1
            watch.close()
            _play(history, nodes, chance, acts // 3)
            site.postgres.start()
            orchestra.start()
            _play(history, nodes, chance, acts // 3)
            nodes.heal()
            history.close()
            problem = await_head(url, chains, orchestra.check, timeout=_TIMEOUT)
        finally:
            outcome.faults = nodes.shown()
            outcome.acts, outcome.reorgs = history.counts, history.depths
        if problem is not None:
            outcome.differences.append(f"{problem} ({orchestra.last_words()})")
        orchestra.kill()
        drain_straight(chains, straight_url)
        compare(outcome, chains, url, straight_url)
    outcome.seconds = round(time.monotonic() - began, 1)
    return outcome


def _environment(folder: Path, url: str, dagster: str, nodes: FaultyNodes) -> Mapping[str, str]:
    return {
        "ISTHMUS_NETWORK": "devnet",
        "ISTHMUS_HOME": str(folder),
        "DATABASE_URL": url,
        "ISTHMUS_DAGSTER_URL": dagster,
        "ISTHMUS_RPC_EIP155_31337": f"{nodes.evm.url},{nodes.evm.ws_url}",
        "ISTHMUS_RPC_STELLAR_DEVNET": nodes.stellar.url,
        "ISTHMUS_CODE_SERVER_PORT": str(free_port()),
        "PYTHONUNBUFFERED": "1",
    }


def _play(history: History, nodes: FaultyNodes, chance: random.Random, acts: int) -> None:
    for _ in range(acts):
        history.act()
        if chance.random() < 0.1:
            nodes.spoil()
        time.sleep(chance.uniform(0, 0.04))


def _await_moment(chance: random.Random, watch: phases.Watch, history: History) -> None:
    """Mostly when both followers are at work, else at any time of the stack's coming up."""
    if chance.random() < 0.25:
        time.sleep(chance.uniform(0, 12))
        return
    deadline = time.monotonic() + _READY_SECONDS
    while any(watch.look(chain).phase == phases.STARTING for chain in CHAINS):
        if time.monotonic() > deadline:
            raise StackFailed(f"no follower after {_READY_SECONDS:g} s")
        time.sleep(0.1)
    for _ in range(chance.randint(0, 15)):
        history.act()
    # In the middle of something, more often than not.
    wanted = chance.random() < 0.7
    deadline = time.monotonic() + 1.5
    while wanted and time.monotonic() < deadline:
        history.act()
        if any(watch.look(chain).phase in phases.IN_TRANSACTION for chain in CHAINS):
            return


def _kill_all(site: Site, orchestra: "Orchestra") -> None:
    """SIGKILL to every process of the service at once."""
    postmaster = site.postgres.postmaster()
    victims = [*orchestra.processes(), postmaster, *children_of(postmaster)]
    kill(victims)
    orchestra.reap()
    await_death(victims)


@dataclass
class Orchestra:
    """Dagster's code server and daemon, each in a session of its own."""

    folder: Path
    environment: Mapping[str, str]
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self) -> None:
        """Both, once the code server listens. Raises `StackFailed`."""
        port = self.environment["ISTHMUS_CODE_SERVER_PORT"]
        self._spawn("code", "code-server")
        deadline = time.monotonic() + _READY_SECONDS
        while not listens(int(port)):
            self.check()
            if time.monotonic() > deadline:
                raise StackFailed(f"the code server does not listen: {self.last_words()}")
            time.sleep(0.05)
        self._spawn("daemon", "daemon")

    def check(self) -> None:
        """Raise `StackFailed` when one ended by itself."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise StackFailed(f"{name} ended with {process.returncode}: {self.last_words()}")

    def processes(self) -> list[int]:
        """All of them, the followers' runs among them."""
        return [pid for process in self._running.values() for pid in group_of(process.pid)]

    def kill(self) -> None:
        """SIGKILL to all of them."""
        kill(self.processes())
        self.reap()

    def reap(self) -> None:
        """Take note of the dead, so that their numbers are free again."""
        for process in self._running.values():
            process.wait(20)
        self._running.clear()

    def last_words(self) -> str:
        """The end of each log."""
        names = ("code", "daemon")
        return "; ".join(f"{name}: {last_line(self.folder / f'{name}.log')}" for name in names)

    def _spawn(self, name: str, command: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                isthmus(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=PROJECT,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )


def make_dagster_template(site: Site) -> None:
    """Dagster's own tables, made once: a fresh instance would make them anew each time."""
    site.postgres.execute("CREATE DATABASE {}", DAGSTER_TEMPLATE)
    url = site.postgres.url(DAGSTER_TEMPLATE)
    variables = {
        "ISTHMUS_HOME": str(site.folder),
        "ISTHMUS_DAGSTER_URL": url.replace("postgresql://", "postgresql+psycopg2://", 1),
        "DAGSTER_HOME": str(PROJECT / "pipelines"),
        "DAGSTER_DISABLE_TELEMETRY": "1",
    }
    program = "import dagster; dagster.DagsterInstance.get().dispose()"
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        env={**os.environ, **variables},
        cwd=PROJECT,
        stdout=subprocess.DEVNULL,
    )
