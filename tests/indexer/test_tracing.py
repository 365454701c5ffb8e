"""Spans as a collector receives them: ids, links, sampling, and what happens without one."""

import hashlib
import logging
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from indexer import tracing
from indexer.tracing import (
    note_changes,
    now,
    record_root_span,
    record_span,
    start_tracing,
    stop_tracing,
    transfer_changes,
)
from tests.factories.otlp import CollectedSpan, Collector, collecting

TRANSFER = "5f0c" * 8
CLIENT = "00-" + "4b" * 16 + "-" + "1c" * 8 + "-01"
OTHER_PROCESS = """
import sys
import threading
from indexer.tracing import now, record_span, start_tracing
start_tracing("relay run")
record_span("relay attempt", sys.argv[1], now(), {"number": 7}, error="NodeUnavailable")
"""
NOT_INSTALLED = """
import sys
import threading
sys.modules["opentelemetry"] = None
from indexer.cli.main import main
sys.exit(main(["status"]))
"""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        yield collector
        stop_tracing()


def _commit_nothing() -> None:
    with transfer_changes("follower range", {}):
        note_changes([(TRANSFER, "COMPLETED")])
        raise ValueError("rolled back")


def collected(collector: Collector) -> list[CollectedSpan]:
    """All spans of this process: it records no more."""
    stop_tracing()
    return collector.spans


def test_two_processes_write_one_trace_of_the_transfer(collector: Collector) -> None:
    start_tracing("api")
    began = now()
    record_root_span("POST /v1/transfers", TRANSFER, began, {"http.route": "/x"}, CLIENT)
    subprocess.run([sys.executable, "-c", OTHER_PROCESS, TRANSFER], check=True, timeout=60)
    spans = {span.name: span for span in collected(collector)}
    root, attempt = spans["POST /v1/transfers"], spans["relay attempt"]
    assert root.trace_id == attempt.trace_id == TRANSFER
    assert root.span_id == attempt.parent_id == hashlib.sha256(TRANSFER.encode()).hexdigest()[:16]
    assert root.parent_id == ""
    assert root.links == ("4b" * 16,)
    assert (root.service, attempt.service) == ("isthmus api", "isthmus relay run")
    assert root.attributes == {"isthmus.transfer": TRANSFER, "http.route": "/x"}
    assert attempt.attributes["isthmus.number"] == 7
    assert began == root.began <= root.ended <= attempt.began
    assert (root.is_error, attempt.is_error) == (False, True)


@pytest.mark.parametrize(
    "traceparent",
    [None, "", CLIENT[:-1], CLIENT.upper(), "00-" + "0" * 32 + CLIENT[35:], CLIENT + "\n{}"],
    ids=["none", "empty", "short", "capitals", "zero id", "line break"],
)
def test_invalid_traceparent_is_not_linked(collector: Collector, traceparent: str | None) -> None:
    start_tracing("api")
    record_root_span("POST /v1/transfers", TRANSFER, now(), {}, traceparent)
    [root] = collected(collector)
    assert (root.trace_id, root.links) == (TRANSFER, ())


def test_a_sampled_transfer_is_traced_whole(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    start_tracing("api")
    for _ in range(64):
        transfer = secrets.token_hex(16)
        record_root_span("POST /v1/transfers", transfer, now(), {}, None)
        record_span("relay attempt", transfer, now(), {})
    spans = collected(collector)
    roots = {span.trace_id for span in spans if span.parent_id == ""}
    assert roots == {span.trace_id for span in spans if span.parent_id}
    # Outside of it with a chance of one in 10^14.
    assert 4 <= len(roots) <= 60


def test_only_changes_of_a_committed_transaction_are_traced(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "indexer.tracing")
    start_tracing("follow")
    with transfer_changes("follower range", {"chain": "eip155:1", "from_height": 5}):
        note_changes([(TRANSFER, "SUBMITTED")])
    with pytest.raises(ValueError, match="rolled back"):
        _commit_nothing()
    note_changes([(TRANSFER, "COMPLETED")])
    [span] = collected(collector)
    assert span.attributes == {
        "isthmus.transfer": TRANSFER,
        "isthmus.chain": "eip155:1",
        "isthmus.from_height": 5,
        "isthmus.stage": "SUBMITTED",
    }
    [line] = [each for each in caplog.records if each.name == "indexer.tracing"]
    assert line.getMessage() == f"follower range transfer={TRANSFER} stage=SUBMITTED"
    assert {"transfer": TRANSFER, "stage": "SUBMITTED"}.items() <= vars(line).items()


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
    ],
    ids=["no endpoint", "disabled", "no exporter"],
)
def test_tracing_is_off(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    start_tracing("api")
    assert tracing._exporter is None


def test_endpoint_without_the_extra_is_a_settings_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    command = [sys.executable, "-c", NOT_INSTALLED]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "OTEL_EXPORTER_OTLP_ENDPOINT is set, but opentelemetry" in ended.stderr
    assert "install isthmus[otel], or unset it" in ended.stderr


def test_dead_collector_does_not_hold_the_end_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexer.span_exporter.CLOSING_SECONDS", 0.1)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    start_tracing("api")
    record_span("relay attempt", TRANSFER, now(), {})
    stop_tracing()
    # The exporter still retries; the process does not wait for it.
    assert "span closing" in [each.name for each in threading.enumerate()]
