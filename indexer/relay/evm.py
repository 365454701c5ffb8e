"""What an account of ours does on an EVM chain: one turn after the other, each safe to be killed.

Signed bytes are committed before anybody sees them, and what is sent is read from there. After a
kill anywhere the next turn finds either nothing, and may sign, or bytes, and sends those.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlalchemy import Connection

from indexer.chains.evm_accounts import AccountView, EvmAccountNodes, GasPrice
from indexer.errors import CallReverted, RetryableChainError
from indexer.networks import EvmChain
from indexer.relay import store
from indexer.relay.evm_decide import (
    AskWhoTookIt,
    Close,
    Replace,
    Send,
    bid,
    next_step,
)
from indexer.relay.evm_signing import Call, Fees, Signed, sign
from indexer.relay.keys import EvmKey, evm_address
from indexer.relay.slots import Attempt, Purpose, Slot
from warehouse_schema.identifiers import EvmAddress, TxHash

logger = logging.getLogger(__name__)

MOST_OPEN = 8
"""Slots of an account at once: what one that waits for its fee may hold up."""
MOST_FAILURES = 3
"""Of one purpose, or of an account in a row, that were paid for in vain: then a person looks."""
_GAS_MARGIN = 4
"""A quarter more than was estimated; what is not used is not paid."""
_FILL_GAS = 21_000


@dataclass(frozen=True, slots=True)
class Owed:
    """Something that is to happen once."""

    purpose: Purpose
    key: str
    subject: str
    call: Call
    is_over: Call | None = None
    """A view that answers with anything but zero once it has happened, by whomever."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far an account may go, in wei."""

    budget: int
    """Most that it may spend in a UTC day, what is open counted at its most."""
    floor: int
    """Less than this on the account calls for an operator."""


@dataclass(slots=True)
class Turn:
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


class Ledger(Protocol):
    """Where what is owed is read from."""

    def owed(self, conn: Connection) -> Sequence[Owed]:
        """Everything that is to happen on a chain and did not so far, the oldest first."""
        ...


class EvmRelay:
    """An account of ours on one chain. Its turns are one thread's, which holds its lock."""

    def __init__(
        self, chain: EvmChain, nodes: EvmAccountNodes, key: EvmKey, limits: Limits, ledger: Ledger
    ) -> None:
        self._chain = chain
        self._nodes = nodes
        self._key = key
        self._limits = limits
        self._ledger = ledger
        self.account = store.Account(chain.id, evm_address(key))

    def turn(self, conn: Connection) -> Turn:
        """Bring everything as far as it goes now. Raises what the nodes raise; nothing is lost."""
        turn = Turn()
        with conn.begin():
            slots = store.open_slots(conn, self.account)
            owed = self._ledger.owed(conn)
        view = self._nodes.view(self._address, _transactions(slots))
        price = self._nodes.gas_price_now()
        buried = self._buried(conn, view)
        wanted = {(each.purpose, each.key): each for each in owed}
        for slot in slots:
            still = wanted.get((slot.purpose, slot.key))
            step = next_step(
                slot, view, price, buried=buried, block_seconds=self._chain.block_seconds
            )
            if isinstance(step, AskWhoTookIt):
                step = self._ask_who_took_it(conn, slot) or step
            if isinstance(step, Close):
                self._close(conn, slot, self._judged(step, still), turn)
            elif isinstance(step, Replace):
                self._replace(conn, slot, step.fees, still, turn)
        self._begin(conn, owed, view, price, turn)
        self._send(conn, view, price, buried, turn)
        self._tell(conn, view)
        return turn

    def tell_unwell(self, conn: Connection, reason: str) -> None:
        """Say that no turn is possible, and why."""
        with conn.begin():
            spent = store.spent_today(conn, self.account)
            number = len(store.open_slots(conn, self.account))
            store.set_health(conn, self.account, store.Health(reason, None, spent, number))

    @property
    def _address(self) -> EvmAddress:
        return EvmAddress(self.account.address)

    # What was sent.

    def _buried(self, conn: Connection, view: AccountView) -> set[TxHash]:
        """Transactions in blocks that we ingested ourselves, and that stay."""
        with conn.begin():
            final = store.final_height(conn, self._chain.id)
            heights = [each.height for each in view.inclusions.values()]
            hashes = store.ingested_hashes(conn, self._chain.id, heights)
        return {
            tx
            for tx, each in view.inclusions.items()
            if final is not None
            and each.height <= final
            and hashes.get(each.height) == each.block_hash
        }

    def _ask_who_took_it(self, conn: Connection, slot: Slot) -> Close | None:
        with conn.begin():
            final = store.final_height(conn, self._chain.id)
        ours = [each.tx for each in slot.attempts]
        try:
            is_overtaken = final is not None and self._nodes.is_overtaken(
                self._address, slot.number, final, ours
            )
        except RetryableChainError as error:
            # Nodes forget old states. As long as none can tell, nothing else is signed for it.
            logger.warning("who took nonce=%d chain=%s: %s", slot.number, self._chain.id, error)
            return None
        return Close("overtaken", 0) if is_overtaken else None

    def _judged(self, step: Close, owed: Owed | None) -> Close:
        """Without effect because somebody else was first: no failure, or strangers could stop us.

        Whoever is quick can have us pay for nothing now and then; the day's budget bounds that.
        """
        if step.outcome == "failed" and (owed is None or self._is_over(owed)):
            return Close("late", step.spent)
        return step

    def _close(self, conn: Connection, slot: Slot, step: Close, turn: Turn) -> None:
        with conn.begin():
            store.close_slot(conn, self.account, slot, step.outcome, step.spent)
            reason = self._reason_to_stop(conn, slot, step)
            if reason is not None:
                store.stop_account(conn, self.account, reason)
                logger.error("stopped chain=%s: %s", self._chain.id, reason)
        turn.done += step.outcome == "done"
        turn.late += step.outcome == "late"
        turn.failed += step.outcome in ("failed", "overtaken")
        logger.info(
            "closed chain=%s nonce=%d purpose=%s transfer=%s outcome=%s wei=%d",
            *(self._chain.id, slot.number, slot.purpose, slot.subject, step.outcome, step.spent),
        )

    def _reason_to_stop(self, conn: Connection, slot: Slot, step: Close) -> str | None:
        if step.outcome == "overtaken":
            return (
                f"somebody else signs with the key of {self.account.address}: nonce {slot.number} "
                "was used by a transaction that is not ours"
            )
        latest = store.latest_outcomes(conn, self.account, MOST_FAILURES)
        if latest == ["failed"] * MOST_FAILURES:
            return f"the last {MOST_FAILURES} transactions were included and had no effect"
        return None

    def _replace(
        self, conn: Connection, slot: Slot, fees: Fees, owed: Owed | None, turn: Turn
    ) -> None:
        """The same number at a higher bid; of nothing at all once nothing is owed."""
        still = None if owed is None or self._is_over(owed) else owed
        call = Call(self._address, b"") if still is None else still.call
        try:
            gas = _FILL_GAS if still is None else self._gas_of(call)
        except CallReverted:
            still, call, gas = None, Call(self._address, b""), _FILL_GAS
        signed = sign(self._key, self._chain.number, slot.number, call, gas, fees)
        with conn.begin():
            reserved = signed.most_cost
            if store.spent_today(conn, self.account) + reserved > self._limits.budget:
                turn.refused.append(f"replacing nonce {slot.number}: over the day's budget")
                return
            attempt = _attempt(signed, is_fill=still is None)
            store.add_attempt(conn, self.account, slot, attempt, reserved)
        turn.replaced += 1

    # What is to be sent.

    def _begin(
        self,
        conn: Connection,
        owed: Sequence[Owed],
        view: AccountView,
        price: GasPrice,
        turn: Turn,
    ) -> None:
        with conn.begin():
            if owed and store.standing_break(conn, self.account) is not None:
                return
            room = MOST_OPEN - len(store.open_slots(conn, self.account)) if owed else 0
            waiting = _not_taken(conn, self._chain, owed) if room > 0 else []
        for each in waiting:
            if turn.opened == room:
                return
            if self._is_over(each):
                continue
            try:
                gas = self._gas_of(each.call)
            except CallReverted as error:
                turn.refused.append(f"{each.purpose} {each.key}: {error}")
                continue
            if not self._open(conn, each, gas, view, price, turn):
                return

    def _open(
        self,
        conn: Connection,
        owed: Owed,
        gas: int,
        view: AccountView,
        price: GasPrice,
        turn: Turn,
    ) -> bool:
        """Sign and keep the first transaction for something; False when the means are used up."""
        with conn.begin():
            if store.failures_of(conn, self._chain.id, owed.purpose, owed.key) >= MOST_FAILURES:
                turn.refused.append(f"{owed.purpose} {owed.key}: failed {MOST_FAILURES} times")
                return True
            number = max(view.next_nonce, store.next_number(conn, self.account))
            signed = sign(self._key, self._chain.number, number, owed.call, gas, bid(price))
            lack = self._lack(conn, view, signed.most_cost)
            if lack is not None:
                turn.refused.append(f"{owed.purpose} {owed.key}: {lack}")
                return False
            attempt = _attempt(signed, is_fill=False)
            slot = Slot(number, owed.purpose, owed.key, owed.subject, (attempt,))
            store.open_slot(conn, self.account, slot, signed.most_cost)
        turn.opened += 1
        logger.info(
            "signed chain=%s nonce=%d purpose=%s transfer=%s tx=%s",
            *(self._chain.id, number, owed.purpose, owed.subject, signed.tx),
        )
        return True

    def _lack(self, conn: Connection, view: AccountView, cost: int) -> str | None:
        spent = store.spent_today(conn, self.account)
        if spent + cost > self._limits.budget:
            return f"over the day's budget of {self._limits.budget} wei, {spent} of it used"
        if view.balance < cost:
            return f"{view.balance} wei on the account, {cost} needed"
        return None

    def _is_over(self, owed: Owed) -> bool:
        view = owed.is_over
        return view is not None and self._nodes.word(view.to, view.data) != 0

    def _gas_of(self, call: Call) -> int:
        gas = self._nodes.gas_of(self._address, call.to, call.data, call.value)
        return gas + gas // _GAS_MARGIN

    def _send(
        self,
        conn: Connection,
        view: AccountView,
        price: GasPrice,
        buried: Collection[TxHash],
        turn: Turn,
    ) -> None:
        with conn.begin():
            slots = store.open_slots(conn, self.account)
        for slot in slots:
            step = next_step(
                slot, view, price, buried=buried, block_seconds=self._chain.block_seconds
            )
            if isinstance(step, Send):
                answer = self._nodes.send(slot.newest.raw)
                with conn.begin():
                    store.note_sent(conn, slot.newest.tx, answer)
                turn.sent += 1

    def _tell(self, conn: Connection, view: AccountView) -> None:
        with conn.begin():
            reason = store.standing_break(conn, self.account)
            spent = store.spent_today(conn, self.account)
            number = len(store.open_slots(conn, self.account))
            if reason is None and view.balance < self._limits.floor:
                reason = f"{view.balance} wei on the account, less than {self._limits.floor}"
            if reason is None and spent >= self._limits.budget:
                reason = f"the day's budget of {self._limits.budget} wei is used up"
            stands = store.Health(reason, view.balance, spent, number)
            store.set_health(conn, self.account, stands)


def _transactions(slots: Sequence[Slot]) -> list[TxHash]:
    return [attempt.tx for slot in slots for attempt in slot.attempts]


def _attempt(signed: Signed, *, is_fill: bool) -> Attempt:
    return Attempt(signed.tx, signed.raw, is_fill, 0.0, None)


def _not_taken(conn: Connection, chain: EvmChain, owed: Sequence[Owed]) -> list[Owed]:
    keys: dict[Purpose, list[str]] = {}
    for each in owed:
        keys.setdefault(each.purpose, []).append(each.key)
    taken = {
        (purpose, key)
        for purpose, of_it in keys.items()
        for key in store.taken_keys(conn, chain.id, purpose, of_it)
    }
    return [each for each in owed if (each.purpose, each.key) not in taken]
