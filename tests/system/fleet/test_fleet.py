"""A small fleet under load; and nothing is left of one, however it ends."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.system.fleet.hosts import BRIDGE, AnotherFleet, hosts
from tests.system.fleet.load import Sizes, measure
from tests.system.fleet.programs import ROOT, Missing, python, require

SMALL = Sizes(sockets=200, providers=20, commits=20, reads=20, writes=5, seconds=5, workers=1)


def _leftovers() -> list[str]:
    links, namespaces = Path("/sys/class/net"), Path("/run/netns")
    found = [*namespaces.glob("isthmus-fleet-*"), *links.glob("fleet-*"), *links.glob(BRIDGE)]
    return [str(each) for each in found]


@pytest.mark.timeout(400)
def test_small_fleet_delivers_every_ledger_once() -> None:
    result = measure(SMALL)
    wrong = {name: result[name] for name in ("lost", "twice", "out_of_order", "gaps")}
    assert wrong == {"lost": 0, "twice": 0, "out_of_order": 0, "gaps": 0}
    assert (result["reads_errors"], result["writes_errors"]) == ({}, {})
    assert result["deliveries_per_s"] > 0
    assert _leftovers() == []


def test_failed_fleet_leaves_nothing() -> None:
    started = []

    def fail() -> None:
        with hosts(["one", "two"]) as (one, _):
            started.append(subprocess.Popen(one.command(["sleep", "600"])))
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()
    assert started[0].wait(5) == -signal.SIGKILL
    assert _leftovers() == []


def test_killed_fleets_leftovers_are_removed_by_the_next() -> None:
    code = "from tests.system.fleet.hosts import hosts\nwith hosts(['old']): input()"
    command = [python("x")[0], "-c", code]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE) as process:
        deadline = time.monotonic() + 30
        while not Path("/run/netns/isthmus-fleet-old").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(AnotherFleet), hosts(["new"]):
            pytest.fail("two fleets")
        process.send_signal(signal.SIGKILL)
    assert _leftovers() != []
    with hosts(["new"]):
        assert not Path("/run/netns/isthmus-fleet-old").exists()
    assert _leftovers() == []


def test_missing_program_is_named() -> None:
    with pytest.raises(Missing, match="needs pgbouncer: apt-get install pgbouncer"):
        require(("pgbouncer",), path="/nowhere")
