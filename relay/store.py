"""Rows of the relay. The caller holds the account's lock and commits.

Every moment is the database's clock.
"""

import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Float,
    Numeric,
    Row,
    Select,
    cast,
    extract,
    func,
    insert,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upsert

from indexer.errors import FollowerConflict
from indexer.policy.relay_accounts import Duty
from relay.nonces import FILL, Attempt, JobPurpose, NonceSlot, SlotOutcome
from warehouse_schema import channels, locks
from warehouse_schema.facts import blocks, cursors
from warehouse_schema.identifiers import BlockHash, ChainId, Height, TxHash
from warehouse_schema.intake import actions, quotes, submissions, transfers
from warehouse_schema.leases import take_lease
from warehouse_schema.queries import any_of
from warehouse_schema.relay import attempts, failure_resets, halts, health, leases, slots, sponsors

_MOST_AT_ONCE, _MOST_OF_ONE = 50, 3
"""Submissions of one turn beside those that are sent, and of one owner in it: what can never be
taken, as when its number was used otherwise, stays until its time is over, and may keep its own
owner waiting but nobody else."""
_COMMITTED_WITHIN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class AccountId:
    """An account of ours on a chain."""

    chain: ChainId
    address: str


_PATIENCE = 2.0
"""Seconds: a session that ended holds its lease until Postgres has noticed."""
_LOOK_SECONDS = 0.1


@contextmanager
def account_session(engine: Engine, account: AccountId) -> Iterator[Connection]:
    """A session that alone signs for an account. Raises `FollowerConflict` when another does."""
    with engine.connect() as conn:
        deadline = time.monotonic() + _PATIENCE
        while not _leased(conn, account):
            if time.monotonic() >= deadline:
                raise FollowerConflict(
                    f"another process signs for {account.address} on {account.chain}"
                )
            time.sleep(_LOOK_SECONDS)
        try:
            yield conn
        finally:
            # The lease goes with the session, whatever state this one is in.
            conn.invalidate()


def _leased(conn: Connection, account: AccountId) -> bool:
    with conn.begin():
        name = f"{account.chain} {account.address}"
        return take_lease(conn, leases, locks.RELAY, name) is not None


def lock_sponsoring(conn: Connection) -> None:
    """Decide alone which onboarding is paid for, until commit.

    By a row, which the api's role cannot lock; any role can hold an advisory lock.
    """
    row = {"kind": locks.SPONSORING, "name": ""}
    conn.execute(upsert(leases).values(row).on_conflict_do_nothing())
    conn.execute(select(leases.c.kind).filter_by(**row).with_for_update())


# Slots.


def open_slots(conn: Connection, account: AccountId) -> list[NonceSlot]:
    """What may still take effect, in order of numbers."""
    rows = conn.execute(
        select(slots.c.number, slots.c.purpose, slots.c.key, slots.c.subject)
        .where(*_of(slots, account), slots.c.outcome.is_(None))
        .order_by(slots.c.number)
    ).all()
    signed: dict[int, list[Attempt]] = defaultdict(list)
    if rows:
        for number, attempt in _attempts(conn, account):
            signed[number].append(attempt)
    return [
        NonceSlot(row.number, row.purpose, row.key, row.subject, tuple(signed[row.number]))
        for row in rows
    ]


def _attempts(conn: Connection, account: AccountId) -> Iterator[tuple[int, Attempt]]:
    columns = attempts.c
    query = (
        select(
            *(columns.number, columns.tx_hash, columns.signed, columns.purpose),
            seconds_since(columns.created_at).label("signed_ago"),
            seconds_since(columns.sent_at).label("sent_ago"),
        )
        .join_from(attempts, slots)
        .where(*_of(slots, account), slots.c.outcome.is_(None))
        .order_by(columns.id)
    )
    for row in conn.execute(query):
        yield (
            row.number,
            Attempt(
                TxHash(row.tx_hash),
                row.signed,
                row.purpose == FILL,
                row.signed_ago,
                row.sent_ago,
            ),
        )


def seconds_since(moment: Column[Any]) -> ColumnElement[float]:
    """Seconds since then, by the database's clock."""
    return cast(extract("epoch", func.clock_timestamp() - moment), Float)


def taken_keys(
    conn: Connection, chain: ChainId, purpose: JobPurpose, keys: Collection[str]
) -> set[str]:
    """Of these, what a slot may still do or has done; of any account."""
    columns = slots.c
    is_live = columns.outcome.is_(None) | (columns.outcome == "done")
    return set(
        conn.scalars(
            select(columns.key).where(
                columns.chain == chain,
                columns.purpose == purpose,
                columns.key == any_of(keys),
                is_live,
            )
        )
    )


def failure_count(conn: Connection, chain: ChainId, purpose: JobPurpose, key: str) -> int:
    """How often something was paid for without effect, since an operator let it go on."""
    columns = slots.c
    count = select(func.count()).where(
        columns.chain == chain,
        columns.purpose == purpose,
        columns.key == key,
        has_failed(),
        ~is_reset(),
    )
    return conn.scalar(count) or 0


def has_failed() -> ColumnElement[bool]:
    """Whether a slot counts against its thing.

    Of a refund that somebody else made first none does: its address may be paid again.
    """
    columns = slots.c
    return (columns.outcome == "failed") | (
        (columns.outcome == "late") & (columns.purpose != "refund")
    )


def is_reset() -> ColumnElement[bool]:
    """Whether an operator has let go on what a slot failed at, since it did."""
    columns = failure_resets.c
    return (
        select(columns.id)
        .where(
            columns.chain == slots.c.chain,
            columns.subject.is_(None) | (columns.subject == slots.c.subject),
            columns.given_at >= slots.c.closed_at,
        )
        .exists()
    )


def slots_closed_from(conn: Connection, account: AccountId, number: int) -> list[int]:
    """Numbers, from this one on, whose slots were closed by a block that has one of theirs."""
    query = select(slots.c.number).where(*_closed_from(account, number))
    return list(conn.scalars(query.order_by(slots.c.number)))


def reopen_slots(conn: Connection, account: AccountId, number: int) -> list[int]:
    """Open such slots again, once the chain took those blocks back; which ones were opened.

    They keep number and bytes, so at most one of all that was signed for them takes effect, as
    ever. A slot whose purpose another slot stands for, or is opened for, stays closed.
    """
    columns, other = slots.c, slots.alias().c
    stands = other.outcome.is_(None) | (other.outcome == "done")
    is_later = (
        (other.account == account.address)
        & (other.number > columns.number)
        & (other.number >= number)
        & (other.outcome != "overtaken")
    )
    has_another = (
        select(other.number)
        .where(
            other.chain == columns.chain,
            other.purpose == columns.purpose,
            other.key == columns.key,
            or_(other.account != columns.account, other.number != columns.number),
            or_(stands, is_later),
        )
        .exists()
    )
    opened = (
        update(slots)
        .where(*_closed_from(account, number), ~has_another)
        .values(outcome=None, spent=None, closed_at=None)
        .returning(columns.number, columns.subject)
    )
    rows = conn.execute(opened).all()
    for row in rows:
        _tell(conn, row.subject)
    return sorted(row.number for row in rows)


def _closed_from(account: AccountId, number: int) -> tuple[ColumnElement[bool], ...]:
    by_block = slots.c.outcome.in_(("done", "failed", "late", "filled"))
    return (*_of(slots, account), slots.c.number >= number, by_block)


def next_number(conn: Connection, account: AccountId) -> int | None:
    """The number after the highest that was ever given; None when none was."""
    highest = conn.scalar(select(func.max(slots.c.number)).where(*_of(slots, account)))
    return None if highest is None else highest + 1


def open_slot(
    conn: Connection,
    account: AccountId,
    slot: NonceSlot,
    most_cost: int,
) -> None:
    """Give a number to a purpose, with its one attempt.

    Raises `IntegrityError` when the number is given, or the purpose has a slot already.
    """
    conn.execute(
        insert(slots).values(
            chain=account.chain,
            account=account.address,
            number=slot.number,
            purpose=slot.purpose,
            key=slot.key,
            subject=slot.subject,
        )
    )
    add_attempt(conn, account, slot, slot.newest, most_cost)


def add_attempt(
    conn: Connection, account: AccountId, slot: NonceSlot, attempt: Attempt, most_cost: int
) -> None:
    """Keep a signed transaction, and tell of it whoever keeps transfers."""
    conn.execute(
        insert(attempts).values(
            chain=account.chain,
            account=account.address,
            number=slot.number,
            purpose=FILL if attempt.is_fill else slot.purpose,
            subject=slot.subject,
            tx_hash=attempt.tx,
            signed=attempt.raw,
            most_cost=most_cost,
        )
    )
    _tell(conn, slot.subject)


def record_broadcast(conn: Connection, tx: TxHash, answer: str) -> None:
    """That a transaction was given to a node, and what that said."""
    columns = attempts.c
    conn.execute(
        update(attempts)
        .where(columns.tx_hash == tx)
        .values(sendings=columns.sendings + 1, sent_at=func.clock_timestamp(), answer=answer)
    )


def close_slot(
    conn: Connection, account: AccountId, slot: NonceSlot, outcome: SlotOutcome, spent: int
) -> None:
    """Nothing of a slot can take effect any more, or something has for good."""
    conn.execute(
        update(slots)
        .where(*_of(slots, account), slots.c.number == slot.number, slots.c.outcome.is_(None))
        .values(outcome=outcome, spent=spent, closed_at=func.clock_timestamp())
    )
    _tell(conn, slot.subject)


def _tell(conn: Connection, subject: str) -> None:
    conn.execute(select(func.pg_notify(channels.INTAKE, subject)))


def spent_today(conn: Connection, account: AccountId) -> int:
    """Of slots opened this UTC day: what they cost, or may cost while they are open."""
    return _spent(conn, *_of(slots, account))


def _spent(conn: Connection, *of: ColumnElement[bool]) -> int:
    columns = slots.c
    most = (
        select(func.max(attempts.c.most_cost))
        .where(
            attempts.c.chain == columns.chain,
            attempts.c.account == columns.account,
            attempts.c.number == columns.number,
        )
        .scalar_subquery()
    )
    cost = cast(func.coalesce(columns.spent, most), Numeric)
    # As a row of its own: no index is asked for what may be another moment for each row.
    today = select(func.date_trunc("day", func.clock_timestamp(), "UTC")).scalar_subquery()
    total = select(func.coalesce(func.sum(cost), 0)).where(*of, columns.opened_at >= today)
    return int(conn.scalar(total) or 0)


# What owners submitted.


@dataclass(frozen=True, slots=True)
class Submitted:
    """A Stellar transaction that its owner signed."""

    transfer: str
    tx: TxHash
    """What was signed; of a fee bump around it, the inner hash."""
    envelope: bytes
    """With all signatures."""


def oldest_waiting(conn: Connection, chain: ChainId, since: datetime | None) -> datetime:
    """From when on to look for what is not over: nothing before it is, or ever will be again.

    `since` is what this gave before; None looks through everything, as who begins has to. What is
    over stays so, and a submission is committed within moments of its time: an hour is ample.
    """
    waiting = _not_over(chain, since).subquery()
    oldest = func.coalesce(func.min(waiting.c.submitted_at), func.clock_timestamp())
    found: datetime = conn.execute(select(oldest)).scalar_one()
    return found - _COMMITTED_WITHIN


def waiting_submissions(conn: Connection, chain: ChainId, since: datetime) -> list[Submitted]:
    """What was accepted for transfers from a chain and is not over: of each owner the oldest first.

    What has an open slot is always among them, for it must be closed. Of more than are taken chance
    says which: a refused submission opens no slot and stays until its time is over, and owners of
    many such would keep all later ones waiting.

    Only what the service itself issued, whatever stands in the row. `since` is of
    `oldest_submitted`.
    """
    waiting = _not_over(chain, since).subquery()
    of_each = waiting.c
    is_open = select(slots.c.key).where(
        slots.c.chain == chain,
        slots.c.account == of_each.tx_hash,
        slots.c.purpose == "submit",
        slots.c.outcome.is_(None),
    )
    begun = select(waiting).where(is_open.exists())
    # Places of their own: owners whose transactions no ledger takes would hold all.
    new = (
        select(waiting)
        .where(~is_open.exists(), of_each.place <= _MOST_OF_ONE)
        .order_by(of_each.place, func.random())
        .limit(_MOST_AT_ONCE)
    )
    found = union_all(begun, new).subquery().c
    query = select(found.transfer, found.tx_hash, found.signed).order_by(
        found.place, found.submitted_at, found.tx_hash
    )
    return [Submitted(row.transfer, row.tx_hash, row.signed) for row in conn.execute(query)]


def _not_over(chain: ChainId, since: datetime | None) -> Select[Any]:
    columns = submissions.c
    is_over = select(slots.c.key).where(
        slots.c.chain == chain,
        # The account of such a slot is what was signed.
        slots.c.account == columns.tx_hash,
        slots.c.purpose == "submit",
        slots.c.outcome.is_not(None),
    )
    place = func.row_number().over(
        partition_by=transfers.c.owner, order_by=(columns.submitted_at, columns.tx_hash)
    )
    query = (
        select(
            *(columns.transfer, columns.tx_hash, columns.signed, columns.submitted_at),
            place.label("place"),
        )
        .join_from(submissions, transfers, transfers.c.id == columns.transfer)
        .join(quotes, quotes.c.id == transfers.c.quote)
        .join(
            actions, (actions.c.transfer == transfers.c.id) & (actions.c.tx_hash == columns.tx_hash)
        )
        .where(columns.kind == "stellar_tx", quotes.c.source_chain == chain, ~is_over.exists())
    )
    return query if since is None else query.where(columns.submitted_at >= since)


def open_slots_for(
    conn: Connection, chain: ChainId, purpose: JobPurpose
) -> list[tuple[AccountId, NonceSlot]]:
    """Slots of a purpose that may still take effect, of all accounts."""
    columns = slots.c
    query = (
        select(columns.account)
        .where(columns.chain == chain, columns.purpose == purpose, columns.outcome.is_(None))
        .distinct()
        .order_by(columns.account)
    )
    accounts = [AccountId(chain, address) for address in conn.scalars(query)]
    return [
        (account, slot)
        for account in accounts
        for slot in open_slots(conn, account)
        if slot.purpose == purpose
    ]


def spent_today_on(conn: Connection, chain: ChainId, purpose: JobPurpose) -> int:
    """As `spent_today`, of a purpose on a chain."""
    return _spent(conn, slots.c.chain == chain, slots.c.purpose == purpose)


# Breaks and health.


def current_halt(conn: Connection, account: AccountId) -> str | None:
    """Why an account stopped by itself; None when it did not."""
    query = select(halts.c.reason).where(*_of(halts, account), halts.c.resumed_at.is_(None))
    return conn.scalar(query)


def halt_account(conn: Connection, account: AccountId, reason: str) -> None:
    """Open no further slots until an operator lets it go on."""
    conn.execute(
        upsert(halts)
        .values(chain=account.chain, account=account.address, reason=reason)
        .on_conflict_do_nothing()
    )


def resume_accounts(conn: Connection, chain: ChainId) -> int:
    """An operator's word for all accounts of a chain; how many had stopped."""
    mended = (
        update(halts)
        .where(halts.c.chain == chain, halts.c.resumed_at.is_(None))
        .values(resumed_at=func.clock_timestamp())
    )
    return conn.execute(mended).rowcount


def reset_failures(conn: Connection, chain: ChainId, transfer: str | None) -> int:
    """An operator's word that what failed is tried anew, of a transfer or of all; of how many.

    What failed is final: it can have no effect any more, so nothing is sent twice. Of what has not
    failed so often that it is let be, its count begins anew too.
    """
    columns = slots.c
    of = () if transfer is None else (columns.subject == transfer,)
    failed = (
        select(columns.purpose, columns.key)
        .where(columns.chain == chain, has_failed(), ~is_reset(), *of)
        .distinct()
        .subquery()
    )
    number = conn.scalar(select(func.count()).select_from(failed)) or 0
    if number:
        conn.execute(insert(failure_resets).values(chain=chain, subject=transfer))
    return number


@dataclass(frozen=True, slots=True)
class FailedRun:
    """Failures of an account since something else became of a slot, or an operator resumed."""

    things: int
    """Different things that failed."""
    last_ago: float
    """Seconds since the last one; 0 before any."""
    opened_since: int
    """Slots opened after it."""


def failed_run(conn: Connection, account: AccountId) -> FailedRun:
    """The failures that an account's newest closed slots are."""
    columns = slots.c
    other = (
        select(func.max(columns.closed_at))
        .where(*_of(slots, account), columns.outcome != "failed")
        .scalar_subquery()
    )
    since = func.coalesce(other, func.to_timestamp(0))
    failed = (*_of(slots, account), columns.outcome == "failed", columns.closed_at > since)
    query = select(
        func.count(columns.key.distinct()).label("things"),
        func.max(columns.closed_at).label("last"),
        extract("epoch", func.clock_timestamp() - func.max(columns.closed_at)).label("ago"),
    ).where(*failed, ~is_reset())
    run = conn.execute(query).one()
    if run.last is None:
        return FailedRun(0, 0.0, 0)
    opened = select(func.count()).where(*_of(slots, account), columns.opened_at > run.last)
    return FailedRun(run.things, float(run.ago), conn.scalar(opened) or 0)


@dataclass(frozen=True, slots=True)
class AccountHealth:
    """How an account is."""

    duty: Duty
    reason: str | None
    """Why it cannot send; None when well."""
    balance: int | None
    spent_today: int
    open: int


def set_health(conn: Connection, account: AccountId, stands: AccountHealth) -> None:
    """Say how an account is."""
    values = {
        "duty": stands.duty,
        "well": stands.reason is None,
        "reason": stands.reason,
        "balance": stands.balance,
        "spent_today": stands.spent_today,
        "open": stands.open,
        "seen_at": func.clock_timestamp(),
    }
    place = {"chain": account.chain, "account": account.address}
    written = upsert(health).values(place | values)
    conn.execute(written.on_conflict_do_update(index_elements=[*place], set_=values))


def set_sponsor(conn: Connection, account: AccountId, **terms: int) -> None:
    """Say what a sponsor would do next; `terms` are columns of `relay.sponsors`."""
    place = {"chain": account.chain, "account": account.address}
    values = terms | {"written_at": func.clock_timestamp()}
    written = upsert(sponsors).values(place | values)
    conn.execute(written.on_conflict_do_update(index_elements=[*place], set_=values))


def all_health(conn: Connection) -> list[Row[Any]]:
    """How every account was when it last said, and `seen_ago`, how many seconds ago."""
    columns = (*health.c, seconds_since(health.c.seen_at).label("seen_ago"))
    return list(conn.execute(select(*columns).order_by(health.c.chain, health.c.account)))


# Facts.


def final_height(conn: Connection, chain: ChainId) -> Height | None:
    """The newest ingested block that stays; None before there is one."""
    return conn.scalar(select(cursors.c.final_height).where(cursors.c.chain == chain))


def ingested_hashes(
    conn: Connection, chain: ChainId, heights: Collection[Height]
) -> dict[Height, BlockHash]:
    """The blocks that were ingested at these heights."""
    query = select(blocks.c.height, blocks.c.hash).where(
        blocks.c.chain == chain, blocks.c.height.in_(sorted(set(heights)))
    )
    return {row.height: row.hash for row in conn.execute(query)}


def _of(table: Any, account: AccountId) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return table.c.chain == account.chain, table.c.account == account.address
