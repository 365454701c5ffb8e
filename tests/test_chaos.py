"""The chaos harness in small: what its checker sees, and a few short runs."""

import random
from collections.abc import Iterator

import pytest

from tests.chaos.__main__ import kind_of
from tests.chaos.bare import bare_run
from tests.chaos.contents import Contents, differences
from tests.chaos.outcome import Outcome, result
from tests.chaos.proof import PLANTED, prove_checker
from tests.chaos.site import Site, site


@pytest.fixture(scope="module")
def place() -> Iterator[Site]:
    with site() as place:
        yield place


@pytest.mark.timeout(180)
def test_the_checker_sees_everything_that_is_planted(place: Site) -> None:
    found = prove_checker(place, seed=5)
    assert [each.what for each in PLANTED] == found[: len(PLANTED)]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [1, 2])
def test_after_kills_reorgs_and_faults_the_rows_are_those_of_a_straight_run(
    place: Site, seed: int
) -> None:
    outcome = bare_run(place, seed, acts=20)
    assert outcome.differences == []
    assert outcome.findings == []
    assert outcome.kills.total() >= 4
    assert outcome.rows > 200


def test_equal_contents_differ_in_nothing() -> None:
    rows = {"facts.blocks": ('{"height": 1}', '{"height": 2}')}
    assert differences(Contents(rows), Contents({**rows})) == []


def test_a_row_too_often_is_told_as_often_as_it_is_too_much() -> None:
    straight = Contents({"t": ("a", "b")})
    assert len(differences(Contents({"t": ("a", "b", "b", "b")}), straight)) == 2


def test_a_table_that_is_not_there_is_a_loss() -> None:
    assert differences(Contents({}), Contents({"t": ("a",)})) == ["t: lost a"]


def test_an_outcome_is_told_in_one_line_and_read_back() -> None:
    outcome = Outcome(7, "bare", differences=["x"], reorgs=[64])
    outcome.kills["follower"] += 2
    assert Outcome.from_json(outcome.to_json()) == outcome


def test_the_result_counts_every_run() -> None:
    first, second = Outcome(1, "bare"), Outcome(9, "stack", differences=["lost", "lost"])
    first.kills["follower"], second.kills["whole stack"] = 3, 1
    first.faults["429"] = 5
    assert result([first, second], 1.26) == {
        "name": "chaos_ingest",
        "runs": 2,
        "faults": 5,
        "kills": 4,
        "full_stack_kills": 1,
        "minutes": 1.3,
        "differences": 2,
    }


def test_two_hundred_seeds_in_a_row_have_twenty_of_the_whole_stack() -> None:
    first = random.Random(1).randrange(10**6)
    seeds = range(first, first + 200)
    assert sum(kind_of(seed) == "stack" for seed in seeds) >= 20
