"""Verification that is common to the tokens of all issuers; PyJWT does the cryptography.

A token is a compact JWS of at most `MAX_TOKEN_LENGTH` characters. Verifiers are configured before a
token arrives. A token chooses nothing of its verification except `iss`, which names the verifier,
and `kid`, which names one of the verifier's own keys.

Times are compared with the caller's clock: PyJWT would use the machine's.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from jwt.utils import base64url_decode

from api.errors import Unauthorized
from indexer.chains.http.client import exceeds_json_depth
from warehouse_schema.identifiers import StellarAddress, UnixSeconds

ALGORITHM = "ES256"
LEEWAY_SECONDS = 30
"""Accepted difference of an issuer's clock."""
MAX_TOKEN_LENGTH = 8 * 1024
MAX_DEPTH = 32
"""Nested objects and arrays in a header or payload."""

_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class BadToken(Unauthorized):
    """An invalid token. The reason is for the log: the response is the same for all."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason
        """Contains no part of the token."""


@dataclass(frozen=True, slots=True)
class AuthSession:
    """The authenticated owner and token."""

    account: StellarAddress
    jti: str | None
    """Id of the token for revocation; None for a token that we cannot revoke."""
    issuer: str
    expires_at: UnixSeconds


@dataclass(frozen=True, slots=True)
class Verifier:
    """Verification rules of one issuer's tokens."""

    issuer: str
    audience: str
    required: tuple[str, ...]
    """Required claims in addition to those of every token."""
    max_lifetime: int
    """Seconds from `iat` to `exp`."""

    def claims(self, token: str, key: EllipticCurvePublicKey) -> Mapping[str, Any]:
        """The verified claims; `check_times` verifies the times. Raises `BadToken`."""
        try:
            decoded = jwt.decode_complete(
                token,
                key,
                algorithms=[ALGORITHM],
                audience=self.audience,
                issuer=self.issuer,
                options={
                    "require": ["iss", "aud", "sub", "iat", "exp", *self.required],
                    "strict_aud": True,
                    "verify_iat": False,
                    "verify_nbf": False,
                    "verify_exp": False,
                },
            )
        except jwt.PyJWTError as error:
            raise BadToken(type(error).__name__) from error
        if decoded["header"].get("typ") != "JWT":
            raise BadToken("typ is not JWT")
        claims: Mapping[str, Any] = decoded["payload"]
        return claims

    def check_times(self, claims: Mapping[str, Any], now: UnixSeconds) -> UnixSeconds:
        """The token's expiry. Raises `BadToken` unless the token is valid now."""
        issued, expires = _seconds(claims, "iat"), _seconds(claims, "exp")
        begins = _seconds(claims, "nbf") if "nbf" in claims else issued
        if max(issued, begins) > now + LEEWAY_SECONDS:
            raise BadToken("not yet valid")
        if expires <= now - LEEWAY_SECONDS:
            raise BadToken("expired")
        if not 0 < expires - issued <= self.max_lifetime:
            raise BadToken("its lifetime is too long, or not positive")
        return expires


def validate_format(token: str) -> None:
    """Raises `BadToken` for a text that is no compact JWS, before any JSON is parsed."""
    if len(token) > MAX_TOKEN_LENGTH:
        raise BadToken("too long")
    if not _COMPACT.fullmatch(token):
        raise BadToken("no compact JWS")
    for part in token.split(".")[:2]:
        try:
            text = base64url_decode(part).decode()
        except ValueError as error:
            raise BadToken("a part that is no base64 of UTF-8") from error
        # `json` reads bytes with a NUL as UTF-16, so as another text than is checked here.
        if "\0" in text:
            raise BadToken("a part with a NUL")
        if exceeds_json_depth(text, MAX_DEPTH):
            raise BadToken("nested too deep")


def unverified_header(token: str) -> Mapping[str, Any]:
    """Raises `BadToken`."""
    try:
        return jwt.get_unverified_header(token)
    except jwt.PyJWTError as error:
        raise BadToken(type(error).__name__) from error


@lru_cache(maxsize=4096)
def unverified_issuer(token: str) -> str:
    """`iss`, only good for selecting a verifier. Raises `BadToken`.

    Cached by the token's text, on which alone it depends.
    """
    validate_format(token)
    try:
        issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
    except jwt.PyJWTError as error:
        raise BadToken(type(error).__name__) from error
    if not isinstance(issuer, str):
        raise BadToken("iss is no text")
    return issuer


def _seconds(claims: Mapping[str, Any], name: str) -> UnixSeconds:
    value = claims[name]
    # `True` is an int to Python; our issuers send neither texts nor fractions.
    if type(value) is not int:
        raise BadToken(f"{name} is no whole number")
    return UnixSeconds(value)
