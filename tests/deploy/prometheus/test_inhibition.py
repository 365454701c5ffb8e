"""deploy/prometheus/alertmanager.yaml in a real Alertmanager: consequences are not sent."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from devnet.local_http import HOST, local_client
from devnet.supervisor import free_port
from tests.deploy.prometheus.test_rules import FOLDER

START_SECONDS, SETTLE_SECONDS = 30.0, 10.0
CASES = {
    "without the database nothing is known": ("DatabaseDown", ["FollowerDead", "ProcessDown"]),
    "a chain on hold has no follower": ("ChainOnHold", ["ProcessDown", "RelayNodesFailing"]),
    "nor has one whose final blocks changed": ("DeepReorg", ["ProcessDown", "NodeBehind"]),
    "an ended follower ends its process": ("FollowerDead", ["ProcessDown", "ChainLate"]),
    "a process alone": ("ProcessDown", []),
}


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    address = f"{HOST}:{free_port()}"
    folder = tmp_path_factory.mktemp("alertmanager")
    process = _start(address, folder)
    with local_client(f"http://{address}", timeout=10.0) as http:
        try:
            deadline = time.monotonic() + START_SECONDS
            while not _is_ready(http):
                assert time.monotonic() < deadline, "Alertmanager did not start"
                time.sleep(0.1)
            yield http
        finally:
            process.terminate()
            process.wait()


@pytest.mark.parametrize("name", CASES)
def test_only_the_cause_is_sent(name: str, alertmanager: httpx.Client) -> None:
    cause, consequences = CASES[name]
    posted = [
        {"labels": {"alertname": each, "chain": "evm", "case": name}}
        for each in (cause, *consequences)
    ]
    alertmanager.post("/api/v2/alerts", json=posted).raise_for_status()
    _await_sent(alertmanager, name, [cause])
    ended = [{**each, "endsAt": "2020-01-01T00:00:00Z"} for each in posted]
    alertmanager.post("/api/v2/alerts", json=ended).raise_for_status()
    _await_sent(alertmanager, name, [])


def _await_sent(http: httpx.Client, name: str, expected: list[str]) -> None:
    """Alertmanager takes what is posted in, and inhibits, in its own time."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while (sent := _sent(http, name)) != expected and time.monotonic() < deadline:
        time.sleep(0.1)
    assert sent == expected


def _sent(http: httpx.Client, name: str) -> list[str]:
    """Alerts of a case that are neither inhibited nor over."""
    query = {"active": "true", "inhibited": "false", "filter": f'case="{name}"'}
    return [each["labels"]["alertname"] for each in http.get("/api/v2/alerts", params=query).json()]


def _start(address: str, folder: Path) -> subprocess.Popen[bytes]:
    command = [
        "prometheus-alertmanager",
        f"--config.file={FOLDER / 'alertmanager.yaml'}",
        f"--storage.path={folder}",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
    ]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def _is_ready(http: httpx.Client) -> bool:
    try:
        return http.get("/-/ready").status_code == 200
    except httpx.TransportError:
        return False
