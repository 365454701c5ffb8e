"""`isthmus days` and `isthmus export`: what Dagster does each day, by hand."""

import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from sqlalchemy import Engine

from indexer.analytics.agreement import differences
from indexer.analytics.daily import FIGURES as FAMILIES
from indexer.analytics.daily import compute, contiguous_ranges
from indexer.analytics.daily import due_days as days_to_compute
from indexer.analytics.export import SETS, ExportSet, due_days, export
from indexer.config.settings import load_settings
from indexer.config.warehouse import open_engine
from indexer.facts.days import days_between


def compute_days(first: date | None, last: date | None) -> int:
    """Compute the days of a range, or those that are due; 1 where figures and views differ."""
    settings = load_settings()
    engine = open_engine(settings, "indexer")
    asked = _range(first, last)
    for figure in FAMILIES:
        with engine.connect() as conn:
            due = days_to_compute(conn, settings.network, figure)
        for begin, end in [asked] if asked else contiguous_ranges(due):
            for done in compute(engine, settings.network, figure, begin, end):
                rows = ", ".join(f"{count} {table}" for table, count in done.rows.items())
                print(f"{done.first} to {done.last}: {rows}", flush=True)
    found = differences(engine, settings.network)
    for sentence in found:
        print(sentence)
    print("figures and views agree" if not found else f"{len(found)} differences")
    return 1 if found else 0


def export_days(
    first: date | None, last: date | None, to_folder: Path | None, only: str | None
) -> int:
    """Write the days of a range, or those that are due; `only` names one of the sets."""
    settings = load_settings()
    engine = open_engine(settings, "indexer")
    folder = to_folder or settings.export_folder
    asked = _range(first, last)
    for what in SETS:
        if only in (None, what.name):
            with engine.connect() as conn:
                wanted = list(days_between(*asked)) if asked else due_days(conn, what, folder)
            _export_set(engine, what, folder, wanted)
    return 0


def _export_set(engine: Engine, what: ExportSet, folder: Path, wanted: Sequence[date]) -> None:
    if not wanted:
        print(f"{what.name}: nothing is due in {folder}")
        return
    began = time.monotonic()
    for number, written in enumerate(export(engine, what, folder, wanted), 1):
        left = (time.monotonic() - began) / number * (len(wanted) - number)
        print(
            f"{what.name} {written.day}: {sum(written.rows.values())} rows, day {number} of "
            f"{len(wanted)}, about {left:.0f} s left",
            flush=True,
        )


def _range(first: date | None, last: date | None) -> tuple[date, date] | None:
    """The days that were asked for; one alone stands for itself."""
    first, last = first or last, last or first
    return None if first is None or last is None else (first, last)
