"""Rate limits, counted before anything costly is done for a request.

| budget | counts | by |
|---|---|---|
| `reads` | every request but `/healthz`, `/readyz/process` and `/auth` | client address |
| `sign_in` | `/auth` | client address |
| `owner` | requests with a valid token | Stellar account |

A shared budget is counted in Postgres, the others in each process. While Postgres does not answer,
each process counts the shared budgets too: requests are neither all refused nor unlimited. (Sign-in
answers 503 meanwhile: a challenge is used up in the same database.) A refused client is remembered
in the process until its window ends, so that further requests cost no statement.
"""

import ipaddress
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from flask import Flask, Response, current_app, g, request
from limits import RateLimitItem
from sqlalchemy.exc import SQLAlchemyError

from api.errors import TooManyRequests
from api.rate_storage import Hit, MemoryRateStorage, RateStorage

logger = logging.getLogger(__name__)

READS, SIGN_IN, OWNER = "reads", "sign_in", "owner"
BUDGETS = (READS, SIGN_IN, OWNER)

POLICY_HEADER, LIMIT_HEADER = "RateLimit-Policy", "RateLimit"
REFUSED_KEY = "isthmus.refused"
"""Of a WSGI environment: the error of a request that was counted and refused before the app."""

_KEY = "isthmus_rates"
UNLIMITED_PATHS = frozenset({"/healthz", "/readyz/process"})
_SIGN_IN_PATHS = frozenset({"/auth"})
_OUTAGE_SECONDS = 5.0
"""Before a storage that failed is used again."""
_MAX_REFUSED = 10_000


@dataclass(frozen=True, slots=True)
class RateBudgets:
    """An operator's choice: requests in a window, by budget; one without an entry has no limit."""

    budgets: Mapping[str, RateLimitItem] = field(default_factory=dict)
    shared: frozenset[str] = frozenset()
    """Budgets that all processes count together."""


@dataclass(frozen=True, slots=True)
class RateWindow:
    """A client's window of one budget, as draft-ietf-httpapi-ratelimit-headers-11 describes it."""

    budget: str
    item: RateLimitItem
    remaining: int
    seconds_left: float

    @property
    def reset_seconds(self) -> int:
        """Whole seconds until the budget is full again, at least 1."""
        return max(1, math.ceil(self.seconds_left))

    @property
    def policy(self) -> str:
        """An item of `RateLimit-Policy`."""
        return f'"{self.budget}";q={self.item.amount};w={self.item.get_expiry()}'

    @property
    def limit(self) -> str:
        """An item of `RateLimit`."""
        return f'"{self.budget}";r={self.remaining};t={self.reset_seconds}'


class RateLimiter:
    """Counts requests and refuses those beyond a budget. Threads share it."""

    def __init__(
        self,
        rates: RateBudgets,
        shared: RateStorage | None = None,
        *,
        clock: Callable[[], float] = time.time,
        on_refusal: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._rates = rates
        self._clock = clock
        self._on_refusal = on_refusal
        self._own = MemoryRateStorage(clock)
        self._shared = shared
        self._shared_again_at = 0.0
        self._lock = threading.Lock()
        self._refused: dict[str, float] = {}
        """Key → end of its window, in the order in which they were refused."""

    def count(self, budget: str, client: str) -> RateWindow | None:
        """Take one request off a client's budget; None if the budget has no limit.

        Raises `TooManyRequests` when nothing remains.
        """
        item = self._rates.budgets.get(budget)
        if item is None:
            return None
        key = item.key_for(budget, client)
        ends = self._refused.get(key) if self._refused else None
        if ends is None or ends <= self._clock():
            hit = self._hit(budget, item, key)
            if hit.hits <= item.amount:
                return RateWindow(budget, item, item.amount - hit.hits, hit.ends - self._clock())
            ends = hit.ends
            with self._lock:
                self._refused.pop(key, None)
                self._refused[key] = ends
                if len(self._refused) > _MAX_REFUSED:
                    del self._refused[next(iter(self._refused))]
        self._on_refusal(budget)
        window = RateWindow(budget, item, 0, ends - self._clock())
        raise TooManyRequests(
            f"more than {item.amount} requests in {item.get_expiry()} seconds; "
            f"try again in {window.reset_seconds} s",
            headers={
                "Retry-After": str(window.reset_seconds),
                POLICY_HEADER: window.policy,
                LIMIT_HEADER: window.limit,
            },
        )

    def _hit(self, budget: str, item: RateLimitItem, key: str) -> Hit:
        shared = self._shared if budget in self._rates.shared else None
        if shared is None or self._clock() < self._shared_again_at:
            return self._own.hit(key, item.get_expiry())
        try:
            return shared.hit(key, item.get_expiry())
        except SQLAlchemyError as error:
            self._shared_again_at = self._clock() + _OUTAGE_SECONDS
            # Not the error as a whole: it would quote the statement's parameters.
            kind = type(getattr(error, "orig", None) or error).__name__
            logger.warning("requests are counted by each process for itself: %s", kind)
            return self._own.hit(key, item.get_expiry())


def register_rate_limits(app: Flask, limiter: RateLimiter) -> None:
    """Count every request by its address, before any other work."""
    app.extensions[_KEY] = limiter
    app.before_request(_count_address)
    app.after_request(_add_headers)


def _count_address() -> None:
    path = request.path
    if path in UNLIMITED_PATHS:
        return
    refused: TooManyRequests | None = request.environ.get(REFUSED_KEY)
    if refused is not None:
        raise refused
    budget = SIGN_IN if path in _SIGN_IN_PATHS and request.method != "OPTIONS" else READS
    _count(budget, client_network(request.remote_addr or ""))


def count_owner(account: str) -> None:
    """Take one request off an owner's budget. Raises `TooManyRequests`."""
    _count(OWNER, account)


def _count(budget: str, client: str) -> None:
    limiter: RateLimiter = current_app.extensions[_KEY]
    window = limiter.count(budget, client)
    if window is not None:
        g.setdefault("rate_windows", []).append(window)


def _add_headers(response: Response) -> Response:
    """The remainder of each budget that counted the request; a 429 has its own headers."""
    windows: list[RateWindow] = g.get("rate_windows", [])
    if windows and LIMIT_HEADER not in response.headers:
        response.headers.extend(window_headers(windows))
    return response


def window_headers(windows: Sequence[RateWindow]) -> list[tuple[str, str]]:
    """What an answer says of the budgets that counted its request."""
    return [
        (POLICY_HEADER, ", ".join(window.policy for window in windows)),
        (LIMIT_HEADER, ", ".join(window.limit for window in windows)),
    ]


@lru_cache(maxsize=4096)
def client_network(address: str) -> str:
    """The address that is counted: of IPv6 the /64, which one client controls as a whole.

    Some proxies add the port, by which each connection would be another client.
    """
    if address.startswith("["):
        host = address[1:].partition("]")[0]
    else:
        before, _, after = address.partition(":")
        host = address if ":" in after else before
    try:
        parsed = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        # A Unix socket has none.
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
