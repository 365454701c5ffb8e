"""Agreement between node operators."""

import pytest

from indexer.chains.http.operators import (
    NotEnoughSources,
    SourcesDisagree,
    agreed,
    next_number,
    reached,
)


@pytest.mark.parametrize(
    ("said", "needed", "far"),
    [
        ([("a", 1000), ("b", 5)], 2, 5),
        ([("a", 1000), ("a", 1000), ("b", 5)], 2, 5),
        ([("a", 5), ("b", 6), ("c", 0)], 2, 5),
        ([("a", 7), ("a", 5), ("b", 6)], 1, 6),
        ([("a", 7), ("a", 5), ("b", 6)], 2, 5),
        ([("a", 7)], 2, 7),
        ([("a", 7)], 1, 7),
    ],
)
def test_one_operator_cannot_raise_a_number(said, needed, far):
    assert reached(said, needed) == far


def test_no_answers_raise_value_error():
    with pytest.raises(ValueError, match="no node"):
        reached([], 1)


def test_agreement_needs_two_equal_operators():
    assert agreed("it", [("a", 1), ("b", 1)], 2) == 1
    with pytest.raises(NotEnoughSources, match="needs 2"):
        agreed("it", [("a", 1), ("a", 1)], 2)
    with pytest.raises(SourcesDisagree, match="1 and 2"):
        agreed("it", [("a", 1), ("b", 1), ("c", 2)], 2)


@pytest.mark.parametrize(
    ("own", "said", "needed", "number"),
    [
        (None, [("a", 4)], 1, 4),
        (None, [("a", 4), ("b", 4)], 2, 4),
        (9, [("a", 4), ("b", 4)], 2, 9),
        (9, [("a", 1000)], 1, 9),
        (9, [("a", 1000), ("b", 9)], 2, 9),
        (9, [("a", 1000), ("b", 12)], 2, 12),
        (9, [("a", 1000), ("a", 1000)], 2, 9),
        (9, [], 2, 9),
    ],
)
def test_next_number_exceeds_own_only_by_two_operators(own, said, needed, number):
    assert next_number("account", own, said, needed) == number
