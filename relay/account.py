"""Turns of one account: reconcile its open slots with the chain, open new ones, broadcast.

Signed bytes are committed before any broadcast, and a broadcast sends committed bytes. After a kill
at any point the next turn finds either nothing, and may sign, or bytes, and sends those.
"""

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from indexer.errors import CallReverted, IndexerError, PermanentChainError, RetryableChainError
from indexer.logs import log_context
from indexer.metrics.catalogue import RELAY_SLOTS_CLOSED
from indexer.metrics.collectors import count
from indexer.policy.paid_failures import reason_to_wait
from indexer.policy.relay_accounts import AccountProblem
from relay import failures, slots
from relay.jobs.sources import JobSource
from relay.limits import Backoff, SpendLimits
from relay.nonces import (
    AccountState,
    Attempt,
    C,
    CloseSlot,
    NonceSlot,
    RelayJob,
    SlotStep,
)
from relay.reconcile import (
    Recorded,
    UnrecordedTransactions,
    reconcile,
    require_reconciled,
)
from relay.senders.protocol import TransactionSender
from relay.status import DRAINING, AccountHealth, set_health
from warehouse_schema.identifiers import NativeAmount, TxHash, native_amount

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class TurnReport:
    """Counts of one turn."""

    opened: int = 0
    sent: int = 0
    replaced: int = 0
    confirmed: int = 0
    already_done: int = 0
    """Slots that were paid for without effect, because another transaction had it first."""
    failed: int = 0
    """Slots that were paid for without effect, or whose number another transaction has."""
    unaffordable: int = 0
    """Of `refused`: for want of balance or of the day's budget."""
    refused: list[str] = field(default_factory=list)
    """Jobs that could not start, with the reason; retried with backoff."""


class AccountRelay(Generic[C]):
    """One account on one chain. One thread runs its turns and holds its lease."""

    def __init__(
        self,
        sender: TransactionSender[C],
        source: JobSource[C],
        limits: SpendLimits,
        clock: Callable[[], float],
        *,
        is_draining: bool = False,
    ) -> None:
        """`clock` counts seconds and paces retries only.

        `is_draining`: open slots only for jobs that no other account can do.
        """
        self._sender = sender
        self._source = source
        self._limits = limits
        self._backoff = Backoff(clock)
        self._is_draining = is_draining
        self.account = sender.account

    def turn(self, conn: Connection) -> TurnReport:
        """Advance every slot and job as far as possible now. Raises errors of nodes."""
        turn = TurnReport()
        with conn.begin():
            pending = slots.open_slots(conn, self.account)
            jobs = self._source.jobs(conn)
        state = self._sender.refresh([attempt.tx for slot in pending for attempt in slot.attempts])
        require_reconciled(conn, self._sender, state)
        self._reopen_slots(conn, state)
        finalized = self._finalized(conn, state)
        job_of = {(job.purpose, job.key): job for job in jobs}
        for slot in pending:
            job = job_of.get((slot.purpose, slot.key))
            with log_context(transfer=slot.subject):
                step = self._sender.next_step(slot, finalized)
                if step is SlotStep.CHECK_NONCE and self._is_nonce_taken(conn, slot):
                    step = CloseSlot("nonce_taken", native_amount(self.account.chain, 0))
                if isinstance(step, CloseSlot):
                    self._close_slot(conn, slot, step, job, turn)
                elif step is SlotStep.REPLACE:
                    self._replace(conn, slot, job, turn)
        error = self._start_jobs(conn, jobs, state, turn)
        with conn.begin():
            pending = slots.open_slots(conn, self.account)
        for slot in pending:
            if self._sender.next_step(slot, finalized) is SlotStep.SEND:
                slots.broadcast(conn, self.account.chain, slot, self._sender.send)
                turn.sent += 1
        if error is not None:
            raise error
        self._write_health(conn, state)
        return turn

    def report_unhealthy(self, conn: Connection, error: IndexerError) -> None:
        """Write the reason why no turn is possible."""
        is_unrecorded = isinstance(error, UnrecordedTransactions)
        problem: AccountProblem = "unrecorded" if is_unrecorded else "node"
        with conn.begin():
            spent, number = self._spent_today(conn), len(slots.open_slots(conn, self.account))
            health = self._health(str(error), problem, None, spent, number)
            set_health(conn, self.account, health)

    def reconcile(self, conn: Connection) -> list[Recorded]:
        """Record what the chain has of the account and the warehouse does not."""
        return reconcile(conn, self._sender, self._source)

    def _reopen_slots(self, conn: Connection, state: AccountState) -> None:
        """Reopen slots whose numbers are unused again after a reorg beyond finality.

        Only when all nodes that answer, of a quorum of operators, agree on the number: one lying
        node must not open and close slots in turns.
        """
        with conn.begin():
            final = slots.final_height(conn, self.account.chain)
            closed = slots.closed_from(conn, self.account, state.furthest_number)
        if not closed or state.head is None or final is None or state.head < final:
            return
        try:
            unused = self._sender.next_number(None)
        except (RetryableChainError, PermanentChainError) as error:
            logger.warning("number reorganised? chain=%s: %s", self.account.chain, error)
            return
        with conn.begin():
            opened = slots.reopen_slots(conn, self.account, unused)
            blocked = slots.closed_from(conn, self.account, unused)
            if blocked:
                # The chain waits for these numbers, and another slot has their job.
                reason = (
                    f"a reorg removed numbers {blocked}, and another slot has their jobs: "
                    "send the signed bytes of their attempts again"
                )
                failures.halt_account(conn, self.account, reason)
        logger.error(
            "reorg beyond finality chain=%s reopened=%s blocked=%s",
            *(self.account.chain, opened, blocked),
        )

    def _finalized(self, conn: Connection, state: AccountState) -> set[TxHash]:
        """Transactions in blocks that the indexer ingested and that are finalized."""
        with conn.begin():
            return slots.finalized_transactions(conn, self.account.chain, state.inclusions)

    def _is_nonce_taken(self, conn: Connection, slot: NonceSlot) -> bool:
        with conn.begin():
            final = slots.final_height(conn, self.account.chain)
        try:
            return final is not None and self._sender.is_nonce_taken(slot, final)
        except RetryableChainError as error:
            # Nodes prune old states. Until one can tell, nothing else is signed for the job.
            logger.warning(
                "unknown transaction number=%d chain=%s: %s",
                *(slot.number, self.account.chain, error),
            )
            return False

    def _close_slot(
        self,
        conn: Connection,
        slot: NonceSlot,
        step: CloseSlot,
        job: RelayJob[C] | None,
        turn: TurnReport,
    ) -> None:
        outcome = step.outcome
        if outcome == "reverted" and (
            job is None or job.repeatable_by_others or self._sender.is_done(job)
        ):
            # The effect exists already, or is not wanted now. This must not slow the account down,
            # or strangers could cause that; it still counts for the job and the owner.
            outcome = "already_done"
        with conn.begin():
            slots.close_slot(conn, self.account, slot, outcome, step.spent)
            if outcome == "nonce_taken":
                reason = (
                    f"another process signs with the key of {self.account.address}: number "
                    f"{slot.number} was used by a transaction that is not ours. If the warehouse "
                    "was restored from a backup: isthmus relay reconcile"
                )
                failures.halt_account(conn, self.account, reason)
                logger.error("halted chain=%s: %s", self.account.chain, reason)
        count(RELAY_SLOTS_CLOSED, self.account.chain, outcome)
        slots.trace_closed(self.account.chain, slot, outcome)
        turn.confirmed += outcome == "confirmed"
        turn.already_done += outcome == "already_done"
        turn.failed += outcome in ("reverted", "nonce_taken")
        logger.info(
            "closed chain=%s number=%d purpose=%s transfer=%s outcome=%s spent=%d",
            *(self.account.chain, slot.number, slot.purpose, slot.subject, outcome, step.spent),
        )

    def _replace(
        self, conn: Connection, slot: NonceSlot, job: RelayJob[C] | None, turn: TurnReport
    ) -> None:
        """Sign again with the same number; a fill once the job is done or would fail."""
        call = None if job is None or self._sender.is_done(job) else job.call
        try:
            signed = self._sender.sign_replacement(slot, call)
        except CallReverted:
            call, signed = None, self._sender.sign_replacement(slot, None)
        with conn.begin() as transaction:
            attempt = Attempt(signed.tx, signed.raw, is_fill=call is None)
            slots.add_attempt(conn, self.account, slot, attempt, signed.max_cost)
            # One attempt of a number takes effect, so the dearest counts.
            if self._spent_today(conn) > self._limits.budget:
                transaction.rollback()
                turn.refused.append(f"replacing number {slot.number}: over the day's budget")
                turn.unaffordable += 1
                return
        turn.replaced += 1

    def _start_jobs(
        self, conn: Connection, jobs: Sequence[RelayJob[C]], state: AccountState, turn: TurnReport
    ) -> RetryableChainError | PermanentChainError | None:
        """Open slots within the limits; returns the first error of the nodes."""
        due = [
            job
            for job in jobs
            if self._backoff.is_due(job.key) and (job.is_bound or not self._is_draining)
        ]
        if not due:
            return None
        with conn.begin():
            if failures.current_halt(conn, self.account) is not None:
                return None
            run = failures.failed_run(conn, self.account)
            room = self._sender.max_open - len(slots.open_slots(conn, self.account))
            room = failures.slots_allowed(run, room)
            if room <= 0:
                return None
            taken = slots.taken_keys(
                conn, self.account.chain, [(job.purpose, job.key) for job in due]
            )
        due = [job for job in due if (job.purpose, job.key) not in taken]
        if run.jobs >= failures.MAX_FAILURES:
            # In order, many jobs that fail would come before one that does not.
            random.shuffle(due)
        for job in due:
            if turn.opened == room:
                return None
            try:
                with log_context(transfer=job.subject):
                    is_done = self._sender.is_done(job)
                    refusal = None if is_done else self._start(conn, job, state, turn)
            except (RetryableChainError, PermanentChainError) as error:
                # Nodes may fail for this job alone: others come first next time.
                self._backoff.failed(job.key)
                return error
            if refusal is not None:
                turn.refused.append(f"{job.purpose} {job.key}: {refusal}")
                self._backoff.failed(job.key)
        return None

    def _start(
        self, conn: Connection, job: RelayJob[C], state: AccountState, turn: TurnReport
    ) -> str | None:
        """Sign and commit the first attempt of a job; returns the reason for a refusal."""
        with conn.begin():
            count = failures.failure_count(conn, self.account.chain, job.purpose, job.key)
            wait = reason_to_wait(conn, job.subject)
            own = slots.next_number(conn, self.account)
        if count >= failures.MAX_FAILURES:
            return f"failed {count} times"
        if wait is not None:
            return wait
        number = self._sender.next_number(own)
        try:
            signed = self._sender.sign(number, job.call)
        except CallReverted as error:
            return str(error)
        attempt = Attempt(signed.tx, signed.raw)
        slot = NonceSlot(number, job.purpose, job.key, job.subject, (attempt,))
        try:
            with conn.begin():
                rejection = self._source.rejection(conn, job)
                if rejection is not None:
                    return rejection
                spent, unit, budget = (
                    self._spent_today(conn),
                    self._sender.unit,
                    self._limits.budget,
                )
                if spent + signed.max_cost > budget:
                    turn.unaffordable += 1
                    return f"over the day's budget of {budget} {unit}, {spent} of it used"
                if state.balance < signed.max_cost:
                    turn.unaffordable += 1
                    return f"{state.balance} {unit} on the account, {signed.max_cost} needed"
                slots.open_slot(conn, self.account, slot, signed.max_cost)
        except IntegrityError as error:
            if "uq_slots_once" not in str(error.orig):
                raise
            # Another account of the relay has opened a slot for the job.
            return None
        turn.opened += 1
        logger.info(
            "signed chain=%s number=%d purpose=%s transfer=%s tx=%s",
            *(self.account.chain, number, job.purpose, job.subject, signed.tx),
        )
        return None

    def _write_health(self, conn: Connection, state: AccountState) -> None:
        with conn.begin():
            reason = failures.current_halt(conn, self.account)
            spent, unit = self._spent_today(conn), self._sender.unit
            number = len(slots.open_slots(conn, self.account))
            limits = self._limits
            problem: AccountProblem | None = None if reason is None else "halted"
            # One more like the last; not like one that was refused, which may be a stranger's.
            max_cost = max(self._sender.max_cost, slots.last_cost(conn, self.account))
            needed = max(limits.floor, max_cost)
            if reason is None and state.balance < needed:
                reason = f"{state.balance} {unit} on the account, less than {needed}"
                problem = "balance"
            if reason is None and spent + max_cost > limits.budget:
                reason = f"the day's budget of {limits.budget} {unit} is used up"
                problem = "budget"
            if reason is None and self._is_draining:
                reason, problem = DRAINING, "draining"
            health = self._health(reason, problem, state.balance, spent, number)
            set_health(conn, self.account, health)

    def _health(
        self,
        reason: str | None,
        problem: AccountProblem | None,
        balance: NativeAmount | None,
        spent: NativeAmount,
        number: int,
    ) -> AccountHealth:
        return AccountHealth(
            duty=self._sender.duty,
            reason=reason,
            balance=balance,
            spent_today=spent,
            open=number,
            budget=self._limits.budget,
            floor=self._limits.floor,
            problem=problem,
        )

    def _spent_today(self, conn: Connection) -> NativeAmount:
        return slots.spent_today(conn, self.account.chain, account=self.account.address)
