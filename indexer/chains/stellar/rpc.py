"""JSON-RPC to a Stellar node: one call a request, parameters by name, errors by their code.

Not the SDK's client: its models drop fields we need and refuse error data that is not text.
Node URLs may carry a key, so messages name the host alone.
"""

from collections.abc import Mapping
from typing import Any

import httpx
import orjson

from indexer.chains.http.client import (
    RESPONSE_TIMEOUT_FACTOR,
    NodeTimeout,
    ResponseTooLarge,
    host_of,
    new_client,
    retry_after,
    send_request,
)
from indexer.errors import (
    InconsistentAnswer,
    IndexerError,
    NodeUnavailable,
    PermanentChainError,
    RangeTooWide,
    RetryableChainError,
)

MAX_ANSWER_BYTES = 128 * 1024 * 1024
"""More than the metas of a page of the fullest ledgers."""
_OF_RANGES = ("getEvents", "getLedgers")
"""Methods that may be asked for less when the answer is too much."""
_INVALID = (-32600, -32602)
_UNKNOWN_METHOD = -32601
_TIME_LIMIT = -32001
"""stellar-rpc's own: a method took longer than it may."""
_TOO_MUCH = (413, 504)
_REFUSED = (401, 403, 404, 405)


class RequestRefused(RetryableChainError):
    """The node calls the request invalid, as it does for ledgers that it does not have."""


class UnknownMethod(PermanentChainError):
    """The node does not know the method: it is no Stellar RPC, or too old, or it is not offered."""


class StellarRpc:
    """One Stellar RPC node."""

    def __init__(self, url: str, *, timeout: float) -> None:
        self.host = host_of(url)
        self.url = url
        self._seconds = timeout * RESPONSE_TIMEOUT_FACTOR
        self._client = new_client(timeout=timeout, headers={"content-type": "application/json"})

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of one call, which is an object for every method that we use.

        Raises `RequestRefused`, `RangeTooWide` when the answer takes too long or is too big,
        `NodeUnavailable`, `InconsistentAnswer`, `UnknownMethod`, or another `PermanentChainError`
        when the URL is none that we may use.
        """
        request: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method}
        if params:
            # A method without parameters, such as getVersionInfo, refuses an empty object.
            request["params"] = params
        where = f"{method} at {self.host}"
        try:
            response = send_request(
                self._client,
                "POST",
                self.url,
                content=orjson.dumps(request),
                seconds=self._seconds,
                max_bytes=MAX_ANSWER_BYTES,
                where=where,
            )
        except (NodeTimeout, ResponseTooLarge) as error:
            if method in _OF_RANGES:
                raise RangeTooWide(str(error)) from error
            raise
        answer = _json(response)
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
            raise _classified(answer["error"], where)
        if not response.is_success:
            raise _refusal(response, where)
        if not isinstance(answer, dict) or not isinstance(answer.get("result"), dict):
            raise InconsistentAnswer(f"{where}: neither a result nor an error")
        return dict(answer["result"])


def _json(response: httpx.Response) -> Any:
    """The body as JSON, or None."""
    try:
        return orjson.loads(response.content)
    except orjson.JSONDecodeError:
        return None


def _classified(error: dict[str, Any], where: str) -> IndexerError:
    code, words = error.get("code"), error.get("message")
    message = f"{where}: {words} ({code})"
    if code in _INVALID:
        return RequestRefused(message)
    if code == _TIME_LIMIT:
        return RangeTooWide(message)
    if code == _UNKNOWN_METHOD:
        return UnknownMethod(message)
    return NodeUnavailable(message)


def _refusal(response: httpx.Response, where: str) -> IndexerError:
    message = f"{where}: HTTP {response.status_code}"
    if response.status_code in _TOO_MUCH:
        return RangeTooWide(message)
    if response.status_code in _REFUSED:
        return PermanentChainError(f"{message}: look at the URL and its key")
    return NodeUnavailable(message, retry_after=retry_after(response))
