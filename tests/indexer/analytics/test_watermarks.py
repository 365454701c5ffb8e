"""Watermarks of daily tables and exported files, and the view `completeness`."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import URL

from indexer.analytics.export import FACTS, FIGURES, export
from indexer.analytics.export.files import COMPLETE_TO, ExportFolder
from indexer.ingest.rebuild import reset_days
from tests.factories.demo_history import NETWORK, OPEN_DAY, fill_with_history
from warehouse_schema.engine import make_engine

LAST = OPEN_DAY - timedelta(days=1)
LAST_BLOCKS = text("""
    SELECT chain, max(height) AS height FROM facts.blocks
    WHERE to_timestamp(time) AT TIME ZONE 'UTC' < CAST(:day AS date) + 1 GROUP BY chain
""")
"""Chain → last block of a day, independent of the search that the product does."""


@pytest.fixture(scope="module")
def engine(clone: Callable[[], URL]) -> Iterator[Engine]:
    url = clone()
    fill_with_history(url, days=3)
    engine = make_engine(url, role="indexer")
    yield engine
    engine.dispose()


def last_blocks(conn: Connection, day: object) -> dict[str, int]:
    return {row.chain: row.height for row in conn.execute(LAST_BLOCKS, {"day": day})}


def test_each_computed_day_names_its_last_blocks(engine: Engine) -> None:
    with engine.connect() as conn:
        for days_before in range(3):
            day = LAST - timedelta(days=days_before)
            query = text(
                "SELECT chain, height FROM projections.day_blocks"
                " WHERE day = :day AND figure = 'routes'"
            )
            stored = {row.chain: row.height for row in conn.execute(query, {"day": day})}
            assert stored == last_blocks(conn, day)
            assert len(stored) == 2


def test_completeness_names_every_table_and_chain(engine: Engine) -> None:
    stellar = NETWORK.stellar.id
    with engine.connect() as conn:
        rows = conn.execute(text("SELECT * FROM analytics.completeness")).mappings().all()
        ends = last_blocks(conn, LAST)
        tops = last_blocks(conn, OPEN_DAY)
    shown = {(row["dataset"], row["chain"]): row for row in rows}
    chains = [chain.id for chain in NETWORK.chains]
    everywhere = ("facts", "projections", "route_days")
    assert set(shown) == {
        *((dataset, chain) for dataset in everywhere for chain in chains),
        ("provider_days", stellar),
        ("market_days", stellar),
    }
    for (dataset, chain), row in shown.items():
        is_daily = dataset.endswith("_days")
        assert row["height"] == (ends if is_daily else tops)[chain]
        daily = (row["last_day"], row["days"], row["days_missing"])
        assert daily == ((LAST, 3, 0) if is_daily else (None, None, None))


def test_completeness_counts_missing_days(engine: Engine) -> None:
    with engine.connect() as conn:
        middle = {"day": LAST - timedelta(days=1)}
        conn.execute(text("DELETE FROM projections.days_done WHERE day = :day"), middle)
        query = text(
            "SELECT DISTINCT days, days_missing FROM analytics.completeness WHERE days > 0"
        )
        assert conn.execute(query).all() == [(2, 1)]
        conn.rollback()


def test_reset_days_removes_their_blocks(engine: Engine) -> None:
    with engine.connect() as conn:
        reset_days(conn)
        assert conn.scalar(text("SELECT count(*) FROM projections.day_blocks")) == 0
        conn.rollback()


@pytest.mark.parametrize("export_set", [FACTS, FIGURES], ids=lambda each: each.name)
def test_exported_files_carry_their_watermarks(
    engine: Engine, tmp_path: Path, export_set: object
) -> None:
    assert export_set in (FACTS, FIGURES)
    what = FACTS if export_set is FACTS else FIGURES
    for _ in export(engine, what, tmp_path, [LAST]):
        pass
    folder = ExportFolder(tmp_path)
    marker = folder.marker(what.name, LAST)
    assert marker is not None
    with engine.connect() as conn:
        ends = last_blocks(conn, LAST)
    assert {chain: mark.height for chain, mark in marker.complete_to.items()} == ends
    for table in what.tables:
        stored = pl.read_parquet_metadata(folder.file(table.name, LAST))[COMPLETE_TO]
        assert {chain: mark["height"] for chain, mark in json.loads(stored).items()} == ends
