"""Runs on several machines end right whatever dies: rows equal one process's, nothing twice."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import polars as pl
import psycopg
import pytest

from pipelines.instance import range_tags
from tests.system.chaos.contents import Contents, read_contents
from tests.system.engine.conftest import BLOCKS, RUN_SECONDS, SPAN
from tests.system.engine.lab import kill, wait_until
from tests.system.engine.node import BLOCK_SECONDS
from tests.system.engine.site import CHAIN, EXPORTER, Site, backfill_config

pytestmark = pytest.mark.timeout(int(900 + 3 * RUN_SECONDS))

WORKERS = ("w1", "w2", "w3")
OUTAGE_SECONDS = 5.0
FIRST_DAY = date(2025, 1, 1)
DAYS = BLOCKS * BLOCK_SECONDS // 86_400
"""Days that are over."""


def successes(site: Site, warehouse: str) -> Counter[str]:
    """How often each step of the warehouse's runs ended well."""
    rows = site.query(
        f"{warehouse}_dagster",
        "SELECT run_id || step_key FROM event_logs WHERE dagster_event_type = 'STEP_SUCCESS'",
    )
    return Counter(row[0] for row in rows)


def workers_since(site: Site, warehouse: str, moment: object) -> set[str]:
    """Names of the workers that began a step after a moment of the database's clock."""
    rows = site.query(
        f"{warehouse}_dagster",
        "SELECT event FROM event_logs WHERE dagster_event_type = 'ENGINE_EVENT'"
        " AND event LIKE '%%in celery worker%%' AND timestamp > %s",
        moment,
    )
    return {name for name in site.workers for (event,) in rows if f"{name}@{name}" in event}


def now(site: Site) -> object:
    """UTC by the database's clock."""
    return site.query("postgres", "SELECT now() AT TIME ZONE 'UTC'")[0][0]


# Faults


def kill_worker(site: Site, warehouse: str) -> None:
    """SIGKILL for a worker in the middle of a step, and its processes. No other takes its place."""

    def busy() -> list[str]:
        return [n for n, w in site.workers.items() if w.is_writing(site.postgres, warehouse)]

    wait_until(lambda: bool(busy()), "a worker is in the middle of a step")
    kill(site.workers.pop(busy()[0]).process)


def restart_broker(site: Site, warehouse: str) -> None:
    """SIGKILL for the broker, then a start on what it had written."""
    site.broker.restart()


def restart_database(site: Site, warehouse: str) -> None:
    """A crash of Postgres with all sessions, five seconds without it, recovery."""
    site.postgres.restart(OUTAGE_SECONDS)


def fail_over_database(site: Site, warehouse: str) -> None:
    """SIGKILL for the primary; the standby is promoted. Nothing of the old one comes back."""
    site.fail_over()


def no_fault(site: Site, warehouse: str) -> None:
    """Everything goes well."""


FAULTS = (no_fault, kill_worker, restart_broker, restart_database, fail_over_database)


@pytest.mark.parametrize("fault", FAULTS)
def test_backfill_equals_one_process(
    site: Site, expected: Contents, fault: Callable[[Site, str], None]
):
    warehouse = fault.__name__
    site.create_warehouse(warehouse)
    if fault is fail_over_database:
        site.add_standby()
    for name in WORKERS:
        site.start_worker(name, warehouse)
    run = site.start_run(warehouse, "backfill", backfill_config(BLOCKS, SPAN))
    wait_until(lambda: site.committed(warehouse) >= BLOCKS / 5, "a fifth is in", RUN_SECONDS)
    fault(site, warehouse)
    assert site.committed(warehouse) < BLOCKS / 2, "the fault came too late to be in mid-run"
    since = now(site)
    site.await_run(run, warehouse, RUN_SECONDS)
    assert read_contents(site.postgres.socket_url(warehouse)).as_bytes() == expected.as_bytes()
    assert site.query(warehouse, "SELECT count(*) FROM facts.backfills") == [(0,)]
    ended = successes(site, warehouse)
    assert len(ended) == BLOCKS // SPAN + 2
    assert {step for step, count in ended.items() if count > 1} == set()
    # None is mute: each that lives took steps afterwards.
    assert workers_since(site, warehouse, since) == set(site.workers)
    for name in site.workers:
        assert not (site.lab.machines[name].folder / "home" / "export").exists()


# Daily figures and exports


def close_days(site: Site, warehouse: str) -> None:
    """The follower's cursor, at the last block: days before its own are over."""
    statement = """
        INSERT INTO facts.cursors
               (chain, height, block_hash, block_time, head_height, head_time, final_height)
        SELECT chain, height, hash, time, height, time, height FROM facts.blocks
         WHERE chain = %s ORDER BY height DESC LIMIT 1 RETURNING 1
    """
    assert site.query(warehouse, statement, CHAIN) == [(1,)]


def run_days(site: Site, warehouse: str, job: str, executor: str = "celery"):
    """Start a job for all days that are over."""
    last = FIRST_DAY + timedelta(days=DAYS - 1)
    tags = range_tags(str(FIRST_DAY), str(last))
    return site.start_run(warehouse, job, {}, tags, executor)


def exported(folder: Path) -> dict[str, pl.DataFrame]:
    """All files, by their path in the export folder."""
    export = folder / "home" / "export"
    return {
        str(file.relative_to(export)): pl.read_parquet(file)
        for file in sorted(export.glob("*/day=*/*.parquet"))
    }


def route_days(site: Site, warehouse: str) -> list[tuple[object, ...]]:
    statement = "SELECT to_jsonb(d) - 'computed_at' FROM projections.route_days AS d"
    return sorted(site.query(warehouse, statement), key=repr)


@contextmanager
def locked(site: Site, warehouse: str, table: str) -> Iterator[Callable[[], bool]]:
    """Locks the table meanwhile. The result says, when called, whether a session waits for it."""
    query = """
        SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'
           AND application_name = 'isthmus-indexer'
    """
    with psycopg.connect(site.postgres.socket_url(warehouse)) as conn:
        conn.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield lambda: site.query("postgres", query, warehouse) != [(0,)]


def test_days_and_exports_survive_kills_in_mid_run(site: Site, expected: Contents):
    """Figures are another worker's then; of the export its folder's worker, once it is back."""
    warehouse = "days"
    site.postgres.execute(f"CREATE DATABASE {warehouse} TEMPLATE alone")
    site.postgres.execute(f"CREATE DATABASE {warehouse}_dagster")
    for each in ("alone", warehouse):
        close_days(site, each)
    for job in ("compute_route_days", "export_facts"):
        site.await_run(run_days(site, "alone", job, "in_process"), "alone", RUN_SECONDS)
    files = exported(site.lab.hub.folder)
    assert len({name.split("/")[1] for name in files}) == DAYS
    assert len(route_days(site, "alone")) >= DAYS

    victim = site.start_worker("w1", warehouse)
    with locked(site, warehouse, "projections.route_days") as is_met:
        run = run_days(site, warehouse, "compute_route_days")
        wait_until(is_met, "figures are being written")
        kill(victim.process)
    site.workers.pop("w1")
    site.start_worker("w2", warehouse)
    site.await_run(run, warehouse, RUN_SECONDS)
    assert route_days(site, warehouse) == route_days(site, "alone")

    exporter = site.start_worker(EXPORTER, warehouse, "exports")
    with locked(site, warehouse, "facts.oft_sent") as is_met:
        run = run_days(site, warehouse, "export_facts")
        wait_until(is_met, "files are being written")
        kill(exporter.process)
    assert 0 < len(exported(exporter.machine.folder)) < len(files)
    exporter = site.start_worker(EXPORTER, warehouse, "exports")
    site.await_run(run, warehouse, RUN_SECONDS)
    written = exported(exporter.machine.folder)
    assert written.keys() == files.keys()
    assert [name for name, frame in files.items() if not frame.equals(written[name])] == []
    assert set(successes(site, warehouse).values()) == {1}
