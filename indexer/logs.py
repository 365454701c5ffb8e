"""Log lines of every process: text, or one JSON object per line (`ISTHMUS_LOG_FORMAT`).

Code that knows a chain, a transfer or a request binds it to its lines with `log_context`. JSON
escapes line breaks and control characters, so a client's text cannot forge a line.
docs/operations/logs-and-traces.md describes the members.
"""

import logging
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType, TracebackType
from typing import Any, Literal, TypeAlias

from pythonjsonlogger.json import JsonFormatter

LogFormat: TypeAlias = Literal["text", "json"]

MEMBERS: Mapping[str, str] = {
    "time": "UTC, ISO 8601 with microseconds",
    "level": "`debug`, `info`, `warning`, `error` or `critical`",
    "logger": "module that wrote the line; `isthmus`: what the command prints in the text format",
    "process": "command that runs, such as `follow`, `relay run`, `api`",
    "message": "the line, as in the text format",
    "chain": "CAIP-2 id of the chain that the loop works on",
    "account": "account of the relay that the loop signs for",
    "transfer": "id of the transfer that the line is about",
    "movement": "message that is attested, by its CCTP nonce",
    "stage": "stage that the transfer reached",
    "trace_id": "id of the transfer's trace, equal to `transfer`",
    "request_id": "of a request to the API; the client gets it as `X-Request-Id`",
    "method": "of the request",
    "path": "of the request, without its query",
    "status": "HTTP status of the response",
    "ms": "milliseconds until the response's headers",
    "exception": "traceback",
}
"""Every member of a JSON line, in its order. `time` to `message` are in each line."""

_CONTEXT: ContextVar[Mapping[str, str]] = ContextVar("log_context", default=MappingProxyType({}))
_COMPUTED = ("time", "level", "logger", "process", "message", "trace_id", "exception")
_BOUND = tuple(name for name in MEMBERS if name not in _COMPUTED)
"""Members from `log_context` and from `extra` of a logging call."""


@contextmanager
def log_context(**members: str) -> Iterator[None]:
    """Add members to every line that this thread writes inside of the block."""
    token = _CONTEXT.set({**_CONTEXT.get(), **members})
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def add_log_context(**members: str) -> None:
    """Add members to the thread's lines until `replace_log_context`."""
    _CONTEXT.set({**_CONTEXT.get(), **members})


def logged_transfer() -> str | None:
    """The transfer that this thread's lines are about."""
    return _CONTEXT.get().get("transfer")


def replace_log_context(**members: str) -> None:
    """Begin a new context: threads of a server go on to another request."""
    _CONTEXT.set(members)


def configure_logging(process: str, log_format: LogFormat) -> None:
    """Log to stderr at INFO, unless the root logger has handlers of another program.

    A second call changes process and format.
    """
    root = logging.getLogger()
    ours = next((each for each in root.handlers if isinstance(each, _Handler)), None)
    if ours is None:
        if root.handlers:
            return
        ours = _Handler(sys.stderr)
        root.addHandler(ours)
    is_json = log_format == "json"
    ours.setFormatter(JsonLines(process) if is_json else logging.Formatter(_TEXT))
    root.setLevel(logging.INFO)
    # Its plugins, one line each, in processes that load Dagster.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    if is_json:
        logging.captureWarnings(True)
        sys.excepthook = _log_uncaught
        threading.excepthook = lambda of: _log_uncaught(of.exc_type, of.exc_value, of.exc_traceback)


def logs_json() -> bool:
    """True in a process that logs JSON."""
    handlers = logging.getLogger().handlers
    return any(isinstance(each.formatter, JsonLines) for each in handlers)


def adopt_loggers(*names: str) -> None:
    """Where logs are JSON, let loggers of a library with handlers of its own use ours instead."""
    if not logs_json():
        return
    for name in names:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True


class JsonLines(JsonFormatter):
    """One JSON object per line, with `MEMBERS` alone."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def add_fields(
        self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]
    ) -> None:
        """Members of the record, of its context, and of the call's `extra`."""
        bound = {**_CONTEXT.get(), **vars(record)}
        found = {name: bound.get(name) for name in _BOUND} | {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": self._process,
            "message": record.getMessage(),
            "trace_id": bound.get("transfer"),
            "exception": message_dict.get("exc_info"),
        }
        log_data.update((name, found[name]) for name in MEMBERS if found[name] is not None)


_TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"


class _Handler(logging.StreamHandler[Any]):
    """The handler of `configure_logging`."""


def _log_uncaught(
    kind: type[BaseException], error: BaseException | None, trace: TracebackType | None
) -> None:
    exc_info = (kind, error or kind(), trace)
    logging.getLogger("isthmus").critical("uncaught %s", kind.__name__, exc_info=exc_info)
