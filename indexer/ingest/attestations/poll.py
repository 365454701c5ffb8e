"""The loop that asks services about what is due, some at once, and writes what they say."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection, Engine

from indexer.bridges.oft.events import PacketSent
from indexer.chains.http.service import LockedOut, ServiceRefused
from indexer.chains.services.circle import Iris, IrisMessages
from indexer.chains.services.layerzero_scan import LzScan
from indexer.config.networks import Network
from indexer.errors import FollowerConflict, IndexerError
from indexer.facts.messages import printable_line
from indexer.facts.store import events_by_key
from indexer.ingest.attestations.record import PollOutcome, PollProgress, ServiceAnswer, record
from indexer.loops import pause, pause_on_outage
from indexer.movements.polls import WaitingMessage, due_messages, prune_polls
from warehouse_schema import locks
from warehouse_schema.identifiers import TxHash
from warehouse_schema.leases import end_lease, take_lease
from warehouse_schema.lock_tables import leases

logger = logging.getLogger(__name__)

MAX_IN_FLIGHT = 4
"""Most requests under way at once."""
BATCH = 20
"""Most transactions of one round: what is asked between two looks at the stop and at the clock."""
SCAN_BATCH = 4
"""The same for guids, of which the explorer is asked one a second."""
REATTEST_EVERY = 10
"""Polls from one request to attest anew to the next: the service works on it, or has lost it."""

_IDLE_SECONDS = 1.0
_LOST_WAREHOUSE_SECONDS = 5.0


def poll_attestations(
    engine: Engine,
    network: Network,
    iris: Iris,
    *,
    scan: LzScan | None = None,
    should_stop: Callable[[], bool],
    on_progress: Callable[[PollProgress], None],
) -> None:
    """Keep asking until `should_stop` says so; without `scan` OFT messages are left alone.

    A failing service is asked again when due, a lost database is come back to. Raises
    `FollowerConflict` when another process polls for this warehouse.
    """
    while not should_stop():
        with (
            pause_on_outage("poller", _LOST_WAREHOUSE_SECONDS, should_stop),
            _poller(engine) as conn,
        ):
            with conn.begin():
                prune_polls(conn)
            while not should_stop():
                progress = _poll(conn, network, iris, scan, int(time.time()))
                if progress != PollProgress():
                    on_progress(progress)
                if progress.polled < BATCH:
                    pause(_IDLE_SECONDS, should_stop)


def poll_once(
    engine: Engine,
    network: Network,
    iris: Iris,
    *,
    scan: LzScan | None = None,
    now: int | None = None,
) -> PollProgress:
    """Ask about what is due at `now` (unix seconds; None: by the clock), a round of it at most.

    Raises `FollowerConflict` when another process polls for this warehouse.
    """
    with _poller(engine) as conn:
        return _poll(conn, network, iris, scan, int(time.time()) if now is None else now)


@contextmanager
def _poller(engine: Engine) -> Iterator[Connection]:
    """A connection that alone may poll and write what services say."""
    with engine.connect() as conn:
        with conn.begin():
            key = take_lease(conn, leases, locks.POLLER, "")
        if key is None:
            raise FollowerConflict("another process asks for this warehouse's attestations")
        try:
            yield conn
        finally:
            if not conn.invalidated:
                conn.rollback()
                end_lease(conn, locks.POLLER, key)
                conn.commit()


def _poll(
    conn: Connection, network: Network, iris: Iris, scan: LzScan | None, now: int
) -> PollProgress:
    with conn.begin():
        questions: list[tuple[WaitingMessage, Callable[[], ServiceAnswer]]] = [
            (wait, partial(_ask_iris, network, iris, wait))
            for wait in due_messages(conn, network, "iris", now, BATCH)
        ]
        if scan is not None:
            waits = {
                wait.subject: wait
                for wait in due_messages(conn, network, "lz_scan", now, SCAN_BATCH)
            }
            packets = events_by_key(conn, PacketSent, "guid", list(waits))
            questions += [
                (waits[packet.guid], partial(scan.status_of, packet)) for packet in packets
            ]
    progress = PollProgress()
    for outcome in _answers(questions):
        if isinstance(outcome.error, LockedOut):
            # No attempt: it was not asked about, and stays due.
            progress = replace(progress, locked_out=outcome.error.retry_after)
            continue
        with conn.begin():
            progress = record(conn, network, outcome, now, progress)
    return progress


def _answers(
    questions: Sequence[tuple[WaitingMessage, Callable[[], ServiceAnswer]]],
) -> Iterator[PollOutcome]:
    def ask(question: tuple[WaitingMessage, Callable[[], ServiceAnswer]]) -> PollOutcome:
        wait, put = question
        try:
            return PollOutcome(wait, put(), None)
        except IndexerError as error:
            return PollOutcome(wait, None, error)

    if not questions:
        return
    pool = ThreadPoolExecutor(MAX_IN_FLIGHT, thread_name_prefix="attestations")
    try:
        yield from pool.map(ask, questions)
    finally:
        pool.shutdown(cancel_futures=True)


def _ask_iris(network: Network, iris: Iris, wait: WaitingMessage) -> IrisMessages:
    if wait.attempts % REATTEST_EVERY == 0:
        for nonce in wait.expired:
            taken = iris.reattest(nonce)
            logger.info(
                "reattest nonce=%s accepted=%s: %s",
                nonce,
                taken.accepted,
                printable_line(taken.detail),
            )
    domain = network.chain(wait.chain).cctp_domain
    if domain is None:
        raise ServiceRefused(f"{wait.chain} has no CCTP domain in the network file")
    return iris.messages_of_transaction(domain, TxHash(wait.subject))
