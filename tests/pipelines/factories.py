"""Things that pipelines meet, with good defaults."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Any

import dagster as dg
from sqlalchemy import Engine

from indexer.chains.ports import Block, Range
from indexer.chains.watchlist import Watched
from indexer.facts.status import ChainStatus
from indexer.ingest.ranges import RangeProgress
from pipelines.defs.resources import ChainNodes, WarehouseResource
from pipelines.supervision import LongRun, RunState
from warehouse_schema.identifiers import BlockHash, ChainId, Height, UnixSeconds

EVM = ChainId("eip155:31337")
GENESIS_TIME = 1_700_000_000


def make_status(**changes: Any) -> ChainStatus:
    status = ChainStatus(
        chain=EVM,
        height=98,
        head_height=100,
        lag_blocks=2,
        lag_seconds=24,
        idle_seconds=1.0,
        silent_seconds=1.0,
        failure=None,
        held=None,
        open_alarms=0,
    )
    return replace(status, **changes)


def make_standing(**changes: Any) -> RunState:
    standing = RunState("eip155:31337 at 98 of 100", moved_at=900.0)
    return replace(standing, **changes)


def make_progress(height: int = 98, **changes: Any) -> RangeProgress:
    progress = RangeProgress(
        chain=EVM,
        height=Height(height),
        block_time=UnixSeconds(GENESIS_TIME + height),
        head_height=Height(100),
        head_time=UnixSeconds(GENESIS_TIME + 100),
        blocks=1,
        events=0,
        undecodable=0,
    )
    return replace(progress, **changes)


def make_run(status: dg.DagsterRunStatus = dg.DagsterRunStatus.FAILURE, **changes: Any):
    run = LongRun(run_id="run-1", status=status, started_at=1_000.0, ended_at=1_003.0)
    return replace(run, **changes)


def make_block(height: int, chain: ChainId = EVM) -> Block:
    def name(number: int) -> BlockHash:
        return BlockHash("0x" + sha256(f"{chain}/{number}".encode()).hexdigest())

    return Block(
        chain=chain,
        height=Height(height),
        hash=name(height),
        parent_hash=name(height - 1),
        time=UnixSeconds(GENESIS_TIME + height),
    )


class QuietChain:
    """A reader of a chain without events of ours, as high as `top`, which a test may raise.

    `on_wait` is called when the follower has caught up, and `failing` raised by the identity check.
    """

    def __init__(self, top: int, chain: ChainId = EVM) -> None:
        self.chain = chain
        self.top = top
        self.on_wait: Callable[[], None] = lambda: None
        self.failing: list[Exception] = []
        self.closed = False

    def check_identity(self) -> None:
        if self.failing:
            raise self.failing.pop(0)

    def head(self) -> Block:
        return make_block(self.top, self.chain)

    def block(self, height: Height) -> Block:
        return make_block(height, self.chain)

    def read(self, first: Height, last: Height, watched: Watched) -> Range:
        return Range(tuple(make_block(n, self.chain) for n in range(first, last + 1)), ())

    def wait_for_head(self, above: Height, timeout: float) -> Block | None:
        self.on_wait()
        return self.head() if self.top > above else None

    def close(self) -> None:
        self.closed = True


def warehouse_of(engine: Engine) -> WarehouseResource:
    class Fixed(WarehouseResource):
        @contextmanager
        def engine(self) -> Iterator[Engine]:
            yield engine

        kept_engine = engine

    return Fixed()


def nodes_of(reader: Any) -> ChainNodes:
    class Fixed(ChainNodes):
        @contextmanager
        def reader(self, chain: ChainId) -> Iterator[Any]:
            assert chain == reader.chain
            try:
                yield reader
            finally:
                reader.close()

        @contextmanager
        def history(self, chain: ChainId) -> Iterator[Any]:
            with self.reader(chain) as opened:
                yield opened

    return Fixed()
