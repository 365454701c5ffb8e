"""`isthmus doctor`: is everything there that the configuration names?"""

import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from indexer.cli.base import operator_command

if TYPE_CHECKING:
    from indexer.doctor.checks import CheckResult


@click.command()
@click.option("--only", multiple=True, metavar="GROUP", help="Run this group; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-v", "--verbose", is_flag=True, help="Print also the checks without a finding.")
@operator_command
def doctor(only: tuple[str, ...], as_json: bool, verbose: bool) -> int:
    """Check what the configuration names against what is there; 1 on a finding."""
    from indexer.config.settings import load_settings
    from indexer.doctor import run
    from indexer.doctor.checks import DoctorContext

    unknown = [name for name in only if name not in run.GROUPS]
    if unknown:
        raise click.UsageError(f"no group {', '.join(unknown)}; there are {', '.join(run.GROUPS)}")
    started = time.monotonic()
    progress = _Progress(started)
    context = DoctorContext(load_settings(needs_database=False), progress.begin)
    names = [name for name in run.GROUPS if not only or name in only]
    with _only_errors_logged():
        results = list(run.run_groups(context, names))
    progress.clear()
    seconds = time.monotonic() - started
    findings = [result for _, result in results if result.is_finding]
    if as_json:
        print(_document(results, seconds))
    else:
        print(_table(results, seconds, verbose=verbose))
    return 1 if findings else 0


@contextmanager
def _only_errors_logged() -> Iterator[None]:
    """What the clients warn about is in the findings."""
    logger = logging.getLogger("indexer")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class _Progress:
    """Line on stderr with the check that runs; nothing where stderr is no terminal."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._is_drawn = sys.stderr.isatty()

    def begin(self, check: str, subject: str) -> None:
        """Show a check."""
        if self._is_drawn:
            elapsed = time.monotonic() - self._started
            # The rest of the line is cleared: a line before may have been longer.
            print(f"\r{elapsed:4.0f} s  {check}  {subject}\x1b[K", end="", file=sys.stderr)
            sys.stderr.flush()

    def clear(self) -> None:
        """Clear the line."""
        if self._is_drawn:
            print("\r\x1b[K", end="", file=sys.stderr)
            sys.stderr.flush()


def _document(results: Sequence[tuple[str, "CheckResult"]], seconds: float) -> str:
    """One JSON object with every result."""
    # Imported here, as all of what commands use.
    import orjson

    from warehouse_schema.configuration import explain

    findings = sum(result.is_finding for _, result in results)
    document = {
        "checks": len(results),
        "findings": findings,
        "seconds": round(seconds, 1),
        "results": [
            {
                "group": group,
                "check": result.check,
                "subject": result.subject,
                "status": "finding" if result.is_finding else "ok",
                "seen": result.seen,
                "problem": result.problem,
                "fix": explain(result.fix),
            }
            for group, result in results
        ],
    }
    return orjson.dumps(document).decode()


def _table(results: Sequence[tuple[str, "CheckResult"]], seconds: float, *, verbose: bool) -> str:
    """A count for each group, then every finding with its fix."""
    from warehouse_schema.configuration import explain

    lines = []
    total = Counter(group for group, _ in results)
    wrong = Counter(group for group, result in results if result.is_finding)
    width = max(map(len, total), default=0)
    for group, count in total.items():
        lines.append(f"{group:{width}}  {count - wrong[group]} ok, {_findings(wrong[group])}")
        shown = [result for each, result in results if each == group and verbose]
        lines += [
            f"  {result.check}  {result.subject}  {result.seen}".rstrip()
            for result in shown
            if not result.is_finding
        ]
    for _, result in results:
        if result.is_finding:
            lines += ["", f"{result.check}  {result.subject}"]
            lines += [f"  {result.problem}", f"  Fix: {explain(result.fix)}"]
    summary = f"{_findings(wrong.total())} in {len(results)} checks, {seconds:.1f} s"
    return "\n".join([*lines, "", summary])


def _findings(count: int) -> str:
    return "1 finding" if count == 1 else f"{count} findings"
