"""The loop that asks services about messages that wait: attested yet, and if not, why.

One answer about a transaction (or guid) is one database transaction: attestations and statuses, the
movements they touch, when to ask again. Killed anywhere, a restart asks again when it is due.

An attestation is kept whatever it is worth. Only one over the very bytes our chain emitted, signed
as the destination's contract wants it, is marked verified; the rest is alarmed and nothing rests on
it. What services say beside that explains a wait and decides nothing.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from sqlalchemy import Connection, Engine, func, select

from indexer.chains.attestations import Iris, IrisMessage, IrisMessages
from indexer.chains.http_service import LockedOut, ServiceRefused
from indexer.chains.lz_scan import LzScan, ScanStatus
from indexer.decode.attestations import check_signatures, unattested
from indexer.decode.cctp_message import (
    CctpMessage,
    attestation_digest,
    burn_key,
    parse_message,
)
from indexer.errors import FollowerConflict, IndexerError, Undecodable
from indexer.events.cctp import MessageSent
from indexer.events.oft import PacketSent
from indexer.events.services import Attestation, MessageStatus, burn_place
from indexer.facts.messages import add_attestation, plain, set_statuses
from indexer.facts.store import (
    clear_alarm,
    events_by_key,
    events_of_transactions,
    raise_alarm,
)
from indexer.networks import Network
from indexer.outages import outlasting
from indexer.projections.stages.store import refold_touched
from indexer.projections.transfer_store import refold_transfers
from indexer.projections.waits import (
    LONGEST_SECONDS,
    Wait,
    ask_again,
    ask_no_more,
    due_waits,
    forget_what_is_over,
    is_attested,
)
from indexer.stopping import pause
from warehouse_schema import locks
from warehouse_schema.identifiers import Bytes32, EvmAddress, TxHash, bytes32

logger = logging.getLogger(__name__)

IN_FLIGHT = 4
"""Most requests under way at once."""
BATCH = 20
"""Most transactions of one round: what is asked between two looks at the stop and at the clock."""
SCAN_BATCH = 4
"""The same for guids, of which the explorer is asked one a second."""
SHORTEST_SECONDS = 5
"""Least between two polls of a message; the most is `waits.LONGEST_SECONDS`."""
REATTEST_EVERY = 10
"""Polls from one request to attest anew to the next: the service works on it, or has lost it."""

UNVERIFIED = "attestation_unverified"
"""Kind of alarm: an attestation that nothing may rest on."""
REFUSED = "attestation_refused"
"""Kind of alarm: a service that will not answer about a message."""

_IDLE_SECONDS = 1.0
_LOST_WAREHOUSE_SECONDS = 5.0

_CLOSER = 8
"""A poll comes after this part of the time between now and the usual moment."""
_USUAL_ATTEMPTS = 100
_FAST_THRESHOLD = 1000
_FAST_SECONDS = 20
_REATTEST_SECONDS = 60
_DELIVERY_SECONDS = 300
_VERSION = 2
_NO_NONCE = bytes32(bytes(32))

Answer: TypeAlias = IrisMessages | ScanStatus | None
_Words: TypeAlias = tuple[str, str | None]
"""Status and detail."""


@dataclass(frozen=True, slots=True)
class PollProgress:
    """What one round did."""

    polled: int = 0
    """Transactions and guids that were answered for."""
    attested: int = 0
    """Attestations verified that were not known before."""
    unverified: int = 0
    """Attestations refused that were not known before."""
    unanswered: int = 0
    """Asked in vain; asked again when due."""
    locked_out: float | None = None
    """Seconds for which a service shuts us out; None when none does."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a service answered, or why it did not."""

    wait: Wait
    answer: Answer
    error: IndexerError | None


def next_poll(age_seconds: int, attempts: int, expected_seconds: int) -> int:
    """Seconds until a message is asked about again.

    `age_seconds` is how long it has waited, `expected_seconds` how long such messages usually do,
    `attempts` how often it was asked about. Polls close in on the usual moment and move apart after
    it, from `SHORTEST_SECONDS` to `LONGEST_SECONDS`. Beyond many attempts the pause doubles each
    time, whatever a clock makes of the age.
    """
    distance = abs(max(0, age_seconds) - expected_seconds) // _CLOSER
    doublings = min(max(0, attempts - _USUAL_ATTEMPTS), 10)
    return min(LONGEST_SECONDS, max(distance, SHORTEST_SECONDS << doublings))


# The loop.


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
        with outlasting("poller", _LOST_WAREHOUSE_SECONDS, should_stop), _poller(engine) as conn:
            with conn.begin():
                forget_what_is_over(conn)
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
        taken = conn.scalar(select(func.pg_try_advisory_lock(locks.POLLER, 0)))
        conn.commit()
        if not taken:
            raise FollowerConflict("another process asks for this warehouse's attestations")
        try:
            yield conn
        finally:
            if not conn.invalidated:
                conn.rollback()
                conn.execute(select(func.pg_advisory_unlock(locks.POLLER, 0)))
                conn.commit()


def _poll(
    conn: Connection, network: Network, iris: Iris, scan: LzScan | None, now: int
) -> PollProgress:
    with conn.begin():
        questions: list[tuple[Wait, Callable[[], Answer]]] = [
            (wait, partial(_ask_iris, network, iris, wait))
            for wait in due_waits(conn, network, "iris", now, BATCH)
        ]
        if scan is not None:
            waits = {
                wait.subject: wait for wait in due_waits(conn, network, "lz_scan", now, SCAN_BATCH)
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
            progress = _record(conn, network, outcome, now, progress)
    return progress


def _answers(questions: Sequence[tuple[Wait, Callable[[], Answer]]]) -> Iterator[_Outcome]:
    def ask(question: tuple[Wait, Callable[[], Answer]]) -> _Outcome:
        wait, put = question
        try:
            return _Outcome(wait, put(), None)
        except IndexerError as error:
            return _Outcome(wait, None, error)

    if not questions:
        return
    pool = ThreadPoolExecutor(IN_FLIGHT, thread_name_prefix="attestations")
    try:
        yield from pool.map(ask, questions)
    finally:
        pool.shutdown(cancel_futures=True)


def _ask_iris(network: Network, iris: Iris, wait: Wait) -> IrisMessages:
    if wait.attempts % REATTEST_EVERY == 0:
        for nonce in wait.expired:
            taken = iris.reattest(nonce)
            logger.info(
                "reattest nonce=%s accepted=%s: %s", nonce, taken.accepted, plain(taken.detail)
            )
    domain = network.chain(wait.chain).cctp_domain
    if domain is None:
        raise ServiceRefused(f"{wait.chain} has no CCTP domain in the network file")
    return iris.messages_of_transaction(domain, TxHash(wait.subject))


# What came of it. Each function below works inside the transaction of one answer.


def _record(
    conn: Connection, network: Network, outcome: _Outcome, now: int, progress: PollProgress
) -> PollProgress:
    wait, answer = outcome.wait, outcome.answer
    if outcome.error is not None:
        _record_failure(conn, network, wait, outcome.error, now)
        return replace(progress, unanswered=progress.unanswered + 1)
    clear_alarm(conn, wait.chain, REFUSED, wait.subject)
    progress = replace(progress, polled=progress.polled + 1)
    if isinstance(answer, IrisMessages):
        return _record_messages(conn, network, wait, answer, now, progress)
    _record_status(conn, network, wait, answer, now)
    return progress


def _record_failure(
    conn: Connection, network: Network, wait: Wait, error: IndexerError, now: int
) -> None:
    logger.warning("%s chain=%s subject=%s: %s", wait.service, wait.chain, wait.subject, error)
    pause = _pause(network, wait, now, is_fast=False)
    if isinstance(error, ServiceRefused):
        raise_alarm(conn, wait.chain, REFUSED, wait.subject, plain(str(error)))
        pause = LONGEST_SECONDS
    ask_again(conn, wait, now + pause)


def _record_status(
    conn: Connection, network: Network, wait: Wait, answer: ScanStatus | None, now: int
) -> None:
    guid = wait.keys[0]
    status = MessageStatus("lz_scan", guid, guid, "not seen yet", None)
    if answer is not None:
        words = plain(answer.message or "") or None
        status = replace(status, status=plain(answer.name), detail=words)
    if set_statuses(conn, "lz_scan", {guid: status}):
        refold_transfers(conn, network, (), [guid])
        refold_touched(conn, network, (), [guid])
    ask_again(conn, wait, now + _pause(network, wait, now, is_fast=False))


def _record_messages(
    conn: Connection,
    network: Network,
    wait: Wait,
    answer: IrisMessages,
    now: int,
    progress: PollProgress,
) -> PollProgress:
    sent = _messages_sent(conn, wait)
    if not sent:
        # The chain took the transaction back while we asked.
        ask_no_more(conn, wait)
        return progress
    messages = [item for item in answer.messages if item.cctp_version == _VERSION]
    findings = [examine(network, wait, sent, item) for item in messages]
    fresh = [
        finding for finding in findings if finding is not None and _keep(conn, network, finding)
    ]
    said = _statuses(wait, answer, sent, messages, findings, fresh)
    changed = set_statuses(conn, "iris", said)
    keys = {*changed, *(finding.burn_key for finding in fresh if finding.burn_key is not None)}
    refold_transfers(conn, network, keys & _burn_keys(sent), ())
    refold_touched(conn, network, (), keys & _burn_keys(sent))
    if wait.purpose == "attestation" and is_attested(conn, wait):
        ask_no_more(conn, wait)
    else:
        is_fast = all(_asks_for_fast(event) for event in sent)
        ask_again(conn, wait, now + _pause(network, wait, now, is_fast=is_fast))
    verified = sum(finding.verified for finding in fresh)
    return replace(
        progress,
        attested=progress.attested + verified,
        unverified=progress.unverified + len(fresh) - verified,
    )


def _messages_sent(conn: Connection, wait: Wait) -> list[MessageSent]:
    """Every message of the transaction that waits, in order of their logs."""
    places = [
        event.seen
        for event in events_by_key(conn, MessageSent, "burn_key", wait.keys)
        if (event.seen.chain, event.seen.tx_hash) == (wait.chain, wait.subject)
    ]
    return events_of_transactions(conn, [MessageSent], places)


def _burn_keys(sent: Sequence[MessageSent]) -> set[Bytes32]:
    return {event.burn_key for event in sent if event.burn_key is not None}


def _keep(conn: Connection, network: Network, finding: Attestation) -> bool:
    """Store an attestation and call for an operator, or not; whether it says anything new."""
    if not add_attestation(conn, finding):
        return False
    chain, subject = finding.source_chain, f"{finding.source_tx}/{finding.nonce}"
    if finding.refusal is None:
        clear_alarm(conn, chain, UNVERIFIED, subject)
        clear_alarm(conn, chain, UNVERIFIED, "attesters")
        logger.info("attested chain=%s tx=%s nonce=%s", chain, finding.source_tx, finding.nonce)
    else:
        # A network file without attesters is one thing to mend, however many messages it concerns.
        about = subject if network.attesters else "attesters"
        raise_alarm(conn, chain, UNVERIFIED, about, f"{subject}: {finding.refusal}")
        logger.error("unverified chain=%s tx=%s: %s", chain, finding.source_tx, finding.refusal)
    return True


def examine(
    network: Network, wait: Wait, sent: Sequence[MessageSent], item: IrisMessage
) -> Attestation | None:
    """What an attested message is worth. Pure.

    `sent` are the messages that the transaction emitted. None when there is nothing to verify yet,
    and for somebody's own message that is no burn.
    """
    if not item.usable or item.message is None or item.attestation is None:
        return None
    parsed = _parsed(item.message)
    emitted = {event.message for event in sent}
    is_ours = parsed is not None and unattested(item.message) in emitted
    if is_ours and parsed is not None and parsed.body is None:
        return None
    signing = check_signatures(
        item.message, item.attestation, network.attesters, network.attestation_threshold
    )
    refusal = signing.refusal
    if not is_ours:
        refusal = "the message is none that the transaction emitted"
    elif parsed is not None and item.event_nonce not in (None, parsed.nonce):
        refusal = f"the service calls it {item.event_nonce}, the message {parsed.nonce}"
    return _attestation(wait, item, parsed, sent[0].source_domain, signing.attesters, refusal)


def _parsed(message: bytes) -> CctpMessage | None:
    try:
        return parse_message(message)
    except Undecodable:
        return None


def _attestation(
    wait: Wait,
    item: IrisMessage,
    parsed: CctpMessage | None,
    source_domain: int,
    attesters: tuple[EvmAddress, ...],
    refusal: str | None,
) -> Attestation:
    message, body = item.message or b"", None if parsed is None else parsed.body
    nonce = (item.event_nonce or _NO_NONCE) if parsed is None else parsed.nonce
    return Attestation(
        source_domain=source_domain,
        nonce=nonce,
        message_hash=bytes32(attestation_digest(message)),
        source_chain=wait.chain,
        source_tx=TxHash(wait.subject),
        burn_key=None
        if parsed is None
        else burn_key(
            parsed.source_domain, parsed.destination_domain, parsed.sender, parsed.raw_body
        ),
        message=message,
        attestation=item.attestation or b"",
        status=plain(item.status),
        finality_threshold_executed=None if parsed is None else parsed.finality_threshold_executed,
        fee_executed=None if body is None else body.fee_executed,
        expiration_block=None if body is None else body.expiration_block,
        attesters=attesters,
        refusal=refusal,
    )


def _statuses(
    wait: Wait,
    answer: IrisMessages,
    sent: Sequence[MessageSent],
    messages: Sequence[IrisMessage],
    findings: Sequence[Attestation | None],
    fresh: Sequence[Attestation],
) -> dict[str, MessageStatus | None]:
    """What the service says of each burn of the transaction, by `burn_place`; None for nothing.

    Messages are listed in order of their logs. Where their number is another than ours, nobody can
    say which is which.
    """
    said: dict[str, MessageStatus | None] = {}
    is_listed = len(messages) == len(sent)
    for number, event in enumerate(sent):
        if event.burn_key is None:
            continue
        words: _Words | None = None
        if not messages:
            words = ("seen, not processed yet" if answer.seen else "not seen yet", None)
        elif is_listed:
            words = _words(wait, messages[number], findings[number], fresh)
        place = burn_place(event.seen)
        said[place] = (
            None if words is None else MessageStatus("iris", place, event.burn_key, *words)
        )
    return said


def _words(
    wait: Wait, item: IrisMessage, finding: Attestation | None, fresh: Sequence[Attestation]
) -> _Words | None:
    if finding is None:
        reason = plain(item.delay_reason or "") or None
        if item.status == "complete":
            reason = "without a message and attestation to use"
        return plain(item.status), reason
    if finding.refusal is not None:
        return "unverified", finding.refusal
    if finding.nonce in wait.expired and finding not in fresh:
        return "expired", "a new attestation was asked for"
    return None


def _pause(network: Network, wait: Wait, now: int, *, is_fast: bool) -> int:
    expected = _expected_seconds(network, wait, is_fast=is_fast)
    return next_poll(now - wait.since, wait.attempts + 1, expected)


def _expected_seconds(network: Network, wait: Wait, *, is_fast: bool) -> int:
    """When an answer is usually there, seconds from the start of the wait: for pacing alone."""
    if wait.purpose == "reattestation":
        return _REATTEST_SECONDS
    if wait.purpose == "status":
        return _DELIVERY_SECONDS
    chain = network.chain(wait.chain)
    until_final = math.ceil((chain.confirmations + 1) * chain.block_seconds)
    return min(_FAST_SECONDS, until_final) if is_fast else until_final


def _asks_for_fast(event: MessageSent) -> bool:
    parsed = _parsed(event.message)
    return parsed is not None and parsed.min_finality_threshold <= _FAST_THRESHOLD
