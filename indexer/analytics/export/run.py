"""Export of due days.

A day is due when it is closed and its files are missing or of an older state: its facts have
changed, or its figures were computed again.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, select

from indexer.analytics.daily import FIGURES as FAMILIES
from indexer.analytics.export.files import DayMarker, ExportFolder
from indexer.analytics.export.tables import FACTS, ExportSet, locate_day, read_day, schema_of
from indexer.analytics.watermarks import Watermarks, stored_watermarks, watermarks
from indexer.errors import DayStillOpen
from indexer.facts import days
from warehouse_schema.daily import days_done

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

logger = logging.getLogger(__name__)

SCHEMA_VERSION = 2
"""Version of the files. A new one makes every day due."""


@dataclass(frozen=True, slots=True)
class DayWritten:
    """A written day of a set."""

    set: str
    day: date
    rows: dict[str, int]
    """By table."""


def due_days(conn: Connection, what: ExportSet, folder: Path) -> list[date]:
    """Due days, oldest first, from that of the first event on."""
    files = ExportFolder(folder)
    first = days.first_event_day(conn, days.ingested_chains(conn))
    if first is None:
        return []
    due = []
    for day, state in _states(conn, what).items():
        marker = files.marker(what.name, day)
        if day >= first and (marker is None or marker.state != state):
            due.append(day)
    return due


def check_days_closed(conn: Connection, what: ExportSet, wanted: Sequence[date]) -> None:
    """Raise `DayStillOpen` for a day whose facts or figures are incomplete."""
    ready = _states(conn, what)
    missing = [day for day in wanted if day not in ready]
    if missing:
        last = f"the last day that can be is {max(ready)}" if ready else "no day can be yet"
        raise DayStillOpen(f"{what.name} of {missing[0]} are not all there: {last}")


def export(
    engine: Engine, what: ExportSet, folder: Path, wanted: Sequence[date]
) -> Iterator[DayWritten]:
    """Write these days, each from one snapshot; yields each once it is complete.

    Raises `DayStillOpen` before anything is written, and `FollowerConflict` when another process
    exports into the folder.
    """
    files = ExportFolder(folder)
    with engine.connect() as conn:
        check_days_closed(conn, what, wanted)
    snapshots = engine.execution_options(isolation_level="REPEATABLE READ")
    with files.writing() as database:
        for day in wanted:
            with snapshots.connect() as conn:
                written = _export_day(conn, what, files, database, day)
            logger.info(
                "exported set=%s day=%s rows=%d", what.name, day, sum(written.rows.values())
            )
            yield written


def _export_day(
    conn: Connection,
    what: ExportSet,
    files: ExportFolder,
    database: "DuckDBPyConnection",
    day: date,
) -> DayWritten:
    # In this snapshot the day may have changed, or be open again.
    check_days_closed(conn, what, [day])
    state, heights = _states(conn, what)[day], locate_day(conn, day)
    complete_to = _complete_to(conn, what, day)
    files.begin(what.name, day)
    rows = {}
    for table in what.tables:
        frames = read_day(conn, table, day, heights)
        rows[table.name] = files.write(
            database, table.name, day, schema_of(table), frames, complete_to
        )
    files.finish(what.name, day, DayMarker(state, rows, complete_to))
    return DayWritten(what.name, day, rows)


def _complete_to(conn: Connection, what: ExportSet, day: date) -> Watermarks:
    if what is not FACTS:
        return stored_watermarks(conn, day)
    chains = days.ingested_chains(conn)
    return {chain: mark for _, chain, mark in watermarks(conn, chains, day, day)}


def _states(conn: Connection, what: ExportSet) -> dict[date, str]:
    """The closed days and the state of each."""
    states = _fact_states(conn) if what is FACTS else _figure_states(conn)
    return {day: f"{SCHEMA_VERSION}/{state}" for day, state in sorted(states.items())}


def _fact_states(conn: Connection) -> dict[date, str]:
    chains = days.ingested_chains(conn)
    first, still_open = days.first_day(conn, chains), days.first_open_day(conn, chains)
    if first is None or still_open is None:
        return {}
    last = still_open - timedelta(days=1)
    versions = days.versions(conn, chains, first, last, looks_back=False)
    return {day: str(version) for day, version in versions.items()}


def _figure_states(conn: Connection) -> dict[date, str]:
    """Days with every family of figures computed."""
    done: dict[date, dict[str, int]] = {}
    for row in conn.execute(select(days_done.c.figure, days_done.c.day, days_done.c.id)):
        done.setdefault(row.day, {})[row.figure] = row.id
    names = [figure.name for figure in FAMILIES]
    return {
        day: "/".join(str(ids[name]) for name in names)
        for day, ids in done.items()
        if set(ids) == set(names)
    }
