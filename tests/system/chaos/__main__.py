"""`make chaos`: ingestion and transfers under kills, lies and lost connections, a half each.

    python -m tests.system.chaos                both halves, one after the other
    python -m tests.system.chaos ingest         see tests/system/chaos/ingest.py
    python -m tests.system.chaos transfers      see tests/system/chaos/transfers/half.py

What else is said goes to the half that is named. Each half prints one JSON line and takes an hour
at most. Exit code 0: all was as it must be in each.
"""

import sys
from collections.abc import Callable, Mapping, Sequence

from tests.system.chaos import ingest
from tests.system.chaos.plan import say
from tests.system.chaos.transfers import half

HALVES: Mapping[str, Callable[[Sequence[str]], int]] = {
    "ingest": ingest.main,
    "transfers": half.main,
}


def main(arguments: Sequence[str]) -> int:
    """Run the half that is named first, or both; 2 for a name that is none."""
    if not arguments:
        return max([run([]) for run in HALVES.values()])
    name, *others = arguments
    if name not in HALVES:
        say(f"no half {name}; there are {', '.join(HALVES)}")
        return 2
    return HALVES[name](others)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
