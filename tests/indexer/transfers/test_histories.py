"""Transfer histories: all short ones, and random longer ones with reorgs."""

import random
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.transfers import state_machine
from indexer.transfers.fold import TransferState, fold_transfer
from indexer.transfers.inputs import TransferInputs
from indexer.transfers.state_machine import Stage
from tests.factories.effort import effort
from tests.factories.stage_history import (
    AMOUNT,
    KINDS,
    LEAST,
    OTHER_TOKEN,
    USDC,
    Options,
    additions,
    give_back,
    held,
    reorganisations,
    top,
)

FEW = Options(payments=1, amounts=(LEAST - 1, AMOUNT - 1, AMOUNT))
MANY = Options(
    payments=4,
    amounts=(1, LEAST, AMOUNT // 2, AMOUNT, AMOUNT + LEAST),
    tokens=(USDC, OTHER_TOKEN),
    movements=2,
)
SEEDS = st.integers(0, 2**32)
STEPS = {
    (before, after) for before in state_machine.STAGES for after in state_machine.successors(before)
}


@cache
def steps_of_all_lives(kind: str) -> frozenset[tuple[Stage, Stage]]:
    """Every change of stage by one row, in every life that has few rows."""
    begin = TransferInputs(terms=KINDS[kind])
    known = {begin: fold_transfer(begin).stage}
    to_look_at, found = [begin], set()
    while to_look_at:
        evidence = to_look_at.pop()
        for after in additions(evidence, FEW):
            if after not in known:
                known[after] = fold_transfer(after).stage
                to_look_at.append(after)
            found.add((known[evidence], known[after]))
    return frozenset((before, after) for before, after in found if before != after)


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_causes_one_legal_transition(kind: str):
    assert steps_of_all_lives(kind) - STEPS == set()


def test_every_transition_occurs_in_a_history():
    assert STEPS - frozenset().union(*map(steps_of_all_lives, KINDS)) == set()


def walk(
    seed: int, rows: int, *, reorgs: bool
) -> Iterator[tuple[TransferInputs, TransferInputs, bool]]:
    """Row after row as chance has it: before, after, and whether a chain took something back."""
    chance = random.Random(seed)
    evidence = TransferInputs(terms=chance.choice(list(KINDS.values())))
    for _ in range(rows):
        taken = list(reorganisations(evidence)) if reorgs and chance.random() < 0.2 else []
        options = taken or list(additions(evidence, MANY))
        after = chance.choice(options)
        yield evidence, after, bool(taken)
        evidence = after


@effort(60)
@given(seed=SEEDS)
def test_interleavings_cause_legal_transitions_only(seed: int):
    for before, after, is_taken_back in walk(seed, 25, reorgs=True):
        was, now = fold_transfer(before).stage, fold_transfer(after).stage
        if is_taken_back:
            assert state_machine.may_follow(was, now, rewound=True), (was, now)
        else:
            assert was == now or now in state_machine.successors(was), (was, now)


@effort(40)
@given(seed=SEEDS)
def test_final_stage_never_changes(seed: int):
    for before, after, _ in walk(seed, 30, reorgs=False):
        if state_machine.is_final(fold_transfer(before).stage):
            assert fold_transfer(after).stage == fold_transfer(before).stage


@effort(40)
@given(seed=SEEDS)
def test_row_order_changes_nothing(seed: int):
    chance = random.Random(seed)
    for _, evidence, _ in walk(seed, 20, reorgs=True):
        assert fold_transfer(shuffled(chance, evidence)) == fold_transfer(evidence)


def shuffled(chance: random.Random, evidence: TransferInputs) -> TransferInputs:
    sets: dict[str, Any] = {
        field.name: tuple(chance.sample(value, len(value)))
        for field in fields(TransferInputs)
        if isinstance(value := getattr(evidence, field.name), tuple)
    }
    return replace(evidence, **sets)


@effort(40)
@given(seed=SEEDS)
def test_reorg_restores_the_earlier_state(seed: int):
    for before, after, _ in walk(seed, 20, reorgs=False):
        for back in reorganisations(after):
            if replace(back, rewound=before.rewound) == before:
                lost = {each.tx for each in back.rewound}
                # Once the transaction is proven dead; until then it may come again.
                dead = replace(back, dead=back.dead | lost)
                assert fold_transfer(dead) == fold_transfer(replace(before, dead=dead.dead))


@effort(60)
@given(seed=SEEDS)
def test_held_money_is_owed_or_meant_for_owner(seed: int):
    for _, evidence, _ in walk(seed, 25, reorgs=True):
        progress = fold_transfer(evidence)
        for line in progress.refund.lines if progress.refund else ():
            assert line.held == max(0, held(evidence, line.token))
            assert line.owed <= line.held
            assert line.owed == line.held or is_meant_for_the_owner(evidence, progress)


@effort(60)
@given(seed=SEEDS)
def test_refund_leaves_funds_in_use_and_owes_no_more(seed: int):
    for _, evidence, _ in walk(seed, 25, reorgs=True):
        progress = fold_transfer(evidence)
        for token in progress.goes_back:
            assert token != USDC or progress.stage not in ("AWAITING_FUNDS", "FUNDED", "SUBMITTED")
            back = give_back(evidence, held(evidence, token), top(evidence) + 1, token)
            assert token not in fold_transfer(back).goes_back


def is_meant_for_the_owner(evidence: TransferInputs, progress: TransferState) -> bool:
    """Whether something of what is there is still to be carried on."""
    return evidence.closed_at is None or progress.stage in ("SUBMITTED", "ON_HOLD")


@effort(60)
@given(seed=SEEDS)
def test_reorged_source_requests_no_second_payment(seed: int):
    for _, evidence, is_taken_back in walk(seed, 25, reorgs=True):
        if is_taken_back and any(each.paid is None for each in evidence.rewound):
            came_again = {each.source.tx for each in evidence.matched if each.source}
            awaited = {each.tx for each in evidence.rewound if each.paid is None}
            if awaited - came_again - evidence.dead:
                stage = fold_transfer(evidence).stage
                assert stage not in ("AWAITING_FUNDS", "AWAITING_SIGNATURE", "FUNDED")
