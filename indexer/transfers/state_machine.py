"""The stages of a transfer and every legal way from one to the next: one table.

What a stage means to a client (its status, whose turn it is, whether it can be cancelled, whether
it is over) is read from here and stands nowhere else.
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
"""Those of SEP-24's words that we use."""

ActionBy: TypeAlias = Literal[
    "user", "relay", "chain", "attestation service", "message layer", "operator", "nobody"
]
Cause: TypeAlias = Literal["user", "cancel", "relay", "chain", "service", "clock", "operator"]
"""Whose row moves a transfer: its owner's, a cancellation, a transaction of ours, what a chain did
(or can be proven never to do), what the attestation service or the message layer said, an expiry, a
standing obstacle that came or went."""

STAGES: tuple[Stage, ...] = get_args(Stage)


class IllegalTransition(RuntimeError):
    """A step that the table does not have: a bug in the fold or in who wrote a row."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One stage: what clients are told, and the stages it leads to by cause."""

    status: Sep24Status | Literal["source", "destination"]
    """Or which side's chain it waits for: `pending_stellar` when that is Stellar."""
    turn: ActionBy
    leads_to: Mapping[Cause, tuple[Stage, ...]]


_BRIDGED: tuple[Stage, ...] = (
    *("CONFIRMING", "ATTESTING", "IN_FLIGHT", "AWAITING_TRUSTLINE", "DELIVERING"),
    *("COMPLETED", "ON_HOLD"),
)
"""Wherever a burn, a send or a payment may be found when it is first seen: its chain may have been
read long after the other, and a mint whose burn was not read yet is delivered all the same."""

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
            # Anybody may make the deposit address burn, or give back what it holds.
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
            # Back to where it was once the transaction is proven dead.
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
            # Fast attestations and verifiers do not wait for what we call final.
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
    # An EVM call that was issued has no deadline and an address can be paid for ever: whatever
    # comes late is delivered or sent back.
    "CANCELLED": Rule(
        "expired",
        "nobody",
        {"user": ("SUBMITTED",), "chain": ("REFUNDING", *_BRIDGED), "relay": ("REFUNDING",)},
    ),
    "EXPIRED": Rule(
        "expired",
        "nobody",
        {"user": ("SUBMITTED",), "chain": ("REFUNDING", *_BRIDGED), "relay": ("REFUNDING",)},
    ),
    "REFUNDING": Rule(
        "pending_anchor",
        "relay",
        {
            "user": ("SUBMITTED",),
            # Where nothing worth sending back is left: the stage it closed with.
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


def successors(stage: Stage) -> frozenset[Stage]:
    """Stages that one row can move a transfer to."""
    return frozenset(after for stages in TABLE[stage].leads_to.values() for after in stages)


def may_cancel(stage: Stage) -> bool:
    """Whether the owner may still cancel."""
    return "cancel" in TABLE[stage].leads_to


def may_expire(stage: Stage) -> bool:
    """Whether time running out means anything."""
    return "clock" in TABLE[stage].leads_to


def is_final(stage: Stage) -> bool:
    """Whether no row can move the transfer any more; a reorganisation can."""
    return not TABLE[stage].leads_to


def is_terminal(stage: Stage) -> bool:
    """Whether it is over, for all that is known: final, or moved by a late payment alone."""
    return TABLE[stage].turn == "nobody"


def is_outstanding(stage: Stage) -> bool:
    """Whether its amount counts as outstanding."""
    return not is_terminal(stage)


def turn(stage: Stage) -> ActionBy:
    """Who has to do something now."""
    return TABLE[stage].turn


def status(stage: Stage, source: ChainId, destination: ChainId) -> Sep24Status:
    """SEP-24's word for a stage of a transfer between these chains."""
    said = TABLE[stage].status
    if said == "source":
        return _pending(source)
    if said == "destination":
        return _pending(destination)
    return said


def _pending(chain: ChainId) -> Sep24Status:
    return "pending_external" if is_evm(chain) else "pending_stellar"


def check_step(before: Stage, after: Stage) -> None:
    """Raise `IllegalTransition` unless the table leads from one straight to the other."""
    if after not in successors(before):
        raise IllegalTransition(f"{before} does not lead to {after}")


@cache
def reachable(stage: Stage) -> frozenset[Stage]:
    """Stages that rows can move a transfer to, however many they are; itself among them.

    A hold is no way round: who comes off it is where it would be without.
    """
    found = {stage}
    while more := _beyond(found, stage) - found:
        found |= more
    return frozenset(found)


def _beyond(found: set[Stage], first: Stage) -> set[Stage]:
    through = found - {"ON_HOLD"} | {first}
    return {after for stage in through for after in successors(stage)}


def may_follow(before: Stage, after: Stage, *, rewound: bool = False) -> bool:
    """Whether a stored stage may give way to another.

    Several rows may have come between two looks, so any legal way will do. A chain that took
    blocks back takes a transfer back along a way it may have come, or leaves it waiting for its
    source transaction to come again.
    """
    if after in reachable(before):
        return True
    return rewound and (after == "SUBMITTED" or before in reachable(after))
