"""JSON over HTTP from a rate-limited service: one limit per host, errors classified."""

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from http import HTTPStatus
from typing import Any, NoReturn

from indexer.chains.http.client import (
    HttpEndpoint,
    ResponseTooLarge,
    exceeds_json_depth,
)
from indexer.errors import InconsistentAnswer, NodeUnavailable, PermanentChainError

MAX_ANSWER_BYTES = 4 * 1024 * 1024
LOCK_OUT_SECONDS = 300.0
"""Pause after a 429, at least: Circle's lock-out; LayerZero's is not published."""
_MAX_DEPTH = 100
_WHOLE = re.compile(r"[0-9]{1,78}")


class LockedOut(NodeUnavailable):
    """The service answered 429, now or lately; `retry_after` is the rest of the lock-out."""


class ServiceRefused(PermanentChainError):
    """The service will not answer this very request, however often it is made."""


class RateLimit:
    """A token bucket that all requests to one host share, and the host's lock-outs."""

    def __init__(
        self,
        per_second: float,
        burst: int = 1,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.per_second, self.burst = per_second, burst
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._tokens = float(burst)
        self._filled_at = clock()
        self._locked_until: float | None = None

    def wait(self) -> None:
        """Return when one more request may be sent. Raises `LockedOut` during a lock-out."""
        with self._lock:
            self._check_not_locked_out()
            now = self._clock()
            gained = (now - self._filled_at) * self.per_second
            self._tokens = min(self.burst, self._tokens + gained) - 1
            self._filled_at = now
            # Below zero it is a place in the queue.
            pause = -self._tokens / self.per_second if self._tokens < 0 else 0.0
        if pause > 0:
            self._sleep(pause)
            with self._lock:
                self._check_not_locked_out()

    def lock_out(self, seconds: float) -> None:
        """Refuse all requests for so long; a lock-out that ends later stands."""
        with self._lock:
            until = self._clock() + seconds
            self._locked_until = max(until, self._locked_until or until)

    def _check_not_locked_out(self) -> None:
        remaining = 0.0 if self._locked_until is None else self._locked_until - self._clock()
        if remaining > 0:
            raise LockedOut(f"shut out for {remaining:.0f} s more", retry_after=remaining)
        self._locked_until = None


_LIMITS: dict[str, RateLimit] = {}
_LIMITS_LOCK = threading.Lock()


def shared_limit(host: str, per_second: float, burst: int) -> RateLimit:
    """The one limit of this process for a host, with the rate of the first caller."""
    with _LIMITS_LOCK:
        return _LIMITS.setdefault(host, RateLimit(per_second, burst))


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A status and its JSON; numbers with a point are `Decimal`."""

    status: int
    body: Any


class HttpService(HttpEndpoint):
    """One service. Threads may share it."""

    def __init__(self, url: str, *, timeout: float, per_second: float, burst: int = 1) -> None:
        super().__init__(url.rstrip("/"), timeout=timeout, max_bytes=MAX_ANSWER_BYTES)
        self._limit = shared_limit(self.host, per_second, burst)

    def request(
        self, method: str, path: str, params: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """An answer of 2xx or of 4xx other than 429, once the rate limit allows the request.

        Raises `LockedOut` on 429 and for as long as it lasts, `NodeUnavailable` without a sensible
        answer, `InconsistentAnswer` if it is not JSON.
        """
        self._limit.wait()
        try:
            response = self.send(method, path, params=params)
        except ResponseTooLarge as error:
            raise InconsistentAnswer(f"{error}, for {path}") from error
        status = response.status
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            seconds = max(LOCK_OUT_SECONDS, response.retry_after or 0.0)
            self._limit.lock_out(seconds)
            raise LockedOut(f"{self.host} shut us out for {seconds:.0f} s", retry_after=seconds)
        if status >= 500 or status < 200 or 300 <= status < 400:
            raise NodeUnavailable(f"{self.host} answered HTTP {status}")
        return HttpAnswer(
            status, parse_json(response.content, f"{self.host} answered HTTP {status}")
        )


def parse_json(content: bytes, where: str) -> Any:
    """JSON of limited depth; numbers with a point are `Decimal`. Raises `InconsistentAnswer`."""
    try:
        text = content.decode()
        if exceeds_json_depth(text, _MAX_DEPTH):
            raise ValueError(f"more than {_MAX_DEPTH} objects and arrays deep")
        return json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
    except ValueError as error:
        raise InconsistentAnswer(f"{where} without JSON: {error}") from error


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


class JsonFields:
    """Strict reader of a JSON object. Raises `InconsistentAnswer` that names the key."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise InconsistentAnswer(f"{where}: expected an object, got {value!r:.80}")
        self._values: dict[str, Any] = value
        self._where = where

    def wrong(self, key: str, problem: str) -> InconsistentAnswer:
        """The error to raise about a key."""
        return InconsistentAnswer(f"{self._where}: {key} {problem}")

    def text(self, key: str) -> str:
        """A required string."""
        value = self.optional_text(key)
        if value is None:
            raise self.wrong(key, "is missing")
        return value

    def optional_text(self, key: str) -> str | None:
        """A string, or None for null and for a missing key."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(key, f"is not a string: {value!r:.80}")
        return value

    def whole(self, key: str) -> int:
        """A whole number of zero or more; services write some of them as strings."""
        value = self._values.get(key)
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong(key, f"is not a whole number: {value!r:.80}")
        return value

    def decimal(self, key: str) -> Decimal:
        """A number of zero or more that may have a fraction."""
        value = self._values.get(key)
        if isinstance(value, bool) or not isinstance(value, int | Decimal) or value < 0:
            raise self.wrong(key, f"is not a number: {value!r:.80}")
        return Decimal(value)

    def objects(self, key: str) -> "list[JsonFields]":
        """A required list of objects."""
        value = self._values.get(key)
        if not isinstance(value, list):
            raise self.wrong(key, f"is not a list: {value!r:.80}")
        return [JsonFields(item, f"{self._where}.{key}[{n}]") for n, item in enumerate(value)]

    def object(self, key: str) -> "JsonFields":
        """A required object."""
        return JsonFields(self._values.get(key), f"{self._where}.{key}")
