"""At what the chaos of transfers aims: what it met least, in each of its ways."""

from collections import Counter

from tests.chaos.transfers.aim import AFTER, BEFORE, DURING, EARLY, SELDOM, Aim, Point
from tests.chaos.transfers.points import POINTS

RUNS, KILLS = 13, 30


def test_what_is_written_early_is_met_first_and_each_of_it_in_some_run() -> None:
    first = Counter(Aim(POINTS, seed).next()[0].table for seed in range(RUNS))
    assert set(first) <= set(EARLY)
    assert len(first) > 2


def test_what_was_met_is_aimed_at_again_after_all_others() -> None:
    aim = Aim(POINTS, 1)
    aimed = []
    for _ in range(len(aim.points)):
        [point, *_] = aim.next()
        aim.way(point)
        aimed.append(point)
    assert sorted(aimed, key=str) == sorted(aim.points, key=str)


def test_what_nobody_comes_to_keeps_nothing_else_from_being_met() -> None:
    aim = Aim({"a": ("x.never", "x.often"), "b": ("x.too",)}, 0)
    aimed = Counter[str]()
    for _ in range(30):
        [point, *_] = aim.next()
        aimed[point.table] += 1
        if point.table != "x.never":
            aim.way(point)
    assert min(aimed.values()) >= 5


def test_the_doors_of_what_is_seldom_written_are_closed_until_it_was_met() -> None:
    aim = Aim(POINTS, 1)
    seldom = [each for each in aim.points if each.table in SELDOM]
    aimed, *others = aim.next()
    assert {*others} == {*seldom} - {aimed}
    met = Point("follower eip155", "facts.lost_sources")
    aim.way(met)
    assert met not in aim.next()


def test_over_some_runs_everything_is_met_in_every_way() -> None:
    met = Counter[tuple[Point, str]]()
    for seed in range(1, RUNS + 1):
        aim = Aim(POINTS, seed)
        for _ in range(KILLS):
            [point, *_] = aim.next()
            met[point, aim.way(point)] += 1
    everything = {(point, way) for point in aim.points for way in (BEFORE, DURING, AFTER)}
    assert everything - met.keys() == set()
