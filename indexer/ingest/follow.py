"""A follower's loop: range after range, at the head a wait, after a failure a pause."""

import logging
import random
import time
from collections.abc import Callable
from contextlib import closing

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from indexer.chains.ports import Block, ChainReader, ReportsUpgrades
from indexer.config.networks import Network
from indexer.errors import PermanentChainError, RangeTooWide, RetryableChainError
from indexer.facts.alarms import clear_alarms_about, raise_alarm
from indexer.facts.cursors import Cursor, put_on_hold, record_report, record_upgrade
from indexer.ingest.proving import BlockProver
from indexer.ingest.ranges import (
    MAX_BLOCKS,
    RangeProgress,
    follower_lease,
    ingest_range,
    update_finality,
)
from indexer.loops import is_transient, pause
from warehouse_schema.identifiers import ChainId, Height

logger = logging.getLogger(__name__)

_HEAD_WAIT = 1.0
_FINALITY_SECONDS = 2.0
"""Least seconds between two questions of what is final: chains name it minutes behind their head,
the quickest a few seconds."""
_UPGRADE_SECONDS = 300.0
"""Between two questions of what nodes are ready for: their software is replaced weeks before."""
_RANGES_UNTIL_REFUSAL_IS_FORGOTTEN = 50
_FIRST_BACKOFF = 0.2
_LONGEST_BACKOFF = 30.0
REPORT_SECONDS = 3.0
"""Between two reports that the follower lives: three fit into the shortest limit of
`indexer.facts.health`. A range that is committed is a report, so quick chains need no others."""
_LONGEST_ASKED = 60.0
"""Most seconds that a node may ask us to stay away: it may not silence a chain for a day."""


def follow(
    engine: Engine,
    reader: ChainReader,
    network: Network,
    *,
    should_stop: Callable[[], bool],
    on_progress: Callable[[RangeProgress], None],
) -> None:
    """Keep a chain drained until `should_stop` says so.

    What retrying can mend is retried, with growing pauses; a lost database too. Raises
    `FollowerConflict` when another process follows the chain, and `PermanentChainError` after it
    has put the chain on hold with its reason.
    """
    backoff = _Backoff(should_stop)
    while not should_stop():
        try:
            with follower_lease(engine, reader.chain) as conn:
                _follow(conn, reader, network, backoff, should_stop, on_progress)
        except OperationalError as error:
            if not is_transient(error):
                raise
            # The server went away or is starting. The lock went with the session, so it is taken
            # again before anything is written.
            logger.warning("warehouse lost chain=%s: %s", reader.chain, error.orig)
            backoff.pause()
        except PermanentChainError as error:
            _put_on_hold(engine, reader.chain, error, backoff, should_stop)
            raise


def _put_on_hold(
    engine: Engine,
    chain: ChainId,
    error: PermanentChainError,
    backoff: "_Backoff",
    should_stop: Callable[[], bool],
) -> None:
    """Write down why a chain waits for a person; a lost database has to come back for that."""
    while not should_stop():
        try:
            with engine.begin() as conn:
                put_on_hold(conn, chain, str(error))
                raise_alarm(conn, chain, type(error).__name__, chain, str(error))
        except OperationalError as lost:
            if not is_transient(lost):
                raise
            logger.warning("warehouse lost chain=%s: %s", chain, lost.orig)
            backoff.pause()
        else:
            return


def _follow(
    conn: Connection,
    reader: ChainReader,
    network: Network,
    backoff: "_Backoff",
    should_stop: Callable[[], bool],
    on_progress: Callable[[RangeProgress], None],
) -> None:
    def committed(progress: RangeProgress) -> None:
        # The range is committed, whatever becomes of the next question.
        on_progress(progress)
        backoff.reset()

    with closing(_Session(conn, reader, network, committed)) as session:
        while not should_stop():
            try:
                session.turn()
                session.report()
            except RangeTooWide as error:
                session.ask_for_less(error)
                session.report()
            except RetryableChainError as error:
                logger.warning("node chain=%s: %s", reader.chain, error)
                session.look_again()
                session.report(str(error))
                backoff.pause(error.retry_after, session.report_again)


class _Session:
    """Following on one connection, which alone may write: what was seen of the chain last."""

    def __init__(
        self,
        conn: Connection,
        reader: ChainReader,
        network: Network,
        committed: Callable[[RangeProgress], None],
    ) -> None:
        self._conn = conn
        self._reader = reader
        self._network = network
        self._committed = committed
        self._size = _RangeSize()
        self._proving = BlockProver.beside(reader, network)
        self._finality = _Seldom(_FINALITY_SECONDS)
        self._upgrades = _Seldom(_UPGRADE_SECONDS)
        self._upgrades.want()
        self._reported_at = float("-inf")
        self._failure: str | None = None
        self._identified = self._moving = False
        self._stands: Cursor | None = None
        """The cursor as last read or written; None when it has to be read."""
        self._head: Block | None = None
        """A head that was seen and not looked at so far."""
        self._is_news = True
        """Whether the node may have what we have not, when no head was seen."""

    def turn(self) -> None:
        """Bring in one range if there is one; at the head, wait a little for a new one."""
        if not self._identified:
            self._reader.check_identity()
            self._identified = True
        progress = self._bring_in()
        if progress is not None:
            self._note(progress)
        if self._proving is not None:
            self._proving.prove_wanted(self._conn)
        if self._finality.is_due():
            update_finality(self._conn, self._reader, self._network)
        if isinstance(self._reader, ReportsUpgrades) and self._upgrades.is_due():
            self._note_upgrade(self._reader)
        self._look_out(progress)

    def close(self) -> None:
        """Let go of what it opened itself."""
        if self._proving is not None:
            self._proving.close()

    def ask_for_less(self, error: RangeTooWide) -> None:
        """Halve the range. Raises `PermanentChainError` when it is a block already."""
        chain = self._reader.chain
        if self._size.blocks == 1:
            raise PermanentChainError(f"{chain}: one block is too much: {error}") from error
        self._size.halve()
        logger.info("range halved chain=%s blocks=%d: %s", chain, self._size.blocks, error)

    def report(self, failure: str | None = None) -> None:
        """Tell the warehouse that the follower lives, if it was not told lately, or otherwise."""
        now = time.monotonic()
        if failure == self._failure and now - self._reported_at < REPORT_SECONDS:
            return
        with self._conn.begin():
            record_report(self._conn, self._reader.chain, failure)
        self._failure, self._reported_at = failure, now

    def report_again(self) -> None:
        """Tell the warehouse that nothing has changed."""
        self.report(self._failure)

    def look_again(self) -> None:
        """A head that was seen may be another node's: ask for it anew."""
        self._head, self._is_news = None, True

    def _bring_in(self) -> RangeProgress | None:
        head = self._head
        if head is None:
            if not self._is_news:
                return None
            head = self._reader.head()
        if self._stands is not None and self._stands.block_hash == head.hash:
            return None
        step = ingest_range(self._conn, self._reader, self._network, head, self._size.blocks)
        self._stands = step.stands
        return step.progress

    def _note(self, progress: RangeProgress) -> None:
        self._committed(progress)
        self._failure, self._reported_at = None, time.monotonic()
        if not self._moving:
            self._moving = True
            with self._conn.begin():
                clear_alarms_about(self._conn, self._reader.chain, self._reader.chain)
        self._size.grow()
        self._finality.want()

    def _note_upgrade(self, reader: ReportsUpgrades) -> None:
        """Ask which protocol is ahead. What a node does not tell holds nothing up."""
        self._upgrades.want()
        try:
            upgrade = reader.upgrade_ahead()
        except (RetryableChainError, PermanentChainError) as error:
            logger.warning("no word of upgrades chain=%s: %s", self._reader.chain, error)
            return
        with self._conn.begin():
            record_upgrade(self._conn, self._reader.chain, upgrade)

    def _look_out(self, progress: RangeProgress | None) -> None:
        """Find the next head to look at: while behind, by asking again, at the head by waiting."""
        self.look_again()
        if progress is not None and progress.lag_blocks > 0:
            return
        stands = -1 if self._stands is None else self._stands.height
        height = stands if progress is None else progress.height
        self._head = self._reader.wait_for_head(Height(height), _HEAD_WAIT)
        # What is not final may be replaced without the chain growing.
        self._is_news = self._stands is None or not self._stands.is_final


class _RangeSize:
    """Blocks to ask for at once: halved when it is too much, doubled while it is not.

    What was refused is not asked for again before long, or half of all calls to a node that
    limits them would be refused.
    """

    def __init__(self) -> None:
        self.blocks = MAX_BLOCKS
        self._refused = MAX_BLOCKS + 1
        self._until_forgotten = 0

    def halve(self) -> None:
        self._refused = self.blocks
        self._until_forgotten = _RANGES_UNTIL_REFUSAL_IS_FORGOTTEN
        self.blocks = max(1, self.blocks // 2)

    def grow(self) -> None:
        self._until_forgotten -= 1
        if self._until_forgotten <= 0:
            self._refused = MAX_BLOCKS + 1
        self.blocks = max(self.blocks, min(self.blocks * 2, self._refused - 1, MAX_BLOCKS))


class _Seldom:
    """Something that is wanted often and done at most every so many seconds, the last time too."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._wanted = False
        self._not_before = 0.0

    def want(self) -> None:
        self._wanted = True

    def is_due(self) -> bool:
        """Whether to do it now. True is said once."""
        now = self._clock()
        if not self._wanted or now < self._not_before:
            return False
        self._wanted, self._not_before = False, now + self._seconds
        return True


class _Backoff:
    """Growing pauses with jitter, so that many followers do not come back to a node at once."""

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        self._should_stop = should_stop
        self._pause = _FIRST_BACKOFF

    def reset(self) -> None:
        self._pause = _FIRST_BACKOFF

    def pause(
        self, asked: float | None = None, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """Wait as long as the node asked, within reason, or up to twice as long as last time.

        `meanwhile` is called every few seconds.
        """
        jittered = self._pause * random.SystemRandom().uniform(0.5, 1.0)
        self._pause = min(_LONGEST_BACKOFF, self._pause * 2)
        seconds = jittered if asked is None else min(asked, _LONGEST_ASKED)
        until = time.monotonic() + seconds
        while not self._should_stop() and (left := until - time.monotonic()) > 0:
            pause(min(left, REPORT_SECONDS), self._should_stop)
            meanwhile()
