"""All faults at once, by chance, while the chain grows and takes blocks back and followers die.

    python -m tests.system.faults.soak --seed 7 --steps 2000

A step is a block or a few, a reorg within finality, a follower that is stopped and started anew, or
one whose database session is killed. When the steps are done the faults end, and what is stored has
to be what a run without faults stores. The seed reproduces faults and steps; how they interleave is
up to the machine.
"""

import argparse
import logging
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.engine import make_url

from devnet.evm_node import AnvilProcess
from indexer.chains.evm import heads
from indexer.ingest import follow
from tests.system.faults.fault import Fault
from tests.system.faults.lies import (
    DroppedLog,
    DuplicateLogIndex,
    EmptyLogs,
    FlippingHash,
    ForeignTransactionIndex,
    ForgedLog,
    LogBeyondRange,
    LogOfAnotherBlock,
    LogsMissingInNewest,
    MissingReceipt,
    NullHeaders,
    NullReceipt,
    NullReceipts,
    ReceiptsOfAnotherBlock,
    RemovedLog,
    StaleBackend,
    StaleLogs,
)
from tests.system.faults.proxy import FaultyNode
from tests.system.faults.refusals import (
    BrokenOff,
    MissingReply,
    NoTags,
    OneErrorForAll,
    RangeLimit,
    Refuses,
    ServerError,
    TooManyRequests,
    TruncatedJson,
)
from tests.system.faults.world import Followed, Node
from warehouse_schema.embedded import EmbeddedPostgres
from warehouse_schema.engine import make_engine
from warehouse_schema.migrate import migrate

logger = logging.getLogger(__name__)

FAULT_RATE = 0.3
CONFIRMATIONS = 8


def every_fault() -> list[Fault]:
    """Those that one node can have for a while, and a follower of it must survive.

    `ZeroBlooms` is not among them: a node that gives no blooms while it leaves logs out leaves no
    trace, and is found by a rescan. Neither does one that leaves out one of two logs of a kind in
    one block; so the chain has no such blocks.
    """
    return [
        *(StaleBackend(behind) for behind in (1, 3, 20)),
        *(StaleLogs(behind) for behind in (1, 3, 20)),
        *(RangeLimit(most) for most in (1, 2, 5)),
        *(TooManyRequests(after) for after in (None, "0")),
        *(
            Refuses("eth_getLogs", words)
            for words in ("cannot query unfinalized data", "Unknown block", "the flux is undone")
        ),
        Refuses("eth_getBlockByNumber", "header not found"),
        *(
            BrokenOff(),
            DroppedLog(),
            DuplicateLogIndex(),
            EmptyLogs(),
            FlippingHash(),
            ForeignTransactionIndex(),
        ),
        *(ForgedLog(), LogBeyondRange(), LogOfAnotherBlock(), LogsMissingInNewest()),
        *(MissingReceipt(), MissingReply(), NullHeaders(), NullReceipt(), NullReceipts()),
        *(OneErrorForAll(), ReceiptsOfAnotherBlock(), RemovedLog(), ServerError()),
        *(TruncatedJson(), NoTags()),
    ]


class Soak:
    """One run: `steps` steps chosen by `seed`, then the faults end."""

    def __init__(self, world: Followed, seed: int, steps: int) -> None:
        self.world = world
        self.rng = random.Random(seed)
        self.left = steps
        # Each once, then by chance.
        self.first = [self._reorg, self._kill, self._restart, self._grow]
        self.done: Counter[str] = Counter()
        self.faults = every_fault()
        self.restart = False

    def run(self) -> None:
        """Raises `AssertionError` when anything was lost, or anything wrong was kept."""
        self.world.node.plain()
        self.world.faulty.rng.seed(self.rng.random())
        self.world.faulty.inject_by_chance(self.faults, FAULT_RATE)
        while self.left:
            self.restart = False
            self.world.follow(self.world.faulty.url, self.world.faulty.ws_url, until=self._step)
        self.world.faulty.heal()
        self.world.follow(self.world.faulty.url)
        self.world.assert_as_straight()

    def _step(self) -> bool:
        """Asked by the follower before each round: do something, and say whether it is to stop."""
        if self.left and self.world.is_at_head():
            self.left -= 1
            steps = [self._grow, self._grow, self._reorg, self._restart, self._kill]
            step = self.first.pop() if self.first else self.rng.choice(steps)
            self.done[step.__name__.strip("_")] += 1
            step()
        return self.restart or not self.left

    def _grow(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            step = self.rng.choice([self.world.node.plain, self.world.node.doubtful])
            step()

    def _reorg(self) -> None:
        # Never below what is final, which no fault can move: it is read off joined blocks.
        most = min(CONFIRMATIONS, self.world.node.height - self.world.chain.first_height)
        self.world.node.reorg(self.rng.randint(1, most))
        self._grow()

    def _restart(self) -> None:
        self.restart = True
        self._grow()

    def _kill(self) -> None:
        kill_sessions(self.world.owner)
        self._grow()


def kill_sessions(owner: Engine) -> None:
    """End every session of the indexer in this database."""
    with owner.connect() as conn:
        conn.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name = 'isthmus-indexer'"
            )
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Its own node and its own database, for as long as it is asked."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.faults.soak")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for noisy in ("indexer", "alembic", "httpx", "websockets", "warehouse_schema"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    folder = Path(tempfile.mkdtemp(prefix="isthmus-soak-"))
    # Postgres runs as `nobody` when we are root, and must reach its data.
    folder.chmod(0o755)
    try:
        with (
            pytest.MonkeyPatch.context() as patch,
            EmbeddedPostgres(folder / "data", durable=False) as server,
            AnvilProcess(folder / "anvil.log") as process,
        ):
            shorten_pauses(patch)
            urls = [make_url(server.url(name)) for name in ("followed", "straight")]
            for url in urls:
                migrate(url)
            owner = make_engine(urls[0])
            tested, straight = (make_engine(url, role="indexer") for url in urls)
            node = Node(process)
            faulty = FaultyNode(node.http, node.ws)
            soak = Soak(
                Followed(node, faulty, tested, straight, owner), options.seed, options.steps
            )
            try:
                soak.run()
            finally:
                faulty.close()
                for engine in (owner, tested, straight):
                    engine.dispose()
    finally:
        shutil.rmtree(folder)
    fired = {type(fault).__name__: 0 for fault in soak.faults}
    for fault in soak.faults:
        fired[type(fault).__name__] += fault.fired
    logger.info("seed=%d steps=%s faults=%s", options.seed, dict(soak.done), fired)
    return 0


def shorten_pauses(patch: pytest.MonkeyPatch) -> None:
    """Backing off is tested where it is the subject."""
    patch.setattr(follow, "_FIRST_BACKOFF", 0.001)
    patch.setattr(follow, "_MAX_BACKOFF", 0.02)
    patch.setattr(follow, "_HEAD_WAIT", 0.02)
    patch.setattr(heads, "_RECONNECT_SECONDS", 0.05)
    patch.setattr(heads, "_MIN_POLL_SECONDS", 0.005)
    patch.setattr(heads, "_POLLS_PER_BLOCK", 100)


if __name__ == "__main__":
    raise SystemExit(main())
