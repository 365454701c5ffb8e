"""Comparison of an account's slots with its chain, after a restore of an old warehouse.

A restored warehouse does not know what was signed since the backup. An account whose chain has
numbers beyond its highest slot therefore signs nothing until these transactions are recorded: jobs
that they did are not done again, and they count against budgets, failures and sponsorships.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Generic

from sqlalchemy import Connection, func, insert, select, update

from indexer.errors import PermanentChainError, RetryableChainError
from indexer.facts.days import height_at
from relay import slots
from relay.jobs.sources import JobSource
from relay.nonces import (
    FILL,
    AccountId,
    AccountState,
    Attempt,
    C,
    CloseSlot,
    JobName,
    NonceSlot,
    Recovered,
    SlotOutcome,
)
from relay.senders.protocol import TransactionSender
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import Height, NativeAmount, TxHash, native_amount
from warehouse_schema.relay import attempts
from warehouse_schema.relay import slots as slot_rows

COMMAND = "isthmus relay reconcile"
UNKNOWN = "unknown"
"""Purpose of a slot whose transaction does no job of the relay."""


class UnrecordedTransactions(PermanentChainError):
    """The chain has transactions of the account that the warehouse does not have."""


class NotYetFinal(RetryableChainError):
    """Transactions of the account are pending, not final, or not ingested."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Transaction that was found on the chain and recorded."""

    number: int
    tx: TxHash
    job: JobName | None
    """None for a fill, and for a transaction that does no job of the relay."""
    outcome: SlotOutcome
    spent: NativeAmount


def require_reconciled(conn: Connection, sender: TransactionSender[C], state: AccountState) -> None:
    """Raise `UnrecordedTransactions` when the chain is beyond the account's highest slot.

    An account without slots is new to this warehouse: nothing is missing that it ever had.
    """
    with conn.begin():
        known = slots.next_number(conn, sender.account)
    if known is None or state.next_number <= known:
        return
    reached = sender.confirmed_number()
    if reached > known:
        raise UnrecordedTransactions(
            f"the chain has numbers {known} to {reached - 1} of {sender.account.address}, and the "
            "warehouse does not: it was restored from a backup, or another process signs with the "
            f"key. Nothing is signed before: {COMMAND}"
        )


def reconcile(
    conn: Connection, sender: TransactionSender[C], source: JobSource[C]
) -> list[Recorded]:
    """Find the transactions with numbers that the warehouse cannot explain, and record them.

    Of numbers beyond the highest slot, and of slots whose number a transaction used that is none of
    their attempts. All or nothing is recorded. Raises `NotYetFinal` until all are in ingested,
    finalized blocks, `UnrecordedTransactions` when one cannot be found, and errors of nodes.
    """
    account = sender.account
    with conn.begin():
        known = slots.next_number(conn, account)
        unsettled = slots.unsettled_slots(conn, account)
        signed = slots.signed_last(conn, account)
    if known is None:
        return []
    state = sender.refresh([each.tx for slot in unsettled for each in slot.attempts])
    reached = sender.confirmed_number()
    if sender.pending_number() > max(reached, known):
        raise NotYetFinal(
            f"transactions of {account.address} that the warehouse does not have wait in a node's "
            "pool: run this again once they are in a block"
        )
    replaced = {
        slot.number: slot
        for slot in unsettled
        if slot.number < reached and not any(each.tx in state.inclusions for each in slot.attempts)
    }
    numbers = sorted({*replaced, *range(known, reached)})
    if not numbers:
        return []
    signed += [each.raw for slot in replaced.values() for each in slot.attempts]
    with conn.begin():
        found = sender.find_transactions(
            numbers, signed, lambda time: height_at(conn, account.chain, time)
        )
    missing = [number for number in numbers if number not in found]
    if missing:
        raise UnrecordedTransactions(f"no transaction of {account.address} with numbers {missing}")
    state = sender.refresh([each.tx for each in found.values()])
    with conn.begin():
        finalized = slots.finalized_transactions(conn, account.chain, state.inclusions)
        _require_final(account, found, finalized)
        recorder = _Recorder(conn, sender, source, state)
        recorded = [
            recorder.record(number, found[number], replaced.get(number)) for number in numbers
        ]
    return [each for each in recorded if each is not None]


def _require_final(
    account: AccountId, found: Mapping[int, Recovered], finalized: Collection[TxHash]
) -> None:
    waiting = [number for number, each in found.items() if each.tx not in finalized]
    if waiting:
        raise NotYetFinal(
            f"the transactions with numbers {waiting} are in no ingested, finalized block: let the "
            f"follower of {account.chain} catch up, then run this again"
        )


@dataclass(frozen=True, slots=True)
class _Recorder(Generic[C]):
    """Writes slots and attempts of one account, in the caller's transaction."""

    conn: Connection
    sender: TransactionSender[C]
    source: JobSource[C]
    state: AccountState

    def record(self, number: int, found: Recovered, slot: NonceSlot | None) -> Recorded | None:
        """Store a transaction, in its slot or a new one.

        None for a slot whose number a transaction without a job used: the next turn closes it.
        """
        job = None
        if found.raw and not found.is_fill:
            job = self.source.recognize(self.conn, found.raw)
        if found.is_fill and slot is not None:
            job = JobName(slot.purpose, slot.key, slot.subject)
        if slot is not None and job is None:
            return None
        close = self._outcome(number, found, job)
        purpose, key, subject = FILL if found.is_fill else UNKNOWN, str(found.tx), ""
        if job is not None:
            purpose, key, subject = job.purpose, job.key, job.subject
        row: dict[str, object] = {"purpose": purpose, "key": key, "subject": subject}
        row |= {"outcome": close.outcome, "spent": close.spent}
        row |= {"closed_at": func.clock_timestamp()}
        account = self.sender.account
        place = {"chain": account.chain, "account": account.address, "number": number}
        if slot is None:
            row["opened_at"] = self._block_time(self.state.inclusions[found.tx].height)
            self.conn.execute(insert(slot_rows).values(place | row))
        else:
            here = [slot_rows.c[column] == value for column, value in place.items()]
            self.conn.execute(update(slot_rows).where(*here).values(row))
        if job is not None or found.is_fill:
            attempt = {"tx_hash": found.tx, "signed": found.raw, "most_cost": close.spent}
            what = {"purpose": FILL if found.is_fill else purpose, "subject": subject}
            self.conn.execute(insert(attempts).values(place | what | attempt))
        for transfer in {subject, slot.subject if slot else ""} - {""}:
            slots.notify(self.conn, transfer)
        return Recorded(number, found.tx, job, close.outcome, close.spent)

    def _outcome(self, number: int, found: Recovered, job: JobName | None) -> CloseSlot:
        """The sender's own decision, as for a slot with this attempt."""
        inclusion = self.state.inclusions[found.tx]
        if job is None and not found.is_fill:
            return CloseSlot("nonce_taken", inclusion.cost)
        attempt = Attempt(found.tx, found.raw, is_fill=found.is_fill)
        name = job or JobName("deliver", found.tx, "")
        slot = NonceSlot(number, name.purpose, name.key, name.subject, (attempt,))
        close = self.sender.next_step(slot, {found.tx})
        if not isinstance(close, CloseSlot):
            raise NotYetFinal(f"the nodes no longer have {found.tx}")
        if job is not None and close.outcome == "confirmed" and self._has_slot(number, job):
            # Its effect came twice, as with a deposit that was paid twice.
            return CloseSlot("already_done", close.spent)
        return CloseSlot(close.outcome, native_amount(self.sender.account.chain, close.spent))

    def _has_slot(self, number: int, job: JobName) -> bool:
        columns, account = slot_rows.c, self.sender.account
        query = select(columns.number).where(
            columns.chain == account.chain,
            columns.purpose == job.purpose,
            columns.key == job.key,
            columns.outcome.is_(None) | (columns.outcome == "confirmed"),
            (columns.account != account.address) | (columns.number != number),
        )
        return self.conn.execute(query).first() is not None

    def _block_time(self, height: Height) -> object:
        """Of an ingested block: budgets count by the day of a slot's opening."""
        chain = self.sender.account.chain
        time = select(blocks.c.time).where(blocks.c.chain == chain, blocks.c.height == height)
        return func.to_timestamp(time.scalar_subquery())
