"""The poller: asks services about due messages, some in parallel, and records the answers."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from sqlalchemy import Connection, Engine

from indexer.bridges.oft.events import PacketSent
from indexer.chains.http.service import LockedOut, ServiceRefused
from indexer.chains.services.circle import Iris, IrisMessages
from indexer.chains.services.layerzero_scan import LzScan
from indexer.config.networks import Network
from indexer.errors import IndexerError
from indexer.facts.messages import printable_line
from indexer.facts.sessions import lease_session, standby_session
from indexer.facts.store import events_by_key
from indexer.ingest.attestations.record import PollOutcome, PollProgress, ServiceAnswer, record
from indexer.loops import pause, pause_on_outage
from indexer.metrics.catalogue import SERVICE_REQUESTS
from indexer.metrics.collectors import count, loop_time, waiting
from indexer.movements.polls import WaitingMessage, due_messages, prune_polls
from indexer.tracing import Attributes, transfer_changes
from warehouse_schema import locks
from warehouse_schema.identifiers import TxHash

logger = logging.getLogger(__name__)

MAX_IN_FLIGHT = 4
"""Parallel requests."""
BATCH = 20
"""Transactions of one round; stop flag and clock are read between rounds."""
SCAN_BATCH = 4
"""Guids of one round: the explorer allows one request a second."""
REATTEST_EVERY = 10
"""Polls between two requests for a new attestation."""

_IDLE_SECONDS = 1.0
_OUTAGE_PAUSE = 5.0

_Request: TypeAlias = tuple[WaitingMessage, Callable[[], ServiceAnswer]]


def poll_attestations(
    engine: Engine,
    network: Network,
    iris: Iris,
    *,
    scan: LzScan | None = None,
    should_stop: Callable[[], bool],
    on_progress: Callable[[PollProgress], None],
) -> None:
    """Poll until `should_stop`; without `scan` OFT messages are not polled.

    Outlasts failing services and a lost database. Waits as a standby while another process polls
    for this warehouse.
    """
    while not should_stop():
        with (
            loop_time("attester"),
            pause_on_outage("poller", lambda: pause(_OUTAGE_PAUSE, should_stop)),
            standby_session(engine, locks.POLLER, "", should_stop) as conn,
        ):
            if conn is None:
                return
            with conn.begin():
                prune_polls(conn)
            while not should_stop():
                progress = _poll(conn, network, iris, scan, int(time.time()))
                if progress != PollProgress():
                    on_progress(progress)
                if progress.polled < BATCH:
                    with waiting("idle"):
                        pause(_IDLE_SECONDS, should_stop)


def poll_once(
    engine: Engine,
    network: Network,
    iris: Iris,
    *,
    scan: LzScan | None = None,
    now: int | None = None,
) -> PollProgress:
    """Poll one round of what is due at `now` (unix seconds; None: by the clock).

    Raises `FollowerConflict` when another process polls for this warehouse.
    """
    busy = "another process asks for this warehouse's attestations"
    with lease_session(engine, locks.POLLER, "", busy) as conn:
        return _poll(conn, network, iris, scan, int(time.time()) if now is None else now)


def _poll(
    conn: Connection, network: Network, iris: Iris, scan: LzScan | None, now: int
) -> PollProgress:
    with conn.begin():
        requests: list[_Request] = [
            (wait, partial(_ask_iris, network, iris, wait))
            for wait in due_messages(conn, network, "iris", now, BATCH)
        ]
        if scan is not None:
            due = due_messages(conn, network, "lz_scan", now, SCAN_BATCH)
            waits = {wait.subject: wait for wait in due}
            packets = events_by_key(conn, PacketSent, "guid", list(waits))
            requests += [
                (waits[packet.guid], partial(scan.status_of, packet)) for packet in packets
            ]
    progress = PollProgress()
    for outcome in _waited(_send(requests)):
        if isinstance(outcome.error, LockedOut):
            count(SERVICE_REQUESTS, outcome.wait.service, "locked_out")
            # Not counted as an attempt: the service was not asked, and the message stays due.
            progress = replace(progress, locked_out=outcome.error.retry_after)
            continue
        answered = "answered" if outcome.error is None else "unanswered"
        count(SERVICE_REQUESTS, outcome.wait.service, answered)
        span: Attributes = {"chain": outcome.wait.chain, "service": outcome.wait.service}
        with transfer_changes("attester answer", span), conn.begin():
            progress = record(conn, network, outcome, now, progress)
    return progress


def _waited(outcomes: Iterator[PollOutcome]) -> Iterator[PollOutcome]:
    while True:
        with waiting("attestation"):
            outcome = next(outcomes, None)
        if outcome is None:
            return
        yield outcome


def _send(requests: Sequence[_Request]) -> Iterator[PollOutcome]:
    def ask(request: _Request) -> PollOutcome:
        wait, call = request
        try:
            return PollOutcome(wait, call(), None)
        except IndexerError as error:
            return PollOutcome(wait, None, error)

    if not requests:
        return
    pool = ThreadPoolExecutor(MAX_IN_FLIGHT, thread_name_prefix="attestations")
    try:
        yield from pool.map(ask, requests)
    finally:
        pool.shutdown(cancel_futures=True)


def _ask_iris(network: Network, iris: Iris, wait: WaitingMessage) -> IrisMessages:
    if wait.attempts % REATTEST_EVERY == 0:
        for nonce in wait.expired:
            reply = iris.reattest(nonce)
            logger.info(
                "reattest nonce=%s accepted=%s: %s",
                nonce,
                reply.accepted,
                printable_line(reply.detail),
                extra={"movement": nonce},
            )
    domain = network.chain(wait.chain).cctp_domain
    if domain is None:
        raise ServiceRefused(f"{wait.chain} has no CCTP domain in the network file")
    return iris.messages_of_transaction(domain, TxHash(wait.subject))
