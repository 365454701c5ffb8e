"""HTTP responses: JSON by orjson, entity tags, gzip, finished bodies and a bounded cache."""

import gzip
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Hashable
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from http import HTTPStatus
from typing import Any, Generic, Protocol, TypeVar

import orjson
from flask import Response, request
from flask.json.provider import JSONProvider
from werkzeug.datastructures import Accept
from werkzeug.http import parse_accept_header

from api.errors import ApiError, error_response
from warehouse_schema.identifiers import UnixSeconds

K = TypeVar("K", bound=Hashable)


class Sized(Protocol):
    """What a cache bounded by bytes holds."""

    @property
    def size(self) -> int:
        """Approximate memory in bytes."""


V = TypeVar("V", bound=Sized)

MIN_GZIP_BYTES = 1_400
"""A smaller body fits one packet anyway."""
_GZIP_LEVEL = 6
_BODY_OVERHEAD_BYTES = 500
"""Approximate cost of a cached body beside its bytes."""
_LAST_SECOND = UnixSeconds(253_402_300_799)
"""9999-12-31T23:59:59Z, the last that `datetime` can hold."""


def iso_time(seconds: UnixSeconds) -> str:
    """ISO 8601 in UTC, as `2026-11-21T08:30:00Z`; a later year is shown as the end of 9999.

    The decoder lets no such time in, but one odd row must not cost the whole answer.
    """
    return datetime.fromtimestamp(min(seconds, _LAST_SECOND), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_microseconds(moment: datetime) -> str:
    """ISO 8601 in UTC to the microsecond, as `2026-11-21T08:30:00.000001Z`: used as a cursor."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class OrjsonProvider(JSONProvider):
    """Flask's JSON by orjson: members stay in the order in which a view names them."""

    def dumps(self, obj: Any, **_: Any) -> str:
        """Raises `TypeError` on what JSON has no form for."""
        return orjson.dumps(obj).decode()

    def loads(self, s: str | bytes, **_: Any) -> Any:
        """Raises `ValueError` on what is not JSON."""
        return orjson.loads(s)


class StoredBody:
    """Bytes of a response; `digest` is equal in every process that has equal bytes.

    `compress` is False for what is compressed already.
    """

    def __init__(self, plain: bytes, *, compress: bool = True) -> None:
        self.plain = plain
        self._compress = compress and len(plain) >= MIN_GZIP_BYTES
        self.digest = hashlib.sha256(plain).hexdigest()[:32]

    @cached_property
    def gzipped(self) -> bytes | None:
        """Compressed at the first use; None where that is not worth it."""
        # Two threads may both compress: the bytes are equal.
        return gzip.compress(self.plain, _GZIP_LEVEL, mtime=0) if self._compress else None

    @property
    def size(self) -> int:
        """Approximate memory in bytes; JSON compresses to below a fourth."""
        return _BODY_OVERHEAD_BYTES + len(self.plain) * 5 // 4


class BoundedCache(Generic[K, V]):
    """LRU cache by key, bounded by bytes. Threads share it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The value, if it is cached."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: K, value: V) -> None:
        """Cache the value, unless it is larger than the whole cache."""
        if value.size > self._max_bytes:
            return
        with self._lock:
            replaced = self._values.pop(key, None)
            self._values[key] = value
            self._bytes += value.size - (replaced.size if replaced else 0)
            while self._bytes > self._max_bytes:
                _, evicted = self._values.popitem(last=False)
                self._bytes -= evicted.size

    def __len__(self) -> int:
        return len(self._values)


def cacheable(response: Response, *, version: str = "") -> Response:
    """Add an ETag of the bytes and `version` to a 200; answer 304 if the client has it.

    `no-cache` lets any cache store the response, which it must revalidate.
    """
    if response.status_code != 200:
        return response
    tag = hashlib.sha256(version.encode() + b"\n" + response.get_data()).hexdigest()[:32]
    response.set_etag(tag)
    response.headers["Cache-Control"] = "no-cache"
    return _conditional(response)


def send(body: StoredBody, *, version: str, media_type: str = "application/json") -> Response:
    """As `cacheable`, from a finished body; gzipped where the client accepts that.

    An ETag names bytes, so the gzipped form has one of its own.
    """
    environ = request.environ
    gzipped = body.gzipped if accepts_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")) else None
    tag = f"{version}-{body.digest}{'-gzip' if gzipped else ''}"
    headers = [
        ("ETag", f'"{tag}"'),
        ("Cache-Control", "no-cache"),
        ("Vary", "Accept-Encoding"),
        ("Content-Type", media_type),
    ]
    if gzipped:
        headers.append(("Content-Encoding", "gzip"))
    if "HTTP_IF_NONE_MATCH" in environ and request.if_none_match.contains_weak(tag):
        return Response(status=304, headers=headers)
    response = Response(gzipped or body.plain, headers=headers)
    return _conditional(response) if "HTTP_IF_MATCH" in environ else response


def _conditional(response: Response) -> Response:
    """The response, a 304, or a 412 with our error body: werkzeug would send the view's body.

    Returned, not raised: Flask takes an error raised behind a view for a 500.
    """
    response.make_conditional(request)
    if response.status_code == HTTPStatus.PRECONDITION_FAILED:
        return error_response(ApiError("the resource does not match If-Match", code="NOT_THE_SAME"))
    return response


@lru_cache(maxsize=256)
def accepts_gzip(accept_encoding: str) -> bool:
    """Whether the header prefers gzip to no compression (RFC 9110, 12.5.3)."""
    accepted = parse_accept_header(accept_encoding, Accept)
    return accepted.quality("gzip") > 0 and accepted.quality("gzip") >= accepted.quality("identity")
