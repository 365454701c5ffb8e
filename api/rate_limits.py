"""How many requests one client may make: counted before anything costly is done for it.

| budget | counts | for |
|---|---|---|
| `reads` | every request but `/healthz` and `/auth` | the client's address |
| `sign_in` | `/auth` | the client's address |
| `owner` | requests with a valid token | the Stellar account |

A budget that processes share is counted in Postgres, the others in each process for itself. While
Postgres does not answer, a shared budget is counted by each process too: nobody is locked out for
it, and nobody is let in without end. (Who signs in meanwhile is told 503: a challenge is used up in
the same database.) A client that was refused is remembered here until its window ends, so that its
further tries cost no statement.
"""

import ipaddress
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from flask import Flask, Response, current_app, g, has_request_context, request
from limits import RateLimitItem
from sqlalchemy.exc import SQLAlchemyError

from api.errors import TooManyRequests
from api.rate_storage import Hit, MemoryRateStorage, RateStorage

logger = logging.getLogger(__name__)

READS, SIGN_IN, OWNER = "reads", "sign_in", "owner"
BUDGETS = (READS, SIGN_IN, OWNER)

_KEY = "isthmus_rates"
UNLIMITED_PATHS = frozenset({"/healthz"})
"""Paths that may be asked without end."""
_SIGN_IN_PATHS = frozenset({"/auth"})
_OUTAGE_SECONDS = 5.0
"""How long a storage that failed is not asked again."""
_MOST_REFUSED = 10_000


@dataclass(frozen=True, slots=True)
class RateBudgets:
    """An operator's choice: requests in a window by budget; one that is not named has no end."""

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
    """Counts, and refuses. Any thread may ask."""

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
        """Key → when its window ends, in the order in which they were refused."""

    def count(self, budget: str, who: str) -> RateWindow | None:
        """Take one request off a client's budget; None where the budget has no end.

        Raises `TooMany` when there is nothing left.
        """
        item = self._rates.budgets.get(budget)
        if item is None:
            return None
        key = item.key_for(budget, who)
        ends = self._refused.get(key) if self._refused else None
        if ends is None or ends <= self._clock():
            hit = self._hit(budget, item, key)
            if hit.hits <= item.amount:
                return RateWindow(budget, item, item.amount - hit.hits, hit.ends - self._clock())
            ends = hit.ends
            self._remember(key, ends)
        self._on_refusal(budget)
        raise _refusal(RateWindow(budget, item, 0, ends - self._clock()))

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

    def _remember(self, key: str, ends: float) -> None:
        with self._lock:
            self._refused.pop(key, None)
            self._refused[key] = ends
            if len(self._refused) > _MOST_REFUSED:
                del self._refused[next(iter(self._refused))]


def _refusal(window: RateWindow) -> TooManyRequests:
    item = window.item
    return TooManyRequests(
        f"more than {item.amount} requests in {item.get_expiry()} seconds; "
        f"try again in {window.reset_seconds} s",
        headers={
            "Retry-After": str(window.reset_seconds),
            "RateLimit-Policy": window.policy,
            "RateLimit": window.limit,
        },
    )


def register_rate_limits(app: Flask, limiter: RateLimiter) -> None:
    """Count every request by its address, before it is looked at any further."""
    app.extensions[_KEY] = limiter
    app.before_request(_count_address)
    app.after_request(_add_headers)


def _count_address() -> None:
    path = request.path
    if path in UNLIMITED_PATHS:
        return
    budget = SIGN_IN if path in _SIGN_IN_PATHS and request.method != "OPTIONS" else READS
    _count(budget, client_network(request.remote_addr or ""))


def count_owner(account: str) -> None:
    """Take one request off an owner's budget. Raises `TooMany`."""
    _count(OWNER, account)


def _count(budget: str, who: str) -> None:
    limiter: RateLimiter = current_app.extensions[_KEY]
    window = limiter.count(budget, who)
    if window is not None and has_request_context():
        g.setdefault("rate_windows", []).append(window)


def _add_headers(response: Response) -> Response:
    """What is left of each budget that the request was counted in; a 429 names its own."""
    windows: list[RateWindow] = g.get("rate_windows", [])
    if windows and "RateLimit" not in response.headers:
        response.headers["RateLimit-Policy"] = ", ".join(window.policy for window in windows)
        response.headers["RateLimit"] = ", ".join(window.limit for window in windows)
    return response


@lru_cache(maxsize=4096)
def client_network(address: str) -> str:
    """The address that counts: whoever has one of IPv6 has the other 2^64 of its network too."""
    try:
        parsed = ipaddress.ip_address(_without_port(address).partition("%")[0])
    except ValueError:
        # A Unix socket has none.
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def _without_port(address: str) -> str:
    """Some proxies name the port too: each connection would then be somebody else."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    host, _, rest = address.partition(":")
    return address if ":" in rest else host
