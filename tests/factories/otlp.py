"""A collector of traces: OTLP over HTTP, as the exporters of real processes post it."""

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from devnet.local_server import Handler, Server, answering


@dataclass(frozen=True)
class CollectedSpan:
    """A span as received. Ids are lower-case hex; times are nanoseconds."""

    name: str
    service: str
    trace_id: str
    span_id: str
    parent_id: str
    began: int
    ended: int
    attributes: dict[str, Any]
    links: tuple[str, ...]
    """Trace ids."""
    is_error: bool


@dataclass
class Collector:
    """Spans in the order of their arrival."""

    url: str = ""
    spans: list[CollectedSpan] = field(default_factory=list)
    _changed: Condition = field(default_factory=Condition)

    def take(self, body: bytes) -> None:
        """Keep the spans of a request."""
        request = ExportTraceServiceRequest.FromString(body)
        found = [
            CollectedSpan(
                name=span.name,
                service=_values(resource.resource.attributes)["service.name"],
                trace_id=span.trace_id.hex(),
                span_id=span.span_id.hex(),
                parent_id=span.parent_span_id.hex(),
                began=span.start_time_unix_nano,
                ended=span.end_time_unix_nano,
                attributes=_values(span.attributes),
                links=tuple(link.trace_id.hex() for link in span.links),
                is_error=span.status.code == 2,
            )
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
        with self._changed:
            self.spans += found
            self._changed.notify_all()

    def wait_for(self, is_enough: Callable[[list[CollectedSpan]], bool], seconds: float) -> bool:
        """Whether the spans were enough within that many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: is_enough(self.spans), seconds)


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


class _Handler(Handler):
    server: "_Server"

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        body = self.body()
        is_packed = self.headers.get("Content-Encoding") == "gzip"
        self.server.collector.take(gzip.decompress(body) if is_packed else body)
        self.answer(200)


class _Server(Server):
    def __init__(self, collector: Collector) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.collector = collector


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that receives while the block runs."""
    collector = Collector()
    with answering(_Server(collector)) as url:
        collector.url = url
        yield collector
