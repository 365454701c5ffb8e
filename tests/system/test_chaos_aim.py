"""Choice of kill points in the chaos of transfers: the least met first."""

import random
from collections import Counter
from contextlib import closing

import psycopg
from sqlalchemy import URL

from tests.system.chaos.transfers.aim import AFTER, BEFORE, DURING, EARLY, SELDOM, Aim, Point
from tests.system.chaos.transfers.points import POINTS, Sessions

RUNS, KILLS = 13, 30


def test_early_tables_are_aimed_at_first_over_the_seeds() -> None:
    first = Counter(Aim(POINTS, seed).next()[0].table for seed in range(RUNS))
    assert set(first) <= set(EARLY)
    assert len(first) > 2


def a_run(seed: int) -> Counter[tuple[Point, str]]:
    """What it meets, and how, when anybody may be the first to come."""
    aim, chance = Aim(POINTS, seed), random.Random(seed)
    met = Counter[tuple[Point, str]]()
    for _ in range(KILLS):
        point = chance.choice(aim.next())
        met[point, aim.way(point)] += 1
    return met


def test_kills_are_spread_over_the_points() -> None:
    met = Counter(point for point, _ in a_run(1).elements())
    assert max(met.values()) <= 2
    assert len(met) >= 0.8 * KILLS


def test_one_point_per_process_is_aimed_at_together() -> None:
    aim = Aim({"a": ("x.one", "x.two"), "b": ("x.one",), "c": ("x.three",), "d": ("x.four",)}, 0)
    processes = [each.process for each in aim.next()]
    assert len({*processes}) == len(processes) == 3


def test_unreached_point_does_not_block_other_points() -> None:
    aim = Aim({"a": ("x.never", "x.often"), "b": ("x.too",)}, 0)
    met = Counter[str]()
    for _ in range(30):
        come = [each for each in aim.next() if each.table != "x.never"]
        for point in come[:1]:
            aim.way(point)
            met[point.table] += 1
    assert min(met["x.often"], met["x.too"]) >= 5


def test_rare_table_is_aimed_at_until_it_was_met() -> None:
    aim = Aim(POINTS, 1)
    seldom = [each for each in aim.points if each.table in SELDOM]
    assert {*seldom} <= {*aim.next()}
    met = Point("follower eip155", "facts.lost_sources")
    aim.way(met)
    assert met not in aim.next()


def test_runs_together_meet_every_point_in_every_way() -> None:
    met = sum(map(a_run, range(1, RUNS + 1)), Counter[tuple[Point, str]]())
    points = Aim(POINTS, 0).points
    everything = {(point, way) for point in points for way in (BEFORE, DURING, AFTER)}
    assert everything - met.keys() == set()


def test_unseen_transaction_is_known_if_all_ended_alike(
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
