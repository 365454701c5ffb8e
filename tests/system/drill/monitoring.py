"""Prometheus and Alertmanager of Debian, with the rules and routes of `deploy/prometheus`."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from devnet.local_http import HOST
from devnet.supervisor import ChildSpec, free_port
from tests.architecture.imports import ROOT
from tests.system.drill.system import System

FOLDER = ROOT / "deploy" / "prometheus"
SCRAPE_SECONDS = 2
"""Against 10 s in the example. Rules and their durations are as shipped."""
_POLL_SECONDS = 0.25


@dataclass(frozen=True)
class Alert:
    """An alert that Alertmanager would send."""

    name: str
    labels: dict[str, str]

    def __str__(self) -> str:
        shown = [self.labels[name] for name in ("job", "chain", "account") if name in self.labels]
        return f"{self.name}({', '.join(shown)})"


class Monitoring:
    """Alerts that Alertmanager would send to the operator."""

    def __init__(self, url: str) -> None:
        self._url = url

    def active(self) -> list[Alert]:
        """Alerts that are neither inhibited nor silenced."""
        asked = {"active": "true", "inhibited": "false", "silenced": "false"}
        found = httpx.get(f"{self._url}/api/v2/alerts", params=asked, timeout=10.0).json()
        return [Alert(each["labels"]["alertname"], each["labels"]) for each in found]

    @contextmanager
    def recording(self) -> Iterator[list[Alert]]:
        """All alerts that are active at some time while the block runs."""
        seen: list[Alert] = []
        over = threading.Event()

        def record() -> None:
            while not over.wait(_POLL_SECONDS):
                seen.extend(alert for alert in self.active() if alert not in seen)

        thread = threading.Thread(target=record, daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            over.set()
            thread.join()

    def wait_until_quiet(self, seconds: float) -> list[Alert]:
        """Wait for the end of all alerts; those that are left after so long."""
        deadline = time.monotonic() + seconds
        while (left := self.active()) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        return left


def start_monitoring(system: System) -> Monitoring:
    """Start both, and return the handle of Alertmanager."""
    folder = system.folder / "monitoring"
    folder.mkdir()
    alerts, metrics = f"{HOST}:{free_port()}", f"{HOST}:{free_port()}"
    config = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    interval = f"{SCRAPE_SECONDS}s"
    config["global"] = {"scrape_interval": interval, "evaluation_interval": interval}
    config["rule_files"] = [str(FOLDER / "rules.yaml")]
    config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alerts]}]}]}
    config["scrape_configs"] = [
        {
            "job_name": job,
            "scrape_timeout": interval,
            "static_configs": [{"targets": [address]}],
        }
        for job, address in system.targets.items()
    ]
    file = folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(config))
    system.supervisor.run_together(
        _child(
            "alertmanager",
            alerts,
            "prometheus-alertmanager",
            f"--config.file={FOLDER / 'alertmanager.yaml'}",
            f"--storage.path={folder / 'alertmanager'}",
            "--cluster.listen-address=",
        ),
        _child(
            "prometheus",
            metrics,
            "prometheus",
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'prometheus'}",
        ),
    )
    return Monitoring(f"http://{alerts}")


def _child(name: str, address: str, *command: str) -> ChildSpec:
    return ChildSpec(
        name=name,
        command=[*command, f"--web.listen-address={address}"],
        ready=lambda: _is_ready(f"http://{address}/-/ready"),
        directory=Path("/"),
    )


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(url, timeout=10.0).status_code == 200
    except httpx.TransportError:
        return False
