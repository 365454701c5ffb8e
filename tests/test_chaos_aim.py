"""At what the chaos of transfers aims: what it met least, in each of its ways."""

from collections import Counter
from contextlib import closing

import psycopg
from sqlalchemy import URL

from tests.chaos.transfers.aim import AFTER, BEFORE, DURING, EARLY, SELDOM, Aim, Point
from tests.chaos.transfers.points import POINTS, Sessions

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


def test_what_became_of_a_transaction_that_nobody_saw_is_known_if_all_then_ended_alike(
    database: URL,
) -> None:
    url = database.set(drivername="postgresql").render_as_string(hide_password=False)
    with closing(Sessions(url)) as sessions, psycopg.connect(url) as writer:
        first = sessions.next_xid()
        assert sessions.one_of(first, first) is None
        writer.execute("SELECT pg_current_xact_id()")
        writer.commit()
        xid = sessions.one_of(first, sessions.next_xid())
        assert xid is not None
        assert sessions.status(xid) == "committed"
        writer.execute("SELECT pg_current_xact_id()")
        writer.rollback()
        assert sessions.one_of(first, sessions.next_xid()) is None
