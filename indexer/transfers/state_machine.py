"""The transfer state machine: stages and legal transitions, in one table.

The meaning of a stage to clients (status, whose turn, cancellable, over) is read from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias, get_args

from warehouse_schema.identifiers import ChainId, is_evm

Stage: TypeAlias = Literal[
    "AWAITING_FUNDS",
    "FUNDED",
    "AWAITING_SIGNATURE",
    "AWAITING_TRUSTLINE",
    "SUBMITTED",
    "CONFIRMING",
    "ATTESTING",
    "IN_FLIGHT",
    "DELIVERING",
    "COMPLETED",
    "CANCELLED",
    "EXPIRED",
    "REFUNDING",
    "REFUNDED",
    "ON_HOLD",
]
Sep24Status: TypeAlias = Literal[
    "pending_user_transfer_start",
    "pending_anchor",
    "pending_trust",
    "pending_stellar",
    "pending_external",
    "completed",
    "expired",
    "refunded",
    "on_hold",
]
"""The statuses of SEP-24 that are used."""

ActionBy: TypeAlias = Literal[
    "user", "relay", "chain", "attestation service", "message layer", "operator", "nobody"
]
Cause: TypeAlias = Literal["user", "cancel", "relay", "chain", "service", "clock", "operator"]
"""Source of the row that moves a transfer: its owner, a cancellation, a transaction of ours, a
chain event (or the proof that it cannot happen), the attestation service or the message layer, an
expiry, an obstacle that came or went."""

STAGES: tuple[Stage, ...] = get_args(Stage)


class IllegalTransition(RuntimeError):
    """A step outside the table: a bug in the fold or in a writer of rows."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One stage: what clients see, and the stages it leads to by cause."""

    status: Sep24Status | Literal["source", "destination"]
    """Or the side whose chain it waits for: `pending_stellar` when that is Stellar."""
    turn: ActionBy
    leads_to: Mapping[Cause, tuple[Stage, ...]]


_BRIDGED: tuple[Stage, ...] = (
    *("CONFIRMING", "ATTESTING", "IN_FLIGHT", "AWAITING_TRUSTLINE", "DELIVERING"),
    *("COMPLETED", "ON_HOLD"),
)
"""Stages in which a burn, send or payment may first be seen: its chain may be read long after the
other, and a mint whose burn was not read yet is delivered all the same."""

_CLOSED = Rule(
    "expired",
    "nobody",
    {"user": ("SUBMITTED",), "chain": ("REFUNDING", *_BRIDGED), "relay": ("REFUNDING",)},
)
"""An issued EVM call has no deadline, and an address can be paid for ever: late money is delivered
or refunded."""

TABLE: Mapping[Stage, Rule] = {
    "AWAITING_FUNDS": Rule(
        "pending_user_transfer_start",
        "user",
        {
            "user": ("SUBMITTED",),
            "chain": ("FUNDED", *_BRIDGED),
            "cancel": ("CANCELLED", "REFUNDING"),
            "clock": ("EXPIRED", "REFUNDING"),
            "operator": ("ON_HOLD",),
        },
    ),
    "FUNDED": Rule(
        "pending_anchor",
        "relay",
        {
            "relay": ("SUBMITTED",),
            # Transactions of others can make the deposit address burn or refund its balance.
            "chain": ("AWAITING_FUNDS", *_BRIDGED),
            "cancel": ("REFUNDING",),
            "operator": ("ON_HOLD",),
        },
    ),
    "AWAITING_SIGNATURE": Rule(
        "pending_user_transfer_start",
        "user",
        {
            "user": ("SUBMITTED",),
            "chain": _BRIDGED,
            "cancel": ("CANCELLED",),
            "clock": ("EXPIRED",),
            "operator": ("ON_HOLD",),
        },
    ),
    "AWAITING_TRUSTLINE": Rule(
        "pending_trust",
        "user",
        {
            "relay": ("ATTESTING", "IN_FLIGHT", "DELIVERING"),
            "chain": ("COMPLETED", "ON_HOLD"),
            "operator": ("ON_HOLD",),
        },
    ),
    "SUBMITTED": Rule(
        "source",
        "chain",
        {
            # Back to the stage before, once the transaction is proven dead.
            "chain": (
                *("AWAITING_FUNDS", "AWAITING_SIGNATURE", "FUNDED"),
                *("CANCELLED", "EXPIRED", "REFUNDING", "REFUNDED", *_BRIDGED),
            ),
            "operator": ("ON_HOLD",),
        },
    ),
    "CONFIRMING": Rule(
        "source",
        "chain",
        {
            "chain": ("ATTESTING", "IN_FLIGHT", "AWAITING_TRUSTLINE", "COMPLETED", "ON_HOLD"),
            # Fast attestations and verifiers do not wait for finality.
            "service": ("DELIVERING", "AWAITING_TRUSTLINE"),
            "operator": ("ON_HOLD",),
        },
    ),
    "ATTESTING": Rule(
        "pending_external",
        "attestation service",
        {
            "service": ("DELIVERING",),
            "relay": ("AWAITING_TRUSTLINE",),
            "chain": ("COMPLETED", "ON_HOLD"),
            "operator": ("ON_HOLD",),
        },
    ),
    "IN_FLIGHT": Rule(
        "pending_external",
        "message layer",
        {
            "service": ("DELIVERING",),
            "relay": ("AWAITING_TRUSTLINE",),
            "chain": ("DELIVERING", "COMPLETED", "ON_HOLD"),
            "operator": ("ON_HOLD",),
        },
    ),
    "DELIVERING": Rule(
        "destination",
        "relay",
        {
            "relay": ("AWAITING_TRUSTLINE",),
            "chain": ("COMPLETED", "ON_HOLD"),
            "operator": ("ON_HOLD",),
        },
    ),
    "COMPLETED": Rule("completed", "nobody", {}),
    "CANCELLED": _CLOSED,
    "EXPIRED": _CLOSED,
    "REFUNDING": Rule(
        "pending_anchor",
        "relay",
        {
            "user": ("SUBMITTED",),
            # Nothing worth refunding is left: the stage it closed with.
            "chain": ("REFUNDED", "CANCELLED", "EXPIRED", *_BRIDGED),
            "operator": ("ON_HOLD",),
        },
    ),
    "REFUNDED": Rule("refunded", "nobody", {}),
    "ON_HOLD": Rule(
        "on_hold",
        "operator",
        {
            "chain": ("COMPLETED", "REFUNDED", "CANCELLED", "EXPIRED"),
            "operator": (
                *("AWAITING_FUNDS", "FUNDED", "AWAITING_SIGNATURE", "SUBMITTED", "REFUNDING"),
                *("CONFIRMING", "ATTESTING", "IN_FLIGHT", "AWAITING_TRUSTLINE", "DELIVERING"),
            ),
        },
    ),
}

# Stages by what they wait for, for code outside this package and as bound parameters of SQL.
NEEDS_TRUSTLINE: Stage = "AWAITING_TRUSTLINE"
NEEDS_SWEEP: Stage = "FUNDED"
NEEDS_DELIVERY: tuple[Stage, ...] = ("DELIVERING", NEEDS_TRUSTLINE)
UNDELIVERED: tuple[Stage, ...] = (*NEEDS_DELIVERY, "ON_HOLD")
"""Its delivery may still come; `ON_HOLD` by an operator's obstacle."""


def successors(stage: Stage) -> frozenset[Stage]:
    """Stages that one row can move a transfer to."""
    return frozenset(after for stages in TABLE[stage].leads_to.values() for after in stages)


def may_cancel(stage: Stage) -> bool:
    """Whether the owner may still cancel."""
    return "cancel" in TABLE[stage].leads_to


def may_expire(stage: Stage) -> bool:
    """Whether it can expire."""
    return "clock" in TABLE[stage].leads_to


def is_final(stage: Stage) -> bool:
    """Whether no row can move the transfer any more; a reorg can."""
    return not TABLE[stage].leads_to


def is_terminal(stage: Stage) -> bool:
    """Whether it is over: final, or moved by late money only. Its amount is not outstanding."""
    return TABLE[stage].turn == "nobody"


def turn(stage: Stage) -> ActionBy:
    """Party that has to act now."""
    return TABLE[stage].turn


def status(stage: Stage, source: ChainId, destination: ChainId) -> Sep24Status:
    """SEP-24 status of a stage of a transfer between these chains."""
    found = TABLE[stage].status
    if found == "source" or found == "destination":
        chain = source if found == "source" else destination
        return "pending_external" if is_evm(chain) else "pending_stellar"
    return found


def check_step(before: Stage, after: Stage) -> None:
    """Raise `IllegalTransition` unless the table has this step."""
    if after not in successors(before):
        raise IllegalTransition(f"{before} does not lead to {after}")


@cache
def reachable(stage: Stage) -> frozenset[Stage]:
    """Stages that any number of rows can move a transfer to, its own stage included.

    `ON_HOLD` is not traversed: leaving it restores the stage the transfer would have had.
    """
    found, frontier = {stage}, {stage}
    while frontier:
        frontier = {after for each in frontier for after in successors(each)} - found
        found |= frontier
        frontier = frontier - {"ON_HOLD"}
    return frozenset(found)


def may_follow(before: Stage, after: Stage, *, rewound: bool = False) -> bool:
    """Whether a stored stage may be replaced by another.

    Several rows may have come between two folds, so any legal path counts. After a reorg a transfer
    may go back along such a path, or to `SUBMITTED`, to wait for its source transaction again.
    """
    if after in reachable(before):
        return True
    return rewound and (after == "SUBMITTED" or before in reachable(after))
