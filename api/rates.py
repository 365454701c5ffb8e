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

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from flask import Flask, current_app, request
from limits import RateLimitItem
from limits.errors import StorageError
from limits.storage import Storage

from api.clients import neighbourhood
from api.errors import TooMany
from api.rate_storage import Memory

logger = logging.getLogger(__name__)

READS, SIGN_IN, OWNER = "reads", "sign_in", "owner"
BUDGETS = (READS, SIGN_IN, OWNER)

_KEY = "isthmus_rates"
FREE = frozenset({"/healthz"})
"""Paths that may be asked without end."""
_SIGN_IN_PATHS = frozenset({"/auth"})
_OUTAGE_SECONDS = 5.0
"""How long a storage that failed is not asked again."""
_MOST_REFUSED = 10_000


@dataclass(frozen=True, slots=True)
class Rates:
    """An operator's choice: requests in a window by budget; one that is not named has no end."""

    budgets: Mapping[str, RateLimitItem] = field(default_factory=dict)
    shared: frozenset[str] = frozenset()
    """Budgets that all processes count together."""


class Limiter:
    """Counts, and refuses. Any thread may ask."""

    def __init__(
        self,
        rates: Rates,
        shared: Storage | None = None,
        *,
        clock: Callable[[], float] = time.time,
        on_refusal: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._rates = rates
        self._clock = clock
        self._on_refusal = on_refusal
        self._own = Memory(clock)
        self._shared = shared
        self._shared_again_at = 0.0
        self._lock = threading.Lock()
        self._refused: dict[str, float] = {}
        """Key → when its window ends, in the order in which they were refused."""

    def count(self, budget: str, who: str) -> None:
        """Take one request off a client's budget. Raises `TooMany` when there is nothing left."""
        item = self._rates.budgets.get(budget)
        if item is None:
            return
        key = item.key_for(budget, who)
        ends = self._refused.get(key) if self._refused else None
        if ends is None or ends <= self._clock():
            ends = self._counted(budget, item, key)
            if ends is None:
                return
            self._remember(key, ends)
        self._on_refusal(budget)
        raise _refusal(budget, item, ends - self._clock())

    def _counted(self, budget: str, item: RateLimitItem, key: str) -> float | None:
        """When to come again, if this was one too many."""
        shared = self._shared if budget in self._rates.shared else None
        if shared is None or self._clock() < self._shared_again_at:
            return _hit(self._own, item, key)
        try:
            return _hit(shared, item, key)
        except StorageError as error:
            self._shared_again_at = self._clock() + _OUTAGE_SECONDS
            # Not the error as a whole: it would quote the statement's parameters.
            kind = type(error.args[0]).__name__
            logger.warning("requests are counted by each process for itself: %s", kind)
            return _hit(self._own, item, key)

    def _remember(self, key: str, ends: float) -> None:
        with self._lock:
            self._refused.pop(key, None)
            self._refused[key] = ends
            if len(self._refused) > _MOST_REFUSED:
                del self._refused[next(iter(self._refused))]


def _hit(storage: Storage, item: RateLimitItem, key: str) -> float | None:
    """The library's fixed window, which would make the key once more."""
    if storage.incr(key, item.get_expiry()) <= item.amount:
        return None
    return storage.get_expiry(key)


def _refusal(budget: str, item: RateLimitItem, left: float) -> TooMany:
    seconds = max(1, math.ceil(left))
    window = item.get_expiry()
    return TooMany(
        f"more than {item.amount} requests in {window} seconds; try again in {seconds} s",
        headers={
            "Retry-After": str(seconds),
            # draft-ietf-httpapi-ratelimit-headers-11
            "RateLimit-Policy": f'"{budget}";q={item.amount};w={window}',
            "RateLimit": f'"{budget}";r=0;t={seconds}',
        },
    )


def limit_rates(app: Flask, limiter: Limiter) -> None:
    """Count every request by its address, before it is looked at any further."""
    app.extensions[_KEY] = limiter
    app.before_request(_count_address)


def _count_address() -> None:
    path = request.path
    if path in FREE:
        return
    budget = SIGN_IN if path in _SIGN_IN_PATHS and request.method != "OPTIONS" else READS
    limiter: Limiter = current_app.extensions[_KEY]
    limiter.count(budget, neighbourhood(request.remote_addr or ""))


def count_owner(account: str) -> None:
    """Take one request off an owner's budget. Raises `TooMany`."""
    limiter: Limiter = current_app.extensions[_KEY]
    limiter.count(OWNER, account)
