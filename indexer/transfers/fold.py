"""The stage of a transfer: one pure fold over everything that is known of it.

The fold tells the transfer's story, step by legal step (`table.py`); its end is the stage. The
same evidence gives the same story, whatever came first, so a row or a block that was missed,
doubled or taken back leaves nothing wrong behind.
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
    Obstacle,
    RewoundSource,
    SentTransaction,
    TransferInputs,
)
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

StageReason: TypeAlias = Literal[
    "short_payment",
    "wrong_token",
    "not_included",
    "would_fail",
    "transaction_failed",
    "source_reorged",
    "not_final",
    "not_attested",
    "not_verified",
    "not_delivered",
    "no_trustline",
    "cancelled",
    "expired",
    "below_minimum",
    "held",
]
"""Why it waits, or what it came to."""

Clock: TypeAlias = ChainId | Literal["service"]
"""Block times of a chain, or the database's clock."""


@dataclass(frozen=True, slots=True)
class StageChange:
    """A stage that the transfer came to."""

    stage: Stage
    at: UnixSeconds | None
    """None where nothing says when: a block becomes final without a word."""
    chain: ChainId | None = None
    tx: TxHash | None = None
    clock: Clock | None = None
    """Whose time `at` is; None without one. Steps are in the order of cause and effect, which two
    clocks may tell otherwise."""


@dataclass(frozen=True, slots=True)
class DepositRefund:
    """What was paid to the deposit address and what of it has to go back or went."""

    lines: tuple[TokenBalance, ...]
    pending_below_minimum: BaseUnits
    """Owed in the transfer's own token, and too little to go back by itself."""
    txs: tuple[TxHash, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferState:
    """Where a transfer is, and what a client may want to know about it."""

    stage: Stage
    status: Sep24Status
    turn: ActionBy
    reason: StageReason | None
    detail: str | None
    """A sentence for people: what a service, or whoever put it on hold, says."""
    timeline: tuple[StageChange, ...]
    since: UnixSeconds | None
    """When the last step was that has a time: what an estimate counts from."""
    completed_at: UnixSeconds | None
    external_tx: TxHash | None
    """The EVM transaction: burn or send, or delivery."""
    stellar_tx: TxHash | None
    movement: str | None
    """Id of the movement that carries it."""
    extras: tuple[str, ...]
    """Further movements that match as well: delivered too, to the same recipient."""
    amount_delivered: BaseUnits | None
    """Destination chain base units."""
    self_finish: Bytes32 | None
    """CCTP nonce whose attested message anybody may deliver now."""
    refund: DepositRefund | None
    """None where there is no deposit address, or nothing came."""
    goes_back: tuple[Address, ...]
    """Tokens at the deposit address of which all that is there has to go back now."""


def fold_transfer(evidence: TransferInputs) -> TransferState:
    """Where the transfer is. Raises `IllegalTransition` if its rows tell an impossible story."""
    terms = evidence.terms
    settled = _settled(evidence)
    claim, extras = _claim(evidence, settled)
    pending = () if claim or settled else _pending(evidence)
    till = _till(evidence, pending)
    story = _Story(_first_stage(evidence), terms.started_at)
    _tell_failed(story, evidence)
    _tell_before(story, evidence, till, settled, claim)
    if settled is not None and claim is None:
        story.arrive("REFUNDED", settled)
    elif claim is not None:
        _tell_carried(story, evidence, claim)
    elif pending:
        first = min(pending, key=lambda each: (each.at, each.tx))
        story.go("SUBMITTED", first.at, terms.source_chain, first.tx)
    obstacle = _obstacle(evidence, story.stage)
    if obstacle is not None:
        story.go("ON_HOLD", obstacle.since)
    reason, detail = _why(evidence, story.stage, claim, pending, till, obstacle)
    return _progress(evidence, story, claim, extras, pending, till, reason, detail)


class _Story:
    """Steps so far; each next one has to be legal."""

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

    def arrive(self, stage: Stage, place: ChainPosition | DeliveryReceipt) -> None:
        self.go(stage, place.at, place.chain, place.tx, place.chain)


# What carries it, and what was sent for it.


def _claim(
    evidence: TransferInputs, settled: ChainPosition | None
) -> tuple[MatchedMovement | None, tuple[str, ...]]:
    """What carries the transfer, and whatever else matches it.

    The first on its chain; but one that is further along goes before it, so that nothing that is
    found later, such as in a gap that was read again, moves a transfer back. What came after the
    deposit was sent back carries other money.
    """
    rivals = sorted(evidence.matched, key=_rank)
    if settled is not None:
        rivals = [each for each in rivals if each.source is not None and each.source < settled]
    claim = rivals[0] if rivals else None
    others = {each.movement for each in evidence.matched if each is not claim}
    return claim, tuple(sorted({*others, *evidence.extras}))


_ALONG = ("COMPLETED", "ON_HOLD", "DELIVERING")


def _rank(carried: MatchedMovement) -> tuple[int, int, int, int, str]:
    along = _ALONG.index(carried.stage) if carried.stage in _ALONG else len(_ALONG)
    source = carried.source
    place = (-1, -1) if source is None else (source.height, source.position)
    return (along, not carried.is_final, *place, carried.movement)


def _settled(evidence: TransferInputs) -> ChainPosition | None:
    return None if evidence.closed_at is None else settling_refund(evidence, evidence.closed_at)


_Pending: TypeAlias = "SentTransaction | RewoundSource"


def _pending(evidence: TransferInputs) -> tuple[_Pending, ...]:
    """Source transactions that are sent and were not seen, and may still come."""
    seen = {each.place.tx for each in (*evidence.paid, *evidence.returned)}
    gone = seen | evidence.dead
    awaited: list[_Pending] = [each for each in _source_sent(evidence) if each.tx not in gone]
    lost = [each for each in evidence.rewound if each.tx not in gone]
    awaited += [each for each in lost if each.paid is None]
    payments = [each for each in lost if each.paid is not None]
    return tuple(awaited) + (tuple(payments) if _would_fund(evidence, payments) else ())


def _would_fund(evidence: TransferInputs, payments: Sequence[RewoundSource]) -> bool:
    """Whether these payments come again would make the amount: dust does not keep one waiting."""
    expected = sum(each.paid or 0 for each in payments)
    held = compute_balance(evidence, (), is_reserved=True).own.held
    return bool(payments) and held < evidence.terms.amount_in <= held + expected


def _till(evidence: TransferInputs, pending: Sequence[_Pending]) -> DepositBalance:
    """The till; the amount is reserved until it is carried on or has to go back."""
    is_meant = evidence.closed_at is None or bool(pending)
    return compute_balance(
        evidence, evidence.matched, is_reserved=is_meant and not evidence.matched
    )


# The story.


def _first_stage(evidence: TransferInputs) -> Stage:
    is_paid_in = evidence.terms.deposit_address is not None
    return "AWAITING_FUNDS" if is_paid_in else "AWAITING_SIGNATURE"


def _tell_failed(story: _Story, evidence: TransferInputs) -> None:
    """Transactions of the owner that a ledger included without effect: signed and sent in vain."""
    first, chain = story.stage, evidence.terms.source_chain
    for each in evidence.failed:
        story.go("SUBMITTED", each.sent_at, chain, each.tx)
        story.go(first, each.at, chain, each.tx)


def _tell_before(
    story: _Story,
    evidence: TransferInputs,
    till: DepositBalance,
    settled: ChainPosition | None,
    claim: MatchedMovement | None,
) -> None:
    """From the creation to where a source transaction would take over."""
    funded, closed_at = till.funded, evidence.closed_at
    if closed_at is None:
        if funded is not None:
            story.arrive("FUNDED", funded)
        return
    if evidence.cancelled_at is not None and funded is not None and funded.at <= closed_at:
        story.arrive("FUNDED", funded)
    goes_back = settled is not None or till.holds(_least_refund(evidence))
    is_early = any(each.place.at <= closed_at for each in evidence.paid)
    if story.stage == "FUNDED" or (goes_back and is_early):
        story.go("REFUNDING", closed_at)
    else:
        story.go(_closing(evidence), closed_at)
        if goes_back:
            paid_at = max(each.place.at for each in evidence.paid)
            story.go("REFUNDING", paid_at, clock=evidence.terms.source_chain)
    if not goes_back and claim is None:
        story.go(_closing(evidence), closed_at)


def _least_refund(evidence: TransferInputs) -> BaseUnits:
    """Least that makes a refund: anything at all once one was ordered and signed."""
    is_ordered = any(
        each.purpose == "refund" and each.tx not in evidence.dead for each in evidence.attempts
    )
    return BaseUnits(1) if is_ordered else evidence.terms.min_refund


def _closing(evidence: TransferInputs) -> Stage:
    return "CANCELLED" if evidence.cancelled_at is not None else "EXPIRED"


def _tell_carried(story: _Story, evidence: TransferInputs, claim: MatchedMovement) -> None:
    """From the source transaction to the delivery."""
    source = claim.source
    if source is not None:
        _tell_sent(story, evidence, source)
        if source.chain != evidence.terms.dest_chain:
            story.arrive("CONFIRMING", source)
        if claim.is_final and claim.stage in ("ATTESTING", "IN_FLIGHT"):
            story.go(claim.stage, None)
    is_sure = claim.is_final or claim.stage == "DELIVERING"
    if claim.stage == "DELIVERING":
        # An OFT's message is verified by a transaction on the destination chain.
        is_bridged = evidence.terms.mechanism == "oft"
        clock: Clock = evidence.terms.dest_chain if is_bridged else "service"
        story.go("DELIVERING", claim.ready_at, clock=clock)
    trustline = next((each for each in evidence.obstacles if each.kind == NO_TRUSTLINE), None)
    if claim.stage == "COMPLETED" and claim.delivered is not None:
        story.arrive("COMPLETED", claim.delivered)
    elif claim.stage == "ON_HOLD":
        story.go("ON_HOLD", None)
    elif trustline is not None and is_sure:
        story.go("AWAITING_TRUSTLINE", trustline.since)


def _tell_sent(story: _Story, evidence: TransferInputs, source: ChainPosition) -> None:
    """That the source transaction was ours to send, or submitted to us; many are simply found."""
    ours = [each for each in _source_sent(evidence) if each.tx == source.tx]
    if ours and "SUBMITTED" in state_machine.successors(story.stage):
        story.go("SUBMITTED", min(ours).at, source.chain, source.tx)


def _source_sent(evidence: TransferInputs) -> list[SentTransaction]:
    """Transactions that were sent to move the money off its source."""
    attempts = (each for each in evidence.attempts if each.purpose in ("submit", "sweep"))
    return [*evidence.submissions, *attempts]


def _obstacle(evidence: TransferInputs, stage: Stage) -> Obstacle | None:
    """What puts the transfer on hold: what is over needs nobody to look at it."""
    others = (NO_TRUSTLINE, WOULD_FAIL)
    standing = sorted(each for each in evidence.obstacles if each.kind not in others)
    return standing[0] if standing and not state_machine.is_terminal(stage) else None


# What is told about it.


def _why(
    evidence: TransferInputs,
    stage: Stage,
    claim: MatchedMovement | None,
    pending: Sequence[_Pending],
    till: DepositBalance,
    obstacle: Obstacle | None,
) -> tuple[StageReason | None, str | None]:
    if obstacle is not None:
        return "held", obstacle.detail
    if claim is not None and stage != "COMPLETED":
        trustline = {each.detail for each in evidence.obstacles if each.kind == NO_TRUSTLINE}
        detail = min(trustline) if stage == "AWAITING_TRUSTLINE" else claim.why
        return _CARRIED_WAITS.get(stage), detail
    if stage == "SUBMITTED":
        return _why_not_included(evidence, pending)
    if stage == "AWAITING_SIGNATURE":
        return _why_signed_again(evidence)
    if stage == "AWAITING_FUNDS":
        return _why_not_funded(till), None
    if stage == "REFUNDING":
        return ("expired" if evidence.cancelled_at is None else "cancelled"), None
    if stage in ("CANCELLED", "EXPIRED") and till.owes(BaseUnits(1)):
        return "below_minimum", None
    return _ENDS.get(stage), None


_ENDS: dict[Stage, StageReason] = {"CANCELLED": "cancelled", "EXPIRED": "expired"}
"""SEP-24 has one status, `expired`, for both."""


def _why_not_included(
    evidence: TransferInputs, pending: Sequence[_Pending]
) -> tuple[StageReason, str | None]:
    if any(isinstance(each, RewoundSource) for each in pending):
        return "source_reorged", None
    hindered = [each.detail for each in evidence.obstacles if each.kind == WOULD_FAIL]
    return ("would_fail", hindered[0]) if hindered else ("not_included", None)


def _why_signed_again(evidence: TransferInputs) -> tuple[StageReason | None, str | None]:
    """That the newest transaction failed, if it did."""
    newest = max(evidence.submissions, default=None)
    if newest is None or newest.tx not in {each.tx for each in evidence.failed}:
        return None, None
    return "transaction_failed", f"transaction {newest.tx} was included and failed"


_CARRIED_WAITS: dict[Stage, StageReason] = {
    "CONFIRMING": "not_final",
    "ATTESTING": "not_attested",
    "IN_FLIGHT": "not_verified",
    "DELIVERING": "not_delivered",
    "AWAITING_TRUSTLINE": "no_trustline",
    "ON_HOLD": "held",
}


def _why_not_funded(till: DepositBalance) -> StageReason | None:
    if till.own.held > 0:
        return "short_payment"
    return "wrong_token" if any(line.held > 0 for line in till.lines) else None


def _progress(
    evidence: TransferInputs,
    story: _Story,
    claim: MatchedMovement | None,
    extras: tuple[str, ...],
    pending: Sequence[_Pending],
    till: DepositBalance,
    reason: StageReason | None,
    detail: str | None,
) -> TransferState:
    terms, stage = evidence.terms, story.stage
    external, stellar = _transactions(evidence, claim, pending)
    times = [step.at for step in story.steps if step.at is not None]
    is_attested = claim is not None and claim.stage == "DELIVERING" and terms.mechanism == "cctp"
    return TransferState(
        stage=stage,
        status=state_machine.status(stage, terms.source_chain, terms.dest_chain),
        turn=state_machine.turn(stage),
        reason=reason,
        detail=detail,
        timeline=tuple(story.steps),
        since=times[-1] if times else None,
        completed_at=story.steps[-1].at if stage == "COMPLETED" else None,
        external_tx=external,
        stellar_tx=stellar,
        movement=None if claim is None else claim.movement,
        extras=extras,
        amount_delivered=None if claim is None else claim.amount_out,
        self_finish=claim.message_id if claim is not None and is_attested else None,
        refund=_refund(evidence, till),
        goes_back=_goes_back(evidence, till, pending),
    )


def _goes_back(
    evidence: TransferInputs, till: DepositBalance, pending: Sequence[_Pending]
) -> tuple[Address, ...]:
    """Where enough is owed, and a refund, which takes all there is, takes nothing else.

    Of the transfer's own token that is once nothing of it is to be carried on any more, and nothing
    that was carried on can come back by its chain.
    """
    terms, carried = evidence.terms, evidence.matched
    is_decided = evidence.closed_at is not None or bool(carried)
    is_free = is_decided and not pending and all(each.is_final for each in carried)
    return tuple(
        line.token
        for line in till.lines
        if line.owed >= terms.min_refund and (is_free or line.token != terms.source_token)
    )


def _transactions(
    evidence: TransferInputs, claim: MatchedMovement | None, pending: Sequence[_Pending]
) -> tuple[TxHash | None, TxHash | None]:
    """The EVM transaction and the Stellar one; at the destination, the one that is there."""
    terms = evidence.terms
    found: dict[bool, TxHash] = {}
    if claim is not None:
        if claim.source is not None:
            found[is_evm(terms.source_chain)] = claim.source.tx
        if claim.delivered is not None:
            found[is_evm(terms.dest_chain)] = claim.delivered.tx
    elif pending:
        first = min(pending, key=lambda each: (each.at, each.tx))
        found[is_evm(terms.source_chain)] = first.tx
    return found.get(True), found.get(False)


def _refund(evidence: TransferInputs, till: DepositBalance) -> DepositRefund | None:
    if evidence.terms.deposit_address is None or not (evidence.paid or evidence.returned):
        return None
    owed = till.own.owed
    return DepositRefund(
        lines=till.lines,
        pending_below_minimum=owed if owed < evidence.terms.min_refund else BaseUnits(0),
        txs=tuple(dict.fromkeys(each.place.tx for each in till.returned)),
    )
