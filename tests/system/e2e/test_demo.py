"""The demo as one command in a folder of its own."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from devnet.local_http import TIMEOUTS
from devnet.process_groups import MARK
from devnet.services import isthmus
from isthmus_client import Isthmus, NotReached
from tests.memory import server_folder
from tests.run_processes import run_pids

PROJECT = Path(__file__).resolve().parents[3]
RUNNING = "Ctrl-C stops everything"
VERIFIED = (
    "everything the scenario did is visible, and nothing else",
    "every customer's transfer ended as it must, to the last unit on both chains",
    "what left one chain came to the other, and no deposit address holds anything",
    "every closed day is computed, and its figures are those of the views",
)
TIMEOUT = 300.0
"""Seconds for one step. A demo costs half a minute of processor time, most of it imports of its ten
processes; on two cores that others use as well, that is minutes."""


@pytest.fixture
def home() -> Iterator[Path]:
    with server_folder("e2e") as folder:
        yield folder


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    return {**kept, "ISTHMUS_HOME": str(home)}


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        isthmus(*arguments),
        cwd=PROJECT,
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.2)


def marked_processes(home: Path) -> list[str]:
    """Command lines of everything that a demo in that folder started and that still runs."""
    mark = f"{MARK}={home / 'demo'}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


class Demo:
    """A demo that lives on in the background; given once it has said that it is so far."""

    def __init__(self, home: Path, until: str = RUNNING) -> None:
        self.home = home
        self.output = home / "output"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                isthmus("demo"),
                cwd=PROJECT,
                env=environment(home),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_until(until)
        except BaseException:
            self.stop()
            raise

    def _wait_until(self, text: str) -> None:
        """As long as it prints something: how long a demo takes says how busy the machine is."""
        printed, deadline = "", time.monotonic() + TIMEOUT
        while text not in printed:
            assert self.process.poll() is None, printed
            assert time.monotonic() < deadline, f"it prints nothing more: {printed}"
            time.sleep(0.2)
            before, printed = printed, self.output_text()
            if printed != before:
                deadline = time.monotonic() + TIMEOUT

    def stop(self) -> None:
        """End it with all that it started, which a demo that is killed leaves behind."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(TIMEOUT)
        finally:
            self.process.kill()
            self.process.wait()

    def output_text(self) -> str:
        return self.output.read_text()

    @property
    def api(self) -> str:
        """Where the API answers."""
        return self.printed("API")

    def printed(self, name: str) -> str:
        """What the list of addresses says of it."""
        [text] = re.findall(rf"^{name} +(.+)$", self.output_text(), re.MULTILINE)
        return str(text)

    def child(self, name: str) -> int:
        entries = json.loads((self.home / "demo" / "processes.json").read_text())
        return next(int(entry["pid"]) for entry in entries if entry["name"] == name)

    def runs(self) -> list[int]:
        """Processes of the runs, the followers among them."""
        return run_pids(self.child("dagster-code"))

    def heights(self) -> dict[str, int]:
        """How far each chain is, by the API; nothing while it does not answer."""
        try:
            # A proxy that the environment names is for the world outside.
            with Isthmus(self.api, transport=httpx.HTTPTransport(), timeouts=TIMEOUTS) as api:
                chains = api.readiness().chains
        except NotReached:
            return {}
        return {each.chain: each.height for each in chains if each.height is not None}

    def must_move_on(self) -> None:
        """Both chains are ingested further than they are now, and the API says so."""
        wait_for(lambda: bool(self.heights()))
        before = self.heights()

        def moved() -> bool:
            now = self.heights()
            return bool(now) and all(now[chain] > height for chain, height in before.items())

        wait_for(moved)


@pytest.mark.timeout(9 * TIMEOUT)
def test_demo_cleans_up_survives_kills_and_leaves_no_process(
    home: Path,
) -> None:
    """One demo for all checks: its setup takes a minute. CI runs `make demo ONCE=1`."""
    killed = Demo(home, until="-- scenario")
    killed.process.kill()
    killed.process.wait()
    assert marked_processes(home) != []
    demo = Demo(home)
    try:
        for name in ("evm", "stellar", "dagster-code", "dagster-page", "dagster-daemon", "api"):
            assert re.search(rf"ended {name} \(process \d+\), left by a demo", demo.output_text())
        assert "dropped: isthmus, isthmus_dagster" in demo.output_text()
        for verified in VERIFIED:
            assert f"verified: {verified}" in demo.output_text()
        must_go_on_whatever_is_killed(demo)
        must_agree(home / "demo")
    finally:
        demo.stop()
    assert demo.process.returncode == 0, demo.output_text()
    assert marked_processes(home) == []
    postgres = run(home, "database", "status", "--data", f"{home}/demo/postgres")
    assert postgres.stdout.strip() == "not running"


def must_agree(home: Path) -> None:
    """Facts and projections, once the keeper runs again: what differs for good is never equal."""
    deadline = time.monotonic() + TIMEOUT
    while (checked := run(home, "check")).returncode != 0 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def must_go_on_whatever_is_killed(demo: Demo) -> None:
    for pid in demo.runs():
        os.kill(pid, signal.SIGKILL)
    demo.must_move_on()
    os.kill(demo.child("api"), signal.SIGKILL)
    demo.must_move_on()
    postmaster = (demo.home / "demo" / "postgres" / "postmaster.pid").read_text().split()[0]
    os.kill(int(postmaster), signal.SIGKILL)
    wait_for(lambda: "postgres is back" in demo.output_text())
    demo.must_move_on()
