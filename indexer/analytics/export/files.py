"""Atomic Parquet files, and markers of complete days.

A file is written to a scratch folder and renamed into place. A day's marker is deleted before its
first file changes and written after its last, so a day with a marker is complete and of one state.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from indexer.analytics.watermarks import Watermark, Watermarks
from indexer.errors import FollowerConflict
from warehouse_schema.identifiers import ChainId

COMPLETE_TO = "isthmus.complete_to"
"""Metadata of a file: JSON, chain → height, block_hash and block_time of its last block."""
ROWS_A_GROUP = 100_000
"""Rows of a row group; one is in memory while it is written."""


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
    def writing(self) -> Iterator[None]:
        """Lock the folder. Raises `FollowerConflict` when another process writes into it."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        with (self._scratch / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise FollowerConflict(f"another process exports into {self.path}") from error
            # Left by a killed process.
            for file in self._scratch.glob("*.parquet"):
                file.unlink()
            yield

    def write(
        self,
        table: str,
        day: date,
        schema: Mapping[str, pl.DataType],
        frames: Iterator[pl.DataFrame],
        complete_to: Watermarks,
    ) -> int:
        """Write a table's day from frames of that schema. Returns its number of rows.

        `complete_to` is stored in the file: key `COMPLETE_TO` of its metadata.

        Memory is that of a few frames and a row group. Errors of the frames pass through, and the
        old file stays.
        """
        rows = 0

        def counted(*_: Any) -> Iterator[pl.DataFrame]:
            nonlocal rows
            for frame in frames:
                rows += frame.height
                yield frame

        temporary, file = self._scratch / f"{table}-{day}.parquet", self.file(table, day)
        source = register_io_source(counted, schema=dict(schema))
        source.sink_parquet(
            temporary,
            row_group_size=ROWS_A_GROUP,
            sync_on_close="all",
            metadata={COMPLETE_TO: json.dumps(_watermark_json(complete_to))},
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        os.replace(temporary, file)
        sync_folder(file.parent)
        return rows

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
        sync_folder(place.parent)

    @property
    def _scratch(self) -> Path:
        return self.path / "_writing"

    def _marker(self, name: str, day: date) -> Path:
        return self._marker_folder(name) / f"{day}.json"

    def _marker_folder(self, name: str) -> Path:
        return self.path / "_days" / name


def _watermark_json(complete_to: Watermarks) -> dict[str, Any]:
    return {chain: asdict(mark) for chain, mark in sorted(complete_to.items())}


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
