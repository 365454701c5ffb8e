"""`python -m indexer days` and `python -m indexer export`: what Dagster does each day, by hand."""

import argparse
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
from indexer.config.settings import Settings
from indexer.config.warehouse import open_engine
from indexer.facts.days import days_between


def add_days(parser: argparse.ArgumentParser) -> None:
    """Compute daily figures: those that are due, or a range of days."""
    _add_range(parser)
    parser.set_defaults(run=_days)


def add_export(parser: argparse.ArgumentParser) -> None:
    """Write Parquet files: those that are due, or a range of days."""
    _add_range(parser)
    parser.add_argument(
        "--to-folder", type=Path, help="where to; default is the setting ISTHMUS_EXPORT"
    )
    parser.add_argument(
        "--only", choices=[each.name for each in SETS], help="facts or daily figures alone"
    )
    parser.set_defaults(run=_export)


def _add_range(parser: argparse.ArgumentParser) -> None:
    for name, which in (("from", "first"), ("to", "last")):
        parser.add_argument(
            f"--{name}",
            dest=which,
            type=date.fromisoformat,
            metavar="DAY",
            help=f"{which} day, such as 2026-11-21; without both, what is due",
        )


def _range(arguments: argparse.Namespace) -> tuple[date, date] | None:
    """The days that were asked for; one alone stands for itself."""
    first, last = arguments.first or arguments.last, arguments.last or arguments.first
    return None if first is None or last is None else (first, last)


def _days(settings: Settings, arguments: argparse.Namespace) -> int:
    engine = open_engine(settings, "indexer")
    asked = _range(arguments)
    for figure in FAMILIES:
        with engine.connect() as conn:
            due = days_to_compute(conn, settings.network, figure)
        for first, last in [asked] if asked else contiguous_ranges(due):
            for done in compute(engine, settings.network, figure, first, last):
                rows = ", ".join(f"{count} {table}" for table, count in done.rows.items())
                print(f"{done.first} to {done.last}: {rows}", flush=True)
    found = differences(engine, settings.network)
    for sentence in found:
        print(sentence)
    print("figures and views agree" if not found else f"{len(found)} differences")
    return 1 if found else 0


def _export(settings: Settings, arguments: argparse.Namespace) -> int:
    engine = open_engine(settings, "indexer")
    folder: Path = arguments.to_folder or settings.export_folder
    asked = _range(arguments)
    for what in SETS:
        if arguments.only in (None, what.name):
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
