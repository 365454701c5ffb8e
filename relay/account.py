"""What an account of ours does on its chain: one turn after the other, each safe to be killed.

Signed bytes are committed before anybody sees them, and what is sent is read from there. After a
kill anywhere the next turn finds either nothing, and may sign, or bytes, and sends those.
"""

import logging
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from indexer.errors import CallReverted, PermanentChainError, RetryableChainError
from indexer.policy.paid_failures import reason_to_wait
from indexer.policy.relay_accounts import Duty
from relay import store
from relay.limits import Backoff, SpendLimits
from relay.nonces import (
    AccountState,
    Attempt,
    C,
    CheckEffect,
    CloseSlot,
    JobPurpose,
    NextStep,
    NonceSlot,
    RelayJob,
    ReplaceAttempt,
    SendAttempt,
    SignedTransaction,
)
from relay.store import AccountId
from warehouse_schema.identifiers import ChainId, Height, TxHash

logger = logging.getLogger(__name__)

MAX_FAILURES = 3
"""Of one thing that were paid for in vain: the thing is let be, and a person looks. Of so many
things of an account in a row: it opens its slots one by one, with pauses."""
FAILING_PAUSE_SECONDS = 60
"""Between two slots of such an account; twice as long for each further thing that failed."""
MAX_FAILING_PAUSE_SECONDS = 300


@dataclass(slots=True)
class TurnReport:
    """What one turn did."""

    opened: int = 0
    sent: int = 0
    replaced: int = 0
    done: int = 0
    late: int = 0
    """Paid for without effect, for somebody else was first."""
    failed: int = 0
    """Paid for without effect, or overtaken."""
    refused: list[str] = field(default_factory=list)
    """What could not be begun and why; tried again each turn."""


class JobSource(Protocol[C]):
    """Where what is owed is read from."""

    def owed(self, conn: Connection) -> Sequence[RelayJob[C]]:
        """Everything that is to happen on a chain and did not so far, the oldest first."""
        ...

    def objection(self, conn: Connection, owed: RelayJob[C]) -> str | None:
        """Why a first transaction for it must not be kept; None: it may be.

        Asked in the transaction that keeps it: what the answer rests on stays locked until commit.
        """
        ...


class TransactionSender(Protocol[C]):
    """A chain as one account of ours meets it: its nodes, its key, its rules.

    What reaches a node raises `RetryableChainError`, or `PermanentChainError` when all are unfit.
    """

    @property
    def account(self) -> AccountId:
        """Who signs."""
        ...

    @property
    def duty(self) -> Duty:
        """What the account is there for."""
        ...

    @property
    def unit(self) -> str:
        """What the chain's native base unit is called."""
        ...

    @property
    def most_open(self) -> int:
        """Slots at once."""
        ...

    def look(self, transactions: Sequence[TxHash]) -> AccountState:
        """The account now, and what became of these. The other methods go by the last look."""
        ...

    def step(self, slot: NonceSlot, buried: Collection[TxHash]) -> NextStep:
        """What comes next for a slot; `buried` are in blocks that we ingested and that stay."""
        ...

    def is_overtaken(self, slot: NonceSlot, final: Height) -> bool:
        """Whether none of a slot's transactions can take effect any more, as of a final block."""
        ...

    def is_over(self, owed: RelayJob[C]) -> bool:
        """Whether it happened, by whomever, as the chain is now."""
        ...

    def next_number(self, own: int | None) -> int:
        """What to sign with next; `own` is the number after those that we gave, None before any.

        Raises `PermanentChainError` also while nodes disagree on the first number of all.
        """
        ...

    def sign(self, number: int, call: C) -> SignedTransaction:
        """A first transaction. Raises `CallReverted` when it would have no effect now."""
        ...

    def sign_again(self, slot: NonceSlot, call: C | None) -> SignedTransaction:
        """One of the same number that replaces the newest; None: that takes it and does nothing.

        Raises `CallReverted` when it would have no effect now.
        """
        ...

    def send(self, raw: bytes) -> str:
        """Give a transaction to a node; what it says, which decides nothing."""
        ...


class AccountRelay(Generic[C]):
    """An account of ours on one chain. Its turns are one thread's, which holds its lock."""

    def __init__(
        self,
        wire: TransactionSender[C],
        ledger: JobSource[C],
        limits: SpendLimits,
        clock: Callable[[], float],
    ) -> None:
        """`clock` counts seconds: it paces what was refused, and nothing rests on it."""
        self._wire = wire
        self._ledger = ledger
        self._limits = limits
        self._backoff = Backoff(clock)
        self.account = wire.account

    def turn(self, conn: Connection) -> TurnReport:
        """Bring everything as far as it goes now. Raises what the nodes raise; nothing is lost."""
        turn = TurnReport()
        with conn.begin():
            slots = store.open_slots(conn, self.account)
            owed = self._ledger.owed(conn)
        sight = self._wire.look([attempt.tx for slot in slots for attempt in slot.attempts])
        self._reopen(conn, sight)
        buried = self._buried(conn, sight)
        wanted = {(each.purpose, each.key): each for each in owed}
        for slot in slots:
            still = wanted.get((slot.purpose, slot.key))
            step = self._wire.step(slot, buried)
            if isinstance(step, CheckEffect):
                step = self._ask_who_took_it(conn, slot) or step
            if isinstance(step, CloseSlot):
                self._close(conn, slot, self._judged(step, still), turn)
            elif isinstance(step, ReplaceAttempt):
                self._replace(conn, slot, still, turn)
        failure = self._begin(conn, owed, sight, turn)
        self._send(conn, buried, turn)
        if failure is not None:
            raise failure
        self._tell(conn, sight)
        return turn

    def tell_unwell(self, conn: Connection, reason: str) -> None:
        """Say that no turn is possible, and why."""
        with conn.begin():
            spent = self._spent(conn)
            number = len(store.open_slots(conn, self.account))
            stands = store.AccountHealth(self._wire.duty, reason, None, spent, number)
            store.set_health(conn, self.account, stands)

    # What was sent.

    def _reopen(self, conn: Connection, sight: AccountState) -> None:
        """Take up again what a reorganisation beyond finality took back: the numbers are unused.

        Only where all nodes that answer, of as many operators as are needed, agree on the number:
        one that lies about it must not have slots opened and closed in turns.
        """
        with conn.begin():
            final = store.final_height(conn, self.account.chain)
            closed = store.slots_closed_from(conn, self.account, sight.furthest_number)
        if not closed or sight.head is None or final is None or sight.head < final:
            return
        try:
            unused = self._wire.next_number(None)
        except (RetryableChainError, PermanentChainError) as error:
            logger.warning("number taken back? chain=%s: %s", self.account.chain, error)
            return
        with conn.begin():
            opened = store.reopen_slots(conn, self.account, unused)
            left = store.slots_closed_from(conn, self.account, unused)
            if left:
                # The chain waits for these numbers, and another slot serves their purpose.
                store.halt_account(
                    conn,
                    self.account,
                    f"the chain took back numbers {left}, and another slot stands for what they"
                    " were for: send the signed bytes of their attempts again",
                )
        logger.error("taken back chain=%s reopened=%s left=%s", self.account.chain, opened, left)

    def _buried(self, conn: Connection, sight: AccountState) -> set[TxHash]:
        """Transactions in blocks that we ingested ourselves, and that stay."""
        with conn.begin():
            final = store.final_height(conn, self.account.chain)
            heights = [each.height for each in sight.inclusions.values()]
            hashes = store.ingested_hashes(conn, self.account.chain, heights)
        return {
            tx
            for tx, each in sight.inclusions.items()
            if final is not None
            and each.height <= final
            and each.block_hash in (None, hashes.get(each.height))
            and each.height in hashes
        }

    def _ask_who_took_it(self, conn: Connection, slot: NonceSlot) -> CloseSlot | None:
        with conn.begin():
            final = store.final_height(conn, self.account.chain)
        try:
            is_overtaken = final is not None and self._wire.is_overtaken(slot, final)
        except RetryableChainError as error:
            # Nodes forget old states. As long as none can tell, nothing else is signed for it.
            logger.warning(
                "who took number=%d chain=%s: %s", slot.number, self.account.chain, error
            )
            return None
        return CloseSlot("overtaken", 0) if is_overtaken else None

    def _judged(self, step: CloseSlot, owed: RelayJob[C] | None) -> CloseSlot:
        """Without effect because somebody else was first, or because it is not to be done now.

        It does not stop the account, or strangers could. It counts as a failure of the thing and of
        its owner all the same.
        """
        if step.outcome != "failed":
            return step
        is_late = owed is None or owed.is_anybodys or self._wire.is_over(owed)
        return CloseSlot("late", step.spent) if is_late else step

    def _close(self, conn: Connection, slot: NonceSlot, step: CloseSlot, turn: TurnReport) -> None:
        with conn.begin():
            store.close_slot(conn, self.account, slot, step.outcome, step.spent)
            if step.outcome == "overtaken":
                reason = (
                    f"somebody else signs with the key of {self.account.address}: number "
                    f"{slot.number} was used by a transaction that is not ours"
                )
                store.halt_account(conn, self.account, reason)
                logger.error("stopped chain=%s: %s", self.account.chain, reason)
        turn.done += step.outcome == "done"
        turn.late += step.outcome == "late"
        turn.failed += step.outcome in ("failed", "overtaken")
        logger.info(
            "closed chain=%s number=%d purpose=%s transfer=%s outcome=%s spent=%d",
            *(
                self.account.chain,
                slot.number,
                slot.purpose,
                slot.subject,
                step.outcome,
                step.spent,
            ),
        )

    def _replace(
        self, conn: Connection, slot: NonceSlot, owed: RelayJob[C] | None, turn: TurnReport
    ) -> None:
        """The same number anew; of nothing at all once nothing is owed."""
        still = None if owed is None or self._wire.is_over(owed) else owed
        try:
            signed = self._wire.sign_again(slot, None if still is None else still.call)
        except CallReverted:
            still, signed = None, self._wire.sign_again(slot, None)
        with conn.begin() as kept:
            attempt = Attempt.unsent(signed, is_fill=still is None)
            store.add_attempt(conn, self.account, slot, attempt, signed.most_cost)
            # Of all that has one number one takes effect: what counts is the dearest.
            if self._spent(conn) > self._limits.budget:
                kept.rollback()
                turn.refused.append(f"replacing number {slot.number}: over the day's budget")
                return
        turn.replaced += 1

    # What is to be sent.

    def _begin(
        self, conn: Connection, owed: Sequence[RelayJob[C]], sight: AccountState, turn: TurnReport
    ) -> RetryableChainError | PermanentChainError | None:
        """Open slots, as many as may be open; gives what the nodes failed with, if they did."""
        waiting = [each for each in owed if self._backoff.is_due(each.key)]
        if not waiting:
            return None
        with conn.begin():
            if store.current_halt(conn, self.account) is not None:
                return None
            room = self._wire.most_open - len(store.open_slots(conn, self.account))
            run = store.failed_run(conn, self.account)
            room = slots_allowed(run, room)
            if run.things >= MAX_FAILURES:
                # In their order, many that fail would come before one that does not.
                waiting = random.sample(waiting, len(waiting))
            waiting = _not_taken(conn, self.account.chain, waiting) if room > 0 else []
        for each in waiting:
            if turn.opened == room:
                return None
            try:
                refusal = None if self._wire.is_over(each) else self._open(conn, each, sight, turn)
            except (RetryableChainError, PermanentChainError) as error:
                # It may be this one alone, of which no node will speak: then others come first.
                self._backoff.failed(each.key)
                return error
            if refusal is not None:
                turn.refused.append(f"{each.purpose} {each.key}: {refusal}")
                self._backoff.failed(each.key)
        return None

    def _open(
        self, conn: Connection, owed: RelayJob[C], sight: AccountState, turn: TurnReport
    ) -> str | None:
        """Sign and keep the first transaction for something, or say why not."""
        with conn.begin():
            failures = store.failure_count(conn, self.account.chain, owed.purpose, owed.key)
            backoff = reason_to_wait(conn, owed.subject)
            own = store.next_number(conn, self.account)
        if failures >= MAX_FAILURES:
            return f"failed {failures} times"
        if backoff is not None:
            return backoff
        number = self._wire.next_number(own)
        try:
            signed = self._wire.sign(number, owed.call)
        except CallReverted as error:
            return str(error)
        slot = NonceSlot(number, owed.purpose, owed.key, owed.subject, (Attempt.unsent(signed),))
        try:
            with conn.begin():
                objection = self._ledger.objection(conn, owed)
                refusal = objection or self._lack(conn, sight, signed.most_cost)
                if refusal is not None:
                    return refusal
                store.open_slot(conn, self.account, slot, signed.most_cost)
        except IntegrityError as error:
            if "uq_slots_once" not in str(error.orig):
                raise
            # Another account of ours was quicker.
            return None
        turn.opened += 1
        logger.info(
            "signed chain=%s number=%d purpose=%s transfer=%s tx=%s",
            *(self.account.chain, number, owed.purpose, owed.subject, signed.tx),
        )
        return None

    def _lack(self, conn: Connection, sight: AccountState, cost: int) -> str | None:
        spent, unit = self._spent(conn), self._wire.unit
        if spent + cost > self._limits.budget:
            return f"over the day's budget of {self._limits.budget} {unit}, {spent} of it used"
        if sight.balance < cost:
            return f"{sight.balance} {unit} on the account, {cost} needed"
        return None

    def _spent(self, conn: Connection) -> int:
        return store.spent_today(conn, self.account)

    def _send(self, conn: Connection, buried: Collection[TxHash], turn: TurnReport) -> None:
        with conn.begin():
            slots = store.open_slots(conn, self.account)
        for slot in slots:
            if isinstance(self._wire.step(slot, buried), SendAttempt):
                self._send_newest(conn, slot)
                turn.sent += 1

    def _send_newest(self, conn: Connection, slot: NonceSlot) -> None:
        try:
            answer = self._wire.send(slot.newest.raw)
        except (RetryableChainError, PermanentChainError) as error:
            # It may have arrived; and what no node takes (some refuse a bid below the base fee) is
            # replaced in its time, and keeps no other from being sent meanwhile.
            with conn.begin():
                store.record_broadcast(conn, slot.newest.tx, f"no node took it: {error}")
            raise
        with conn.begin():
            store.record_broadcast(conn, slot.newest.tx, answer)

    def _tell(self, conn: Connection, sight: AccountState) -> None:
        with conn.begin():
            reason = store.current_halt(conn, self.account)
            spent, unit = self._spent(conn), self._wire.unit
            number = len(store.open_slots(conn, self.account))
            limits = self._limits
            needed = max(limits.floor, limits.max_cost)
            if reason is None and sight.balance < needed:
                reason = f"{sight.balance} {unit} on the account, less than {needed}"
            if reason is None and spent + limits.max_cost > limits.budget:
                reason = f"the day's budget of {limits.budget} {unit} is used up"
            stands = store.AccountHealth(self._wire.duty, reason, sight.balance, spent, number)
            store.set_health(conn, self.account, stands)


def slots_allowed(run: store.FailedRun, room: int) -> int:
    """How many slots an account may open after such failures.

    It is not stopped: recipients can make what is paid to them fail, and three of them could stop
    all deliveries of a chain.
    """
    if run.things < MAX_FAILURES:
        return room
    pause = FAILING_PAUSE_SECONDS * int(2 ** (run.things - MAX_FAILURES))
    allowed = int(run.last_ago / min(pause, MAX_FAILING_PAUSE_SECONDS))
    return min(room, 1, max(0, allowed - run.opened_since))


def _not_taken(conn: Connection, chain: ChainId, owed: Sequence[RelayJob[C]]) -> list[RelayJob[C]]:
    keys: dict[JobPurpose, list[str]] = {}
    for each in owed:
        keys.setdefault(each.purpose, []).append(each.key)
    taken = {
        (purpose, key)
        for purpose, of_it in keys.items()
        for key in store.taken_keys(conn, chain, purpose, of_it)
    }
    return [each for each in owed if (each.purpose, each.key) not in taken]
