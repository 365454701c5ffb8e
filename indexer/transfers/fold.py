"""The state of a transfer: one pure fold over all its inputs.

The fold takes legal steps of the state machine only; the last step is the stage. Equal inputs give
equal states in whatever order they arrived, so a row or block that was missed, doubled or rewound
leaves no wrong stage behind.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from indexer.transfers import state_machine
from indexer.transfers.deposit_balance import (
    DepositBalance,
    TokenBalance,
    compute_balance,
    settling_refund,
)
from indexer.transfers.inputs import (
    NO_TRUSTLINE,
    WOULD_FAIL,
    ChainPosition,
    DeliveryReceipt,
    MatchedMovement,
    SentTransaction,
    TransferInputs,
)
from indexer.transfers.reasons import PendingSource, StageReason, stage_reason
from indexer.transfers.state_machine import ActionBy, Sep24Status, Stage
from warehouse_schema.identifiers import (
    Address,
    BaseUnits,
    Bytes32,
    ChainId,
    TxHash,
    UnixSeconds,
    is_evm,
)

Clock: TypeAlias = ChainId | Literal["service"]
"""Block times of a chain, or the database's clock."""


@dataclass(frozen=True, slots=True)
class StageChange:
    """A stage that the transfer reached."""

    stage: Stage
    at: UnixSeconds | None
    """None where no row gives a time: a block becomes final without an event."""
    chain: ChainId | None = None
    tx: TxHash | None = None
    clock: Clock | None = None
    """Clock of `at`; None without one. Steps are in the order of cause and effect; times of two
    clocks may be in another order."""


@dataclass(frozen=True, slots=True)
class DepositRefund:
    """What the deposit address received, and what of it has to go back or went back."""

    lines: tuple[TokenBalance, ...]
    pending_below_minimum: BaseUnits
    """Owed in the transfer's own token, and below the automatic refund's minimum."""
    txs: tuple[TxHash, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferState:
    """Where a transfer is, and what its client is shown."""

    stage: Stage
    status: Sep24Status
    turn: ActionBy
    reason: StageReason | None
    detail: str | None
    """A sentence for people, from a service or from the operator who holds the transfer."""
    timeline: tuple[StageChange, ...]
    since: UnixSeconds | None = None
    """Time of the last step that has one: estimates count from here."""
    completed_at: UnixSeconds | None = None
    external_tx: TxHash | None = None
    """The EVM transaction: burn or send, or delivery."""
    stellar_tx: TxHash | None = None
    movement: str | None = None
    """Id of the movement that carries it."""
    extras: tuple[str, ...] = ()
    """Further movements that match: delivered too, to the same recipient."""
    amount_delivered: BaseUnits | None = None
    """Destination chain base units."""
    self_finish: Bytes32 | None = None
    """Nonce of an attested message that anyone may deliver now."""
    refund: DepositRefund | None = None
    """None without a deposit address, or before it received anything."""
    goes_back: tuple[Address, ...] = ()
    """Tokens whose whole balance at the deposit address has to be refunded now."""


class _Path:
    """Steps so far. `go` raises `IllegalTransition` for a step outside the table."""

    def __init__(self, first: Stage, at: UnixSeconds) -> None:
        self.steps = [StageChange(first, at, clock="service")]

    @property
    def stage(self) -> Stage:
        return self.steps[-1].stage

    def go(
        self,
        stage: Stage,
        at: UnixSeconds | None,
        chain: ChainId | None = None,
        tx: TxHash | None = None,
        clock: Clock = "service",
    ) -> None:
        if stage != self.stage:
            state_machine.check_step(self.stage, stage)
            self.steps.append(StageChange(stage, at, chain, tx, None if at is None else clock))

    def go_at(self, stage: Stage, place: ChainPosition | DeliveryReceipt) -> None:
        self.go(stage, place.at, place.chain, place.tx, place.chain)


def fold_transfer(inputs: TransferInputs) -> TransferState:
    """Compute the state. Raises `IllegalTransition` if the inputs need an illegal step."""
    terms, closed_at = inputs.terms, inputs.closed_at
    settled = None if closed_at is None else settling_refund(inputs, closed_at)
    movement, extras = _choose_movement(inputs, settled)
    pending = () if movement or settled else _pending_sources(inputs)
    # The amount is reserved until it is moved on or has to go back.
    is_reserved = (closed_at is None or bool(pending)) and not inputs.matched
    balance = compute_balance(inputs, inputs.matched, is_reserved=is_reserved)

    first: Stage = "AWAITING_SIGNATURE" if terms.deposit_address is None else "AWAITING_FUNDS"
    path = _Path(first, terms.started_at)
    for failed in inputs.failed:
        path.go("SUBMITTED", failed.sent_at, terms.source_chain, failed.tx)
        path.go(first, failed.at, terms.source_chain, failed.tx)
    _fund_or_close(path, inputs, balance, settled, movement)
    if settled is not None and movement is None:
        path.go_at("REFUNDED", settled)
    elif movement is not None:
        _move(path, inputs, movement)
    elif pending:
        path.go("SUBMITTED", pending[0].at, terms.source_chain, pending[0].tx)
    obstacles = sorted(
        each for each in inputs.obstacles if each.kind not in (NO_TRUSTLINE, WOULD_FAIL)
    )
    hold = obstacles[0] if obstacles and not state_machine.is_terminal(path.stage) else None
    if hold is not None:
        path.go("ON_HOLD", hold.since)

    stage = path.stage
    reason, detail = stage_reason(inputs, stage, movement, pending, balance, hold)
    external, stellar = _transactions(inputs, movement, pending)
    times = [step.at for step in path.steps if step.at is not None]
    is_attested = (
        movement is not None and movement.stage == "DELIVERING" and terms.mechanism == "cctp"
    )
    return TransferState(
        stage=stage,
        status=state_machine.status(stage, terms.source_chain, terms.dest_chain),
        turn=state_machine.turn(stage),
        reason=reason,
        detail=detail,
        timeline=tuple(path.steps),
        since=times[-1] if times else None,
        completed_at=path.steps[-1].at if stage == "COMPLETED" else None,
        external_tx=external,
        stellar_tx=stellar,
        movement=None if movement is None else movement.movement,
        extras=extras,
        amount_delivered=None if movement is None else movement.amount_out,
        self_finish=movement.message_id if movement is not None and is_attested else None,
        refund=_refund(inputs, balance),
        goes_back=_refundable_tokens(inputs, balance, pending),
    )


_PROGRESS = ("COMPLETED", "ON_HOLD", "DELIVERING")
"""Movement stages, the furthest first; all others are equal."""


def _choose_movement(
    inputs: TransferInputs, settled: ChainPosition | None
) -> tuple[MatchedMovement | None, tuple[str, ...]]:
    """The movement that carries the transfer, and the ids of all others that match it.

    The first on its chain; one that is further along goes before it, so that a movement found later
    (in a gap that was read again) never moves a transfer back. Movements after the settling refund
    carry other money.
    """

    def rank(each: MatchedMovement) -> tuple[int, int, int, int, str]:
        progress = _PROGRESS.index(each.stage) if each.stage in _PROGRESS else len(_PROGRESS)
        source = each.source
        place = (-1, -1) if source is None else (source.height, source.position)
        return (progress, not each.is_final, *place, each.movement)

    candidates = sorted(inputs.matched, key=rank)
    if settled is not None:
        candidates = [
            each for each in candidates if each.source is not None and each.source < settled
        ]
    chosen = candidates[0] if candidates else None
    others = {each.movement for each in inputs.matched if each is not chosen}
    return chosen, tuple(sorted({*others, *inputs.extras}))


def _source_transactions(inputs: TransferInputs) -> list[SentTransaction]:
    """Transactions that were sent to move the money off its source."""
    attempts = (each for each in inputs.attempts if each.purpose in ("submit", "sweep"))
    return [*inputs.submissions, *attempts]


def _pending_sources(inputs: TransferInputs) -> Sequence[PendingSource]:
    """Source transactions that may still be included, the oldest first."""
    seen = {each.place.tx for each in (*inputs.paid, *inputs.returned)}
    gone = seen | inputs.dead
    rewound = [each for each in inputs.rewound if each.tx not in gone]
    pending: list[PendingSource] = [
        *(each for each in _source_transactions(inputs) if each.tx not in gone),
        *(each for each in rewound if each.paid is None),
    ]
    # Rewound payments are waited for only if they would make up the amount: dust is not.
    payments = [each for each in rewound if each.paid is not None]
    expected = sum(each.paid or 0 for each in payments)
    held = compute_balance(inputs, (), is_reserved=True).own.held
    if payments and held < inputs.terms.amount_in <= held + expected:
        pending += payments
    return sorted(pending, key=lambda each: (each.at, each.tx))


def _fund_or_close(
    path: _Path,
    inputs: TransferInputs,
    balance: DepositBalance,
    settled: ChainPosition | None,
    movement: MatchedMovement | None,
) -> None:
    """Steps from the creation to where a source transaction takes over."""
    funded, closed_at = balance.funded, inputs.closed_at
    if closed_at is None:
        if funded is not None:
            path.go_at("FUNDED", funded)
        return
    closed: Stage = "EXPIRED" if inputs.cancelled_at is None else "CANCELLED"
    if inputs.cancelled_at is not None and funded is not None and funded.at <= closed_at:
        path.go_at("FUNDED", funded)
    # After a refund was ordered and signed, any amount is refunded.
    is_ordered = any(
        each.purpose == "refund" and each.tx not in inputs.dead for each in inputs.attempts
    )
    min_refund = BaseUnits(1) if is_ordered else inputs.terms.min_refund
    goes_back = settled is not None or balance.holds(min_refund)
    is_early = any(each.place.at <= closed_at for each in inputs.paid)
    if path.stage == "FUNDED" or (goes_back and is_early):
        path.go("REFUNDING", closed_at)
    else:
        path.go(closed, closed_at)
        if goes_back:
            paid_at = max(each.place.at for each in inputs.paid)
            path.go("REFUNDING", paid_at, clock=inputs.terms.source_chain)
    if not goes_back and movement is None:
        path.go(closed, closed_at)


def _move(path: _Path, inputs: TransferInputs, movement: MatchedMovement) -> None:
    """Steps from the source transaction to the delivery."""
    source, stage, terms = movement.source, movement.stage, inputs.terms
    if source is not None:
        # Many source transactions are found on chain without having been submitted to us.
        ours = [each for each in _source_transactions(inputs) if each.tx == source.tx]
        if ours and "SUBMITTED" in state_machine.successors(path.stage):
            path.go("SUBMITTED", min(ours).at, source.chain, source.tx)
        if source.chain != terms.dest_chain:
            path.go_at("CONFIRMING", source)
        if movement.is_final and stage in ("ATTESTING", "IN_FLIGHT"):
            path.go(stage, None)
    if stage == "DELIVERING":
        # An OFT message is verified by a transaction on the destination chain.
        clock: Clock = terms.dest_chain if terms.mechanism == "oft" else "service"
        path.go("DELIVERING", movement.ready_at, clock=clock)
    trustline = next((each for each in inputs.obstacles if each.kind == NO_TRUSTLINE), None)
    if stage == "COMPLETED" and movement.delivered is not None:
        path.go_at("COMPLETED", movement.delivered)
    elif stage == "ON_HOLD":
        path.go("ON_HOLD", None)
    elif trustline is not None and (movement.is_final or stage == "DELIVERING"):
        path.go("AWAITING_TRUSTLINE", trustline.since)


def _transactions(
    inputs: TransferInputs, movement: MatchedMovement | None, pending: Sequence[PendingSource]
) -> tuple[TxHash | None, TxHash | None]:
    """The EVM transaction and the Stellar one; where both ends are on one side, the delivery."""
    terms = inputs.terms
    found: dict[bool, TxHash] = {}
    if movement is not None:
        if movement.source is not None:
            found[is_evm(terms.source_chain)] = movement.source.tx
        if movement.delivered is not None:
            found[is_evm(terms.dest_chain)] = movement.delivered.tx
    elif pending:
        found[is_evm(terms.source_chain)] = pending[0].tx
    return found.get(True), found.get(False)


def _refund(inputs: TransferInputs, balance: DepositBalance) -> DepositRefund | None:
    if inputs.terms.deposit_address is None or not (inputs.paid or inputs.returned):
        return None
    owed = balance.own.owed
    return DepositRefund(
        lines=balance.lines,
        pending_below_minimum=owed if owed < inputs.terms.min_refund else BaseUnits(0),
        txs=tuple(dict.fromkeys(each.place.tx for each in balance.returned)),
    )


def _refundable_tokens(
    inputs: TransferInputs, balance: DepositBalance, pending: Sequence[PendingSource]
) -> tuple[Address, ...]:
    """Tokens that are owed enough and whose refund, which takes the whole balance, takes no more.

    The transfer's own token only once nothing of it is to be moved on, and no movement of it can be
    rewound.
    """
    terms, matched = inputs.terms, inputs.matched
    is_decided = inputs.closed_at is not None or bool(matched)
    is_free = is_decided and not pending and all(each.is_final for each in matched)
    return tuple(
        line.token
        for line in balance.lines
        if line.owed >= terms.min_refund and (is_free or line.token != terms.source_token)
    )
