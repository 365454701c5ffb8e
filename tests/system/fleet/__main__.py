"""`make fleet`: the service on four hosts of this machine, under load and under faults.

    python -m tests.system.fleet [load] [faults] [--sockets N --commits N --seconds N …]

Figures are JSON lines on standard output; what a person may want to read is on standard error.
"""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, TypeVar

from tests.system.fleet.faults import FaultSizes, run_faults
from tests.system.fleet.hosts import AnotherFleet
from tests.system.fleet.load import Sizes, measure
from tests.system.fleet.programs import FleetFailed, Missing, require

PARTS = ("load", "faults")


_FAILURES = (
    *("lost", "twice", "out_of_order", "gaps"),
    *("acknowledged_lost", "double", "stuck", "findings", "deliveries_lost", "offers_differ"),
)
"""Members of a result that have to be empty or 0."""
S = TypeVar("S", Sizes, FaultSizes)


def main(arguments: Sequence[str]) -> int:
    """Run the parts that are named, or all."""
    options = _parse(arguments)
    # An ExitStack takes everything down, whatever ends this process.
    signal.signal(signal.SIGTERM, _exit)
    signal.signal(signal.SIGHUP, _exit)
    try:
        require(("ip", "haproxy", "pgbouncer", "setpriv"))
        failures = 0
        for part in options.parts:
            results = [measure(_sizes(Sizes, options))] if part == "load" else None
            for result in results or run_faults(_sizes(FaultSizes, options)):
                failures += any(result.get(name) for name in _FAILURES)
                _print(result)
    except (Missing, AnotherFleet, FleetFailed) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 1 if failures else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.system.fleet")
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    for each in (*fields(Sizes), *fields(FaultSizes)):
        kind = type(each.default)
        parser.add_argument(f"--{each.name}", type=kind, default=each.default)
    found = parser.parse_args(arguments)
    if strange := {*found.parts} - {*PARTS}:
        parser.error(f"no part {', '.join(sorted(strange))}: there are {', '.join(PARTS)}")
    return found


def _sizes(kind: type[S], options: argparse.Namespace) -> S:
    return kind(**{each.name: getattr(options, each.name) for each in fields(kind)})


def _print(result: dict[str, Any]) -> None:
    sys.stdout.write(f"{json.dumps(result)}\n")
    sys.stdout.flush()


def _exit(number: int, _: object) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
