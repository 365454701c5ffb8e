"""Recording of services' answers. Every function works inside the transaction of one answer."""

import logging
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlalchemy import Connection

from indexer.bridges.cctp.events import MessageSent
from indexer.chains.http.service import ServiceRefused
from indexer.chains.services.circle import IrisMessages
from indexer.chains.services.layerzero_scan import ScanStatus
from indexer.chains.services.messages import Attestation, MessageStatus
from indexer.config.networks import Network
from indexer.errors import IndexerError
from indexer.facts.alarms import clear_alarm, raise_alarm
from indexer.facts.messages import add_attestation, printable_line, replace_statuses
from indexer.facts.store import events_by_key, events_of_transactions
from indexer.ingest.attestations.examine import asks_for_fast, assess_message, burn_statuses
from indexer.ingest.attestations.pacing import seconds_to_wait
from indexer.movements.fold import MovementKey
from indexer.movements.polls import (
    MAX_POLL_SECONDS,
    WaitingMessage,
    delete_polls,
    is_attested,
    schedule_poll,
)
from indexer.movements.store import refold_movements
from indexer.transfers.store import refold_affected

logger = logging.getLogger(__name__)

UNVERIFIED = "attestation_unverified"
"""Kind of alarm: an attestation that is not verified."""
REFUSED = "attestation_refused"
"""Kind of alarm: a service that refuses to answer about a message."""

_VERSION = 2

ServiceAnswer: TypeAlias = IrisMessages | ScanStatus | None


@dataclass(frozen=True, slots=True)
class PollProgress:
    """Numbers of one round."""

    polled: int = 0
    """Transactions and guids with an answer."""
    attested: int = 0
    """New verified attestations."""
    unverified: int = 0
    """New refused attestations."""
    unanswered: int = 0
    """Failed requests; they are retried when due."""
    locked_out: float | None = None
    """Seconds until a service accepts requests again; None when it does."""


@dataclass(frozen=True, slots=True)
class PollOutcome:
    """A service's answer, or the error."""

    wait: WaitingMessage
    answer: ServiceAnswer
    error: IndexerError | None


def record(
    conn: Connection, network: Network, outcome: PollOutcome, now: int, progress: PollProgress
) -> PollProgress:
    """Record an outcome. Returns `progress` with it counted."""
    wait, answer = outcome.wait, outcome.answer
    if outcome.error is not None:
        _record_failure(conn, network, wait, outcome.error, now)
        return replace(progress, unanswered=progress.unanswered + 1)
    clear_alarm(conn, wait.chain, REFUSED, wait.subject)
    progress = replace(progress, polled=progress.polled + 1)
    if isinstance(answer, IrisMessages):
        return _record_messages(conn, network, wait, answer, now, progress)
    guid = wait.keys[0]
    status = MessageStatus("lz_scan", guid, guid, "not seen yet", None)
    if answer is not None:
        detail = printable_line(answer.message or "") or None
        status = replace(status, status=printable_line(answer.name), detail=detail)
    if replace_statuses(conn, "lz_scan", {guid: status}):
        refold_movements(conn, network, [("oft", guid)])
        refold_affected(conn, network, (), [("oft", guid)])
    schedule_poll(conn, wait, now + seconds_to_wait(network, wait, now, is_fast=False))
    return progress


def _record_failure(
    conn: Connection, network: Network, wait: WaitingMessage, error: IndexerError, now: int
) -> None:
    logger.warning(
        "%s chain=%s subject=%s: %s",
        *(wait.service, wait.chain, wait.subject, error),
        extra={"chain": wait.chain},
    )
    seconds = seconds_to_wait(network, wait, now, is_fast=False)
    if isinstance(error, ServiceRefused):
        raise_alarm(conn, wait.chain, REFUSED, wait.subject, printable_line(str(error)))
        seconds = MAX_POLL_SECONDS
    schedule_poll(conn, wait, now + seconds)


def _record_messages(
    conn: Connection,
    network: Network,
    wait: WaitingMessage,
    answer: IrisMessages,
    now: int,
    progress: PollProgress,
) -> PollProgress:
    places = [
        event.seen
        for event in events_by_key(conn, MessageSent, "burn_key", wait.keys)
        if (event.seen.chain, event.seen.tx_hash) == (wait.chain, wait.subject)
    ]
    # All messages of the transaction, in order of their logs.
    sent = events_of_transactions(conn, [MessageSent], places)
    if not sent:
        # A reorg removed the transaction during the request.
        delete_polls(conn, wait)
        return progress
    messages = [item for item in answer.messages if item.cctp_version == _VERSION]
    findings = [assess_message(network, wait, sent, item) for item in messages]
    fresh = [
        finding for finding in findings if finding is not None and _store(conn, network, finding)
    ]
    statuses = burn_statuses(wait, answer, sent, messages, findings, fresh)
    changed = {*replace_statuses(conn, "iris", statuses)}
    changed |= {finding.burn_key for finding in fresh if finding.burn_key is not None}
    changed &= {event.burn_key for event in sent if event.burn_key is not None}
    affected: list[MovementKey] = [("cctp", key) for key in changed]
    refold_movements(conn, network, affected)
    refold_affected(conn, network, (), affected)
    if wait.purpose == "attestation" and is_attested(conn, wait):
        delete_polls(conn, wait)
    else:
        is_fast = all(asks_for_fast(event) for event in sent)
        schedule_poll(conn, wait, now + seconds_to_wait(network, wait, now, is_fast=is_fast))
    verified = sum(finding.verified for finding in fresh)
    return replace(
        progress,
        attested=progress.attested + verified,
        unverified=progress.unverified + len(fresh) - verified,
    )


def _store(conn: Connection, network: Network, finding: Attestation) -> bool:
    """Store an attestation and raise or clear its alarm. Returns False if it was stored before."""
    if not add_attestation(conn, finding):
        return False
    chain, subject = finding.source_chain, f"{finding.source_tx}/{finding.nonce}"
    if finding.refusal is None:
        clear_alarm(conn, chain, UNVERIFIED, subject)
        clear_alarm(conn, chain, UNVERIFIED, "attesters")
        logger.info(
            "attested chain=%s tx=%s nonce=%s",
            *(chain, finding.source_tx, finding.nonce),
            extra={"chain": chain, "movement": finding.nonce},
        )
    else:
        # Without attesters in the network file, one alarm stands for all messages.
        alarmed = subject if network.attesters else "attesters"
        raise_alarm(conn, chain, UNVERIFIED, alarmed, f"{subject}: {finding.refusal}")
        logger.error(
            "unverified chain=%s tx=%s: %s",
            *(chain, finding.source_tx, finding.refusal),
            extra={"chain": chain, "movement": finding.nonce},
        )
    return True
