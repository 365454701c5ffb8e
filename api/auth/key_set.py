"""The identity provider's signing keys: one pinned key, or its cached key set (JWKS).

| event | effect |
| - | - |
| the cache is an hour old | the next token reads it again |
| unknown `kid` | reads again, at most once a minute: a forged `kid` costs no request |
| reading fails | the cache stays valid for a day; retried every 5 s |
| reading fails, and the cache is empty or has no such key | `503` |

PyJWT's own client requests again at every token while the provider is away, and by its own clock.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey

from api.auth.claims import ALGORITHM, BadToken
from api.errors import IdentityUnavailable

FRESH_SECONDS = 3600.0
COOL_DOWN_SECONDS = 60.0
RETRY_SECONDS = 5.0
STALE_SECONDS = 24 * 3600.0

Keys = Mapping[str, EllipticCurvePublicKey]
KeySource: TypeAlias = Callable[[str | None], EllipticCurvePublicKey]
"""The key of a token with that `kid`. Raises `BadToken`, `IdentityUnavailable`."""


def pinned_key(public: EllipticCurvePublicKey) -> KeySource:
    """One key for every `kid`; the operator replaces it by hand."""
    return lambda _: public


@dataclass(frozen=True, slots=True)
class _CachedKeys:
    keys: Keys
    read_at: float


class KeySet:
    """Cached keys. `fetch` returns a JWKS, or raises `IdentityUnavailable`."""

    def __init__(
        self, fetch: Callable[[], bytes], *, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._timer = timer
        self._refresh_lock = threading.Lock()
        self._cache: _CachedKeys | None = None
        self._failed = False
        self._not_before = 0.0

    def key(self, kid: str | None) -> EllipticCurvePublicKey:
        """The key with that `kid`; without one, the only key of the set.

        Raises `BadToken` for an unknown key, `IdentityUnavailable` while the set is unknown.
        """
        found = self._find(kid, FRESH_SECONDS)
        if found is None:
            # A token whose key is stale but usable does not wait for another thread's request.
            is_usable = self._find(kid, STALE_SECONDS) is not None
            self._refresh(wait=not is_usable)
            found = self._find(kid, STALE_SECONDS)
        if found is not None:
            return found
        if self._failed:
            raise IdentityUnavailable
        raise BadToken("signed with none of the provider's keys")

    def _find(self, kid: str | None, max_age: float) -> EllipticCurvePublicKey | None:
        cache = self._cache
        if cache is None or self._timer() - cache.read_at >= max_age:
            return None
        if kid is None:
            return next(iter(cache.keys.values())) if len(cache.keys) == 1 else None
        return cache.keys.get(kid)

    def _refresh(self, *, wait: bool) -> None:
        if not self._refresh_lock.acquire(blocking=wait):
            return
        try:
            # After waiting, another thread has just refreshed.
            if self._timer() < self._not_before:
                return
            self._cache = _CachedKeys(parse_key_set(self._fetch()), self._timer())
            self._failed = False
            self._not_before = self._timer() + COOL_DOWN_SECONDS
        except IdentityUnavailable:
            self._failed = True
            self._not_before = self._timer() + RETRY_SECONDS
        finally:
            self._refresh_lock.release()


def parse_key_set(body: bytes) -> Keys:
    """The P-256 signing keys of a JWKS by `kid`; skips others. Raises `IdentityUnavailable`."""
    try:
        # Not `json`, which has no limit of its own to nesting: a library that raises Python's
        # recursion limit, as py_ecc does, makes it crash the process.
        keys = jwt.PyJWKSet.from_dict(orjson.loads(body)).keys
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError) as error:
        raise IdentityUnavailable from error
    usable = {
        jwk.key_id: jwk.key
        for jwk in keys
        if jwk.key_id
        and jwk.algorithm_name == ALGORITHM
        and jwk.public_key_use in (None, "sig")
        and isinstance(jwk.key, EllipticCurvePublicKey)
        and isinstance(jwk.key.curve, SECP256R1)
    }
    if not usable:
        raise IdentityUnavailable
    return usable
