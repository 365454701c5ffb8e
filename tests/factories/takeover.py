"""Processes that contend for a lease, and faults that take it from them.

python -m tests.factories.takeover follower DATABASE START
python -m tests.factories.takeover relay DATABASE NODE
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import Engine, text
from sqlalchemy.engine import URL, make_url

from indexer.chains.ports import Block
from indexer.config.settings import load_settings
from indexer.ingest.follow import follow
from indexer.loops import stop_requested
from tests.factories.fake_chain import ETHEREUM, FakeChain, fake_network
from tests.factories.tcp_relay import TcpRelay, tcp_relay
from warehouse_schema import locks
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import Height
from warehouse_schema.leases import INDEXER_LEASES, RELAY_LEASES, LeaseName, LeaseTables

BLOCK_SECONDS = 0.02
TIMEOUT = 120.0
"""For the next thing to happen; what is measured takes two seconds."""
ROOT = Path(__file__).parents[2]


class GrowingChain(FakeChain):
    """A chain with a block every `BLOCK_SECONDS` since `start`, the same in each process."""

    start: float = 0.0

    def head(self) -> Block:
        """The newest block."""
        due = int((time.time() - self.start) / BLOCK_SECONDS) + 1
        if due > len(self.blocks):
            self.grow(due - len(self.blocks), sends=0)
        return super().head()

    def wait_for_head(self, above: Height, timeout: float) -> Block | None:
        """The next block, at once or a moment later."""
        time.sleep(BLOCK_SECONDS)
        return self.head()


@dataclass(frozen=True)
class Contest:
    """A lease, and what its holder writes."""

    role: str
    tables: LeaseTables
    name: LeaseName
    argument: str
    """Of the processes: start of the chain, or URL of the node."""
    written: str
    """Query of a number that grows with each commit of the holder."""


def follower_contest() -> Contest:
    """Followers of a chain in memory."""
    return Contest(
        "follower",
        INDEXER_LEASES,
        LeaseName(locks.FOLLOWER, ETHEREUM),
        str(time.time()),
        "SELECT coalesce(max(height), 0) FROM facts.cursors",
    )


def relay_contest(account: str, node: str) -> Contest:
    """Relays of an account on a local EVM chain."""
    return Contest(
        "relay",
        RELAY_LEASES,
        LeaseName(locks.RELAY, account),
        node,
        "SELECT coalesce(extract(epoch FROM max(seen_at)) * 1000, 0)::bigint FROM relay.health",
    )


class Contender:
    """One of these processes, with a link to Postgres of its own."""

    def __init__(self, contest: Contest, url: URL, link: TcpRelay) -> None:
        self._link = link
        through = url.set(port=link.port).render_as_string(hide_password=False)
        module = "tests.factories.takeover"
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, contest.role, through, contest.argument], cwd=ROOT
        )
        self.pid = self.process.pid

    def kill(self) -> None:
        """As the kernel does without memory."""
        self.process.kill()

    def stop(self) -> None:
        """As a machine that is suspended."""
        os.kill(self.pid, signal.SIGSTOP)

    def cut(self) -> None:
        """Nothing passes between it and Postgres any more."""
        self._link.blackhole()

    def recover(self) -> None:
        """End the fault."""
        self._link.heal()
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """Stop the process."""
        self.process.kill()
        self.process.wait()


FAULTS: dict[str, Callable[[Contender], None]] = {
    "kill": Contender.kill,
    "stop": Contender.stop,
    "blackhole": Contender.cut,
}


class Observer:
    """What Postgres has of a contest."""

    def __init__(self, engine: Engine, contest: Contest) -> None:
        self._engine, self._contest = engine, contest

    def active(self) -> int | None:
        """The process that has the lease."""
        return self._pid_where("expires_at > clock_timestamp()")

    def last_holder(self) -> int | None:
        """The process that took the lease last and did not release it, expired or not."""
        return self._pid_where("expires_at IS NOT NULL")

    def _pid_where(self, condition: str) -> int | None:
        table = self._contest.tables.leases
        query = text(f"SELECT pid FROM {table} WHERE kind = :kind AND name = :name AND {condition}")
        with self._engine.connect() as conn:
            return conn.scalar(query, self._contest.name._asdict())

    def standbys(self) -> set[int]:
        """Processes that wait."""
        table = self._contest.tables.standbys
        query = text(f"SELECT pid FROM {table} WHERE kind = :kind AND name = :name")
        with self._engine.connect() as conn:
            return {*conn.scalars(query, self._contest.name._asdict())}

    def written(self) -> int:
        """A number that grows with each commit of the holder."""
        with self._engine.connect() as conn:
            return int(conn.scalar(text(self._contest.written)) or 0)

    def wait_for(self, is_so: Callable[[], bool], what: str) -> None:
        """Look every few milliseconds."""
        deadline = time.monotonic() + TIMEOUT
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError(f"never: {what}")
            time.sleep(0.005)

    def wait_for_standby(self, contender: Contender) -> None:
        """Until this process waits for the lease."""
        self.wait_for(lambda: contender.pid in self.standbys(), f"{contender.pid} is a standby")

    def wait_for_write(self, by: Contender) -> None:
        """Until this process has the lease and commits."""
        self.wait_for(lambda: self.active() == by.pid, f"{by.pid} has the lease")
        before = self.written()
        self.wait_for(lambda: self.written() > before, f"{by.pid} writes")


class Stage:
    """Starts contenders."""

    def __init__(self, contest: Contest, engine: Engine, url: URL, stack: ExitStack) -> None:
        self._contest, self._url, self._stack = contest, url, stack
        self.observer = Observer(engine, contest)

    def start(self) -> Contender:
        """A new process."""
        assert self._url.port is not None
        link = self._stack.enter_context(tcp_relay(self._url.port))
        contender = Contender(self._contest, self._url, link)
        self._stack.callback(contender.end)
        return contender

    def start_both(self) -> tuple[Contender, Contender]:
        """One that writes, and its standby."""
        first = self.start()
        self.observer.wait_for_write(first)
        second = self.start()
        self.observer.wait_for_standby(second)
        return first, second


@contextmanager
def staged(contest: Contest, engine: Engine, url: URL) -> Iterator[Stage]:
    """A contest; all its processes are ended on the way out."""
    with ExitStack() as stack:
        yield Stage(contest, engine, url, stack)


def takeover_seconds(observer: Observer, fault: Callable[[], None], successor: Contender) -> float:
    """Seconds from a fault to the successor's first commit."""
    began = time.monotonic()
    fault()
    observer.wait_for_write(successor)
    return time.monotonic() - began


def _follow(url: str, start: str) -> None:
    network = fake_network()
    chain = GrowingChain(network)
    chain.start = float(start)
    engine = make_engine(make_url(url), role="indexer")
    follow(engine, chain, network, should_stop=stop_requested(), on_progress=lambda _: None)


def _relay(url: str, node: str) -> None:
    # Late: a follower does without them.
    from relay import run
    from relay.keys import LocalEvmKey
    from relay.settings import EvmAccount
    from tests.relay.conftest import EVM, LIMITS, RELAYER_KEY

    run.TURN_SECONDS = 0.02
    account = EvmAccount(EVM, LocalEvmKey.from_text(RELAYER_KEY, "KEY"), LIMITS)
    run.run_relay(
        make_engine(make_url(url), role="relay", pool_size=0),
        replace(load_settings({}), nodes={EVM.id: (node,)}),
        [account],
        should_stop=stop_requested(),
        on_turn=lambda _, turn: None,
    )


if __name__ == "__main__":
    {"follower": _follow, "relay": _relay}[sys.argv[1]](*sys.argv[2:])
