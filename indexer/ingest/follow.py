"""The follower: ingest range after range, wait at the head, back off after a failure."""

import logging
import random
import time
from collections.abc import Callable
from contextlib import closing

from sqlalchemy import Connection, Engine

from indexer.chains.ports import Block, ChainReader, ReportsUpgrades
from indexer.config.networks import Network
from indexer.errors import PermanentChainError, RangeTooWide, RetryableChainError
from indexer.facts.alarms import clear_alarms_about, raise_alarm
from indexer.facts.cursors import (
    Cursor,
    put_on_hold,
    read_cursor,
    record_report,
    record_upgrade,
)
from indexer.facts.sessions import reading
from indexer.facts.watchlist import StoredWatchlist
from indexer.ingest.catch_up import CatchUp
from indexer.ingest.proving import BlockProver
from indexer.ingest.ranges import (
    MAX_BLOCKS,
    RangeProgress,
    follower_lease,
    follower_session,
    ingest_range,
    update_finality,
)
from indexer.logs import log_context
from indexer.loops import pause, pause_on_outage
from indexer.metrics.catalogue import INGESTED_BLOCKS, INGESTED_EVENTS, REORGS
from indexer.metrics.collectors import count, loop_time, waiting
from warehouse_schema.identifiers import ChainId, Height

logger = logging.getLogger(__name__)

_HEAD_WAIT = 1.0
_FINALITY_SECONDS = 2.0
"""Minimum between two requests for finality: chains report it minutes behind their head, the
quickest a few seconds."""
_UPGRADE_SECONDS = 300.0
"""Between two requests for upcoming protocols: nodes are upgraded weeks before."""
_LIMITED_RANGES = 50
"""Ranges below a refused size before that size is tried again."""
_FIRST_BACKOFF = 0.2
_MAX_BACKOFF = 30.0
REPORT_SECONDS = 3.0
"""Between two heartbeats: three fit into the shortest limit of `indexer.facts.health`. A committed
range is a heartbeat, so quick chains need no others."""
_MAX_RETRY_AFTER = 60.0
"""Limit of a node's `Retry-After`: it must not stop a chain for a day."""


def follow(
    engine: Engine,
    reader: ChainReader,
    network: Network,
    *,
    should_stop: Callable[[], bool],
    on_progress: Callable[[RangeProgress], None],
    is_standby: bool = True,
) -> None:
    """Follow a chain until `should_stop`.

    Waits as a standby while another process follows the chain; unless `is_standby` it raises
    `FollowerConflict` then. Retries transient failures of node and database with backoff. Raises
    `PermanentChainError` after it has put the chain on hold.
    """
    backoff = _Backoff(should_stop)
    while not should_stop():
        # After a lost session the lease is taken again before anything is written.
        with (
            log_context(chain=reader.chain),
            loop_time("follower", reader.chain),
            pause_on_outage(f"follower chain={reader.chain}", backoff.pause),
            (
                follower_session(engine, reader.chain, should_stop)
                if is_standby
                else follower_lease(engine, reader.chain)
            ) as conn,
        ):
            if conn is None:
                return
            try:
                _follow(engine, conn, reader, network, backoff, should_stop, on_progress)
            except PermanentChainError as error:
                # After an outage here the loop starts again, and meets the same error.
                _hold_chain(conn, reader.chain, error)
                raise


def _hold_chain(conn: Connection, chain: ChainId, error: PermanentChainError) -> None:
    """Record why a chain stopped."""
    with conn.begin():
        put_on_hold(conn, chain, str(error))
        raise_alarm(conn, chain, type(error).__name__, chain, str(error))


def _follow(
    engine: Engine,
    conn: Connection,
    reader: ChainReader,
    network: Network,
    backoff: "_Backoff",
    should_stop: Callable[[], bool],
    on_progress: Callable[[RangeProgress], None],
) -> None:
    def on_commit(progress: RangeProgress) -> None:
        # Committed, even if the next request to the node fails.
        _count(progress)
        on_progress(progress)
        backoff.reset()

    with closing(_Session(engine, conn, reader, network, on_commit)) as session:
        while not should_stop():
            try:
                session.step()
                session.report()
            except RangeTooWide as error:
                session.narrow_range(error)
                session.report()
            except RetryableChainError as error:
                logger.warning("node chain=%s: %s", reader.chain, error)
                session.forget_head()
                session.report(str(error))
                with waiting("node"):
                    backoff.pause(error.retry_after, session.report_again)


def _count(progress: RangeProgress) -> None:
    if progress.blocks < 0:
        count(REORGS, progress.chain)
        return
    count(INGESTED_BLOCKS, progress.chain, by=progress.blocks)
    count(INGESTED_EVENTS, progress.chain, by=progress.events)


class _Session:
    """State of following on one connection, which alone may write."""

    def __init__(
        self,
        engine: Engine,
        conn: Connection,
        reader: ChainReader,
        network: Network,
        on_commit: Callable[[RangeProgress], None],
    ) -> None:
        self._conn = conn
        self._reader = reader
        self._catch_up = CatchUp(engine, conn, reader, network)
        self._network = network
        self._on_commit = on_commit
        self._watched = StoredWatchlist.on(conn, network.chain(reader.chain))
        self._size = _RangeSize()
        self._prover = BlockProver.for_reader(reader, network)
        self._finality = _Throttle(_FINALITY_SECONDS)
        self._upgrades = _Throttle(_UPGRADE_SECONDS)
        self._upgrades.request()
        self._reported_at = float("-inf")
        self._failure: str | None = None
        self._identified = self._moving = False
        self._cursor: Cursor | None = None
        """The cursor as last read or written; None when it must be read."""
        self._head: Block | None = None
        """A head that was seen and not ingested yet."""
        self._may_be_behind = True
        """False when the node is known to have nothing new, if `_head` is None."""

    def step(self) -> None:
        """Ingest one range if there is one; at the head, wait a little for a new block."""
        if not self._identified:
            self._reader.check_identity()
            self._identified = True
        progress = self._ingest()
        if progress is not None:
            self._on_commit(progress)
            self._failure, self._reported_at = None, time.monotonic()
            if not self._moving:
                self._moving = True
                with self._conn.begin():
                    clear_alarms_about(self._conn, self._reader.chain, self._reader.chain)
            self._finality.request()
        if self._prover is not None:
            self._prover.prove_requested(self._conn)
        if self._finality.is_due():
            self._cursor = update_finality(self._conn, self._reader, self._network) or self._cursor
        if isinstance(self._reader, ReportsUpgrades) and self._upgrades.is_due():
            self._check_upgrade(self._reader)
        # Next head: while behind, by asking again; at the head, by waiting.
        self.forget_head()
        if progress is not None and progress.lag_blocks > 0:
            return
        self._watched.refresh()
        known = -1 if self._cursor is None else self._cursor.height
        height = known if progress is None else progress.height
        self._head = self._reader.wait_for_head(Height(height), _HEAD_WAIT)
        # A block that is not final may be replaced without the chain growing.
        self._may_be_behind = self._cursor is None or not self._cursor.is_final

    def close(self) -> None:
        """Close the prover and the catch-up."""
        self._catch_up.close()
        if self._prover is not None:
            self._prover.close()

    def narrow_range(self, error: RangeTooWide) -> None:
        """Halve the range size. Raises `PermanentChainError` when it is one block already."""
        chain = self._reader.chain
        if self._size.blocks == 1:
            raise PermanentChainError(f"{chain}: one block is too much: {error}") from error
        self._size.halve()
        logger.info("range halved chain=%s blocks=%d: %s", chain, self._size.blocks, error)

    def report(self, failure: str | None = None) -> None:
        """Write a heartbeat when one is due or the failure changed."""
        now = time.monotonic()
        if failure == self._failure and now - self._reported_at < REPORT_SECONDS:
            return
        with self._conn.begin():
            record_report(self._conn, self._reader.chain, failure)
        self._failure, self._reported_at = failure, now

    def report_again(self) -> None:
        """Write a heartbeat with the same failure when one is due."""
        self.report(self._failure)

    def forget_head(self) -> None:
        """Ask for the head again: the known one may be another node's."""
        self._head, self._may_be_behind = None, True

    def _ingest(self) -> RangeProgress | None:
        head = self._head
        if head is None:
            if not self._may_be_behind:
                return None
            head = self._reader.head()
        if self._cursor is not None and self._cursor.block_hash == head.hash:
            return None
        if self._cursor is None:
            with reading(self._conn):
                self._cursor = read_cursor(self._conn, self._reader.chain)
        step = self._catch_up.ingest(self._cursor, head)
        if step is None:
            step = ingest_range(
                self._conn,
                self._reader,
                self._network,
                head,
                self._size.blocks,
                self._cursor,
                watched=self._watched,
            )
            if step.progress is not None:
                self._size.grow()
        self._cursor = step.cursor
        return step.progress

    def _check_upgrade(self, reader: ReportsUpgrades) -> None:
        """Record an upcoming protocol. A node that does not answer holds nothing up."""
        self._upgrades.request()
        try:
            upgrade = reader.upgrade_ahead()
        except (RetryableChainError, PermanentChainError) as error:
            logger.warning("upgrades not read chain=%s: %s", self._reader.chain, error)
            return
        with self._conn.begin():
            record_upgrade(self._conn, self._reader.chain, upgrade)


class _RangeSize:
    """Blocks per range: halved when refused, doubled after each success.

    A refused size is not tried again for a while, or half of all calls to a node with a limit would
    be refused.
    """

    def __init__(self) -> None:
        self.blocks = MAX_BLOCKS
        self._refused = MAX_BLOCKS + 1
        self._limited_ranges = 0

    def halve(self) -> None:
        self._refused = self.blocks
        self._limited_ranges = _LIMITED_RANGES
        self.blocks = max(1, self.blocks // 2)

    def grow(self) -> None:
        self._limited_ranges -= 1
        if self._limited_ranges <= 0:
            self._refused = MAX_BLOCKS + 1
        self.blocks = max(self.blocks, min(self.blocks * 2, self._refused - 1, MAX_BLOCKS))


class _Throttle:
    """Runs requested work at most once per `seconds`, and always after the last request."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._requested = False
        self._not_before = 0.0

    def request(self) -> None:
        self._requested = True

    def is_due(self) -> bool:
        """True once per request."""
        now = self._clock()
        if not self._requested or now < self._not_before:
            return False
        self._requested, self._not_before = False, now + self._seconds
        return True


class _Backoff:
    """Exponential backoff with jitter, so that followers do not return to a node at once."""

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        self._should_stop = should_stop
        self._pause = _FIRST_BACKOFF

    def reset(self) -> None:
        self._pause = _FIRST_BACKOFF

    def pause(
        self, retry_after: float | None = None, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """Wait for the node's `Retry-After`, within its limit, or for the current backoff.

        Calls `meanwhile` every few seconds.
        """
        jittered = self._pause * random.SystemRandom().uniform(0.5, 1.0)
        self._pause = min(_MAX_BACKOFF, self._pause * 2)
        seconds = jittered if retry_after is None else min(retry_after, _MAX_RETRY_AFTER)
        deadline = time.monotonic() + seconds
        while not self._should_stop() and (remaining := deadline - time.monotonic()) > 0:
            pause(min(remaining, REPORT_SECONDS), self._should_stop)
            meanwhile()
