"""Messages that wait, as far as a service may know why, and when to ask it again.

What waits follows from `projections.movements`; when it is due stands in
`facts.message_polls`, so that a restart keeps to it. Only movements with Stellar at one end are
asked about: they are what the service moves, and all burns between EVM chains would not fit into
the limits of those who are asked.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlalchemy import Connection, Delete, Row, delete, insert, text

from indexer.chains.services.messages import Service
from indexer.config.networks import Network
from warehouse_schema.facts import message_polls
from warehouse_schema.identifiers import Bytes32, ChainId

MAX_POLL_SECONDS = 3600
"""Most seconds between two polls of a message."""

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
    """How often it was asked about since."""
    keys: tuple[Bytes32, ...]
    """Burn keys, or the guid."""
    expired: tuple[Bytes32, ...] = ()
    """Nonces whose fast attestation the destination refuses by now."""


# A burn that has no mint although its destination was read up to the block that refuses it: the
# height that was read, not the head, or a mint could lie between the two.
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
# A time further ahead than any pause can be was written by a clock that has been put back since.
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
    SELECT w.chain, w.subject, w.purpose, w.sent_at, w.keys, w.expired, p.since, p.attempts
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
    """What a service is to be asked about at `now` (unix seconds), the longest overdue first."""
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
    return [_wait(service, row, now) for row in rows]


def _wait(service: Service, row: Row[tuple[object, ...]], now: int) -> WaitingMessage:
    # The wait for a new attestation begins when the old one is found expired.
    begun = now if row.purpose == "reattestation" else row.sent_at
    return WaitingMessage(
        service=service,
        chain=row.chain,
        subject=row.subject,
        purpose=row.purpose,
        since=begun if row.since is None else row.since,
        attempts=row.attempts or 0,
        keys=tuple(row.keys),
        expired=tuple(row.expired),
    )


def schedule_poll(conn: Connection, wait: WaitingMessage, due_at: int) -> None:
    """Note that a message was asked about, and when to do so again."""
    conn.execute(_of(wait))
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
    """Forget when a message was due."""
    conn.execute(_of(wait))


def prune_polls(conn: Connection) -> None:
    """Take away the times and statuses of messages that wait no more."""
    conn.execute(
        text(
            "DELETE FROM facts.message_polls p WHERE NOT EXISTS"
            " (SELECT 1 FROM projections.movements t WHERE t.dest_tx IS NULL"
            " AND t.source_chain = p.chain AND p.subject IN (t.source_tx, t.group_key))"
        )
    )
    conn.execute(
        text(
            "DELETE FROM facts.message_status s WHERE NOT EXISTS"
            " (SELECT 1 FROM projections.movements t WHERE t.dest_tx IS NULL"
            " AND t.group_key = s.group_key)"
        )
    )


def is_attested(conn: Connection, wait: WaitingMessage) -> bool:
    """Whether every burn of a transaction that waits has its nonce."""
    query = text(
        "SELECT NOT EXISTS (SELECT 1 FROM projections.movements"
        " WHERE group_key = ANY(:keys) AND source_chain = :chain AND source_tx = :subject"
        " AND dest_tx IS NULL AND message_id IS NULL)"
    )
    values = {"keys": list(wait.keys), "chain": wait.chain, "subject": wait.subject}
    return bool(conn.scalar(query, values))


def _of(wait: WaitingMessage) -> Delete:
    columns = message_polls.c
    return delete(message_polls).where(
        columns.service == wait.service,
        columns.chain == wait.chain,
        columns.subject == wait.subject,
    )
