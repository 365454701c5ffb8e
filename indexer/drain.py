"""The loop that brings a chain into the warehouse.

Each range is one database transaction: cursor, blocks, raw and decoded events, the projections
they touch and the socket's messages. Killed anywhere, a restart reads the same range again and
writes it once.
"""

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, func, select, text
from sqlalchemy.exc import OperationalError

from indexer.builds import decoder_build
from indexer.chains.finality import TellsFinality, final_by_depth
from indexer.chains.ports import Block, ChainReader, EvmLog, Range, RawEvent
from indexer.decode import decode
from indexer.errors import (
    FollowerConflict,
    InconsistentAnswer,
    PermanentChainError,
    RangeTooWide,
    RetryableChainError,
    Undecodable,
)
from indexer.facts import quarantine, store
from indexer.facts.reorg import final_heights, find_fork, rewind
from indexer.facts.rows import why_unstorable
from indexer.facts.store import Cursor, Decoded
from indexer.networks import Chain, EvmChain, Network
from indexer.projections.apply import apply, unapply
from indexer.projections.stages.store import refold_final
from indexer.stopping import pause
from warehouse_schema import locks
from warehouse_schema.identifiers import ChainId, Height, UnixSeconds

logger = logging.getLogger(__name__)

MAX_BLOCKS = 200
"""Most blocks of one transaction: bounded memory, and a reader that waits sees progress."""
_PASSING_STATES = ("08", "40", "53300", "55P03", "57P")
"""SQLSTATEs: connection, rollback, too many connections, lock time-out, operator intervention."""
CHANNEL = "isthmus"
"""NOTIFY channel; the payload is `<chain>:<height>`."""

_HEAD_WAIT = 1.0
_FINALITY_SECONDS = 2.0
"""Least seconds between two questions of what is final: chains name it minutes behind their head,
the quickest a few seconds."""
_RANGES_UNTIL_REFUSAL_IS_FORGOTTEN = 50
_FIRST_BACKOFF = 0.2
_LONGEST_BACKOFF = 30.0
_LONGEST_ASKED = 60.0
"""Most seconds that a node may ask us to stay away: it may not silence a chain for a day."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a chain stands after one range. A reorg's counts are negative: taken back."""

    chain: ChainId
    height: Height
    block_time: UnixSeconds
    head_height: Height
    head_time: UnixSeconds
    blocks: int
    events: int
    undecodable: int
    quarantined: int = 0
    """Ledgers of which nothing could be decoded but the header."""

    @property
    def lag_blocks(self) -> int:
        """Blocks between the head and what is committed."""
        return max(0, self.head_height - self.height)

    @property
    def lag_seconds(self) -> int:
        """Seconds of chain time between the head and what is committed."""
        return max(0, self.head_time - self.block_time)


def drain_once(
    engine: Engine, reader: ChainReader, network: Network, *, max_blocks: int = MAX_BLOCKS
) -> Progress | None:
    """Bring in at most one range; None when there is nothing new.

    What a node says of finality is recorded by `follow` alone. Raises the errors of
    `indexer.errors`; whatever is raised, nothing half-written stays.
    """
    with follower(engine, reader.chain) as conn:
        return _drain(conn, reader, network, reader.head(), max_blocks).progress


def follow(
    engine: Engine,
    reader: ChainReader,
    network: Network,
    *,
    should_stop: Callable[[], bool],
    on_progress: Callable[[Progress], None],
) -> None:
    """Keep a chain drained until `should_stop` says so.

    What retrying can mend is retried, with growing pauses; a lost database too. Raises
    `FollowerConflict` when another process follows the chain, and `PermanentChainError` after it
    has put the chain on hold with its reason.
    """
    backoff = _Backoff(should_stop)
    while not should_stop():
        try:
            with follower(engine, reader.chain) as conn:
                _follow(conn, reader, network, backoff, should_stop, on_progress)
        except OperationalError as error:
            if not passes(error):
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
                store.hold(conn, chain, str(error))
                store.raise_alarm(conn, chain, type(error).__name__, chain, str(error))
        except OperationalError as lost:
            if not passes(lost):
                raise
            logger.warning("warehouse lost chain=%s: %s", chain, lost.orig)
            backoff.pause()
        else:
            return


def passes(error: OperationalError) -> bool:
    """Whether the warehouse can be well again by itself: a lost server, a lock, a deadlock.

    A full disk or a row that Postgres will never take is for a person.
    """
    state = getattr(error.orig, "sqlstate", None)
    return error.connection_invalidated or state is None or state.startswith(_PASSING_STATES)


def _follow(
    conn: Connection,
    reader: ChainReader,
    network: Network,
    backoff: "_Backoff",
    should_stop: Callable[[], bool],
    on_progress: Callable[[Progress], None],
) -> None:
    def committed(progress: Progress) -> None:
        # The range is committed, whatever becomes of the next question.
        on_progress(progress)
        backoff.reset()

    session = _Session(conn, reader, network, committed)
    while not should_stop():
        try:
            session.turn()
        except RangeTooWide as error:
            session.ask_for_less(error)
        except RetryableChainError as error:
            logger.warning("node chain=%s: %s", reader.chain, error)
            session.look_again()
            backoff.pause(error.retry_after)


class _Session:
    """Following on one connection, which alone may write: what was seen of the chain last."""

    def __init__(
        self,
        conn: Connection,
        reader: ChainReader,
        network: Network,
        committed: Callable[[Progress], None],
    ) -> None:
        self._conn = conn
        self._reader = reader
        self._network = network
        self._committed = committed
        self._size = _RangeSize()
        self._finality = _Seldom(_FINALITY_SECONDS)
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
        if self._finality.is_due():
            _note_finality(self._conn, self._reader, self._network)
        self._look_out(progress)

    def ask_for_less(self, error: RangeTooWide) -> None:
        """Halve the range. Raises `PermanentChainError` when it is a block already."""
        chain = self._reader.chain
        if self._size.blocks == 1:
            raise PermanentChainError(f"{chain}: one block is too much: {error}") from error
        self._size.halve()
        logger.info("range halved chain=%s blocks=%d: %s", chain, self._size.blocks, error)

    def look_again(self) -> None:
        """A head that was seen may be another node's: ask for it anew."""
        self._head, self._is_news = None, True

    def _bring_in(self) -> Progress | None:
        head = self._head
        if head is None:
            if not self._is_news:
                return None
            head = self._reader.head()
        if self._stands is not None and self._stands.block_hash == head.hash:
            return None
        step = _drain(self._conn, self._reader, self._network, head, self._size.blocks)
        self._stands = step.stands
        return step.progress

    def _note(self, progress: Progress) -> None:
        self._committed(progress)
        if not self._moving:
            self._moving = True
            with self._conn.begin():
                store.clear_alarms_about(self._conn, self._reader.chain, self._reader.chain)
        self._size.grow()
        self._finality.want()

    def _look_out(self, progress: Progress | None) -> None:
        """Find the next head to look at: while behind, by asking again, at the head by waiting."""
        self.look_again()
        if progress is not None and progress.lag_blocks > 0:
            return
        stands = -1 if self._stands is None else self._stands.height
        height = stands if progress is None else progress.height
        self._head = self._reader.wait_for_head(Height(height), _HEAD_WAIT)
        # What is not final may be replaced without the chain growing.
        self._is_news = self._stands is None or not self._stands.is_final


@contextmanager
def follower(engine: Engine, chain: ChainId) -> Iterator[Connection]:
    """A connection that alone may write the chain.

    The lock belongs to the session that writes: when the session is lost so is the right to write,
    and an orphaned process cannot come back to it. Raises `FollowerConflict`.
    """
    with engine.connect() as conn:
        key = func.hashtext(chain)
        taken = conn.scalar(select(func.pg_try_advisory_lock(locks.FOLLOWER, key)))
        conn.commit()
        if not taken:
            raise FollowerConflict(f"another process follows {chain}")
        try:
            yield conn
        finally:
            if not conn.invalidated:
                conn.rollback()
                conn.execute(select(func.pg_advisory_unlock(locks.FOLLOWER, key)))
                conn.commit()


@dataclass(frozen=True, slots=True)
class _Step:
    """One look at a chain: the cursor after it, None if it has to be read, and what it brought."""

    stands: Cursor | None
    progress: Progress | None


def _drain(
    conn: Connection, reader: ChainReader, network: Network, head: Block, max_blocks: int
) -> _Step:
    chain = network.chain(reader.chain)
    with conn.begin():
        cursor, asked_for = store.read_outset(conn, chain.id)
    if cursor is not None and _forked_at_head(cursor, head):
        return _take_back(conn, reader, network, chain, cursor, head)
    first = Height(chain.first_height if cursor is None else cursor.height + 1)
    if head.height < first:
        return _Step(cursor, None)
    last = Height(min(head.height, first + max_blocks - 1))
    fresh = reader.read(first, last, [*chain.watched, *asked_for])
    if cursor is not None and fresh.blocks[0].parent_hash != cursor.block_hash:
        return _take_back(conn, reader, network, chain, cursor, head)
    moved = _cursor_at(fresh.blocks[-1], head, cursor)
    if not isinstance(reader, TellsFinality):
        moved = _final_by_depth(chain, moved)
    return _Step(moved, _commit(conn, network, chain, cursor, moved, fresh))


def _forked_at_head(cursor: Cursor, head: Block) -> bool:
    """Whether the chain replaced our last block without growing past it yet."""
    # A head below the cursor is a lagging node as a rule, and waiting is right: had the chain
    # forked, its new head will not join our last block once it has passed it.
    return head.height == cursor.height and head.hash != cursor.block_hash


def _commit(
    conn: Connection,
    network: Network,
    chain: Chain,
    cursor: Cursor | None,
    moved: Cursor,
    fresh: Range,
) -> Progress:
    last = fresh.blocks[-1]
    decoded = keep(fresh.events, chain)
    undecodable = sum(item.undecodable is not None for item in decoded)
    with conn.begin():
        # The cursor first: a second writer fails here, before it has written anything.
        store.move_cursor(conn, cursor, moved)
        store.append(conn, fresh.blocks, decoded)
        quarantine.put(conn, fresh.unread, decoder_build())
        events = [item.event for item in decoded if item.event is not None]
        apply(conn, network, chain.id, fresh.blocks, events)
        _notify(conn, last)
    for ledger in fresh.unread:
        logger.error(
            "quarantined chain=%s height=%d: %s", chain.id, ledger.block.height, ledger.reason
        )
    logger.info(
        "ingested chain=%s from=%d to=%d events=%d undecodable=%d",
        chain.id,
        fresh.blocks[0].height,
        last.height,
        len(decoded),
        undecodable,
    )
    return Progress(
        chain=chain.id,
        height=last.height,
        block_time=last.time,
        head_height=moved.head_height,
        head_time=moved.head_time,
        blocks=len(fresh.blocks),
        events=len(decoded),
        undecodable=undecodable,
        quarantined=len(fresh.unread),
    )


def keep(raw_events: Iterable[RawEvent], chain: Chain) -> list[Decoded]:
    """Decode what is to be stored; packets of other applications at a shared endpoint are not.

    Any other raw event is stored though we make nothing of it: a contract of ours emitted it.
    """
    decoded = (decode_kept(raw, chain) for raw in raw_events)
    return [item for item in decoded if not _is_of_others(item, chain)]


def _is_of_others(item: Decoded, chain: Chain) -> bool:
    made_nothing = item.event is None and item.undecodable is None
    emitter: str = item.raw.address if isinstance(item.raw, EvmLog) else item.raw.contract
    return made_nothing and emitter in shared_emitters(chain)


def shared_emitters(chain: Chain) -> frozenset[str]:
    """Contracts through which others speak as well: what is not ours is not kept.

    On a busy chain an endpoint emits a hundred packets of others for one of ours. Our deposit
    factory lets anybody refund tokens of their own making.
    """
    factory = chain.deposit_factory if isinstance(chain, EvmChain) else None
    return frozenset(each for each in (chain.lz_endpoint, factory) if each is not None)


def decode_kept(raw: RawEvent, chain: Chain) -> Decoded:
    """Decode one raw event; an undecodable one is kept with the reason instead of an event."""
    try:
        event = decode(raw, chain)
        unfit = None if event is None else why_unstorable(event)
        if unfit is not None:
            raise Undecodable(f"Postgres cannot hold {unfit}")
        return Decoded(raw, event, None)
    except Undecodable as error:
        logger.error(
            "undecodable chain=%s height=%d tx=%s position=%d: %s",
            chain.id,
            raw.seen.height,
            raw.seen.tx_hash,
            raw.seen.position,
            error,
        )
        return Decoded(raw, None, str(error))


def _take_back(
    conn: Connection,
    reader: ChainReader,
    network: Network,
    chain: Chain,
    cursor: Cursor,
    head: Block,
) -> _Step:
    with conn.begin():
        fork = find_fork(conn, reader, chain, cursor)
    if fork.height == cursor.height:
        # Asked for the range the node denied our last block, asked for the block it has it: two
        # nodes behind one address, on two forks.
        raise InconsistentAnswer(f"{chain.id}: the node has block {fork.height} and denies it")
    with conn.begin():
        taken = rewind(conn, cursor, fork)
        unapply(conn, network, taken)
        _notify(conn, fork)
    progress = Progress(
        chain=chain.id,
        height=fork.height,
        block_time=fork.time,
        head_height=Height(max(head.height, fork.height)),
        head_time=UnixSeconds(max(head.time, fork.time)),
        blocks=fork.height - cursor.height,
        events=-len(taken),
        undecodable=0,
    )
    return _Step(None, progress)


def _note_finality(conn: Connection, reader: ChainReader, network: Network) -> None:
    """Record what became final since: as the node names it, by depth where it has no words."""
    chain = network.chain(reader.chain)
    if not isinstance(reader, TellsFinality):
        # Noted with each range. Where every block is final nothing waits for it.
        if chain.confirmations > 0:
            with conn.begin():
                refold_final(conn, network, chain.id)
        return
    said = reader.finality()
    with conn.begin():
        cursor = store.read_cursor(conn, chain.id)
        if cursor is None:
            return
        if said is None:
            noted = _final_by_depth(chain, cursor)
        else:
            noted = final_heights(conn, reader, chain, cursor, said)
        if noted != cursor:
            store.note_finality(conn, noted)
            refold_final(conn, network, chain.id)


def _final_by_depth(chain: Chain, cursor: Cursor) -> Cursor:
    """Where nobody says what is safe, what is final is."""
    height = final_by_depth(chain, cursor.height)
    return cursor if height < chain.first_height else cursor.finalized(safe=height, final=height)


def _cursor_at(block: Block, head: Block, before: Cursor | None) -> Cursor:
    return Cursor(
        chain=block.chain,
        height=block.height,
        block_hash=block.hash,
        block_time=block.time,
        head_height=Height(max(head.height, block.height)),
        head_time=UnixSeconds(max(head.time, block.time)),
        safe_height=None if before is None else before.safe_height,
        final_height=None if before is None else before.final_height,
    )


def _notify(conn: Connection, block: Block) -> None:
    conn.execute(
        text("SELECT pg_notify(:channel, :payload)"),
        {"channel": CHANNEL, "payload": f"{block.chain}:{block.height}"},
    )


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

    def pause(self, asked: float | None = None) -> None:
        """Wait as long as the node asked, within reason, or up to twice as long as last time."""
        jittered = self._pause * random.SystemRandom().uniform(0.5, 1.0)
        self._pause = min(_LONGEST_BACKOFF, self._pause * 2)
        seconds = jittered if asked is None else min(asked, _LONGEST_ASKED)
        pause(seconds, self._should_stop)
