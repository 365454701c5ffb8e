"""JSON-RPC to an EVM node: batches over HTTP, new heads over a socket, errors sorted.

Node URLs often carry a key, so messages name the host alone.
"""

import logging
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx
import orjson
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from indexer.chains.http.client import (
    RESPONSE_TIMEOUT_FACTOR,
    ConnectionLost,
    host_of,
    new_client,
    retry_after,
    send_request,
)
from indexer.chains.http.client import NodeTimeout as NodeTimeout
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

MAX_ANSWER_BYTES = 128 * 1024 * 1024
"""More than the receipts of the fullest block; nodes are trusted to be no worse."""
_WS_SECONDS = 3.0
"""To connect, to be subscribed and to close, each."""
_SUBSCRIBE = {"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"]}
_SOCKET_ERRORS = (OSError, WebSocketException, orjson.JSONDecodeError)

# Words of nodes and providers, as public indexers have met them. First match wins: a node that
# lags may speak of a range too, and a rate limit of a limit that was exceeded.
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
_TOO_LARGE = 413
_NO_SUCH_METHOD = -32601
"""JSON-RPC 2.0, section 5.1."""


class BatchRefused(NodeUnavailable):
    """The node takes no batches, or none of so many calls."""


class MethodNotFound(NodeUnavailable):
    """The node does not offer the method; others may."""


class HeadsLost(NodeUnavailable):
    """The socket of new heads could not be opened, or was lost. It is closed."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a batch: a result, or what the node said instead."""

    method: str
    host: str
    result: Any
    error: Any = None

    def value(self) -> Any:
        """The result. Raises the error of `indexer.errors` that the node's words amount to."""
        if self.error is not None:
            raise classified(self.error, f"{self.method} at {self.host}")
        return self.result

    @property
    def has_no_such_tag(self) -> bool:
        """Whether the node does not know the block tag it was asked for, now or ever.

        A node in trouble (rate limit, time-out) has not said that.
        """
        if self.error is None:
            return self.result is None
        words = self.error.get("message") if isinstance(self.error, dict) else self.error
        return not any(kind.search(str(words)) for kind in (_RATE_LIMIT, _TIMED_OUT, _INTERNAL))


def classified(error: object, where: str) -> IndexerError:
    """A JSON-RPC error object as one of ours; unknown words are worth another try."""
    code, words = (error.get("code"), error.get("message")) if isinstance(error, dict) else ("", "")
    message = f"{where}: {words or error} ({code})"
    if code == _NO_SUCH_METHOD:
        return MethodNotFound(message)
    for pattern, kind in _KINDS:
        if pattern.search(str(words)):
            return kind(message)
    return NodeUnavailable(message)


_KINDS: tuple[tuple[re.Pattern[str], type[IndexerError]], ...] = (
    (_NODE_BEHIND, NodeBehind),
    (_PRUNED, RetentionGap),
    (_RATE_LIMIT, NodeUnavailable),
    (_BATCH_REFUSED, BatchRefused),
    (_RANGE_TOO_WIDE, RangeTooWide),
    (_TIMED_OUT, NodeTimeout),
)


class JsonRpc:
    """One node over HTTP. Connections are kept; one that was lost is made anew once."""

    def __init__(self, url: str, *, timeout: float) -> None:
        self.url = url
        self.host = host_of(url)
        self._most_calls = MAX_BATCH
        """Calls of a batch that the node has not refused yet; 0 when it takes none at all."""
        self._longest = timeout * RESPONSE_TIMEOUT_FACTOR
        self._client = new_client(timeout=timeout, headers={"content-type": "application/json"})

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def call(self, method: str, params: list[Any]) -> Any:
        """The result of one call."""
        return self.batch([(method, params)])[0].value()

    def batch(self, calls: Sequence[RpcCall]) -> list[Reply]:
        """Replies in the order of the calls; one request for every `MAX_BATCH` of them.

        A node that refuses so many is asked for half as many from then on, down to single calls
        that are no batches. Raises `RetryableChainError` when there is no sensible answer at all.
        """
        replies: list[Reply] = []
        while len(replies) < len(calls):
            part = calls[len(replies) : len(replies) + max(1, self._most_calls)]
            try:
                replies += self._request(part)
            except BatchRefused as refusal:
                if self._most_calls == 0:
                    raise
                self._most_calls = len(part) // 2
                logger.info("smaller batches calls=%d: %s", self._most_calls, refusal)
        return replies

    def _request(self, calls: Sequence[RpcCall]) -> list[Reply]:
        requests = [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            for number, (method, params) in enumerate(calls)
        ]
        alone = self._most_calls == 0
        answer = self._parsed(self._post(orjson.dumps(requests[0] if alone else requests)))
        answers = [answer] if alone and _id_of(answer) == 0 else answer
        self._check_not_refused(answers, calls)
        if not isinstance(answers, list) or not all(isinstance(each, dict) for each in answers):
            raise InconsistentAnswer(f"{self.host} did not answer a batch with a list of replies")
        by_number = {each.get("id"): each for each in answers}
        if len(answers) != len(calls) or set(by_number) != set(range(len(calls))):
            raise InconsistentAnswer(f"{self.host} answered {len(answers)} of {len(calls)} calls")
        return [self._reply(method, by_number[n]) for n, (method, _) in enumerate(calls)]

    def _check_not_refused(self, answer: Any, calls: Sequence[RpcCall]) -> None:
        """Raise what an error for all calls amounts to, and the refusal of a batch wherever it is.

        Nodes say it once for all, in a list of one, or of every call.
        """
        where = f"{calls[0][0]} and more at {self.host}"
        if isinstance(answer, dict) and answer.get("error") is not None:
            raise classified(answer["error"], where)
        for each in answer if isinstance(answer, list) else ():
            error = each.get("error") if isinstance(each, dict) else None
            if error is not None and isinstance(refusal := classified(error, where), BatchRefused):
                raise refusal

    def _reply(self, method: str, answer: dict[str, Any]) -> Reply:
        error = answer.get("error")
        if error is None and "result" not in answer:
            raise InconsistentAnswer(f"{method} at {self.host}: neither result nor error")
        return Reply(method, self.host, answer.get("result"), error)

    def _post(self, body: bytes) -> httpx.Response:
        """Post; once more if the node closed a connection that we had kept.

        Every method we call only reads, so a call that arrived twice does no harm.
        """
        try:
            return self._posted(body)
        except ConnectionLost:
            return self._posted(body)

    def _posted(self, body: bytes) -> httpx.Response:
        return send_request(
            self._client,
            "POST",
            self.url,
            content=body,
            seconds=self._longest,
            max_bytes=self._most_bytes,
            where=self.host,
        )

    @property
    def _most_bytes(self) -> int:
        """Of one answer."""
        return MAX_ANSWER_BYTES

    def _parsed(self, response: httpx.Response) -> Any:
        if response.is_success:
            try:
                return orjson.loads(response.content)
            except orjson.JSONDecodeError as error:
                raise InconsistentAnswer(f"{self.host} sent broken JSON: {error}") from error
        raise self._refusal(response)

    def _refusal(self, response: httpx.Response) -> IndexerError:
        status = response.status_code
        message = f"{self.host} answered HTTP {status}"
        if status == _TOO_LARGE:
            return RangeTooWide(message)
        # A JSON-RPC error may come with a status of its own; its words say more than the status.
        words = _error_of(response.content)
        if words is not None and status < 500 and status != 429:
            return classified(words, message)
        return NodeUnavailable(message, retry_after=retry_after(response))


class NewHeads:
    """Headers of new blocks, pushed by a node over one socket that is kept.

    What was missed while it was down does not matter: only the newest head does, and whoever opens
    it asks for that.
    """

    def __init__(self, url: str) -> None:
        self.host = host_of(url)
        self._url = url
        self._kept = ExitStack()
        self._socket: ClientConnection | None = None

    @property
    def is_open(self) -> bool:
        """Whether a subscription is thought to be alive."""
        return self._socket is not None

    def open(self) -> None:
        """Connect and subscribe. Raises `HeadsLost`."""
        self.close()
        try:
            socket = self._kept.enter_context(
                connect(
                    self._url,
                    open_timeout=_WS_SECONDS,
                    close_timeout=_WS_SECONDS,
                    compression=None,
                    proxy=None,
                )
            )
            socket.send(orjson.dumps(_SUBSCRIBE).decode())
            answer = orjson.loads(socket.recv(timeout=_WS_SECONDS))
        except _SOCKET_ERRORS as error:
            self.close()
            raise self._lost(error) from error
        if not isinstance(answer, dict) or "result" not in answer:
            self.close()
            raise HeadsLost(f"{self.host} refused to push new heads: {answer}")
        self._socket = socket

    def next(self, timeout: float) -> Any | None:
        """The newest header pushed, waiting at most `timeout` seconds for one; None if none came.

        Raises `HeadsLost`.
        """
        if self._socket is None:
            raise HeadsLost(f"{self.host}: not subscribed")
        newest = None
        try:
            newest = _pushed_header(self._socket.recv(timeout=timeout))
            while True:
                newest = _pushed_header(self._socket.recv(timeout=0))
        except TimeoutError:
            return newest
        except _SOCKET_ERRORS as error:
            self.close()
            raise self._lost(error) from error

    def close(self) -> None:
        """Close the socket, if it is open."""
        self._socket = None
        self._kept.close()

    def _lost(self, error: Exception) -> HeadsLost:
        # The name alone: some of these quote the URL.
        return HeadsLost(f"{self.host}: no new heads, {type(error).__name__}")


def _id_of(answer: Any) -> Any:
    return answer.get("id") if isinstance(answer, dict) else None


def _pushed_header(message: str | bytes) -> Any:
    pushed = orjson.loads(message)
    params = pushed.get("params") if isinstance(pushed, dict) else None
    return params.get("result") if isinstance(params, dict) else None


def _error_of(content: bytes) -> object | None:
    try:
        answer = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    if isinstance(answer, list) and answer:
        answer = answer[0]
    return answer.get("error") if isinstance(answer, dict) else None
