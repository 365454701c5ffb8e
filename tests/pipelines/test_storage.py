"""Dagster's storage in Postgres through the operators' dagster.yaml."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import make_url, text

from indexer.config.settings import load_settings
from indexer.config.warehouse import DAGSTER_DATABASE, dagster_storage_url
from pipelines.storage import process_engine
from warehouse_schema import engine


@pytest.fixture
def stored(postgres, server_engine, tmp_path, monkeypatch, pytestconfig):
    """An instance of dagster.yaml, in a database of its own."""
    with server_engine.connect() as conn:
        conn.execute(text(f"CREATE DATABASE {DAGSTER_DATABASE}"))
    settings = load_settings({"DATABASE_URL": postgres.url("isthmus")})
    monkeypatch.setenv("ISTHMUS_DAGSTER_URL", dagster_storage_url(settings))
    monkeypatch.setenv("ISTHMUS_HOME", str(tmp_path / "home"))
    (tmp_path / "dagster.yaml").write_bytes(
        (pytestconfig.rootpath / "pipelines/dagster.yaml").read_bytes()
    )
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        yield instance
    process_engine.cache_clear()  # The next database has the same URL.
    with server_engine.connect() as conn:
        conn.execute(text(f"DROP DATABASE {DAGSTER_DATABASE} WITH (FORCE)"))


@dg.asset
def blocks(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
    context.log_event(dg.AssetMaterialization("cursor", metadata={"height": 7}))
    return dg.MaterializeResult(metadata={"height": 8})


def test_logged_event_is_read_back(stored, tmp_path: Path):
    assert dg.materialize([blocks], instance=stored).success
    heights = [
        stored.get_latest_materialization_event(dg.AssetKey(name))
        .asset_materialization.metadata["height"]
        .value
        for name in ("cursor", "blocks")
    ]
    assert heights == [7, 8]
    left = [path.name for path in tmp_path.iterdir() if path.name != "home"]
    assert left == ["dagster.yaml"], "DAGSTER_HOME is the package; nothing may be written there"


def test_processes_that_start_together_create_the_tables_once(postgres, server_engine):
    with server_engine.connect() as conn:
        conn.execute(text("CREATE DATABASE started_together"))
    url = (
        make_url(postgres.url("started_together"))
        .set(drivername="postgresql+psycopg2")
        .render_as_string(hide_password=False)
    )
    start = threading.Barrier(4)

    def create(_: int) -> int:
        start.wait()
        # Not the cache's: each process has its own.
        engine = process_engine.__wrapped__(url)
        with engine.connect() as conn:
            found = conn.scalar(text("SELECT count(*) FROM pg_tables WHERE tablename = 'runs'"))
        engine.dispose()
        return int(found)

    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(create, range(4))) == [1, 1, 1, 1]
    finally:
        with server_engine.connect() as conn:
            conn.execute(text("DROP DATABASE started_together WITH (FORCE)"))


def backends(instance):
    """Process ids of the Postgres sessions that the instance's storages work with."""
    with instance.run_storage.connect() as runs, instance.schedule_storage.connect() as schedules:
        found = {conn.scalar(text("SELECT pg_backend_pid()")) for conn in (runs, schedules)}
    with instance.event_log_storage._connect() as events:
        return found | {events.scalar(text("SELECT pg_backend_pid()"))}


def test_instances_of_one_process_share_connections(stored, tmp_path: Path):
    before = backends(stored)
    with dg.DagsterInstance.from_config(str(tmp_path)) as another:
        another.get_runs()
        assert backends(another) == before
    assert backends(stored) == before


def test_terminated_connections_are_replaced(stored, server_engine, monkeypatch):
    monkeypatch.setattr(engine, "IDLE_SECONDS", 0.0)
    before = backends(stored)
    with server_engine.connect() as conn:
        conn.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name"),
            {"name": DAGSTER_DATABASE},
        )
    assert stored.get_runs() == []
    assert not backends(stored) & before
