"""HTTP requests: timeouts, retries, and responses as models or errors."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from isthmus_client.errors import BadAnswer, NotReached, Refused, TooMany, Unavailable, refusal

T = TypeVar("T")

_POSITION = "X-Position"
_READS = frozenset({"GET", "HEAD"})
_CHANGES_NOTHING_TWICE = frozenset({"GET", "DELETE"})


@dataclass(frozen=True)
class Timeouts:
    """Timeouts in seconds, and the number of retries."""

    connect: float = 5.0
    response: float = 15.0
    retries: int = 2
    max_pause: float = 30.0
    """A longer `Retry-After` is not waited for: the error is raised."""


class Http:
    """Sends requests, and retries them where that is safe.

    Sends the position of the latest answer with each request, so that no answer is older than what
    was read or written before, on whichever machine.

    A `429` is sent before the API does anything, so any request is retried. After a `503` only an
    idempotent request is retried, such as one with an idempotency key. A request without a response
    is never retried.
    """

    def __init__(
        self, client: httpx.Client, timeouts: Timeouts, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._client = client
        self._timeouts = timeouts
        self._sleep = sleep
        self._position: str | None = None

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        token: str | None = None,
        key: str | None = None,
    ) -> httpx.Response:
        """The response, if it is a success. Raises `ClientError`."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        is_safe = key is not None or method in _CHANGES_NOTHING_TWICE
        left = self._timeouts.retries
        while True:
            try:
                return self.once(method, path, params=given, json=body, headers=headers)
            except (TooMany, Unavailable) as refused:
                if not left or not self._may_repeat(refused, is_safe=is_safe):
                    raise
                left -= 1
                self._sleep(refused.retry_after or 1.0)

    def once(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send the request once. Raises `ClientError`."""
        sent = self._position
        headers = {**options.pop("headers", {}), **({_POSITION: sent} if sent else {})}
        answer = None
        try:
            answer = self._client.request(method, path, headers=headers, **options)
        except httpx.HTTPError as error:
            raise NotReached(f"{method} {path}: {error or type(error).__name__}") from error
        finally:
            self._remember(method, answer)
        if not answer.is_success:
            after = answer.headers.get("Retry-After")
            raise refusal(answer.status_code, answer.content, after)
        return answer

    def _remember(self, method: str, answer: httpx.Response | None) -> None:
        position = None if answer is None else answer.headers.get(_POSITION)
        if position is not None:
            known = self._position
            self._position = position if known is None else max(known, position, key=_order)
        elif method not in _READS:
            # It may have changed something: without a position the API reads the primary.
            self._position = None

    def _may_repeat(self, refused: Refused, *, is_safe: bool) -> bool:
        pause = refused.retry_after
        may = is_safe or isinstance(refused, TooMany)
        return may and (pause is None or pause <= self._timeouts.max_pause)


def _order(position: str) -> tuple[int, int, int]:
    """Of the API's `TIMELINE:LSN`."""
    timeline, _, lsn = position.partition(":")
    high, _, low = lsn.partition("/")
    return int(timeline), int(high, 16), int(low, 16)


def read(kind: TypeAdapter[T], answer: httpx.Response) -> T:
    """The response's JSON as that type. Raises `BadAnswer`."""
    try:
        return kind.validate_json(answer.content)
    except ValidationError as error:
        raise BadAnswer(f"{answer.request.url.path}: {error}") from error
