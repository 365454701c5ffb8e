"""The Stellar account of a user of the identity provider: looked up, cached, bound.

| answer of the provider | result, and how long this process caches it |
| - | - |
| wallets | the bound one, 10 minutes |
| wallets without the bound one | `403 WALLET_CHANGED`, 20 s, and an error in the log |
| no Stellar wallet | `403 NO_STELLAR_WALLET`, 20 s: a new one soon appears |
| no such user | invalid token, `401`, 20 s |
| unavailable | the account it confirmed within a day, 30 s; else `503`, not cached |

One lookup per user at a time; concurrent requests wait for its result.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from api.auth.bindings import Bindings
from api.auth.claims import BadToken
from api.auth.provider import IdentityProviderApi
from api.errors import ApiError, IdentityUnavailable, NoStellarWallet, WalletChanged
from warehouse_schema.identifiers import StellarAddress

logger = logging.getLogger(__name__)

CACHED_SECONDS = 600.0
STALE_SECONDS = 30.0
REFUSED_SECONDS = 20.0
MAX_CACHED = 10_000


@dataclass(frozen=True, slots=True)
class _CachedResult:
    result: StellarAddress | Callable[[], ApiError]
    until: float


class Wallets:
    """Accounts by subject. `timer` is a monotonic clock in seconds."""

    def __init__(
        self,
        provider: IdentityProviderApi,
        bindings: Bindings,
        *,
        timer: Callable[[], float] = time.monotonic,
        max_cached: int = MAX_CACHED,
    ) -> None:
        self._provider = provider
        self._bindings = bindings
        self._timer = timer
        self._max_cached = max_cached
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, _CachedResult] = OrderedDict()
        self._lookups: dict[str, tuple[threading.Lock, int]] = {}

    def account_of(self, subject: str) -> StellarAddress:
        """Raises `BadToken`, `NoStellarWallet`, `WalletChanged` or `IdentityUnavailable`."""
        cached = self._cached(subject)
        if cached is None:
            with self._lookup_lock(subject):
                cached = self._cached(subject)
                if cached is None:
                    result, seconds = self._look_up(subject)
                    cached = _CachedResult(result, self._timer() + seconds)
                    with self._lock:
                        self._cache[subject] = cached
                        self._cache.move_to_end(subject)
                        if len(self._cache) > self._max_cached:
                            self._cache.popitem(last=False)
        if isinstance(cached.result, str):
            return cached.result
        raise cached.result()

    def _look_up(self, subject: str) -> tuple[StellarAddress | Callable[[], ApiError], float]:
        """The account or the error, and for how many seconds to cache it."""
        try:
            wallets = self._provider.wallets(subject)
        except IdentityUnavailable:
            account = self._bindings.recently_confirmed(subject)
            if account is None:
                raise
            return account, STALE_SECONDS
        if not wallets:
            self._bindings.revoke_confirmation(subject)
            return _unknown_user if wallets is None else NoStellarWallet, REFUSED_SECONDS
        account = self._bindings.settle(subject, wallets)
        if account is None:
            logger.error("user %s has lost the wallet that it is bound to", subject)
            return WalletChanged, REFUSED_SECONDS
        return account, CACHED_SECONDS

    def _cached(self, subject: str) -> _CachedResult | None:
        with self._lock:
            cached = self._cache.get(subject)
            return None if cached is None or cached.until <= self._timer() else cached

    @contextmanager
    def _lookup_lock(self, subject: str) -> Iterator[None]:
        """One lock per subject, deleted by the last thread that waits for it."""
        with self._lock:
            lock, users = self._lookups.get(subject, (threading.Lock(), 0))
            self._lookups[subject] = (lock, users + 1)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, users = self._lookups.pop(subject)
                if users > 1:
                    self._lookups[subject] = (lock, users - 1)


def _unknown_user() -> ApiError:
    return BadToken("the provider knows no such user")
