"""OpenTelemetry's SDK: spans in batches by OTLP over HTTP. Imported only where traces are on."""

import atexit
import threading
from collections.abc import Mapping
from contextvars import ContextVar

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from indexer.tracing import Attributes, now, root_span_id

CLOSING_SECONDS = 5.0
"""For the spans that wait when a process ends. A collector that is gone holds no restart up."""

_root: ContextVar[str | None] = ContextVar("root", default=None)


class SpanExporter:
    """Records spans under the trace of their transfer. Threads share it."""

    def __init__(self, process: str, environment: Mapping[str, str]) -> None:
        """Variables `OTEL_…` set endpoint, headers, sampler and batches, as the SDK says."""
        resource = {"service.namespace": "isthmus", "isthmus.process": process}
        is_named = "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
        if not environment.get("OTEL_SERVICE_NAME") and not is_named:
            resource["service.name"] = f"isthmus {process}"
        self._provider = TracerProvider(
            resource=Resource.create(resource), id_generator=_TransferIds(), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("isthmus")
        # Started now: at the interpreter's end no thread can be.
        self._is_over = threading.Event()
        self._closing = threading.Thread(target=self._close, name="span closing", daemon=True)
        self._closing.start()
        atexit.register(self.close)

    def record(
        self, name: str, transfer: str, began: int, attributes: Attributes, *, error: str | None
    ) -> None:
        """A child of the transfer's root span."""
        trace_id = int(transfer, 16)
        # The sampler decides by the trace id alone, so every process decides the same.
        decision = self._provider.sampler.should_sample(Context(), trace_id, name).decision
        is_sampled = decision.is_sampled()
        parent = SpanContext(
            trace_id,
            root_span_id(transfer),
            is_remote=True,
            trace_flags=TraceFlags(TraceFlags.SAMPLED if is_sampled else 0),
        )
        span = self._tracer.start_span(
            name,
            context=set_span_in_context(NonRecordingSpan(parent), Context()),
            attributes=_named(transfer, attributes),
            start_time=began,
        )
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(now())

    def record_root(
        self, name: str, transfer: str, began: int, attributes: Attributes, traceparent: str | None
    ) -> None:
        """The trace's root span. `traceparent` is valid."""
        links = []
        if traceparent is not None:
            _, trace_id, span_id, flags = traceparent.split("-")
            client = SpanContext(
                int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16))
            )
            links = [Link(client)]
        token = _root.set(transfer)
        try:
            span = self._tracer.start_span(
                name,
                context=Context(),
                kind=SpanKind.SERVER,
                attributes=_named(transfer, attributes),
                links=links,
                start_time=began,
            )
        finally:
            _root.reset(token)
        span.end(now())

    def close(self) -> None:
        """Send what waits, for at most `CLOSING_SECONDS`."""
        atexit.unregister(self.close)
        self._is_over.set()
        self._closing.join(CLOSING_SECONDS)

    def _close(self) -> None:
        self._is_over.wait()
        self._provider.shutdown()


class _TransferIds(RandomIdGenerator):
    """Ids of a root span are its transfer's; all other span ids are random."""

    def generate_trace_id(self) -> int:
        transfer = _root.get()
        return super().generate_trace_id() if transfer is None else int(transfer, 16)

    def generate_span_id(self) -> int:
        transfer = _root.get()
        return super().generate_span_id() if transfer is None else root_span_id(transfer)


def _named(transfer: str, attributes: Attributes) -> dict[str, str | int | float | bool]:
    """HTTP's attributes have names of OpenTelemetry; ours begin with `isthmus.`."""
    named = {"isthmus.transfer": transfer}
    return named | {
        name if "." in name else f"isthmus.{name}": value
        for name, value in attributes.items()
        if value is not None
    }
