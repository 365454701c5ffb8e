"""The clients' processes: sockets that follow the book, and requests at a rate."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.system.fleet.fleet import Fleet
from tests.system.fleet.programs import ROOT, FleetFailed, python

_RESULT_SECONDS = 300.0


@contextmanager
def following(
    fleet: Fleet, sockets: int, providers: Sequence[str]
) -> Iterator["subprocess.Popen[str]"]:
    """Sockets that all have their snapshot; `providers` are addresses."""
    words = [str(sockets), ",".join(fleet.addresses), *providers]
    with _child("tests.system.fleet.sockets", *words) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise FleetFailed("the clients did not get their snapshots")
        yield process


@contextmanager
def requesting(
    fleet: Fleet, reads: float, writes: float, starts: Sequence[tuple[str, str]], *, again: bool
) -> Iterator["subprocess.Popen[str]"]:
    """Requests at these rates; see `tests.system.fleet.requests`."""
    plan = {
        "reads": reads,
        "writes": writes,
        "path": "/api/v1/orderbook",
        "starts": starts,
        "again": again,
    }
    with _child("tests.system.fleet.requests", fleet.addresses[0]) as process:
        assert process.stdin is not None
        process.stdin.write(f"{json.dumps(plan)}\n")
        process.stdin.flush()
        yield process


def result_of(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """End a client's input; what it writes then."""
    written, _ = process.communicate(timeout=_RESULT_SECONDS)
    found: dict[str, Any] = json.loads(written)
    return found


@contextmanager
def _child(module: str, *words: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        python(module, *words),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # A Ctrl-C in the terminal is for the program in front, which ends this one.
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
