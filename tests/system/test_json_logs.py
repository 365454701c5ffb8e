"""Long-running commands with ISTHMUS_LOG_FORMAT=json: each line is an object, without secrets."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from sqlalchemy.engine import URL

from devnet.keys import make_keys, make_relay_keys
from devnet.services import isthmus
from devnet.supervisor import free_port
from indexer.config.networks import load_network
from indexer.logs import MEMBERS

ROOT = Path(__file__).resolve().parents[2]
STEP_SECONDS = 150.0
"""Until the next process is ready. Imports of six processes take seconds of two cores."""
PLANTED = ("s3cretUser", "s3cretPath", "s3cretQuery", "s3cretHeader", "s3cretBody", "s3cretToken")
DEAD_NODE = "http://s3cretUser:pw@127.0.0.1:1/v3/s3cretPath?key=s3cretQuery"


@dataclass(frozen=True)
class Running:
    name: str
    """As in the member `process`."""
    process: subprocess.Popen[bytes]
    log: Path
    until: str
    """Text of a line after which it may stop."""

    @property
    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    @property
    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.lines
        return self.until in self.log.read_text()


def start(
    name: str, command: Sequence[str], until: str, folder: Path, variables: dict[str, str]
) -> Running:
    log = folder / f"{name.replace(' ', '-')}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **variables},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Running(name, process, log, until)


def wait_until_ready(running: Sequence[Running]) -> None:
    waiting, deadline = [*running], time.monotonic() + STEP_SECONDS
    while waiting:
        still = [each for each in waiting if not each.is_ready]
        if len(still) < len(waiting):
            deadline = time.monotonic() + STEP_SECONDS
        waiting = still
        assert time.monotonic() < deadline, {each.name: each.lines for each in waiting}
        time.sleep(0.05)


def end(running: Sequence[Running]) -> None:
    for each in running:
        if each.process.poll() is None:
            each.process.send_signal(signal.SIGTERM)
    for each in running:
        each.process.wait(60)


@pytest.mark.timeout(600)
def test_every_line_of_every_process_is_an_object_without_secrets(
    database: URL, tmp_path: Path
) -> None:
    port, devnet = free_port(), load_network("devnet")
    api_url = f"http://127.0.0.1:{port}"
    common = {
        "ISTHMUS_LOG_FORMAT": "json",
        "ISTHMUS_HOME": str(tmp_path),
        "DATABASE_URL": database.render_as_string(hide_password=False),
        "ISTHMUS_IRIS_URL": "http://127.0.0.1:1",
        "ISTHMUS_RPC_EIP155_31337": DEAD_NODE,
        "ISTHMUS_RPC_STELLAR_DEVNET": DEAD_NODE,
    }
    keys = make_relay_keys(tmp_path / "keys", devnet)
    hooks = {name: text for name, text in keys.items() if "WEBHOOK" in name}
    relays = {name: text for name, text in keys.items() if "WEBHOOK" not in name}
    tokens = make_keys(tmp_path / "keys", api_url)
    started = [
        start(name, command, until, tmp_path, {**common, **more})
        for name, command, until, more in (
            ("follow", isthmus("follow", "eip155:31337"), "no answer", {}),
            ("transfers", isthmus("transfers"), "applying", {}),
            ("attest", isthmus("attest"), "polling", {}),
            ("relay run", isthmus("relay", "run"), "turn failed", relays),
            ("webhooks", isthmus("webhooks"), "DeliveryCounts", hooks),
            ("api", isthmus("api", "--bind", f"127.0.0.1:{port}"), "Booting worker", tokens),
        )
    ]
    try:
        wait_until_ready(started)
        with httpx.Client(base_url=api_url, timeout=60) as http:
            headers = {"Authorization": "Bearer s3cretToken", "X-Request-Id": "proxy-0001"}
            assert http.get("/v1/session?t=s3cretQuery", headers=headers).status_code == 401
            forged = {"X-Request-Id": 's3cretHeader", "level": "critical'}
            assert http.get("/nothing%0A%7B%22level%22%3A1%7D", headers=forged).status_code == 404
            assert http.post("/auth", json={"transaction": "s3cretBody"}).status_code == 400
    finally:
        end(started)
    files = [Path(text) for text in {**keys, **tokens}.values() if text.startswith(str(tmp_path))]
    secrets = [*PLANTED, *(file.read_text().strip() for file in files)]
    secrets += [str(database.password)] if database.password else []
    for each in started:
        lines = [json.loads(line) for line in each.lines]
        for line in lines:
            assert {"time", "level", "logger", "process", "message"} <= {*line} <= {*MEMBERS}
            assert line["process"] == each.name
        shown = each.log.read_text()
        assert [secret for secret in secrets if secret in shown] == [], shown
    requests = [json.loads(line) for line in started[5].lines if "api.request_log" in line]
    [signed_in] = [line for line in requests if line["path"] == "/v1/session"]
    assert (signed_in["request_id"], signed_in["status"]) == ("proxy-0001", 401)
    [unknown] = [line for line in requests if line["path"] == '/nothing\n{"level":1}']
    assert re.fullmatch(r"[0-9a-f]{32}", unknown["request_id"])
    assert {json.loads(line).get("chain") for line in started[0].lines} >= {"eip155:31337"}
