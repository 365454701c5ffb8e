"""Transactions without effect whose fee the service paid, counted by UTC day.

Owners and recipients can make transactions fail, and each failure costs a fee. Every failure counts
for the transfer's owner. A failed delivery that was still needed counts for its recipient too, with
any owner. (A stranger may deliver to a recipient first, and an owner may name any recipient and
make submissions fail: neither may delay other owners' deliveries to it.) Failures that an operator
reset do not count.

Deliveries of extra movements do not count for the owner: strangers can cause them and be faster.
The owner's daily limit bounds them (`indexer/policy/limits.py`).
"""

from dataclasses import dataclass

from sqlalchemy import Connection, text

MAX_PAID_FAILURES = 10
"""Per owner, or per recipient, in a UTC day."""
BACKOFF_SECONDS = 60.0
"""After the first failure of a day; doubles with each further one."""

_COUNT = text("""
    WITH counted AS (
        SELECT t.owner = own.owner AND NOT EXISTS (
                   SELECT FROM projections.transfer_states s
                   JOIN projections.movements p
                       ON p.id = ANY(s.extras) AND p.mechanism = 'cctp' AND p.message_id = o.key
                   WHERE s.transfer = o.subject AND o.purpose = 'deliver'
               ) AS is_owners,
               t.owner = own.owner AND o.purpose = 'submit'
                   AND (o.outcome IS NULL OR o.outcome = 'reverted') AS is_submitters,
               q.dest_chain = asked.dest_chain AND q.dest_address = asked.dest_address
                   AND o.purpose = 'deliver'
                   AND (o.outcome IS NULL OR o.outcome = 'reverted') AS is_recipients,
               o.outcome,
               extract(epoch FROM clock_timestamp() - o.closed_at) AS closed_ago
        FROM intake.transfers own
        JOIN intake.quotes asked ON asked.id = own.quote
        CROSS JOIN relay.slots o
        JOIN intake.transfers t ON t.id = o.subject
        JOIN intake.quotes q ON q.id = t.quote
        WHERE own.id = :transfer
          AND (
              o.outcome IS NULL
              OR o.outcome IN ('reverted', 'already_done') AND o.spent > 0
                 AND o.closed_at >= date_trunc('day', now(), 'UTC')
          )
          AND NOT EXISTS (
              SELECT FROM relay.failure_resets p
              WHERE p.chain = o.chain AND (p.subject IS NULL OR p.subject = o.subject)
                AND p.given_at >= o.closed_at
          )
    ), of_each AS (
        SELECT 'owner' AS whose, outcome, closed_ago FROM counted WHERE is_owners
        UNION ALL
        SELECT 'recipient', outcome, closed_ago FROM counted WHERE is_recipients
        UNION ALL
        SELECT 'submitter', outcome, closed_ago FROM counted WHERE is_submitters
    )
    SELECT whose,
           count(*) FILTER (WHERE outcome IS NOT NULL) AS failed,
           count(*) FILTER (WHERE outcome IS NULL) AS open,
           min(closed_ago) AS last_ago
    FROM of_each
    GROUP BY whose
    ORDER BY whose
""")


@dataclass(frozen=True, slots=True)
class PaidFailures:
    """Failures of one owner, or to one recipient, in this UTC day."""

    failed: int
    open: int
    """Transactions that may still fail."""
    last_ago: float | None
    """Seconds since the last failure; None without one."""

    @property
    def are_too_many(self) -> bool:
        """Whether no more is paid today. Open transactions count after the first failure."""
        return self.failed > 0 and self.failed + self.open >= MAX_PAID_FAILURES

    @property
    def wait_seconds(self) -> float:
        """Remaining backoff, unless there are too many."""
        if self.last_ago is None:
            return 0.0
        pause: float = BACKOFF_SECONDS * 2 ** (self.failed - 1)
        return max(0.0, pause - self.last_ago)


def paid_failures(conn: Connection, transfer: str) -> dict[str, PaidFailures]:
    """Failures of a transfer's `owner`, to its `recipient`, and of the owner as `submitter`.

    Keys without failures are missing. The submitter's are failed submissions only, which no
    stranger can cause: they decide on further submissions.
    """
    return {
        row.whose: PaidFailures(
            row.failed, row.open, None if row.last_ago is None else float(row.last_ago)
        )
        for row in conn.execute(_COUNT, {"transfer": transfer})
    }


def reason_to_wait(conn: Connection, transfer: str) -> str | None:
    """Why the service pays nothing for a transfer now; None if it pays."""
    for whose, found in paid_failures(conn, transfer).items():
        if whose == "submitter":
            continue
        if found.are_too_many:
            return f"{found.failed} paid failures of its {whose} today, {found.open} open"
        if found.wait_seconds > 0:
            return f"a paid failure of its {whose} {found.last_ago:.0f} s ago"
    return None
