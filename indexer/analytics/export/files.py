"""Parquet files that come whole or not at all, and which days of them are complete.

A file is written beside its place and renamed into it. A day's note is taken away before its first
file changes and written after its last, so a day with a note is complete and of one state.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from indexer.errors import FollowerConflict

ROWS_A_GROUP = 100_000
"""Rows of a row group, of which one is in memory while it is written."""


@dataclass(frozen=True, slots=True)
class Note:
    """That a day of a set is complete."""

    state: str
    """What it was written from: another one, and the day is due."""
    rows: Mapping[str, int]
    """By table."""


@dataclass(frozen=True, slots=True)
class ExportFolder:
    """Where the files are."""

    path: Path

    def file(self, table: str, day: date) -> Path:
        """The file of a table's day."""
        return self.path / table / f"day={day}" / f"{table}.parquet"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the folder alone. Raises `FollowerConflict` when another process writes into it."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        with (self._scratch / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise FollowerConflict(f"another process exports into {self.path}") from error
            # What a killed one left.
            for file in self._scratch.glob("*.parquet"):
                file.unlink()
            yield

    def write(
        self,
        table: str,
        day: date,
        schema: Mapping[str, pl.DataType],
        frames: Iterator[pl.DataFrame],
    ) -> int:
        """Write a table's day from frames of that schema; how many rows it has.

        Memory is that of a few frames and a row group. What the frames raise comes through, and the
        file that was there stays then.
        """
        rows = _Counted(frames)
        temporary, file = self._scratch / f"{table}-{day}.parquet", self.file(table, day)
        source = register_io_source(rows, schema=dict(schema))
        source.sink_parquet(temporary, row_group_size=ROWS_A_GROUP, sync_on_close="all")
        file.parent.mkdir(parents=True, exist_ok=True)
        os.replace(temporary, file)
        _sync(file.parent)
        return rows.count

    def note(self, name: str, day: date) -> Note | None:
        """The note of a set's day; None if it is not complete."""
        try:
            found = json.loads(self._note(name, day).read_text())
        except FileNotFoundError:
            return None
        return Note(found["state"], found["rows"])

    def begin(self, name: str, day: date) -> None:
        """Take the note of a set's day away: its files are about to change."""
        self._note(name, day).unlink(missing_ok=True)

    def finish(self, name: str, day: date, note: Note) -> None:
        """Note that a set's day is complete."""
        place = self._note(name, day)
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._scratch / f"{name}-{day}.json"
        content = {"day": str(day), "state": note.state, "rows": dict(note.rows)}
        temporary.write_text(json.dumps(content, indent=2) + "\n")
        os.replace(temporary, place)
        _sync(place.parent)

    @property
    def _scratch(self) -> Path:
        return self.path / "_writing"

    def _note(self, name: str, day: date) -> Path:
        return self.path / "_days" / name / f"{day}.json"


class _Counted:
    """Frames as polars asks for them, and how many rows went through."""

    def __init__(self, frames: Iterator[pl.DataFrame]) -> None:
        self._frames = frames
        self.count = 0

    def __call__(self, *_: Any) -> Iterator[pl.DataFrame]:
        for frame in self._frames:
            self.count += frame.height
            yield frame


def _sync(folder: Path) -> None:
    """A rename outlives a crash once its folder is written."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
