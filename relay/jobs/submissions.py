"""Transactions that owners signed and we accepted on Stellar: sent in fee bumps of ours.

What the owner signed is in it byte for byte, and his sequence number lets a ledger take it once,
however often and in however many bumps it is sent. He may be given one number twice, when a first
transaction was never sent, so a slot here is of what he signed and not of his account.
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
from indexer.errors import PermanentChainError, RetryableChainError
from indexer.policy.paid_failures import paid_failures
from relay import store
from relay.account import TurnReport
from relay.jobs import obstacles
from relay.jobs.obstacles import PaymentObstacle
from relay.jobs.preflight import submission_problem
from relay.keys import StellarKey
from relay.limits import Backoff, SpendLimits
from relay.nonces import (
    Attempt,
    CloseSlot,
    JobPurpose,
    NextStep,
    NonceSlot,
    ReplaceAttempt,
    SendAttempt,
    SlotOutcome,
    WaitForChain,
)
from relay.senders.stellar_signing import bounds_of, sequence_of, sign_fee_bump, source_of
from relay.store import AccountId, Submitted
from warehouse_schema.identifiers import Height, TxHash, UnixSeconds

logger = logging.getLogger(__name__)

RESEND_SECONDS = 10.0
REPLACE_SECONDS = 60.0
BID = 10_000
"""Stroops an operation that a first bump bids; each further one ten times that, which is what a
queue wants of a replacement."""
MOST_ATTEMPTS = 4
RESUMES = "nothing more is paid for until the next UTC day"
_LOCK = "submissions"
_KIND: JobPurpose = "submit"


@dataclass(frozen=True, slots=True)
class Submission:
    """One under way."""

    account: AccountId
    """By the hash of what the owner signed."""
    slot: NonceSlot
    last: UnixSeconds
    """Close time of the last ledger that may take it."""


def next_step(
    submission: Submission,
    applied: Mapping[TxHash, AppliedTransaction],
    window: LookupWindow,
    final: Height | None,
) -> NextStep:
    """What to do about it. Pure.

    `applied` are those of its transactions that a ledger took: the bumps, and the owner's own under
    the slot's key if he or somebody else sent it. Nothing is over before that ledger is ingested,
    so that whoever hears of it finds what it did among the facts.
    """
    slot = submission.slot
    ours = [each.tx for each in slot.attempts]
    for tx in (*ours, TxHash(slot.key)):
        if tx in applied:
            found = applied[tx]
            if final is None or found.ledger > final:
                return WaitForChain()
            outcome: SlotOutcome = "done" if found.succeeded else "failed"
            return CloseSlot(outcome, found.charged if tx in ours else 0)
    if submission.last < window.latest:
        return CloseSlot("expired", 0)
    newest = slot.newest
    if newest.sent_ago is None:
        return SendAttempt()
    if newest.signed_ago > REPLACE_SECONDS and len(slot.attempts) < MOST_ATTEMPTS:
        return ReplaceAttempt()
    return SendAttempt() if newest.sent_ago > RESEND_SECONDS else WaitForChain()


class Submitter:
    """Sends what owners of a chain signed; one account of ours pays. One thread's."""

    def __init__(
        self,
        chain: StellarChain,
        nodes: StellarAccountNodes,
        key: StellarKey,
        limits: SpendLimits,
        clock: Callable[[], float],
    ) -> None:
        """`clock` counts seconds: it paces what would fail, and nothing rests on it."""
        self._chain, self._nodes, self._key, self._limits = chain, nodes, key, limits
        self._backoff = Backoff(clock)
        self.account = AccountId(chain.id, _LOCK)
        """Not one: the name under which one process of all sends them."""
        self._since: datetime | None = None

    def turn(self, conn: Connection) -> TurnReport:
        """Bring everything as far as it goes now. Raises what the nodes raise; nothing is lost."""
        turn = TurnReport()
        with conn.begin():
            # So that a turn costs what is open, and not all that ever was.
            self._since = store.oldest_waiting(conn, self._chain.id, self._since)
            found = store.waiting_submissions(conn, self._chain.id, self._since)
            waiting = {each.tx: each for each in found}
        if not waiting:
            return turn
        applied, window, final = self._look(conn, waiting)
        failure = self._begin(conn, waiting, applied, window, turn)
        for each in self._under_way(conn, waiting):
            step = next_step(each, applied, window, final)
            if isinstance(step, CloseSlot):
                self._close(conn, each, step, turn)
            elif isinstance(step, ReplaceAttempt):
                self._replace(conn, each, waiting[TxHash(each.slot.key)], turn)
        for each in self._under_way(conn, waiting):
            if isinstance(next_step(each, applied, window, final), SendAttempt):
                self._send(conn, each.slot.newest)
                turn.sent += 1
        if failure is not None:
            raise failure
        return turn

    def _send(self, conn: Connection, attempt: Attempt) -> None:
        try:
            answer = self._nodes.send_raw(attempt.raw)
        except (RetryableChainError, PermanentChainError) as error:
            # It may have arrived; and others come first before this one is sent again.
            with conn.begin():
                store.record_broadcast(conn, attempt.tx, f"no node took it: {error}")
            raise
        with conn.begin():
            store.record_broadcast(conn, attempt.tx, answer)

    def tell_unwell(self, conn: Connection, reason: str) -> None:
        """The account that pays says so itself, in its own turns."""

    def _look(
        self, conn: Connection, waiting: Mapping[TxHash, Submitted]
    ) -> tuple[Mapping[TxHash, AppliedTransaction], LookupWindow, Height | None]:
        bumps = [each.tx for one in self._under_way(conn, waiting) for each in one.slot.attempts]
        applied, window = self._nodes.find_applied([*waiting, *bumps])
        with conn.begin():
            return applied, window, store.final_height(conn, self._chain.id)

    def _under_way(self, conn: Connection, waiting: Mapping[TxHash, Submitted]) -> list[Submission]:
        with conn.begin():
            return [
                Submission(account, slot, bounds_of(waiting[TxHash(slot.key)].envelope).last)
                for account, slot in store.open_slots_for(conn, self._chain.id, _KIND)
                if slot.key in waiting
            ]

    def _begin(
        self,
        conn: Connection,
        waiting: Mapping[TxHash, Submitted],
        applied: Collection[TxHash],
        window: LookupWindow,
        turn: TurnReport,
    ) -> RetryableChainError | PermanentChainError | None:
        """Open slots; gives what the nodes failed with first, if they did."""
        failure: RetryableChainError | PermanentChainError | None = None
        with conn.begin():
            taken = store.taken_keys(conn, self._chain.id, _KIND, [*waiting])
        for tx, each in waiting.items():
            # What no ledger takes any more costs nothing, and its owner has to hear of it.
            is_free = tx in applied or bounds_of(each.envelope).last < window.latest
            try:
                if tx in taken or not (is_free or self._may_pay(conn, each, turn)):
                    continue
            except (RetryableChainError, PermanentChainError) as error:
                # It may be this one alone that nodes cannot try: the others go on.
                self._backoff.failed(tx)
                failure = failure or error
                continue
            signed = sign_fee_bump(self._key, self._chain.passphrase, each.envelope, BID)
            number = sequence_of(each.envelope)
            attempt = Attempt.unsent(signed)
            slot = NonceSlot(number, _KIND, tx, each.transfer, (attempt,))
            with conn.begin():
                if not is_free and self._is_too_much(conn, signed.most_cost):
                    turn.refused.append(f"submit {tx}: over the day's budget")
                    continue
                store.open_slot(conn, AccountId(self._chain.id, tx), slot, signed.most_cost)
                obstacles.set_if_changed(conn, each.transfer, None)
            turn.opened += 1
            logger.info("bumped chain=%s transfer=%s tx=%s", self._chain.id, each.transfer, tx)
        return failure

    def _may_pay(self, conn: Connection, each: Submitted, turn: TurnReport) -> bool:
        """Whether it would succeed now, and few enough of its owner's failed today."""
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
            obstacles.set_if_changed(conn, each.transfer, PaymentObstacle("would_fail", problem))
        return False

    def _replace(
        self, conn: Connection, each: Submission, submitted: Submitted, turn: TurnReport
    ) -> None:
        funds = self._nodes.funds(source_of(submitted.envelope))
        if funds is None or funds.sequence + 1 != each.slot.number:
            # The owner used the number otherwise: no bid has a ledger take it, and the highest one
            # would count against the day's budget until the bounds end.
            return
        bid = BID * 10 ** len(each.slot.attempts)
        signed = sign_fee_bump(self._key, self._chain.passphrase, submitted.envelope, bid)
        attempt = Attempt.unsent(signed)
        with conn.begin() as kept:
            store.add_attempt(conn, each.account, each.slot, attempt, signed.most_cost)
            # Of all bumps of one transaction one is paid for: what counts is the dearest.
            if self._is_too_much(conn, 0):
                kept.rollback()
                turn.refused.append(f"bidding more for {submitted.tx}: over the day's budget")
                return
        turn.replaced += 1

    def _close(self, conn: Connection, each: Submission, step: CloseSlot, turn: TurnReport) -> None:
        slot = each.slot
        with conn.begin():
            store.close_slot(conn, each.account, slot, step.outcome, step.spent)
        turn.done += step.outcome == "done"
        turn.failed += step.outcome != "done"
        logger.info(
            "closed chain=%s purpose=submit transfer=%s tx=%s outcome=%s spent=%d",
            *(self._chain.id, slot.subject, slot.key, step.outcome, step.spent),
        )

    def _is_too_much(self, conn: Connection, cost: int) -> bool:
        spent = store.spent_today_on(conn, self._chain.id, _KIND)
        return spent + cost > self._limits.budget
