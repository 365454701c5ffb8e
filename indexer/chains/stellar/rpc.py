"""JSON-RPC client of a Stellar node: one call per request, named parameters, errors by code.

The SDK's client is not used: its models drop fields we need and refuse error data that is not text.
Node URLs may contain a key, so messages name the host only.
"""

import binascii
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

import orjson

from indexer.chains.http.client import HttpEndpoint, NodeTimeout, ResponseTooLarge
from indexer.errors import (
    InconsistentAnswer,
    NodeUnavailable,
    PermanentChainError,
    RangeTooWide,
    RetryableChainError,
)

T = TypeVar("T")

_RANGE_METHODS = ("getEvents", "getLedgers")
"""Methods whose range can be halved when the response is too large."""
_INVALID_REQUEST = (-32600, -32602)
_METHOD_NOT_FOUND = -32601
_TIME_LIMIT = -32001
"""stellar-rpc's own: method timeout."""
_TOO_LARGE = (413, 504)
_REFUSED = (401, 403, 404, 405)


class RequestRefused(RetryableChainError):
    """The node reports an invalid request, as it does for ledgers outside of its window."""


class UnknownMethod(PermanentChainError):
    """The node has no such method: it is not Stellar RPC, is too old, or does not offer it."""


class StellarRpc(HttpEndpoint):
    """One Stellar RPC node."""

    def call(
        self, method: str, params: Mapping[str, Any], *, skipped: str | None = None
    ) -> dict[str, Any]:
        """The result of one call, an object for every method that we use.

        Members named `skipped` are empty in it: their values, texts without escapes, are not
        parsed.
        Raises `RequestRefused`, `RangeTooWide` for a timeout or too large a response,
        `NodeUnavailable`, `InconsistentAnswer`, `UnknownMethod`, or another `PermanentChainError`
        when the node denies access.
        """
        request: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method}
        if params:
            # Methods without parameters, such as getVersionInfo, refuse an empty object.
            request["params"] = params
        where = f"{method} at {self.host}"
        try:
            response = self.send("POST", json=request, where=where)
        except (NodeTimeout, ResponseTooLarge) as error:
            if method in _RANGE_METHODS:
                raise RangeTooWide(str(error)) from error
            raise
        content = response.content if skipped is None else _without(response.content, skipped)
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError:
            answer = None
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
            failure = answer["error"]
            code = failure.get("code")
            message = f"{where}: {failure.get('message')} ({code})"
            if code in _INVALID_REQUEST:
                raise RequestRefused(message)
            if code == _TIME_LIMIT:
                raise RangeTooWide(message)
            if code == _METHOD_NOT_FOUND:
                raise UnknownMethod(message)
            raise NodeUnavailable(message)
        if not response.is_success:
            message = f"{where}: HTTP {response.status}"
            if response.status in _TOO_LARGE:
                raise RangeTooWide(message)
            if response.status in _REFUSED:
                raise PermanentChainError(f"{message}: look at the URL and its key")
            raise NodeUnavailable(message, retry_after=response.retry_after)
        if not isinstance(answer, dict) or not isinstance(answer.get("result"), dict):
            raise InconsistentAnswer(f"{where}: neither a result nor an error")
        return dict(answer["result"])


def _without(content: bytes, member: str) -> bytes:
    """JSON text with an empty text at each member of that name.

    Inside of a JSON text the name would have escaped quotes, so no other place is found.
    """
    name = b'"%s":"' % member.encode()
    kept, at = [], 0
    while (found := content.find(name, at)) >= 0:
        begin = found + len(name)
        kept.append(content[at:begin])
        end = content.find(b'"', begin)
        # Without an end it is no JSON, and is read as such.
        at = end if end >= 0 else len(content)
    return b"".join([*kept, content[at:]])


def field(record: Mapping[str, Any], key: str, kind: type[T]) -> T:
    """A member of a result. Raises `InconsistentAnswer` for another type."""
    value = record.get(key)
    if not isinstance(value, kind):
        raise InconsistentAnswer(f"{key} is {value!r}, not of type {kind.__name__}")
    return value


def objects(page: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """A member that is a list of objects; empty if it is missing. Raises `InconsistentAnswer`."""
    records = page.get(key) or []
    if not isinstance(records, list) or not all(isinstance(each, dict) for each in records):
        raise InconsistentAnswer(f"{key} is not a list of objects")
    return records


def base64_bytes(text: object) -> bytes:
    """The bytes of a base64 text. Raises `InconsistentAnswer`."""
    try:
        return binascii.a2b_base64(str(text), strict_mode=True)
    except ValueError as error:
        raise InconsistentAnswer(f"{text!r} is not base64: {error}") from error


@lru_cache(maxsize=16)
def unix_seconds(text: str) -> float:
    """A time of a result. Raises `ValueError`. Cached: the events of a ledger have one time."""
    return datetime.fromisoformat(text).timestamp()
