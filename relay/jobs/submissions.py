"""Sends the Stellar transactions that owners signed, in fee bumps of the relay's account.

The fee bump contains the owner's transaction byte for byte, and its sequence number lets a ledger
take it once, no matter how often it is sent. Two transactions of an owner may have one number, when
the first was never sent: so a slot belongs to the hash of what the owner signed, not to an account.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from indexer.chains.stellar.account_state import (
    AppliedTransaction,
    LookupWindow,
    StellarAccountNodes,
)
from indexer.config.networks import StellarChain
from indexer.errors import IndexerError, PermanentChainError, RetryableChainError
from indexer.policy.paid_failures import paid_failures
from indexer.policy.relay_accounts import AccountProblem
from relay import slots
from relay.account import TurnReport
from relay.jobs.obstacles import PaymentObstacle, set_obstacle
from relay.jobs.preflight import submission_problem
from relay.jobs.submission_queue import QueuedSubmission, oldest_waiting, waiting_submissions
from relay.keys import StellarKey, stellar_address
from relay.limits import Backoff, SpendLimits
from relay.nonces import (
    AccountId,
    Attempt,
    CloseSlot,
    JobPurpose,
    NextStep,
    NonceSlot,
    SlotOutcome,
    SlotStep,
)
from relay.senders.stellar_signing import read_header, sign_fee_bump
from relay.status import AccountHealth, health_of, set_health
from warehouse_schema.identifiers import Height, NativeAmount, Stroops, TxHash, UnixSeconds

logger = logging.getLogger(__name__)

RESEND_SECONDS = 10.0
REPLACE_SECONDS = 60.0
BID = Stroops(10_000)
"""Bid of a first fee bump, per operation; each replacement bids ten times that, the minimum
for which the core's queue replaces a transaction."""
MAX_ATTEMPTS = 4
MIN_COST = Stroops(2 * BID)
"""Of a submission: a fee bump pays its bid for each operation and for itself."""
RESUMES = "nothing more is paid for until the next UTC day"
_PURPOSE: JobPurpose = "submit"


@dataclass(frozen=True, slots=True)
class OpenSubmission:
    """Submission with an open slot."""

    account: AccountId
    """Its address is the hash of what the owner signed."""
    slot: NonceSlot
    last: UnixSeconds
    """Close time of the last ledger that may include it."""


def next_step(
    submission: OpenSubmission,
    applied: Mapping[TxHash, AppliedTransaction],
    window: LookupWindow,
    final: Height | None,
) -> NextStep:
    """Decide about a submission. Pure.

    `applied` has its fee bumps that a ledger took, and the owner's own transaction under the slot's
    key when someone else sent it. Nothing closes before that ledger is ingested, so that readers of
    the outcome find its effects among the facts.
    """
    slot = submission.slot
    bumps = [each.tx for each in slot.attempts]
    for tx in (*bumps, TxHash(slot.key)):
        if tx in applied:
            found = applied[tx]
            if final is None or found.ledger > final:
                return SlotStep.WAIT
            outcome: SlotOutcome = "confirmed" if found.succeeded else "reverted"
            return CloseSlot(outcome, found.charged if tx in bumps else Stroops(0))
    if submission.last < window.latest:
        return CloseSlot("expired", Stroops(0))
    newest = slot.newest
    if newest.sent_ago is None:
        return SlotStep.SEND
    if newest.signed_ago > REPLACE_SECONDS and len(slot.attempts) < MAX_ATTEMPTS:
        return SlotStep.REPLACE
    return SlotStep.SEND if newest.sent_ago > RESEND_SECONDS else SlotStep.WAIT


class Submitter:
    """Sends the submissions of a chain; one account pays. One thread runs its turns."""

    def __init__(
        self,
        chain: StellarChain,
        nodes: StellarAccountNodes,
        key: StellarKey,
        limits: SpendLimits,
        clock: Callable[[], float],
    ) -> None:
        """`clock` counts seconds and paces retries only."""
        self._chain, self._nodes, self._key, self._limits = chain, nodes, key, limits
        self._backoff = Backoff(clock)
        self.account = AccountId(chain.id, "submissions")
        """Name of the lease: one process of all sends submissions."""
        self._since: datetime | None = None

    def turn(self, conn: Connection) -> TurnReport:
        """Advance every submission as far as possible now. Raises errors of nodes."""
        turn = TurnReport()
        self._advance(conn, turn)
        with conn.begin():
            self._write_health(conn, None, None)
        return turn

    def report_unhealthy(self, conn: Connection, error: IndexerError) -> None:
        """Write the reason why no turn is possible."""
        with conn.begin():
            self._write_health(conn, str(error), "node")

    def _write_health(
        self, conn: Connection, reason: str | None, problem: AccountProblem | None
    ) -> None:
        """Report submissions: their own budget, and what the account that pays reported last."""
        payer = health_of(conn, AccountId(self._chain.id, stellar_address(self._key)))
        spent, budget = self._spent_today(conn), self._limits.budget
        if reason is None and payer is not None and payer.problem != "budget":
            reason, problem = payer.reason, payer.problem
        if reason is None and spent + MIN_COST > budget:
            reason = f"the day's budget of {budget} stroops for submissions is used up"
            problem = "budget"
        health = AccountHealth(
            duty="submit",
            reason=reason,
            balance=None if payer is None else payer.balance,
            spent_today=spent,
            open=len(slots.open_slots_for(conn, self._chain.id, _PURPOSE)),
            budget=budget,
            floor=self._limits.floor,
            problem=problem,
        )
        set_health(conn, self.account, health)

    def _advance(self, conn: Connection, turn: TurnReport) -> None:
        with conn.begin():
            # Bounds the cost of a turn by what is open, not by all that ever was.
            self._since = oldest_waiting(conn, self._chain.id, self._since)
            queued = waiting_submissions(conn, self._chain.id, self._since)
        if not queued:
            return
        waiting = {each.tx: each for each in queued}
        bumps = [each.tx for one in self._open(conn, waiting) for each in one.slot.attempts]
        applied, window = self._nodes.find_applied([*waiting, *bumps])
        with conn.begin():
            final = slots.final_height(conn, self._chain.id)
        error = self._start(conn, waiting, applied, window, turn)
        for each in self._open(conn, waiting):
            step = next_step(each, applied, window, final)
            if isinstance(step, CloseSlot):
                self._close(conn, each, step, turn)
            elif step is SlotStep.REPLACE:
                self._replace(conn, each, waiting[TxHash(each.slot.key)], turn)
        for each in self._open(conn, waiting):
            if next_step(each, applied, window, final) is SlotStep.SEND:
                slots.broadcast(conn, self._chain.id, each.slot, self._nodes.send)
                turn.sent += 1
        if error is not None:
            raise error

    def _open(
        self, conn: Connection, waiting: Mapping[TxHash, QueuedSubmission]
    ) -> list[OpenSubmission]:
        with conn.begin():
            found = slots.open_slots_for(conn, self._chain.id, _PURPOSE)
        return [
            OpenSubmission(
                account, slot, read_header(waiting[TxHash(slot.key)].envelope).bounds.last
            )
            for account, slot in found
            if slot.key in waiting
        ]

    def _start(
        self,
        conn: Connection,
        waiting: Mapping[TxHash, QueuedSubmission],
        applied: Collection[TxHash],
        window: LookupWindow,
        turn: TurnReport,
    ) -> RetryableChainError | PermanentChainError | None:
        """Open slots; returns the first error of the nodes."""
        first_error: RetryableChainError | PermanentChainError | None = None
        with conn.begin():
            taken = slots.taken_keys(conn, self._chain.id, [(_PURPOSE, tx) for tx in waiting])
        for tx, each in waiting.items():
            header = read_header(each.envelope)
            # A submission that no ledger can take any more costs nothing, and needs an outcome.
            is_free = tx in applied or header.bounds.last < window.latest
            try:
                if (_PURPOSE, tx) in taken or not (is_free or self._may_pay(conn, each, turn)):
                    continue
            except (RetryableChainError, PermanentChainError) as error:
                # Nodes may fail for this submission alone: the others go on.
                self._backoff.failed(tx)
                first_error = first_error or error
                continue
            signed = sign_fee_bump(self._key, self._chain.passphrase, each.envelope, BID)
            attempt = Attempt(signed.tx, signed.raw)
            slot = NonceSlot(header.sequence, _PURPOSE, tx, each.transfer, (attempt,))
            with conn.begin():
                if not is_free and self._is_over_budget(conn, signed.max_cost):
                    turn.refused.append(f"submit {tx}: over the day's budget")
                    turn.unaffordable += 1
                    continue
                slots.open_slot(conn, AccountId(self._chain.id, tx), slot, signed.max_cost)
                set_obstacle(conn, each.transfer, None)
            turn.opened += 1
            logger.info(
                "signed chain=%s transfer=%s tx=%s",
                *(self._chain.id, each.transfer, tx),
                extra={"transfer": each.transfer},
            )
        return first_error

    def _may_pay(self, conn: Connection, each: QueuedSubmission, turn: TurnReport) -> bool:
        """True when it would succeed now, and not too many of its owner failed today."""
        if not self._backoff.is_due(each.tx):
            return False
        with conn.begin():
            failures = paid_failures(conn, each.transfer).get("submitter")
        if failures is not None and failures.are_too_many:
            problem: str | None = f"{failures.failed} transactions failed today: {RESUMES}"
        else:
            problem = submission_problem(self._chain, self._nodes, each.envelope)
        if problem is None:
            return True
        self._backoff.failed(each.tx)
        turn.refused.append(f"submit {each.tx}: {problem}")
        with conn.begin():
            set_obstacle(conn, each.transfer, PaymentObstacle("would_fail", problem))
        return False

    def _replace(
        self, conn: Connection, each: OpenSubmission, queued: QueuedSubmission, turn: TurnReport
    ) -> None:
        funds = self._nodes.funds(read_header(queued.envelope).source)
        if funds is None or funds.sequence + 1 != each.slot.number:
            # The owner used the number for another transaction. No bid makes a ledger take this
            # one, and the highest bid would count against the day's budget until its bounds end.
            return
        bid = Stroops(BID * 10 ** len(each.slot.attempts))
        signed = sign_fee_bump(self._key, self._chain.passphrase, queued.envelope, bid)
        attempt = Attempt(signed.tx, signed.raw)
        with conn.begin() as transaction:
            slots.add_attempt(conn, each.account, each.slot, attempt, signed.max_cost)
            # One fee bump of a submission is paid for, so the dearest counts.
            if self._is_over_budget(conn, Stroops(0)):
                transaction.rollback()
                turn.refused.append(f"replacing {queued.tx}: over the day's budget")
                turn.unaffordable += 1
                return
        turn.replaced += 1

    def _close(
        self, conn: Connection, each: OpenSubmission, step: CloseSlot, turn: TurnReport
    ) -> None:
        slot = each.slot
        with conn.begin():
            slots.close_slot(conn, each.account, slot, step.outcome, step.spent)
        slots.trace_closed(self._chain.id, slot, step.outcome)
        turn.confirmed += step.outcome == "confirmed"
        turn.failed += step.outcome != "confirmed"
        logger.info(
            "closed chain=%s purpose=submit transfer=%s tx=%s outcome=%s spent=%d",
            *(self._chain.id, slot.subject, slot.key, step.outcome, step.spent),
            extra={"transfer": slot.subject},
        )

    def _is_over_budget(self, conn: Connection, cost: NativeAmount) -> bool:
        return self._spent_today(conn) + cost > self._limits.budget

    def _spent_today(self, conn: Connection) -> NativeAmount:
        return slots.spent_today(conn, self._chain.id, purpose=_PURPOSE)
