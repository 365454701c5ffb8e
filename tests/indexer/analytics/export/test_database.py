"""The DuckDB file holds every row of the exported days, and is whole at any moment."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest
from sqlalchemy import Engine, text
from sqlalchemy.engine import URL

from indexer.analytics.export import SETS, due_days, export, write_database
from indexer.analytics.export.files import ExportFolder
from indexer.errors import ConfigurationError, FollowerConflict
from tests.factories.demo_history import OPEN_DAY, fill_with_history
from warehouse_schema.engine import make_engine

LAST = OPEN_DAY - timedelta(days=1)
FIGURES = ("provider_days", "market_days", "route_days")


@pytest.fixture(scope="module")
def engine(clone: Callable[[], URL]) -> Iterator[Engine]:
    url = clone()
    fill_with_history(url, days=3)
    engine = make_engine(url, role="indexer")
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def folder(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    for what in SETS:
        with engine.connect() as conn:
            due = due_days(conn, what, folder)
        for _ in export(engine, what, folder, due):
            pass
    return folder


def test_file_has_every_row_of_the_warehouse(engine: Engine, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "new" / "isthmus.duckdb"
    written = write_database(folder, file)
    assert written.days == 3
    with duckdb.connect(str(file), read_only=True) as database, engine.connect() as conn:
        for what in SETS:
            for table in what.tables:
                count = f"SELECT count(*) FROM {table.fullname}"
                # Blocks and events of the open day are in no file.
                if "block_time" in table.c or table.name == "blocks":
                    time = "time" if table.name == "blocks" else "block_time"
                    count += f" WHERE to_timestamp({time}) AT TIME ZONE 'UTC' < '{OPEN_DAY}'"
                stored = conn.scalar(text(count))
                assert database.table(table.name).count("*").fetchall() == [(stored,)]
                assert written.rows[table.name] == stored
        released = database.sql("SELECT day, sum(released) FROM market_days GROUP BY 1 ORDER BY 1")
        query = "SELECT day, sum(released) FROM projections.market_days GROUP BY 1 ORDER BY 1"
        assert released.fetchall() == [tuple(row) for row in conn.execute(text(query))]
    assert [each.name for each in file.parent.iterdir()] == ["isthmus.duckdb"]


def test_file_has_comments_and_watermarks(engine: Engine, folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "isthmus.duckdb"
    write_database(folder, file)
    query = "SELECT chain, height FROM completeness WHERE set = 'figures' AND day = ?"
    with duckdb.connect(str(file), read_only=True) as database, engine.connect() as conn:
        marks = database.execute(query, [LAST]).fetchall()
        stored = conn.execute(
            text("SELECT DISTINCT chain, height FROM projections.day_blocks WHERE day = :day"),
            {"day": LAST},
        )
        assert sorted(marks) == sorted(tuple(row) for row in stored)
        uncommented = database.sql(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE comment IS NULL"
            " AND schema_name = 'main' AND NOT internal"
            " AND table_name <> 'completeness' AND column_name <> 'day'"
        )
        assert uncommented.fetchall() == []


def test_incomplete_day_is_left_out(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "isthmus.duckdb"
    files = ExportFolder(folder)
    marker = files.marker("figures", LAST)
    assert marker is not None
    files.begin("figures", LAST)
    try:
        write_database(folder, file)
    finally:
        files.finish("figures", LAST, marker)
    with duckdb.connect(str(file), read_only=True) as database:
        for table in FIGURES:
            last = database.sql(f"SELECT max(day) FROM {table}").fetchall()
            assert last == [(LAST - timedelta(days=1),)]


def test_failure_keeps_the_old_file(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "isthmus.duckdb"
    write_database(folder, file)
    before = file.read_bytes()
    (tmp_path / ".isthmus.duckdb.writing").write_bytes(b"left by a killed process")
    broken = ExportFolder(folder).file("market_days", LAST)
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-100])
    try:
        with pytest.raises(duckdb.Error):
            write_database(folder, file)
    finally:
        broken.write_bytes(whole)
    assert file.read_bytes() == before
    write_database(folder, file)


def test_second_writer_and_empty_folder_are_refused(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "isthmus.duckdb"
    with ExportFolder(folder).writing(), pytest.raises(FollowerConflict):
        write_database(folder, file)
    with pytest.raises(ConfigurationError, match="no complete day"):
        write_database(tmp_path / "nothing", file)
    assert not file.exists()
