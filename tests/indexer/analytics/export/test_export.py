"""Exported days equal the tables in polars and DuckDB; each file is complete or missing."""

import json
import os
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from sqlalchemy import Engine, Table, insert, select, text

from indexer.analytics.daily import BOOK, ROUTES, compute
from indexer.analytics.export import FACTS, FIGURES, ExportSet, due_days, export, files
from indexer.analytics.export.files import ExportFolder
from indexer.analytics.export.tables import schema_of
from indexer.config.networks import load_network
from indexer.errors import DayStillOpen, FollowerConflict
from indexer.facts import columns_read, store
from indexer.facts.days import record_changed_days
from indexer.facts.rows import EVENT_MAPPINGS, copy_into
from indexer.facts.store import DecodedEvent
from tests.factories.book import CHAIN
from tests.factories.days import ingest_ledgers, set_cursor, slow_history
from tests.factories.events import (
    EVM,
    make_block,
    make_event,
    make_evm_log,
    make_provenance,
    make_sparse_event,
)
from warehouse_schema.columns import BaseUnitsType
from warehouse_schema.daily import market_days
from warehouse_schema.events import EVENT_TABLES, oft_sent
from warehouse_schema.facts import blocks, evm_logs

NETWORK = load_network("devnet")
FIRST, LAST = date(2026, 11, 18), date(2026, 11, 20)
DAYS = [FIRST, date(2026, 11, 19), LAST]


def run(engine: Engine, what: ExportSet, folder: Path, wanted: Sequence[date]) -> list[date]:
    return [written.day for written in export(engine, what, folder, wanted)]


def due(engine: Engine, what: ExportSet, folder: Path) -> list[date]:
    with engine.connect() as conn:
        return due_days(conn, what, folder)


def compute_all(engine: Engine) -> None:
    for figure in (BOOK, ROUTES):
        list(compute(engine, NETWORK, figure, FIRST, LAST))


@pytest.fixture
def ingested(indexer_engine: Engine) -> Engine:
    """Two days and a few seconds before them, with the figures of all three."""
    with indexer_engine.begin() as conn:
        ingest_ledgers(conn, slow_history(1, days=2))
    compute_all(indexer_engine)
    return indexer_engine


@pytest.fixture
def exported(ingested: Engine, tmp_path: Path) -> Engine:
    for what in (FACTS, FIGURES):
        run(ingested, what, tmp_path, DAYS)
    return ingested


def stored(engine: Engine, table: Table) -> list[tuple[Any, ...]]:
    """A table's rows, its base units as text, its day last."""
    columns = [column for column in table.columns if column.name != "day"]
    day = (
        table.c.day
        if "day" in table.c
        else text(f"(DATE '1970-01-01' + ({_time(table)} / 86400)::integer)")
    )
    with engine.connect() as conn:
        rows = conn.execute(select(*columns, day).order_by(*table.primary_key))
        return sorted(
            (
                (
                    *(
                        str(value)
                        if isinstance(c.type, BaseUnitsType) and value is not None
                        else value
                        for c, value in zip(columns, row, strict=False)
                    ),
                    row[-1],
                )
                for row in rows
                if row[-1] <= LAST
            ),
            key=repr,
        )


def _time(table: Table) -> str:
    return "time" if table.name == "blocks" else "block_time"


def in_words(rows: Sequence[tuple[Any, ...]], table: Table) -> list[tuple[Any, ...]]:
    """Rows as `stored` gives them: a figure's decimals as digits."""
    units = [
        isinstance(column.type, BaseUnitsType) for column in table.columns if column.name != "day"
    ]
    return sorted(
        (
            (
                *(
                    str(value) if is_unit and value is not None else value
                    for value, is_unit in zip(row, units, strict=False)
                ),
                row[-1],
            )
            for row in rows
        ),
        key=repr,
    )


@pytest.mark.parametrize("reader", ["polars", "duckdb"])
def test_exported_files_equal_tables(exported: Engine, tmp_path: Path, reader: str) -> None:
    for table in (*FACTS.tables, *FIGURES.tables):
        if reader == "polars":
            rows = pl.read_parquet(tmp_path / table.name).rows()
        else:
            pattern = str(tmp_path / table.name / "*" / "*.parquet")
            rows = duckdb.sql(
                f"SELECT * FROM read_parquet('{pattern}', hive_partitioning = true)"
            ).fetchall()
        assert in_words(rows, table) == stored(exported, table), table.name
    assert len(stored(exported, blocks)) > 50
    assert len(stored(exported, market_days)) > 3


@pytest.mark.usefixtures("exported")
def test_empty_file_has_documented_types(tmp_path: Path) -> None:
    for table in (*FACTS.tables, *FIGURES.tables):
        for day in DAYS:
            file = ExportFolder(tmp_path).file(table.name, day)
            assert pl.read_parquet_schema(file) == schema_of(table), table.name


def test_extreme_events_survive_export(indexer_engine: Engine, tmp_path: Path) -> None:
    around = [make_block(1), make_block(2), make_block(90_000)]
    with indexer_engine.begin() as conn:
        store.append(conn, around, [])
        for event_type, shelf in EVENT_MAPPINGS.items():
            kinds = (make_event, make_sparse_event)
            events = [make(event_type, make_provenance(n)) for n, make in enumerate(kinds, 1)]
            copy_into(conn, shelf.columns, map(shelf.row, events))
        set_cursor(conn, around[-1])
    day = date(2023, 11, 14)
    run(indexer_engine, FACTS, tmp_path, [day])
    for shelf in EVENT_MAPPINGS.values():
        file = ExportFolder(tmp_path).file(shelf.table.name, day)
        expected = stored(indexer_engine, shelf.table)
        assert len(expected) == 2
        assert in_words(pl.read_parquet(file.parents[1]).rows(), shelf.table) == expected
        found = duckdb.sql(f"SELECT * FROM read_parquet('{file}', hive_partitioning = true)")
        assert in_words(found.fetchall(), shelf.table) == expected


def test_documented_sum_of_amounts_is_exact(exported: Engine, tmp_path: Path) -> None:
    with exported.connect() as conn:
        total = conn.scalar(
            text("SELECT sum(amount) FROM facts.orders_opened WHERE block_time < 1795219200")
        )
    files_ = tmp_path / "orders_opened"
    pattern = str(files_ / "*" / "*.parquet")
    in_duckdb = duckdb.sql(f"SELECT sum(amount::HUGEINT) FROM read_parquet('{pattern}')").fetchall()
    in_polars = pl.scan_parquet(files_).select(pl.col("amount").cast(pl.Int128).sum()).collect()
    assert in_duckdb == [(total,)]
    assert in_polars.item() == total


def test_changed_day_is_due_again(ingested: Engine, tmp_path: Path) -> None:
    assert due(ingested, FACTS, tmp_path) == due(ingested, FIGURES, tmp_path) == DAYS
    assert run(ingested, FACTS, tmp_path, DAYS) == DAYS
    run(ingested, FIGURES, tmp_path, DAYS)
    assert due(ingested, FACTS, tmp_path) == due(ingested, FIGURES, tmp_path) == []
    with ingested.begin() as conn:
        record_changed_days(conn, CHAIN, {LAST})
    assert due(ingested, FACTS, tmp_path) == [LAST]
    assert due(ingested, FIGURES, tmp_path) == []
    list(compute(ingested, NETWORK, BOOK, LAST, LAST))
    assert due(ingested, FIGURES, tmp_path) == [LAST]
    assert due(ingested, FACTS, tmp_path / "another") == DAYS


def test_days_before_first_event_are_not_due(ingested: Engine, tmp_path: Path) -> None:
    genesis = insert(blocks).values(
        chain=CHAIN, height=0, hash="0", parent_hash="", time=0, events=0
    )
    with ingested.begin() as conn:
        conn.execute(genesis)
    assert due(ingested, FACTS, tmp_path) == due(ingested, FIGURES, tmp_path) == DAYS


def test_repeated_export_gives_equal_bytes(exported: Engine, tmp_path: Path) -> None:
    def contents() -> dict[Path, bytes]:
        return {file: file.read_bytes() for file in tmp_path.rglob("*.parquet")}

    before = contents()
    for what in (FACTS, FIGURES):
        run(exported, what, tmp_path, DAYS)
    assert contents() == before
    assert len(before) == 3 * (len(FACTS.tables) + len(FIGURES.tables))


def test_open_day_is_refused_before_writing(ingested: Engine, tmp_path: Path) -> None:
    still_open = date(2026, 11, 21)
    with pytest.raises(DayStillOpen, match="facts of 2026-11-21 are not all there: the last day"):
        run(ingested, FACTS, tmp_path, [LAST, still_open])
    with pytest.raises(DayStillOpen, match="figures of 2026-11-21"):
        run(ingested, FIGURES, tmp_path, [still_open])
    assert list(tmp_path.iterdir()) == []


def test_empty_warehouse_has_no_due_days(indexer_engine: Engine, tmp_path: Path) -> None:
    assert due(indexer_engine, FACTS, tmp_path) == due(indexer_engine, FIGURES, tmp_path) == []
    with pytest.raises(DayStillOpen, match="no day can be yet"):
        run(indexer_engine, FACTS, tmp_path, [LAST])


# Killed, or in each other's way.


def test_failed_write_keeps_old_file_without_marker(
    exported: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ExportFolder(tmp_path)
    file = folder.file("evm_logs", LAST)
    before = file.read_bytes()
    real = os.replace

    def full(source: Any, target: Any) -> None:
        if str(target).endswith("evm_logs.parquet"):
            raise OSError("no space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        run(exported, FACTS, tmp_path, [LAST])
    monkeypatch.undo()
    assert file.read_bytes() == before
    assert folder.marker("facts", LAST) is None
    assert due(exported, FACTS, tmp_path) == [LAST]
    # What was left half done is in nobody's way, and goes with the next export.
    left = list((tmp_path / "_writing").glob("*.parquet"))
    assert len(left) == 1
    assert pl.read_parquet(tmp_path / "evm_logs").height == pl.read_parquet(file).height
    run(exported, FACTS, tmp_path, [LAST])
    assert list((tmp_path / "_writing").glob("*.parquet")) == []
    assert due(exported, FACTS, tmp_path) == []


def test_database_error_is_raised(ingested: Engine, tmp_path: Path) -> None:
    def broken() -> Iterator[pl.DataFrame]:
        yield pl.DataFrame(schema=schema_of(oft_sent))
        raise ConnectionResetError("the server went away")

    folder = ExportFolder(tmp_path)
    went_away = pytest.raises(ConnectionResetError, match="the server went away")
    with folder.writing() as database, went_away:
        folder.write(database, "oft_sent", LAST, schema_of(oft_sent), broken(), {})
    assert not folder.file("oft_sent", LAST).exists()


def test_second_export_into_folder_is_refused(ingested: Engine, tmp_path: Path) -> None:
    under_way = export(ingested, FACTS, tmp_path, DAYS)
    next(under_way)
    with pytest.raises(FollowerConflict, match="another process exports into"):
        run(ingested, FACTS, tmp_path, DAYS)
    list(under_way)
    run(ingested, FACTS, tmp_path, DAYS)


def test_marker_has_row_counts(exported: Engine, tmp_path: Path) -> None:
    note = json.loads((tmp_path / "_days/facts/2026-11-19.json").read_text())
    assert note["day"] == "2026-11-19"
    assert set(note["rows"]) == {table.name for table in FACTS.tables}
    assert note["rows"]["blocks"] == pl.read_parquet(tmp_path / "blocks/day=2026-11-19").height > 0


def test_large_day_is_streamed(
    indexer_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns_read, "BYTES_A_FRAME", 2_000)
    monkeypatch.setattr(files, "ROWS_A_GROUP", 100)
    with indexer_engine.begin() as conn:
        all_blocks = [make_block(1), make_block(90_000)]
        logs = [make_evm_log(make_provenance(1, position)) for position in range(1_000)]
        store.append(conn, all_blocks, [DecodedEvent(log, None, None) for log in logs])
        set_cursor(conn, all_blocks[-1])
    day = date(2023, 11, 14)
    (written,) = export(indexer_engine, FACTS, tmp_path, [day])
    assert written.rows["evm_logs"] == 1_000
    read = pl.read_parquet(ExportFolder(tmp_path).file("evm_logs", day))
    assert read["position"].to_list() == list(range(1_000))
    assert len(EVENT_TABLES) + 3 == len(FACTS.tables)
    assert read.schema["topics"] == schema_of(evm_logs)["topics"]
    assert EVM in read["chain"]
