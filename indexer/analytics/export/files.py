"""Atomic Parquet files, and markers of complete days.

A file is written to a scratch folder and renamed into place. A day's marker is deleted before its
first file changes and written after its last, so a day with a marker is complete and of one state.
"""

import fcntl
import itertools
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from indexer.analytics.watermarks import Watermark, Watermarks
from indexer.errors import FollowerConflict
from warehouse_schema.identifiers import ChainId

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COMPLETE_TO = "isthmus.complete_to"
"""Metadata of a file: JSON, chain → height, block_hash and block_time of its last block."""
ROWS_A_GROUP = 100_000
"""Rows of a row group; one is in memory while it is written."""
DUCKDB_MEMORY = "512MB"
"""Beyond it DuckDB writes to the spill folder."""


@dataclass(frozen=True, slots=True)
class DayMarker:
    """Marks a complete day of a set."""

    state: str
    """State of the warehouse that it was written from; the day is due when that changes."""
    rows: Mapping[str, int]
    """By table."""
    complete_to: Watermarks = field(default_factory=dict)
    """Last block of each chain of which all rows are in the files."""


@dataclass(frozen=True, slots=True)
class ExportFolder:
    """The folder of the exported files."""

    path: Path

    def file(self, table: str, day: date) -> Path:
        """The file of a table's day."""
        return self.path / table / f"day={day}" / f"{table}.parquet"

    @contextmanager
    def writing(self) -> Iterator["DuckDBPyConnection"]:
        """Lock the folder, and open the database that writes its files.

        Raises `FollowerConflict` when another process writes into the folder.
        """
        self._scratch.mkdir(parents=True, exist_ok=True)
        with (self._scratch / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise FollowerConflict(f"another process exports into {self.path}") from error
            # Left by a killed process.
            for file in self._scratch.glob("*.parquet"):
                file.unlink()
            shutil.rmtree(self.spill, ignore_errors=True)
            with closing(open_duckdb(":memory:", self.spill)) as database:
                yield database

    def write(
        self,
        database: "DuckDBPyConnection",
        table: str,
        day: date,
        schema: Mapping[str, pl.DataType],
        frames: Iterator[pl.DataFrame],
        complete_to: Watermarks,
    ) -> int:
        """Write a table's day from frames of that schema. Returns its number of rows.

        `complete_to` is stored in the file: key `COMPLETE_TO` of its metadata.

        Memory is `DUCKDB_MEMORY` and that of a few frames; the rest of the day is on disk. Errors
        of the frames pass through, and the old file stays.
        """
        temporary, file = self._scratch / f"{table}-{day}.parquet", self.file(table, day)
        metadata = json.dumps(_watermark_json(complete_to))
        # Not by polars: its Parquet writer may wait for ever (pola-rs/polars issue 27969).
        first, second = next(frames, pl.DataFrame(schema=schema)), next(frames, None)
        source = "frame"
        database.register("frame", _ArrowStream(first))
        # Nearly every day is one frame, and needs no table.
        if second is not None:
            source = "gathered"
            database.execute("CREATE OR REPLACE TABLE gathered AS FROM frame")
            for frame in itertools.chain((second,), frames):
                database.register("frame", _ArrowStream(frame))
                database.execute("INSERT INTO gathered FROM frame")
        ((rows,),) = database.execute(
            f"COPY {source} TO {quoted(str(temporary))} (FORMAT parquet, COMPRESSION zstd,"
            f" ROW_GROUP_SIZE {ROWS_A_GROUP},"
            f" KV_METADATA {{{quoted(COMPLETE_TO)}: {quoted(metadata)}}})"
        ).fetchall()
        database.execute("DROP TABLE IF EXISTS gathered")
        sync(temporary)
        file.parent.mkdir(parents=True, exist_ok=True)
        os.replace(temporary, file)
        sync(file.parent)
        return int(rows)

    def marker(self, name: str, day: date) -> DayMarker | None:
        """The marker of a set's day; None if it is not complete."""
        try:
            found = json.loads(self._marker(name, day).read_text())
        except FileNotFoundError:
            return None
        marks = found.get("complete_to", {})
        complete_to = {ChainId(chain): Watermark(**mark) for chain, mark in marks.items()}
        return DayMarker(found["state"], found["rows"], complete_to)

    def marked_days(self, name: str) -> list[date]:
        """The complete days of a set, oldest first."""
        return sorted(date.fromisoformat(p.stem) for p in self._marker_folder(name).glob("*.json"))

    def begin(self, name: str, day: date) -> None:
        """Delete the marker of a set's day, before its files change."""
        self._marker(name, day).unlink(missing_ok=True)

    def finish(self, name: str, day: date, marker: DayMarker) -> None:
        """Write the marker of a set's day."""
        place = self._marker(name, day)
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._scratch / f"{name}-{day}.json"
        content = {
            "day": str(day),
            "state": marker.state,
            "complete_to": _watermark_json(marker.complete_to),
            "rows": dict(marker.rows),
        }
        temporary.write_text(json.dumps(content, indent=2) + "\n")
        os.replace(temporary, place)
        sync(place.parent)

    @property
    def _scratch(self) -> Path:
        return self.path / "_writing"

    @property
    def spill(self) -> Path:
        """Where DuckDB puts what its memory does not hold."""
        return self._scratch / "duckdb"

    def _marker(self, name: str, day: date) -> Path:
        return self._marker_folder(name) / f"{day}.json"

    def _marker_folder(self, name: str) -> Path:
        return self.path / "_days" / name


def _watermark_json(complete_to: Watermarks) -> dict[str, Any]:
    return {chain: asdict(mark) for chain, mark in sorted(complete_to.items())}


def open_duckdb(file: str, spill: Path) -> "DuckDBPyConnection":
    """Open a DuckDB file, or `:memory:`. It fetches no extension, and `spill` holds what
    `DUCKDB_MEMORY` does not."""
    # Takes 0.1 s, and only exports need it.
    import duckdb

    return duckdb.connect(
        file,
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "memory_limit": DUCKDB_MEMORY,
            "temp_directory": str(spill),
        },
    )


@dataclass(frozen=True, slots=True)
class _ArrowStream:
    """A frame as DuckDB reads it without pyarrow."""

    frame: pl.DataFrame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.frame.__arrow_c_stream__(requested_schema)


def quoted(text: str) -> str:
    """A text as a literal of DuckDB's SQL."""
    return "'" + text.replace("'", "''") + "'"


def sync(path: Path) -> None:
    """Make a file's content, or the renames in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
