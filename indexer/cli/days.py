"""`isthmus days` and `isthmus export`: what Dagster does each day, by hand."""

import time
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path

import click

from indexer.cli.base import operator_command


def _day_range(command: Callable[..., int]) -> Callable[..., int]:
    """Options `--from` and `--to`; one alone stands for itself."""

    def as_day(_: click.Context, __: click.Parameter, value: datetime | None) -> date | None:
        return None if value is None else value.date()

    for name, which in (("to", "last"), ("from", "first")):
        command = click.option(
            f"--{name}",
            which,
            type=click.DateTime(["%Y-%m-%d"]),
            callback=as_day,
            metavar="DAY",
            help=f"{which.capitalize()} day, such as 2026-11-21; without both: days that are due.",
        )(command)
    return command


@click.command()
@_day_range
@operator_command
def days(first: date | None, last: date | None) -> int:
    """Compute daily figures and compare them with the views; 1 on a difference."""
    from indexer.analytics.agreement import differences
    from indexer.analytics.daily import FIGURES, compute, contiguous_ranges, due_days
    from indexer.config.warehouse import open_warehouse

    first, last = first or last, last or first
    with open_warehouse() as (settings, engine):
        for figure in FIGURES:
            with engine.connect() as conn:
                due = due_days(conn, settings.network, figure)
            for begin, end in [(first, last)] if first and last else contiguous_ranges(due):
                for done in compute(engine, settings.network, figure, begin, end):
                    rows = ", ".join(f"{count} {table}" for table, count in done.rows.items())
                    print(f"{done.first} to {done.last}: {rows}", flush=True)
        found = differences(engine, settings.network)
    for sentence in found:
        print(sentence)
    print("figures and views agree" if not found else f"{len(found)} differences")
    return 1 if found else 0


@click.command()
@_day_range
@click.option(
    "--to-folder", "folder", type=click.Path(path_type=Path), help="Default: ISTHMUS_EXPORT."
)
@click.option("--only", type=click.Choice(["facts", "figures"]), help="One of the two sets alone.")
@click.option(
    "--duckdb",
    "database",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Then write all complete days of the folder into this DuckDB file as well.",
)
@operator_command
def export(
    first: date | None,
    last: date | None,
    folder: Path | None,
    only: str | None,
    database: Path | None,
) -> int:
    """Write days as Parquet files."""
    from indexer.analytics.export import SETS, due_days, write_database
    from indexer.analytics.export import export as write_days
    from indexer.config.warehouse import open_warehouse
    from indexer.facts.days import days_between

    first, last = first or last, last or first
    with open_warehouse() as (settings, engine):
        folder = folder or settings.export_folder
        for what in SETS:
            if only not in (None, what.name):
                continue
            with engine.connect() as conn:
                due = due_days(conn, what, folder)
            wanted = list(days_between(first, last)) if first and last else due
            if not wanted:
                print(f"{what.name}: nothing is due in {folder}")
            began = time.monotonic()
            for number, written in enumerate(write_days(engine, what, folder, wanted), 1):
                left = (time.monotonic() - began) / number * (len(wanted) - number)
                print(
                    f"{what.name} {written.day}: {sum(written.rows.values())} rows, day {number} of"
                    f" {len(wanted)}, about {left:.0f} s left",
                    flush=True,
                )
    if database is not None:
        held = write_database(folder, database)
        print(f"{database}: {held.days} days, {sum(held.rows.values())} rows")
    return 0
