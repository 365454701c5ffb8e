"""JSON-RPC to an EVM node over HTTP: batches, and errors classified by their text.

Node URLs often carry a key, so messages name the host alone.
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from indexer.chains.http.client import ConnectionLost, HttpEndpoint, NodeTimeout
from indexer.errors import (
    InconsistentAnswer,
    IndexerError,
    NodeBehind,
    NodeUnavailable,
    RangeTooWide,
    RetentionGap,
)

logger = logging.getLogger(__name__)

RpcCall: TypeAlias = tuple[str, list[Any]]
"""Method and parameters."""

MAX_BATCH = 100
"""Calls of one request; providers refuse more, some at just above this."""

# Error texts of nodes and providers, collected from public indexers. First match wins: a node that
# lags may mention a range too, and a rate limit a limit that was exceeded.
_NODE_BEHIND = re.compile(
    r"unknown block|(header|block) not found|cannot be found|could not find block|not yet available"
    r"|unfinalized data|invalid block height|blockoutofrange|beyond (current )?(head|latest)"
    r"|after last accepted|future block",
    re.IGNORECASE,
)
_PRUNED = re.compile(r"pruned", re.IGNORECASE)
_RATE_LIMIT = re.compile(
    r"rate.?limit|too many requests|request (count|rate)|compute units|capacity"
    r"|no backend is currently healthy",
    re.IGNORECASE,
)
_RANGE_TOO_WIDE = re.compile(
    r"block range|ranges? (is )?(too|over|greater|allowed|limit)|max(imum)? range|blocks distance"
    r"|too many (blocks|logs|results)|more than [\d,]+ (blocks|logs|results)|max(imum)? results"
    r"|maximum allowed number|exceeds? (the )?(limit|range|max)|limited to|limit the query"
    r"|response (size|too large|is too (large|big))|smaller than size",
    re.IGNORECASE,
)
_BATCH_REFUSED = re.compile(r"batch", re.IGNORECASE)
_TIMED_OUT = re.compile(r"time[d-]? ?out", re.IGNORECASE)
_INTERNAL = re.compile(r"internal|unavailable|overloaded|try again|connection", re.IGNORECASE)
_QUANTITY = re.compile(r"0x[0-9a-fA-F]+")
_TOO_LARGE = 413
_METHOD_NOT_FOUND = -32601
"""JSON-RPC 2.0, section 5.1."""


class BatchRefused(NodeUnavailable):
    """The node takes no batches, or none of so many calls."""


class MethodNotFound(NodeUnavailable):
    """The node does not offer the method; others may."""


_ERROR_TYPES: tuple[tuple[re.Pattern[str], type[IndexerError]], ...] = (
    (_NODE_BEHIND, NodeBehind),
    (_PRUNED, RetentionGap),
    (_RATE_LIMIT, NodeUnavailable),
    (_BATCH_REFUSED, BatchRefused),
    (_RANGE_TOO_WIDE, RangeTooWide),
    (_TIMED_OUT, NodeTimeout),
)


def classify_error(error: object, where: str) -> IndexerError:
    """A JSON-RPC error object as an `IndexerError`; unknown texts are retryable."""
    code, text = (error.get("code"), error.get("message")) if isinstance(error, dict) else ("", "")
    message = f"{where}: {text or error} ({code})"
    if code == _METHOD_NOT_FOUND:
        return MethodNotFound(message)
    for pattern, error_type in _ERROR_TYPES:
        if pattern.search(str(text)):
            return error_type(message)
    return NodeUnavailable(message)


def parse_quantity(answer: object, what: str) -> int:
    """A number in `0x` hex. Raises `InconsistentAnswer`, whose message begins with `what`."""
    try:
        # `int` alone accepts underscores, signs and spaces.
        if not isinstance(answer, str) or not _QUANTITY.fullmatch(answer):
            raise ValueError("no 0x hex")
        return int(answer, 16)
    except ValueError as error:
        raise InconsistentAnswer(f"{what}: {answer!r:.80} is no number") from error


def parse_bytes(answer: object, what: str) -> bytes:
    """Bytes in `0x` hex. Raises as `parse_quantity`."""
    try:
        if not isinstance(answer, str) or not answer.startswith("0x"):
            raise ValueError("no 0x")
        return bytes.fromhex(answer[2:])
    except ValueError as error:
        raise InconsistentAnswer(f"{what}: {answer!r:.80} is no bytes") from error


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of a batch: a result or an error object."""

    method: str
    host: str
    result: Any
    error: Any = None

    def value(self) -> Any:
        """The result. Raises the error as `classify_error` gives it."""
        if self.error is not None:
            raise classify_error(self.error, f"{self.method} at {self.host}")
        return self.result

    @property
    def is_unknown_tag(self) -> bool:
        """Whether the node does not know the requested block tag at all.

        An error of a node in trouble (rate limit, timeout) does not say that.
        """
        if self.error is None:
            return self.result is None
        text = self.error.get("message") if isinstance(self.error, dict) else self.error
        return not any(kind.search(str(text)) for kind in (_RATE_LIMIT, _TIMED_OUT, _INTERNAL))


class JsonRpc(HttpEndpoint):
    """One node over HTTP."""

    _batch_size = MAX_BATCH
    """Largest batch that the node has not refused yet; 0 when it takes no batches at all."""

    def call(self, method: str, params: list[Any]) -> Any:
        """The result of one call."""
        return self.batch([(method, params)])[0].value()

    def batch(self, calls: Sequence[RpcCall]) -> list[Reply]:
        """Replies in the order of the calls; one request for every `MAX_BATCH` of them.

        When the node refuses a batch, its size is halved for good, down to single calls outside a
        batch. Raises `RetryableChainError` when the response makes no sense at all.
        """
        replies: list[Reply] = []
        while len(replies) < len(calls):
            part = calls[len(replies) : len(replies) + max(1, self._batch_size)]
            try:
                replies += self._request(part)
            except BatchRefused as refusal:
                if self._batch_size == 0:
                    raise
                self._batch_size = len(part) // 2
                logger.info("smaller batches calls=%d: %s", self._batch_size, refusal)
        return replies

    def list_text(self, call: RpcCall) -> bytes:
        """The JSON text of one call's result, which must be a list, brackets included."""
        method, params = call
        content = self._post({"jsonrpc": "2.0", "id": 0, "method": method, "params": params})
        start, end = content.find(b"["), content.rfind(b"]") + 1
        # A response has no brackets but its result's, or an error's.
        envelope = _parse_object(content[:start] + b"[]" + content[end:] if end else content)
        if envelope is None or "error" in envelope:
            error = (_parse_object(content) or {}).get("error")
            if error is None:
                raise InconsistentAnswer(f"{self.host} sent broken JSON for {method}")
            raise classify_error(error, f"{method} at {self.host}")
        if envelope.get("id") != 0 or envelope.get("result") != []:
            raise InconsistentAnswer(f"{self.host} did not answer {method} with a list")
        return content[start:end]

    def _request(self, calls: Sequence[RpcCall]) -> list[Reply]:
        requests = [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            for number, (method, params) in enumerate(calls)
        ]
        is_single = self._batch_size == 0
        content = self._post(requests[0] if is_single else requests)
        try:
            answers = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise InconsistentAnswer(f"{self.host} sent broken JSON: {error}") from error
        if is_single and isinstance(answers, dict) and answers.get("id") == 0:
            answers = [answers]
        # Nodes refuse a batch once for all calls, in a list of one, or for every call.
        where = f"{calls[0][0]} and more at {self.host}"
        if isinstance(answers, dict) and answers.get("error") is not None:
            raise classify_error(answers["error"], where)
        if not isinstance(answers, list) or not all(isinstance(each, dict) for each in answers):
            raise InconsistentAnswer(f"{self.host} did not answer a batch with a list of replies")
        for each in answers:
            if each.get("error") is not None:
                refusal = classify_error(each["error"], where)
                if isinstance(refusal, BatchRefused):
                    raise refusal
        by_id = {each.get("id"): each for each in answers}
        if len(answers) != len(calls) or set(by_id) != set(range(len(calls))):
            raise InconsistentAnswer(f"{self.host} answered {len(answers)} of {len(calls)} calls")
        replies = []
        for number, (method, _) in enumerate(calls):
            answer = by_id[number]
            if answer.get("error") is None and "result" not in answer:
                raise InconsistentAnswer(f"{method} at {self.host}: neither result nor error")
            replies.append(Reply(method, self.host, answer.get("result"), answer.get("error")))
        return replies

    def _post(self, request: object) -> bytes:
        """Content of a successful response.

        A lost keep-alive connection is retried once: every method reads or is idempotent.
        """
        try:
            response = self.send("POST", json=request)
        except ConnectionLost:
            response = self.send("POST", json=request)
        if response.is_success:
            return response.content
        status = response.status
        message = f"{self.host} answered HTTP {status}"
        if status == _TOO_LARGE:
            raise RangeTooWide(message)
        # A JSON-RPC error may come with a status of its own; its text says more than the status.
        error = (_parse_object(response.content) or {}).get("error")
        if error is not None and status < 500 and status != 429:
            raise classify_error(error, message)
        raise NodeUnavailable(message, retry_after=response.retry_after)


def _parse_object(content: bytes) -> dict[str, Any] | None:
    """A JSON object, or the first of a list of them; None for anything else."""
    try:
        answer = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    if isinstance(answer, list) and answer:
        answer = answer[0]
    return answer if isinstance(answer, dict) else None
