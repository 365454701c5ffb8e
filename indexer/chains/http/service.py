"""JSON over HTTP from a service that counts requests: one limit a host, errors sorted.

A service is not a node: it says nothing that a chain would not prove, and it shuts us out when we
ask too often.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

import httpx

from indexer.chains.http.client import (
    RESPONSE_TIMEOUT_FACTOR,
    ResponseTooLarge,
    exceeds_json_depth,
    new_client,
    retry_after,
    send_request,
)
from indexer.chains.http.client import host_of as host_of
from indexer.errors import InconsistentAnswer, NodeUnavailable, PermanentChainError

_WHOLE = re.compile(r"[0-9]{1,78}")

MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""A longer answer is none of what we ask for."""
_MOST_DEEP = 100


class LockedOut(NodeUnavailable):
    """The service shut us out, or did so lately; `retry_after` says for how long."""


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
        self._shut_until: float | None = None

    def wait(self) -> None:
        """Return when one more request may go out. Raises `LockedOut` while we are shut out."""
        with self._lock:
            self._refuse_if_shut()
            now = self._clock()
            gained = (now - self._filled_at) * self.per_second
            self._tokens = min(self.burst, self._tokens + gained) - 1
            self._filled_at = now
            # Below zero it is a place in the queue.
            pause = -self._tokens / self.per_second if self._tokens < 0 else 0.0
        if pause > 0:
            self._sleep(pause)
            with self._lock:
                self._refuse_if_shut()

    def lock_out(self, seconds: float) -> None:
        """Let nobody through for so long; a lock-out that ends later stands."""
        with self._lock:
            until = self._clock() + seconds
            self._shut_until = max(until, self._shut_until or until)

    def _refuse_if_shut(self) -> None:
        left = 0.0 if self._shut_until is None else self._shut_until - self._clock()
        if left > 0:
            raise LockedOut(f"shut out for {left:.0f} s more", retry_after=left)
        self._shut_until = None


_LIMITS: dict[str, RateLimit] = {}
_LIMITS_LOCK = threading.Lock()


def shared_limit(host: str, per_second: float, burst: int) -> RateLimit:
    """The one limit of this process for a host; who asks first sets its pace."""
    with _LIMITS_LOCK:
        return _LIMITS.setdefault(host, RateLimit(per_second, burst))


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A status and the JSON that came with it; numbers with a point are `Decimal`."""

    status: int
    body: Any


class HttpService:
    """One service. Safe to share between threads."""

    def __init__(
        self, url: str, *, timeout: float, limit: RateLimit, lock_out_seconds: float
    ) -> None:
        self.url = url.rstrip("/")
        self.host = host_of(url)
        self._limit = limit
        self._lock_out_seconds = lock_out_seconds
        self._seconds = timeout * RESPONSE_TIMEOUT_FACTOR
        self._client = new_client(timeout=timeout)

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def get(self, path: str, params: Mapping[str, str] | None = None) -> HttpAnswer:
        """Ask, once the limit lets us. As `request`."""
        return self.request("GET", path, params)

    def request(
        self, method: str, path: str, params: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """An answer of 2xx or of 4xx other than 429, which may mean something.

        Raises `LockedOut` on 429 and for as long as it lasts, `NodeUnavailable` without a sensible
        answer, `InconsistentAnswer` if it is not JSON.
        """
        self._limit.wait()
        response = self._exchange(method, path, params)
        status = response.status_code
        if status == httpx.codes.TOO_MANY_REQUESTS:
            self._lock_out(retry_after(response))
        if status >= 500 or status < 200 or 300 <= status < 400:
            raise NodeUnavailable(f"{self.host} answered HTTP {status}")
        return HttpAnswer(status, self._parsed(response.content, status))

    def _exchange(self, method: str, path: str, params: Mapping[str, str] | None) -> httpx.Response:
        try:
            return send_request(
                self._client,
                method,
                self.url + path,
                params=params,
                seconds=self._seconds,
                max_bytes=MAX_ANSWER_BYTES,
                where=self.host,
            )
        except ResponseTooLarge as error:
            raise InconsistentAnswer(f"{error}, for {path}") from error

    def _lock_out(self, asked: float | None) -> NoReturn:
        seconds = max(self._lock_out_seconds, asked or 0.0)
        self._limit.lock_out(seconds)
        raise LockedOut(f"{self.host} shut us out for {seconds:.0f} s", retry_after=seconds)

    def _parsed(self, content: bytes, status: int) -> Any:
        try:
            text = content.decode()
            if exceeds_json_depth(text, _MOST_DEEP):
                raise ValueError(f"more than {_MOST_DEEP} objects and arrays deep")
            return json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
        except ValueError as error:
            raise InconsistentAnswer(
                f"{self.host} answered HTTP {status} without JSON: {error}"
            ) from error


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


# Reading JSON strictly: each gives the value, or says what is wrong where.


class JsonFields:
    """An object of an answer, read key by key. Raises `InconsistentAnswer` naming the key."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise InconsistentAnswer(f"{where}: expected an object, got {value!r:.80}")
        self._values: dict[str, Any] = value
        self.where = where

    def wrong(self, key: str, problem: str) -> InconsistentAnswer:
        """What to raise about a key."""
        return InconsistentAnswer(f"{self.where}: {key} {problem}")

    def text(self, key: str) -> str:
        """A string that must be there."""
        value = self.optional_text(key)
        if value is None:
            raise self.wrong(key, "is missing")
        return value

    def optional_text(self, key: str) -> str | None:
        """A string, or None for null and for a key that is not there."""
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
        """A list of objects that must be there."""
        value = self._values.get(key)
        if not isinstance(value, list):
            raise self.wrong(key, f"is not a list: {value!r:.80}")
        return [JsonFields(item, f"{self.where}.{key}[{n}]") for n, item in enumerate(value)]

    def object(self, key: str) -> "JsonFields":
        """An object that must be there."""
        return JsonFields(self._values.get(key), f"{self.where}.{key}")

    def optional_object(self, key: str) -> "JsonFields | None":
        """An object, or None for null and for a key that is not there."""
        return None if self._values.get(key) is None else self.object(key)
