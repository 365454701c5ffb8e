"""Days as Parquet files, for DuckDB, polars and whatever else reads them.

    <folder>/<table>/day=2026-11-21/<table>.parquet     a table's rows of one UTC day
    <folder>/_days/<set>/2026-11-21.json                that the day's files are all there
    <folder>/_writing/…                                 files that are being written

| module | what |
|---|---|
| `tables.py` | which tables, and what a day of one is |
| `files.py` | a file comes whole or not at all; which days are complete |
| `run.py` | which days are due, and writing them |
"""

from indexer.analytics.export.run import DayWritten, check_days_closed, due_days, export
from indexer.analytics.export.tables import FACTS, FIGURES, SETS, ExportSet

__all__ = [
    "FACTS",
    "FIGURES",
    "SETS",
    "DayWritten",
    "ExportSet",
    "check_days_closed",
    "due_days",
    "export",
]
