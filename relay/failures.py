"""Rows of jobs that failed and of accounts that halted, and the operator's acts on both.

A halted account opens no slots until an operator resumes it. A job that failed `MAX_FAILURES` times
is not tried again until an operator resets its failures. All times are of the database's clock.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from relay.nonces import AccountId, JobPurpose
from relay.slots import of_account
from warehouse_schema.identifiers import ChainId
from warehouse_schema.queries import seconds_since
from warehouse_schema.relay import failure_resets, halts, slots

MAX_FAILURES = 3
"""Paid failures of one job, after which it is not tried again; failed jobs of an account in a row,
after which it opens its slots one by one, with pauses."""
FAILING_PAUSE_SECONDS = 60
"""Between two slots of such an account; twice as long for each further job that failed."""
MAX_FAILING_PAUSE_SECONDS = 300

FAILED = (slots.c.outcome == "reverted") | (
    (slots.c.outcome == "already_done") & (slots.c.purpose != "refund")
)
"""A slot counts as a failure of its job. A late refund does not: its address may be paid again."""
IS_RESET = (
    select(failure_resets.c.id)
    .where(
        failure_resets.c.chain == slots.c.chain,
        failure_resets.c.subject.is_(None) | (failure_resets.c.subject == slots.c.subject),
        failure_resets.c.given_at >= slots.c.closed_at,
    )
    .exists()
)
"""An operator has reset the failures of a slot's transfer since the slot was closed."""


def failure_count(conn: Connection, chain: ChainId, purpose: JobPurpose, key: str) -> int:
    """Paid failures of a job since the last reset."""
    columns = slots.c
    job = (columns.chain == chain, columns.purpose == purpose, columns.key == key)
    return conn.scalar(select(func.count()).where(*job, FAILED, ~IS_RESET)) or 0


def reset_failures(conn: Connection, chain: ChainId, transfer: str | None) -> int:
    """Restart the failure counts of a transfer's jobs, or of all jobs (None); returns how many.

    Failures are final and can have no effect any more, so nothing is sent twice.
    """
    columns = slots.c
    subject = () if transfer is None else (columns.subject == transfer,)
    failed = (
        select(columns.purpose, columns.key)
        .where(columns.chain == chain, FAILED, ~IS_RESET, *subject)
        .distinct()
        .subquery()
    )
    number = conn.scalar(select(func.count()).select_from(failed)) or 0
    if number:
        conn.execute(insert(failure_resets).values(chain=chain, subject=transfer))
    return number


@dataclass(frozen=True, slots=True)
class FailedRun:
    """Failures of an account since its last other outcome or reset."""

    jobs: int
    """Different jobs that failed."""
    last_ago: float
    """Seconds since the last failure; 0 before any."""
    opened_since: int
    """Slots opened after it."""


def failed_run(conn: Connection, account: AccountId) -> FailedRun:
    """Failures among an account's newest closed slots."""
    columns = slots.c
    other = (
        select(func.max(columns.closed_at))
        .where(*of_account(slots, account), columns.outcome != "reverted")
        .scalar_subquery()
    )
    since = func.coalesce(other, func.to_timestamp(0))
    failed = (*of_account(slots, account), columns.outcome == "reverted", columns.closed_at > since)
    query = select(
        func.count(columns.key.distinct()).label("jobs"),
        func.max(columns.closed_at).label("last"),
        seconds_since(func.max(columns.closed_at)).label("ago"),
    ).where(*failed, ~IS_RESET)
    run = conn.execute(query).one()
    if run.last is None:
        return FailedRun(0, 0.0, 0)
    opened = select(func.count()).where(*of_account(slots, account), columns.opened_at > run.last)
    return FailedRun(run.jobs, run.ago, conn.scalar(opened) or 0)


def slots_allowed(run: FailedRun, room: int) -> int:
    """Slots that an account may open after such failures.

    It slows down and does not halt: recipients can make payments to them fail, and three of them
    could stop all deliveries of a chain.
    """
    if run.jobs < MAX_FAILURES:
        return room
    pause = FAILING_PAUSE_SECONDS * int(2 ** (run.jobs - MAX_FAILURES))
    allowed = int(run.last_ago / min(pause, MAX_FAILING_PAUSE_SECONDS))
    return min(room, 1, max(0, allowed - run.opened_since))


def current_halt(conn: Connection, account: AccountId) -> str | None:
    """Reason why an account is halted; None when it is not."""
    query = select(halts.c.reason).where(*of_account(halts, account), halts.c.resumed_at.is_(None))
    return conn.scalar(query)


def halt_account(conn: Connection, account: AccountId, reason: str) -> None:
    """Open no further slots until an operator resumes the account."""
    conn.execute(
        upsert(halts)
        .values(chain=account.chain, account=account.address, reason=reason)
        .on_conflict_do_nothing()
    )


def resume_accounts(conn: Connection, chain: ChainId) -> int:
    """Resume all halted accounts of a chain; returns how many."""
    resumed = (
        update(halts)
        .where(halts.c.chain == chain, halts.c.resumed_at.is_(None))
        .values(resumed_at=func.clock_timestamp())
    )
    return conn.execute(resumed).rowcount
