"""Export of days as Parquet files, for DuckDB, polars and others.

    <folder>/<table>/day=2026-11-21/<table>.parquet     a table's rows of one UTC day
    <folder>/_days/<set>/2026-11-21.json                marker of a complete day
    <folder>/_writing/…                                 files that are being written

| module | what |
|---|---|
| `tables.py` | exported tables, and their rows of a day |
| `files.py` | atomic files, and markers of complete days |
| `run.py` | due days, and writing them |
| `database.py` | all complete days as one DuckDB file |
"""

from indexer.analytics.export.database import write_database as write_database
from indexer.analytics.export.run import DayWritten as DayWritten
from indexer.analytics.export.run import check_days_closed as check_days_closed
from indexer.analytics.export.run import due_days as due_days
from indexer.analytics.export.run import export as export
from indexer.analytics.export.tables import FACTS as FACTS
from indexer.analytics.export.tables import FIGURES as FIGURES
from indexer.analytics.export.tables import SETS as SETS
from indexer.analytics.export.tables import ExportSet as ExportSet
