"""Prometheus metrics: what the process counts, and the exporter.

Each worker counts in a file of a folder that all workers share (prometheus_client's multiprocess
mode, which `isthmus api` sets up by `PROMETHEUS_MULTIPROC_DIR`); the worker that answers a scrape
adds the files up. Without the folder it reports its own counts.

Clients cannot add label values: a route is its template, a method one of HTTP's.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import Flask, Response, g, request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from api.browser_headers import METHODS
from api.load_shedding import ShedReason
from api.replica import ReadOutcome
from indexer.metrics.catalogue import API
from indexer.metrics.collectors import new_collector
from indexer.metrics.collectors import registry as process_registry

PATH = "/metrics"
_SIGN_IN = "/auth"


class Metrics:
    """Counters of one process. Threads share it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made = {spec.name: new_collector(spec, self.registry) for spec in API}

        def counter(name: str) -> Counter:
            return cast(Counter, made[f"isthmus_{name}_total"])

        self._requests = counter("requests")
        self._seconds = cast(Histogram, made["isthmus_request_seconds"])
        self._streams = cast(Gauge, made["isthmus_streams_open"])
        self._frames = counter("stream_frames")
        self._closed = counter("streams_closed")
        self._refused = counter("rate_limited")
        self._shed = counter("requests_shed")
        self._logins = counter("logins")
        self._replica_reads = counter("replica_reads")
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def request_answered(self, route: str, method: str, status: int, seconds: float) -> None:
        """`route` is a template, never a client's path."""
        key = (route, method if method in METHODS else "OTHER", status)
        children = self._children.get(key)
        if children is None:
            # The lookup by labels takes longer than counting.
            children = self._requests.labels(*map(str, key)), self._seconds.labels(route)
            self._children[key] = children
        counter, histogram = children
        counter.inc()
        histogram.observe(seconds)

    def rate_limited(self, budget: str) -> None:
        """A request was refused with 429."""
        self._refused.labels(budget).inc()

    def shed(self, reason: ShedReason) -> None:
        """A request was dropped under overload (`api.load_shedding`)."""
        self._shed.labels(reason).inc()

    def login(self, kind: str, result: str) -> None:
        """An attempt to sign in; `result` is `ok` or the code of the error."""
        self._logins.labels(kind, result).inc()

    def replica_read(self, outcome: ReadOutcome) -> None:
        """A read that a replica may answer (`api.reads`)."""
        self._replica_reads.labels(outcome).inc()

    def stream_opened(self) -> None:
        """A client connected."""
        self._streams.inc()

    def stream_closed(self, code: int) -> None:
        """A client disconnected; a code that is not ours is the client's."""
        self._streams.dec()
        self._closed.labels(str(code) if code in _OUR_CLOSE_CODES else "other").inc()

    def frames_sent(self, number: int) -> None:
        """Messages were sent to clients."""
        self._frames.inc(number)


_OUR_CLOSE_CODES = frozenset({1000, 1001, 1002, 1006, 1007, 1008, 1009, 1011, 1012, 1013})
"""1013: a slow reader."""


def register_request_metrics(app: Flask, metrics: Metrics) -> None:
    """Count every answer of the app, errors among them."""

    def count(response: Response) -> Response:
        rule = request.url_rule
        route = "unmatched" if rule is None else rule.rule
        seconds = time.perf_counter() - g.request_began
        metrics.request_answered(route, request.method, response.status_code, seconds)
        if route == _SIGN_IN and request.method == "POST":
            metrics.login("sep10", g.get("error_code", "ok"))
        return response

    app.after_request(count)


@dataclass(frozen=True, eq=False)
class Exporter:
    """WSGI middleware that answers `/metrics` on a separate port, for operators.

    The app's own port never serves it: no header tells a request of a local program from a request
    that a proxy on the same machine forwards.
    """

    app: WSGIApplication
    metrics: Metrics
    warehouse: Collector
    port: str
    folder: str | None = None
    """Of prometheus_client's multiprocess mode; None: only this process is counted."""

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """WSGI."""
        # A Unix socket has no port: gunicorn would take one from the client's `Host`.
        port = environ.get("SERVER_PORT") if environ.get("REMOTE_ADDR") else None
        if port != self.port:
            return self.app(environ, start_response)
        if environ["PATH_INFO"] != PATH:
            headers = [("Content-Type", "text/plain"), ("Content-Length", "0")]
            start_response("404 Not Found", headers)
            return []
        registry = CollectorRegistry()
        registry.register(self.warehouse)
        if self.folder is not None:
            MultiProcessCollector(registry, self.folder)
        body = generate_latest(registry)
        if self.folder is None:
            body += generate_latest(self.metrics.registry) + generate_latest(process_registry())
        start_response(
            "200 OK",
            [("Content-Type", CONTENT_TYPE_PLAIN_0_0_4), ("Content-Length", str(len(body)))],
        )
        return [body]
