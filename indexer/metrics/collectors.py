"""Collectors of this process, and the time of its loops.

prometheus_client is imported at the first count: by then `PROMETHEUS_MULTIPROC_DIR`, which it reads
at import, is set where workers or runs share a folder.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import psycopg
from sqlalchemy import Engine, event

from indexer.metrics.catalogue import LATENCIES, LOOP_SECONDS, MetricSpec

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

Loop: TypeAlias = Literal[
    "follower",
    "attester",
    "keeper",
    "publisher",
    "relay",
    "relay_recipients",
    "relay_submit",
    "webhooks",
]
WaitReason: TypeAlias = Literal[
    "work", "idle", "node", "postgres", "lock", "fee", "attestation", "receiver"
]
"""`work` is none: the loop computes."""


_creating = threading.RLock()
"""Loops are threads: two must not create the registry, or one collector, at the same time."""


def registry() -> "CollectorRegistry":
    """The registry of this process."""
    with _creating:
        return _registry()


@cache
def _registry() -> "CollectorRegistry":
    from prometheus_client import CollectorRegistry

    return CollectorRegistry()


def new_collector(spec: MetricSpec, into: "CollectorRegistry") -> "Counter | Gauge | Histogram":
    """A collector of the catalogue's metric. Gauges of dead processes do not count."""
    from prometheus_client import Counter, Gauge, Histogram

    if spec.kind == "histogram":
        return Histogram(spec.name, spec.help, spec.labels, buckets=LATENCIES, registry=into)
    if spec.kind == "gauge":
        return Gauge(spec.name, spec.help, spec.labels, multiprocess_mode="livesum", registry=into)
    return Counter(spec.name, spec.help, spec.labels, registry=into)


def count(spec: MetricSpec, *labels: str, by: float = 1.0) -> None:
    """Add to a counter; `labels` in the order of the catalogue."""
    _child(spec, labels).inc(by)


def set_gauge(spec: MetricSpec, *labels: str, value: float) -> None:
    """Set a gauge of this process."""
    _child(spec, labels).set(value)


def observe(spec: MetricSpec, *labels: str, value: float) -> None:
    """Add one value to a histogram."""
    _child(spec, labels).observe(value)


@cache
def _collector(spec: MetricSpec) -> Any:
    return new_collector(spec, registry())


_children: dict[tuple[MetricSpec, tuple[str, ...]], Any] = {}


def _child(spec: MetricSpec, labels: tuple[str, ...]) -> Any:
    """Kept: the lookup by labels takes longer than counting."""
    child = _children.get((spec, labels))
    if child is None:
        with _creating:
            child = _collector(spec).labels(*labels) if labels else _collector(spec)
            _children[spec, labels] = child
    return child


class _LoopTime:
    """Time of one loop, which is in one state at a time. One thread."""

    def __init__(self, loop: Loop, chain: str) -> None:
        self._loop, self._chain = loop, chain
        self.reason: WaitReason = "work"
        self._since = time.monotonic()
        for reason in get_args(WaitReason):
            # From 0 on, so that a rate has a beginning.
            count(LOOP_SECONDS, loop, chain, reason, by=0)

    def switch(self, reason: WaitReason) -> None:
        """Count the time since the last switch for the state that ends."""
        now = time.monotonic()
        count(LOOP_SECONDS, self._loop, self._chain, self.reason, by=now - self._since)
        self.reason, self._since = reason, now


_running = threading.local()


@contextmanager
def loop_time(loop: Loop, chain: str = "") -> Iterator[None]:
    """Count this thread's time in the block as a loop's, by what it waits for."""
    _running.loop = _LoopTime(loop, chain)
    try:
        yield
    finally:
        _running.loop.switch("work")
        _running.loop = None


@contextmanager
def waiting(reason: WaitReason) -> Iterator[None]:
    """Count the block as waiting. Within another wait it changes nothing: the outer one is why."""
    loop: _LoopTime | None = getattr(_running, "loop", None)
    if loop is None or loop.reason != "work":
        yield
        return
    loop.switch(reason)
    try:
        yield
    finally:
        loop.switch("work")


class _TimedConnection(psycopg.Connection[Any]):
    """All of psycopg's waits for the server go through `wait`."""

    def wait(self, *args: Any, **options: Any) -> Any:
        """Count the wait as `postgres`."""
        with waiting("postgres"):
            return super().wait(*args, **options)


def time_sessions(engine: Engine) -> None:
    """Count waits of loops for the engine's sessions as `postgres`."""
    event.listen(engine, "do_connect", _connect)


def _connect(
    _dialect: object, _record: object, args: list[Any], options: dict[str, Any]
) -> psycopg.Connection[Any]:
    with waiting("postgres"):
        return _TimedConnection.connect(*args, **options)
