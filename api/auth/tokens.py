"""Our own tokens, issued after a SEP-10 login.

Only ES256: its curve is not Stellar's, so the signing key of stellar.toml cannot be used by
mistake. `kid` is the thumbprint of the key (RFC 7638), so keys need no configured names.

Two keys are active: one signs, both verify. `docs/auth.md` describes the rotation.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from api.auth.claims import (
    ALGORITHM,
    AuthSession,
    BadToken,
    Verifier,
    unverified_header,
    validate_format,
)
from api.settings import ApiSettings
from indexer.addresses import stellar_account
from indexer.errors import ConfigurationError
from warehouse_schema.identifiers import UnixSeconds

MAX_LIFETIME = 24 * 3600
"""Seconds. The signers of an account may change after a token was issued."""
MIN_LIFETIME = 60
_MAX_CACHED = 4096
_JTI = re.compile(r"[A-Za-z0-9._~-]{1,128}")


def signing_key(pem: str, variable: str) -> EllipticCurvePrivateKey:
    """Parse an unencrypted private key. Raises `ConfigurationError` that names the variable."""
    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # Not as the cause: its message may quote the key.
        raise ConfigurationError(f"{variable} holds no unencrypted private key in PEM") from None
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise ConfigurationError(f"{variable} must be a P-256 key (prime256v1)")
    return key


def verifying_key(pem: str, variable: str) -> EllipticCurvePublicKey:
    """Parse a public key. Raises `ConfigurationError` that names the variable."""
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigurationError(f"{variable} holds no public key in PEM") from None
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        raise ConfigurationError(f"{variable} must be a P-256 key (prime256v1)")
    return key


def thumbprint(key: EllipticCurvePublicKey) -> str:
    """Of the key as JWK (RFC 7638)."""
    jwk = jwt.algorithms.ECAlgorithm.to_jwk(key, as_dict=True)
    members = {name: jwk[name] for name in ("crv", "kty", "x", "y")}
    encoded = json.dumps(members, separators=(",", ":"), sort_keys=True).encode()
    return base64.urlsafe_b64encode(hashlib.sha256(encoded).digest()).rstrip(b"=").decode()


class Tokens:
    """Issues and verifies our tokens.

    `issuer` is our own URL, and the audience too. `lifetime` is in seconds; tokens with a longer
    one are refused, so that lowering it takes effect at once.
    """

    def __init__(
        self,
        key: EllipticCurvePrivateKey,
        *others: EllipticCurvePublicKey,
        issuer: str,
        clock: Callable[[], UnixSeconds],
        lifetime: int = MAX_LIFETIME,
    ) -> None:
        if not MIN_LIFETIME <= lifetime <= MAX_LIFETIME:
            raise ValueError(f"a lifetime of {lifetime} s is not within a minute and a day")
        self.issuer = issuer
        self.lifetime = lifetime
        self._key = key
        self._kid = thumbprint(key.public_key())
        self._public = {thumbprint(public): public for public in (key.public_key(), *others)}
        self._clock = clock
        self._verifier = Verifier(issuer, issuer, required=("jti",), max_lifetime=lifetime)
        # Keys are fixed for the life of the process, so a valid signature stays valid. Failures are
        # not cached, and `verify` checks the times of every request.
        self._verify_signature = lru_cache(maxsize=_MAX_CACHED)(self._verify_uncached)

    def issue(self, account: str, *, jti: str) -> str:
        """A token; `jti` must be unique. Raises `ValueError` when either is malformed."""
        if not _JTI.fullmatch(jti):
            raise ValueError("a token's id has 1 to 128 characters that need no escape in a URL")
        now = self._clock()
        claims = {
            "iss": self.issuer,
            "aud": self.issuer,
            "sub": stellar_account(account),
            "iat": now,
            "exp": now + self.lifetime,
            "jti": jti,
        }
        return jwt.encode(claims, self._key, ALGORITHM, headers={"kid": self._kid})

    def verify(self, token: str) -> AuthSession:
        """Raises `BadToken`. Revocation is checked by the `Authenticator`."""
        session, claims = self._verify_signature(token)
        self._verifier.check_times(claims, self._clock())
        return session

    def _verify_uncached(self, token: str) -> tuple[AuthSession, Mapping[str, Any]]:
        validate_format(token)
        key = self._public.get(unverified_header(token).get("kid", ""))
        if key is None:
            raise BadToken("signed with none of our keys")
        claims = self._verifier.claims(token, key)
        try:
            account = stellar_account(claims["sub"])
        except ValueError as error:
            raise BadToken("sub is no account") from error
        if not _JTI.fullmatch(claims["jti"]):
            raise BadToken("jti is no id of ours")
        session = AuthSession(account, claims["jti"], self.issuer, UnixSeconds(claims["exp"]))
        return session, claims


def tokens_from_settings(settings: ApiSettings, clock: Callable[[], UnixSeconds]) -> Tokens | None:
    """None without a key. Raises `ConfigurationError`."""
    if settings.token_key is None:
        return None
    if settings.url is None:
        raise ConfigurationError(
            "ISTHMUS_TOKEN_KEY_FILE needs ISTHMUS_URL: a token names its issuer"
        )
    others = []
    if settings.token_key_other is not None:
        other = signing_key(settings.token_key_other, "ISTHMUS_TOKEN_KEY_OTHER_FILE")
        others.append(other.public_key())
    return Tokens(
        signing_key(settings.token_key, "ISTHMUS_TOKEN_KEY_FILE"),
        *others,
        issuer=settings.url,
        clock=clock,
        lifetime=settings.token_seconds,
    )
