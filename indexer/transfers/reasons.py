"""Why a transfer waits in its stage, or why it ended there. Pure."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from indexer.transfers.deposit_balance import DepositBalance
from indexer.transfers.inputs import (
    NO_TRUSTLINE,
    WOULD_FAIL,
    MatchedMovement,
    Obstacle,
    RewoundSource,
    SentTransaction,
    TransferInputs,
)
from indexer.transfers.state_machine import Stage
from warehouse_schema.identifiers import BaseUnits

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
PendingSource: TypeAlias = "SentTransaction | RewoundSource"
"""A source transaction that was sent, is in no block that was read, and may still be included."""

_MOVEMENT_REASONS: Mapping[Stage, StageReason] = {
    "CONFIRMING": "not_final",
    "ATTESTING": "not_attested",
    "IN_FLIGHT": "not_verified",
    "DELIVERING": "not_delivered",
    "AWAITING_TRUSTLINE": "no_trustline",
    "ON_HOLD": "held",
}


def stage_reason(
    inputs: TransferInputs,
    stage: Stage,
    movement: MatchedMovement | None,
    pending: Sequence[PendingSource],
    balance: DepositBalance,
    hold: Obstacle | None,
) -> tuple[StageReason | None, str | None]:
    """Reason, and a sentence of detail for people."""
    if hold is not None:
        return "held", hold.detail
    if movement is not None and stage != "COMPLETED":
        trustline = {each.detail for each in inputs.obstacles if each.kind == NO_TRUSTLINE}
        detail = min(trustline) if stage == "AWAITING_TRUSTLINE" else movement.why
        return _MOVEMENT_REASONS.get(stage), detail
    match stage:
        case "SUBMITTED":
            if any(isinstance(each, RewoundSource) for each in pending):
                return "source_reorged", None
            blocked = [each.detail for each in inputs.obstacles if each.kind == WOULD_FAIL]
            return ("would_fail", blocked[0]) if blocked else ("not_included", None)
        case "AWAITING_SIGNATURE":
            newest = max(inputs.submissions, default=None)
            if newest is None or newest.tx not in {each.tx for each in inputs.failed}:
                return None, None
            return "transaction_failed", f"transaction {newest.tx} was included and failed"
        case "AWAITING_FUNDS":
            if balance.own.held > 0:
                return "short_payment", None
            return ("wrong_token" if any(line.held > 0 for line in balance.lines) else None), None
        case "REFUNDING":
            return ("expired" if inputs.cancelled_at is None else "cancelled"), None
        case "CANCELLED" | "EXPIRED":
            if balance.owes(BaseUnits(1)):
                return "below_minimum", None
            # SEP-24 has one status, `expired`, for both.
            return ("cancelled" if stage == "CANCELLED" else "expired"), None
        case _:
            return None, None
