"""The identity provider's signing keys: one that is pinned, or its key set, kept for a while.

| | |
| - | - |
| it is fresh for an hour | then the next token that needs it reads it again |
| a key is not in it | it is read again, at most once a minute: a forged `kid` costs no question |
| it cannot be read | what was read stays good for a day; tried again every 5 s |
| it cannot be read, and there is nothing or the key is not in it | nobody can say: `503` |

PyJWT's own client asks again at every token while the provider is away, and by its own clock.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

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


class KeySource(Protocol):
    """Where the key of a token is found."""

    def key(self, kid: str | None) -> EllipticCurvePublicKey:
        """The key of that name. Raises `BadToken`, `IdentityUnavailable`."""


@dataclass(frozen=True, slots=True)
class PinnedKey:
    """One key, whatever a token calls it; an operator changes it by hand."""

    public: EllipticCurvePublicKey

    def key(self, kid: str | None) -> EllipticCurvePublicKey:
        """That key."""
        return self.public


@dataclass(frozen=True, slots=True)
class _Read:
    keys: Keys
    at: float


class KeySet:
    """Keys that `read` fetches: it returns a JWKS, or raises `IdentityUnavailable`."""

    def __init__(
        self, read: Callable[[], bytes], *, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = read
        self._timer = timer
        self._reading = threading.Lock()
        self._read: _Read | None = None
        self._failed = False
        self._not_before = 0.0

    def key(self, kid: str | None) -> EllipticCurvePublicKey:
        """The key of that name; without a name the only one.

        Raises `BadToken` when there is none, `IdentityUnavailable` when that cannot be said.
        """
        found = self._find(kid, FRESH_SECONDS)
        if found is None:
            # Who has a key that is merely old does not wait for another's question.
            usable = self._find(kid, STALE_SECONDS) is not None
            self._read_again(wait=not usable)
            found = self._find(kid, STALE_SECONDS)
        if found is not None:
            return found
        if self._failed:
            raise IdentityUnavailable
        raise BadToken("signed with none of the provider's keys")

    def _find(self, kid: str | None, oldest: float) -> EllipticCurvePublicKey | None:
        read = self._read
        if read is None or self._timer() - read.at >= oldest:
            return None
        if kid is None:
            return next(iter(read.keys.values())) if len(read.keys) == 1 else None
        return read.keys.get(kid)

    def _read_again(self, *, wait: bool) -> None:
        if not self._reading.acquire(blocking=wait):
            return
        try:
            # Whoever waited here finds that it was just done.
            if self._timer() >= self._not_before:
                self._read_now()
        finally:
            self._reading.release()

    def _read_now(self) -> None:
        try:
            keys = parse_key_set(self._fetch())
        except IdentityUnavailable:
            self._failed = True
            self._not_before = self._timer() + RETRY_SECONDS
            return
        self._failed = False
        self._read = _Read(keys, self._timer())
        self._not_before = self._timer() + COOL_DOWN_SECONDS


def parse_key_set(body: bytes) -> Keys:
    """The P-256 signing keys of a JWKS by their names, others left out.

    Raises `IdentityUnavailable` when there is none.
    """
    try:
        # The standard library's reader has no end of its own to nesting: a library that raises
        # Python's limit, as py_ecc does, makes it a way to crash the process.
        keys = jwt.PyJWKSet.from_dict(orjson.loads(body)).keys
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError) as error:
        raise IdentityUnavailable from error
    usable = {jwk.key_id: jwk.key for jwk in keys if jwk.key_id and _signs(jwk)}
    if not usable:
        raise IdentityUnavailable
    return usable


def _signs(jwk: jwt.PyJWK) -> bool:
    return (
        jwk.algorithm_name == ALGORITHM
        and jwk.public_key_use in (None, "sig")
        and isinstance(jwk.key, EllipticCurvePublicKey)
        and isinstance(jwk.key.curve, SECP256R1)
    )
