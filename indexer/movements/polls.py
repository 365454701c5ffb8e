"""Messages that wait and that a service may know about, and when to poll for each again.

The waiting messages follow from `projections.movements`; their due times are rows of
`facts.message_polls`, so a restart keeps them. Only movements with Stellar at one end are polled:
the service moves no others, and all burns between EVM chains would exceed the rate limits.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlalchemy import Connection, delete, insert, text

from indexer.chains.services.messages import Service
from indexer.config.networks import Network
from warehouse_schema.facts import message_polls
from warehouse_schema.identifiers import Bytes32, ChainId

MAX_POLL_SECONDS = 3600
"""Longest pause between two polls of a message."""

PollPurpose: TypeAlias = Literal["attestation", "reattestation", "status"]


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A burn transaction without its attestations, or an OFT message without its delivery."""

    service: Service
    chain: ChainId
    """Source chain."""
    subject: str
    """Transaction hash, or guid."""
    purpose: PollPurpose
    since: int
    """Unix seconds."""
    attempts: int
    """Polls since then."""
    keys: tuple[Bytes32, ...]
    """Burn keys, or the guid."""
    expired: tuple[Bytes32, ...] = ()
    """Nonces whose fast attestation has expired at the destination."""


# A fast attestation counts as expired once the destination was read up to its expiration block: by
# the height that was read, not the head, because a mint could lie between the two.
_BURNS = """
    SELECT t.source_chain AS chain,
           t.source_tx AS subject,
           min(t.sent_at) AS sent_at,
           array_agg(DISTINCT t.group_key) AS keys,
           bool_or(t.message_id IS NULL) AS unattested,
           coalesce(
               array_agg(DISTINCT t.message_id)
                   FILTER (WHERE a.expiration_block > 0 AND a.expiration_block <= c.height),
               '{}'
           ) AS expired
    FROM projections.movements t
    LEFT JOIN LATERAL (
        SELECT expiration_block
        FROM facts.cctp_attestations
        WHERE burn_key = t.group_key AND nonce = t.message_id AND verified
        ORDER BY id DESC
        LIMIT 1
    ) a ON true
    LEFT JOIN facts.cursors c ON c.chain = t.dest_chain
    WHERE t.mechanism = 'cctp'
      AND t.source_tx IS NOT NULL AND t.dest_tx IS NULL
      AND t.dest_chain IS NOT NULL
      AND :stellar IN (t.source_chain, t.dest_chain)
    GROUP BY t.source_chain, t.source_tx
"""
_PACKETS = """
    SELECT t.source_chain AS chain,
           t.group_key AS subject,
           t.sent_at,
           ARRAY[t.group_key] AS keys,
           true AS unattested,
           ARRAY[]::text[] AS expired
    FROM projections.movements t
    WHERE t.mechanism = 'oft'
      AND t.source_tx IS NOT NULL AND t.dest_tx IS NULL
      AND t.dest_chain IS NOT NULL
      AND :stellar IN (t.source_chain, t.dest_chain)
      AND EXISTS (SELECT 1 FROM facts.lz_packets_sent p WHERE p.guid = t.group_key)
"""
# A due time beyond the longest pause was written before the clock was set back: it is due now.
_DUE = """
    WITH waiting AS ({waiting}),
    purposes AS (
        SELECT *,
               CASE WHEN :service = 'lz_scan' THEN 'status'
                    WHEN expired <> '{{}}' THEN 'reattestation'
                    ELSE 'attestation' END AS purpose
        FROM waiting
        WHERE unattested OR expired <> '{{}}'
    )
    SELECT w.chain, w.subject, w.purpose, w.keys, w.expired, coalesce(p.attempts, 0) AS attempts,
           -- The wait for a new attestation begins when the old one is found expired.
           coalesce(p.since, CASE w.purpose WHEN 'reattestation' THEN :now ELSE w.sent_at END)
               AS since
    FROM purposes w
    LEFT JOIN facts.message_polls p
        ON p.service = :service AND p.chain = w.chain AND p.subject = w.subject
       AND p.purpose = w.purpose
    WHERE p.due_at IS NULL OR p.due_at <= :now OR p.due_at > :now + :longest
    ORDER BY coalesce(p.due_at, 0), w.sent_at, w.chain, w.subject
    LIMIT :limit
"""


def due_messages(
    conn: Connection, network: Network, service: Service, now: int, limit: int
) -> list[WaitingMessage]:
    """Messages to poll a service for at `now` (unix seconds), the longest overdue first."""
    query = _DUE.format(waiting=_BURNS if service == "iris" else _PACKETS)
    rows = conn.execute(
        text(query),
        {
            "service": service,
            "stellar": network.stellar.id,
            "now": now,
            "longest": MAX_POLL_SECONDS,
            "limit": limit,
        },
    )
    return [
        WaitingMessage(
            *(service, row.chain, row.subject, row.purpose, row.since, row.attempts),
            keys=tuple(row.keys),
            expired=tuple(row.expired),
        )
        for row in rows
    ]


def schedule_poll(conn: Connection, wait: WaitingMessage, due_at: int) -> None:
    """Record a poll, and the time of the next."""
    delete_polls(conn, wait)
    conn.execute(
        insert(message_polls).values(
            service=wait.service,
            chain=wait.chain,
            subject=wait.subject,
            purpose=wait.purpose,
            since=wait.since,
            attempts=wait.attempts + 1,
            due_at=due_at,
        )
    )


def delete_polls(conn: Connection, wait: WaitingMessage) -> None:
    """Delete the due times of a message."""
    columns = message_polls.c
    conn.execute(
        delete(message_polls).where(
            columns.service == wait.service,
            columns.chain == wait.chain,
            columns.subject == wait.subject,
        )
    )


def prune_polls(conn: Connection) -> None:
    """Delete due times and statuses of messages that no longer wait."""
    conn.execute(
        text(
            "DELETE FROM facts.message_polls p WHERE NOT EXISTS"
            " (SELECT 1 FROM projections.movements t"
            " WHERE t.dest_tx IS NULL AND t.dest_chain IS NOT NULL"
            " AND t.source_chain = p.chain AND p.subject IN (t.source_tx, t.group_key))"
        )
    )
    conn.execute(
        text(
            "DELETE FROM facts.message_status s WHERE NOT EXISTS"
            " (SELECT 1 FROM projections.movements t"
            " WHERE t.dest_tx IS NULL AND t.dest_chain IS NOT NULL"
            " AND t.group_key = s.group_key)"
        )
    )


def is_attested(conn: Connection, wait: WaitingMessage) -> bool:
    """Whether every waiting burn of the transaction has its nonce."""
    query = text(
        "SELECT NOT EXISTS (SELECT 1 FROM projections.movements"
        " WHERE group_key = ANY(:keys) AND source_chain = :chain AND source_tx = :subject"
        " AND dest_tx IS NULL AND message_id IS NULL)"
    )
    values = {"keys": list(wait.keys), "chain": wait.chain, "subject": wait.subject}
    return bool(conn.scalar(query, values))
