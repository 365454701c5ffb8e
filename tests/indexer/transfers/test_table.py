"""The transfer state machine: transitions, and the status derived from each stage."""

import pytest

from indexer.transfers.state_machine import (
    STAGES,
    TABLE,
    IllegalTransition,
    Stage,
    check_step,
    is_final,
    is_terminal,
    may_cancel,
    may_expire,
    may_follow,
    reachable,
    status,
    successors,
    turn,
)
from tests.factories.transfers import ETHEREUM, PUBNET


def those(rule) -> set[Stage]:
    return {stage for stage in STAGES if rule(stage)}


def test_every_stage_has_a_rule():
    assert set(TABLE) == set(STAGES)


def test_cancel_is_allowed_before_submission_only():
    assert those(may_cancel) == {"AWAITING_FUNDS", "FUNDED", "AWAITING_SIGNATURE"}


def test_stages_awaiting_the_owner_may_expire():
    assert those(may_expire) == {"AWAITING_FUNDS", "AWAITING_SIGNATURE"}


def test_only_completed_and_refunded_are_final():
    assert those(is_final) == {"COMPLETED", "REFUNDED"}
    assert those(is_terminal) == {"COMPLETED", "REFUNDED", "CANCELLED", "EXPIRED"}


def test_money_reopens_cancelled_or_expired():
    money = {"CONFIRMING", "REFUNDING", "SUBMITTED", "COMPLETED", "ATTESTING", "IN_FLIGHT"}
    for over in ("CANCELLED", "EXPIRED"):
        assert successors(over) >= money
        assert not {"AWAITING_FUNDS", "AWAITING_SIGNATURE", "FUNDED"} & successors(over)


def test_irreversible_stages_never_lead_back_to_payment():
    for stage in ("CONFIRMING", "ATTESTING", "IN_FLIGHT", "AWAITING_TRUSTLINE", "DELIVERING"):
        assert not {"AWAITING_FUNDS", "AWAITING_SIGNATURE"} & successors(stage)
        assert not {"CANCELLED", "EXPIRED", "REFUNDING"} & successors(stage)


STATUSES: list[tuple[Stage, str, str]] = [
    ("AWAITING_FUNDS", "pending_user_transfer_start", "pending_user_transfer_start"),
    ("FUNDED", "pending_anchor", "pending_anchor"),
    ("AWAITING_SIGNATURE", "pending_user_transfer_start", "pending_user_transfer_start"),
    ("AWAITING_TRUSTLINE", "pending_trust", "pending_trust"),
    ("SUBMITTED", "pending_external", "pending_stellar"),
    ("CONFIRMING", "pending_external", "pending_stellar"),
    ("ATTESTING", "pending_external", "pending_external"),
    ("IN_FLIGHT", "pending_external", "pending_external"),
    ("DELIVERING", "pending_stellar", "pending_external"),
    ("COMPLETED", "completed", "completed"),
    ("CANCELLED", "expired", "expired"),
    ("EXPIRED", "expired", "expired"),
    ("REFUNDING", "pending_anchor", "pending_anchor"),
    ("REFUNDED", "refunded", "refunded"),
    ("ON_HOLD", "on_hold", "on_hold"),
]


def test_status_names_the_next_actor(subtests: pytest.Subtests):
    for stage, deposit, withdrawal in STATUSES:
        with subtests.test(stage=stage, deposit=deposit, withdrawal=withdrawal):
            assert status(stage, ETHEREUM, PUBNET) == deposit
            assert status(stage, PUBNET, ETHEREUM) == withdrawal


def test_terminal_stages_have_no_turn():
    assert those(lambda stage: turn(stage) == "nobody") == those(is_terminal)


@pytest.mark.parametrize(
    ("before", "after"),
    [("COMPLETED", "AWAITING_FUNDS"), ("REFUNDED", "DELIVERING"), ("DELIVERING", "CANCELLED")],
    ids=["paid-twice", "delivered-after-refund", "cancelled-after-burn"],
)
def test_illegal_transition_raises(before: Stage, after: Stage):
    with pytest.raises(IllegalTransition, match=f"{before} does not lead to {after}"):
        check_step(before, after)


def test_stored_stage_may_follow_reachable_stages():
    assert may_follow("AWAITING_FUNDS", "DELIVERING")
    assert may_follow("CANCELLED", "REFUNDED")
    assert not may_follow("CONFIRMING", "SUBMITTED")
    assert not may_follow("DELIVERING", "AWAITING_SIGNATURE")
    for final in ("COMPLETED", "REFUNDED"):
        assert reachable(final) == {final}


def test_reorg_reverses_transitions():
    assert may_follow("CONFIRMING", "SUBMITTED", rewound=True)
    assert may_follow("COMPLETED", "DELIVERING", rewound=True)
    assert may_follow("FUNDED", "AWAITING_FUNDS", rewound=True)
    assert not may_follow("REFUNDED", "COMPLETED", rewound=True)
    assert not may_follow("COMPLETED", "REFUNDED", rewound=True)
