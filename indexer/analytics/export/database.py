"""One DuckDB file with all exported days.

It is written beside its place and renamed into it, so a reader sees the old file or the new one.
"""

import os
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from sqlalchemy import Table

from indexer.analytics.export.files import DayMarker, ExportFolder, open_duckdb, quoted, sync
from indexer.analytics.export.tables import SETS, ExportSet
from indexer.errors import ConfigurationError

COMPLETENESS = "completeness"
"""Table of the file: set, day, chain, and the last block that the day's rows go up to."""


@dataclass(frozen=True, slots=True)
class DatabaseWritten:
    """A written DuckDB file."""

    days: int
    """Complete days, of the set that has most."""
    rows: dict[str, int]
    """By table."""


def write_database(folder: Path, file: Path) -> DatabaseWritten:
    """Write the complete days of an export folder into one DuckDB file.

    A table has the columns of its files and `day`, with their comments. Raises
    `ConfigurationError` without any complete day, and `FollowerConflict` when another process
    exports into the folder.
    """
    files = ExportFolder(folder)
    scratch = file.with_name(f".{file.name}.writing")
    with files.writing():
        days = {what: _complete_days(files, what) for what in SETS}
        if not any(days.values()):
            raise ConfigurationError(f"{folder} has no complete day: run isthmus export first")
        file.parent.mkdir(parents=True, exist_ok=True)
        # Left by a killed process.
        for left in (scratch, scratch.with_name(f"{scratch.name}.wal")):
            left.unlink(missing_ok=True)
        with closing(open_duckdb(str(scratch), files.spill)) as database:
            rows = {
                table.name: _copy(database, table, [files.file(table.name, day) for day in marks])
                for what, marks in days.items()
                if marks
                for table in what.tables
            }
            _put_completeness(database, days)
        sync(scratch)
        os.replace(scratch, file)
        sync(file.parent)
    return DatabaseWritten(max(map(len, days.values())), rows)


def _complete_days(files: ExportFolder, what: ExportSet) -> dict[date, DayMarker]:
    found = {}
    for day in files.marked_days(what.name):
        marker = files.marker(what.name, day)
        if marker is not None:
            found[day] = marker
    return found


def _copy(database: Any, table: Table, files: list[Path]) -> int:
    paths = [str(each) for each in files]
    database.read_parquet(paths, hive_partitioning=True).create(table.name)
    for column in table.columns:
        if column.comment is not None:
            comment = quoted(column.comment)
            database.execute(f"COMMENT ON COLUMN {table.name}.{column.name} IS {comment}")
    ((count,),) = database.table(table.name).count("*").fetchall()
    return int(count)


def _put_completeness(database: Any, days: dict[ExportSet, dict[date, DayMarker]]) -> None:
    database.execute(
        f"CREATE TABLE {COMPLETENESS} (set VARCHAR, day DATE, chain VARCHAR, height BIGINT,"
        " block_hash VARCHAR, block_time BIGINT)"
    )
    for what, marks in days.items():
        for day, marker in marks.items():
            for chain, mark in sorted(marker.complete_to.items()):
                row = [what.name, day, chain, mark.height, mark.block_hash, mark.block_time]
                database.table(COMPLETENESS).insert(row)
