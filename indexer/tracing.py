"""Traces by OTLP: one trace per transfer, over all processes that act on it.

A transfer's id, 16 random bytes, is its trace id, and the root span's id is derived from it. So the
processes, which share only the database, write into one trace without storing or passing anything.
Off unless the standard variables name an endpoint; docs/operations/logs-and-traces.md lists spans.
"""

import hashlib
import logging
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

from indexer.errors import ConfigurationError
from warehouse_schema.configuration import load_configuration

if TYPE_CHECKING:
    from indexer.span_exporter import SpanExporter

logger = logging.getLogger(__name__)

Attributes: TypeAlias = Mapping[str, str | int | float | bool | None]
"""By name; a value of None is left out."""

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

_exporter: "SpanExporter | None" = None
_changes: ContextVar[list[tuple[str, str]] | None] = ContextVar("changes", default=None)


def start_tracing(process: str) -> None:
    """Export this process's spans, if a variable of `ENDPOINTS` is set.

    Raises `ConfigurationError` when OpenTelemetry is not installed. A second call does nothing.
    """
    global _exporter
    environment = load_configuration()
    named = next((name for name in ENDPOINTS if environment.get(name)), None)
    is_off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if _exporter is not None or named is None or is_off:
        return
    if environment.get("OTEL_TRACES_EXPORTER", "otlp") == "none":
        return
    try:
        from indexer.span_exporter import SpanExporter
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{named} is set, but {error.name} is not installed: install isthmus[otel], or unset it"
        ) from error
    _exporter = SpanExporter(process, environment)


def stop_tracing() -> None:
    """Send the spans that wait, and record no more."""
    global _exporter
    ending, _exporter = _exporter, None
    if ending is not None:
        ending.close()


def now() -> int:
    """Time of a span's begin or end, in nanoseconds of Unix time."""
    return time.time_ns()


def record_span(
    name: str, transfer: str, began: int, attributes: Attributes, *, error: str | None = None
) -> None:
    """Record a span of a transfer that ends now. `error`: the kind of failure, never its text."""
    if _exporter is not None:
        _exporter.record(name, transfer, began, attributes, error=error)


def record_root_span(
    name: str, transfer: str, began: int, attributes: Attributes, traceparent: str | None
) -> None:
    """Record the request that started a transfer; links to the client's `traceparent` if valid."""
    if _exporter is not None:
        is_valid = traceparent is not None and _TRACEPARENT.fullmatch(traceparent)
        _exporter.record_root(name, transfer, began, attributes, traceparent if is_valid else None)


@contextmanager
def transfer_changes(name: str, attributes: Attributes) -> Iterator[None]:
    """Log and trace the transfers whose state a transaction inside of the block changes.

    One span each, as long as the block. Nothing when the block raises, so nothing was committed.
    """
    began, changes = now(), list[tuple[str, str]]()
    token = _changes.set(changes)
    try:
        yield
    finally:
        _changes.reset(token)
    for transfer, stage in changes:
        logger.info(
            "%s transfer=%s stage=%s",
            name,
            transfer,
            stage,
            extra={"transfer": transfer, "stage": stage},
        )
        record_span(name, transfer, began, {**attributes, "stage": stage})


def note_changes(changes: Iterable[tuple[str, str]]) -> None:
    """Transfers and the stages they reach in this transaction, for `transfer_changes` around it."""
    noted = _changes.get()
    if noted is not None:
        noted.extend(changes)


def root_span_id(transfer: str) -> int:
    """Span id of the request that started a transfer: 8 bytes of a hash of its id."""
    return int.from_bytes(hashlib.sha256(transfer.encode()).digest()[:8])
