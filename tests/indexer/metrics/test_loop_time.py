"""Time of loops by what they wait for, and figures of processes that share a folder."""

import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import httpx
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine, text

from indexer.config.settings import child_environment, load_settings
from indexer.errors import ConfigurationError
from indexer.metrics import collectors
from indexer.metrics.collectors import loop_time, registry, time_sessions, waiting
from indexer.metrics.server import folder_registry, serve_metrics, shared_folder


def seconds_of(loop: str, reason: str) -> float:
    labels = {"loop": loop, "chain": "chain", "reason": reason}
    return registry().get_sample_value("isthmus_loop_seconds_total", labels) or 0.0


def test_reasons_add_up_to_the_loops_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0

    def work(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(collectors, "time", SimpleNamespace(monotonic=lambda: now))
    with loop_time("publisher", "chain"):
        work(1.0)
        with waiting("attestation"):
            work(2.0)
            with waiting("postgres"):
                work(4.0)
            work(8.0)
        work(16.0)
        with waiting("idle"):
            work(32.0)
        work(64.0)
    work(128.0)
    spent = {each: seconds_of("publisher", each) for each in get_args(collectors.WaitReason)}
    # The outer wait is the reason, not one within it.
    assert {each: seconds for each, seconds in spent.items() if seconds} == {
        "work": 81.0,
        "attestation": 14.0,
        "idle": 32.0,
    }


def test_statements_of_a_loop_count_as_postgres(engine: Engine) -> None:
    time_sessions(engine)
    # Sessions that were opened before are not timed.
    engine.dispose()
    with loop_time("keeper", "chain"), engine.connect() as conn:
        conn.execute(text("SELECT pg_sleep(0.05)"))
    assert 0.05 <= seconds_of("keeper", "postgres") < 5


COUNTING = """
from indexer.metrics.catalogue import NODE_SECONDS, REORGS
from indexer.metrics.collectors import count, observe
count(REORGS, "chain", by=2)
observe(NODE_SECONDS, "chain", "0", value=0.3)
"""


def test_figures_of_ended_processes_stay_in_one_file() -> None:
    with shared_folder() as folder:
        environment = child_environment({"PROMETHEUS_MULTIPROC_DIR": folder})
        found = folder_registry(folder)
        for number in (1, 2):
            subprocess.run([sys.executable, "-c", COUNTING], env=environment, check=True)
            reorgs = found.get_sample_value("isthmus_reorgs_total", {"chain": "chain"})
            assert reorgs == 2.0 * number
        node = {"chain": "chain", "node": "0"}
        assert found.get_sample_value("isthmus_node_request_seconds_count", node) == 2
        assert found.get_sample_value("isthmus_node_request_seconds_sum", node) == 0.6
        names = sorted(path.name for path in Path(folder).iterdir())
        assert names == ["counter_ended.db", "histogram_ended.db"]
    assert not Path(folder).exists()


def test_metrics_are_served_at_the_variables_address() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    name = "ISTHMUS_METRICS_ATTEST"
    settings = load_settings({name: address}, needs_database=False)
    with loop_time("attester", "chain"):
        pass
    with serve_metrics(settings, name, registry()):
        text_ = httpx.get(f"http://{address}/metrics", timeout=60).text
        with (
            pytest.raises(ConfigurationError, match=f"{name} is '{address}': Address already"),
            serve_metrics(settings, name, CollectorRegistry()),
        ):
            pass
    families = {family.name for family in text_string_to_metric_families(text_)}
    assert "isthmus_loop_seconds" in families
    with (
        serve_metrics(replace(settings, metrics={}), name, registry()),
        pytest.raises(httpx.ConnectError),
    ):
        httpx.get(f"http://{address}/metrics")
