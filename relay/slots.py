"""Rows of nonce slots and attempts, and the finalized blocks that decide about them.

The caller holds the account's lease, and commits unless a function says so. All times are of the
database's clock.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Numeric,
    Select,
    cast,
    func,
    insert,
    or_,
    select,
    update,
)

from indexer.errors import PermanentChainError, RetryableChainError
from indexer.tracing import now, record_span
from relay.nonces import (
    FILL,
    AccountId,
    Attempt,
    Inclusion,
    JobPurpose,
    NonceSlot,
    SlotOutcome,
)
from warehouse_schema import channels
from warehouse_schema.facts import blocks, cursors
from warehouse_schema.identifiers import (
    BlockHash,
    ChainId,
    Height,
    NativeAmount,
    TxHash,
    native_amount,
)
from warehouse_schema.notifications import queue_notifications
from warehouse_schema.queries import any_of, seconds_since
from warehouse_schema.relay import attempts, slots


def of_account(table: Any, account: AccountId) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Conditions for an account's rows."""
    return table.c.chain == account.chain, table.c.account == account.address


def open_slots(conn: Connection, account: AccountId) -> list[NonceSlot]:
    """Slots that may still take effect, by number."""
    return _slots_where(conn, account, slots.c.outcome.is_(None))


def _slots_where(
    conn: Connection, account: AccountId, condition: ColumnElement[bool]
) -> list[NonceSlot]:
    where = (*of_account(slots, account), condition)
    query = select(slots.c.number, slots.c.purpose, slots.c.key, slots.c.subject)
    rows = conn.execute(query.where(*where).order_by(slots.c.number)).all()
    if not rows:
        return []
    columns = attempts.c
    signed = (
        select(
            *(columns.number, columns.tx_hash, columns.signed, columns.purpose),
            seconds_since(columns.created_at).label("signed_ago"),
            seconds_since(columns.sent_at).label("sent_ago"),
        )
        .join_from(attempts, slots)
        .where(*where)
        .order_by(columns.id)
    )
    by_number: dict[int, list[Attempt]] = defaultdict(list)
    for row in conn.execute(signed):
        is_fill = row.purpose == FILL
        attempt = Attempt(TxHash(row.tx_hash), row.signed, is_fill, row.signed_ago, row.sent_ago)
        by_number[row.number].append(attempt)
    return [
        NonceSlot(row.number, row.purpose, row.key, row.subject, tuple(by_number[row.number]))
        for row in rows
    ]


def unsettled_slots(conn: Connection, account: AccountId) -> list[NonceSlot]:
    """Slots that are open, or whose number an unknown transaction used, by number."""
    return _slots_where(
        conn, account, slots.c.outcome.is_(None) | (slots.c.outcome == "nonce_taken")
    )


def signed_last(conn: Connection, account: AccountId) -> list[bytes]:
    """Signed bytes of the attempts of the highest number that has any."""
    return [bytes(raw) for raw in conn.scalars(_of_last_number(account, attempts.c.signed))]


def last_cost(conn: Connection, account: AccountId) -> NativeAmount:
    """Most that the account's last transaction could cost; 0 without one."""
    costs = _of_last_number(account, attempts.c.most_cost)
    return native_amount(account.chain, int(max(conn.scalars(costs), default=0)))


def _of_last_number(account: AccountId, column: ColumnElement[Any]) -> Select[Any]:
    """A column of the attempts of the highest number that has any."""
    highest = select(func.max(attempts.c.number)).where(*of_account(attempts, account))
    return select(column).where(
        *of_account(attempts, account), attempts.c.number == highest.scalar_subquery()
    )


def open_slots_for(
    conn: Connection, chain: ChainId, purpose: JobPurpose
) -> list[tuple[AccountId, NonceSlot]]:
    """Open slots with one purpose, of all accounts."""
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


def taken_keys(
    conn: Connection, chain: ChainId, jobs: Collection[tuple[JobPurpose, str]]
) -> set[tuple[str, str]]:
    """Purposes and keys with a slot that is open or done, of any account."""
    columns = slots.c
    query = select(columns.purpose, columns.key).where(
        columns.chain == chain,
        columns.purpose == any_of({purpose for purpose, _ in jobs}),
        columns.key == any_of({key for _, key in jobs}),
        columns.outcome.is_(None) | (columns.outcome == "confirmed"),
    )
    return {(row.purpose, row.key) for row in conn.execute(query)}


def next_number(conn: Connection, account: AccountId) -> int | None:
    """Number after the highest that was ever reserved; None before the first."""
    highest = conn.scalar(select(func.max(slots.c.number)).where(*of_account(slots, account)))
    return None if highest is None else highest + 1


def open_slot(
    conn: Connection, account: AccountId, slot: NonceSlot, max_cost: NativeAmount
) -> None:
    """Reserve a number for a job, with its first attempt.

    Raises `IntegrityError` when the number is reserved, or the job has a slot already.
    """
    row = {"chain": account.chain, "account": account.address, "number": slot.number}
    job = {"purpose": slot.purpose, "key": slot.key, "subject": slot.subject}
    conn.execute(insert(slots).values(row | job))
    add_attempt(conn, account, slot, slot.newest, max_cost)


def add_attempt(
    conn: Connection, account: AccountId, slot: NonceSlot, attempt: Attempt, max_cost: NativeAmount
) -> None:
    """Store a signed transaction and notify the fold of transfers."""
    conn.execute(
        insert(attempts).values(
            chain=account.chain,
            account=account.address,
            number=slot.number,
            purpose=FILL if attempt.is_fill else slot.purpose,
            subject=slot.subject,
            tx_hash=attempt.tx,
            signed=attempt.raw,
            most_cost=max_cost,
        )
    )
    notify(conn, slot.subject)


def broadcast(
    conn: Connection, chain: ChainId, slot: NonceSlot, send: Callable[[bytes], str]
) -> None:
    """Broadcast a slot's newest attempt, then store the count and the nodes' answer. Commits.

    Raises errors of nodes, after storing them: it may have arrived. The next turn sends other slots
    first. A transaction that no node takes, as with a bid below the base fee, is replaced later.
    """
    attempt, began = slot.newest, now()
    error: RetryableChainError | PermanentChainError | None = None
    try:
        answer = send(attempt.raw)
    except (RetryableChainError, PermanentChainError) as raised:
        error, answer = raised, f"no node took it: {raised}"
    columns = attempts.c
    sent = {"sendings": columns.sendings + 1, "sent_at": func.clock_timestamp(), "answer": answer}
    with conn.begin():
        conn.execute(update(attempts).where(columns.tx_hash == attempt.tx).values(sent))
    attributes = {"chain": chain, "purpose": slot.purpose, "number": slot.number, "tx": attempt.tx}
    kind = None if error is None else type(error).__name__
    record_span("relay attempt", slot.subject, began, attributes, error=kind)
    if error is not None:
        raise error


def close_slot(
    conn: Connection, account: AccountId, slot: NonceSlot, outcome: SlotOutcome, spent: NativeAmount
) -> None:
    """Store the final outcome of a slot."""
    conn.execute(
        update(slots)
        .where(*of_account(slots, account), slots.c.number == slot.number)
        .where(slots.c.outcome.is_(None))
        .values(outcome=outcome, spent=spent, closed_at=func.clock_timestamp())
    )
    notify(conn, slot.subject)


def trace_closed(chain: ChainId, slot: NonceSlot, outcome: SlotOutcome) -> None:
    """Record a span of a job, from its first signature until its slot was closed and committed."""
    began = now() - int(slot.attempts[0].signed_ago * 1e9)
    attributes = {
        "chain": chain,
        "purpose": slot.purpose,
        "number": slot.number,
        "attempts": len(slot.attempts),
        "outcome": outcome,
    }
    record_span("relay job", slot.subject, began, attributes)


def closed_from(conn: Connection, account: AccountId, number: int) -> list[int]:
    """Numbers from this one on whose slots were closed by a block with one of their attempts."""
    query = select(slots.c.number).where(*_closed_by_block(account, number))
    return list(conn.scalars(query.order_by(slots.c.number)))


def reopen_slots(conn: Connection, account: AccountId, number: int) -> list[int]:
    """Reopen such slots after a reorg removed their blocks; returns the numbers.

    Number and bytes stay the same, so at most one attempt of each takes effect. A slot stays closed
    when another slot of its job is open, done or about to be reopened.
    """
    columns, other = slots.c, slots.alias().c
    is_live = other.outcome.is_(None) | (other.outcome == "confirmed")
    is_later = (
        (other.account == account.address)
        & (other.number > columns.number)
        & (other.number >= number)
        & (other.outcome != "nonce_taken")
    )
    has_another = (
        select(other.number)
        .where(
            other.chain == columns.chain,
            other.purpose == columns.purpose,
            other.key == columns.key,
            or_(other.account != columns.account, other.number != columns.number),
            or_(is_live, is_later),
        )
        .exists()
    )
    reopened = (
        update(slots)
        .where(*_closed_by_block(account, number), ~has_another)
        .values(outcome=None, spent=None, closed_at=None)
        .returning(columns.number, columns.subject)
    )
    rows = conn.execute(reopened).all()
    for row in rows:
        notify(conn, row.subject)
    return sorted(row.number for row in rows)


def _closed_by_block(account: AccountId, number: int) -> tuple[ColumnElement[bool], ...]:
    by_block = slots.c.outcome.in_(("confirmed", "reverted", "already_done", "replaced"))
    return (*of_account(slots, account), slots.c.number >= number, by_block)


def notify(conn: Connection, subject: str) -> None:
    """Notify the fold of transfers of a new row."""
    queue_notifications(conn, channels.INTAKE, [subject])


def spent_today(conn: Connection, chain: ChainId, **where: str) -> NativeAmount:
    """Cost of a chain's slots that were opened this UTC day; an open slot counts with its maximum.

    `where` are further columns of `relay.slots`.
    """
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
    # A subquery makes the day one value for the whole statement, so that the index applies.
    today = select(func.date_trunc("day", func.clock_timestamp(), "UTC")).scalar_subquery()
    own = [columns.chain == chain, *(columns[name] == value for name, value in where.items())]
    total = select(func.coalesce(func.sum(cost), 0)).where(*own, columns.opened_at >= today)
    return native_amount(chain, int(conn.scalar(total) or 0))


def final_height(conn: Connection, chain: ChainId) -> Height | None:
    """Newest finalized block that was ingested; None before the first."""
    return conn.scalar(select(cursors.c.final_height).where(cursors.c.chain == chain))


def finalized_transactions(
    conn: Connection, chain: ChainId, inclusions: Mapping[TxHash, Inclusion]
) -> set[TxHash]:
    """Those in blocks that the indexer ingested and that are finalized."""
    final = final_height(conn, chain)
    hashes = ingested_hashes(conn, chain, [each.height for each in inclusions.values()])
    return {
        tx
        for tx, each in inclusions.items()
        if final is not None
        and each.height <= final
        and each.block_hash in (None, hashes.get(each.height))
        and each.height in hashes
    }


def ingested_hashes(
    conn: Connection, chain: ChainId, heights: Collection[Height]
) -> dict[Height, BlockHash]:
    """Hashes of the ingested blocks at these heights."""
    query = select(blocks.c.height, blocks.c.hash).where(
        blocks.c.chain == chain, blocks.c.height.in_(sorted(set(heights)))
    )
    return {row.height: row.hash for row in conn.execute(query)}
