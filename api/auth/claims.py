"""What is asked of every token, whoever issued it. PyJWT does the dangerous part.

A token is a compact JWS of at most `MAX_TOKEN_LENGTH` characters. Who reads one has a `Verifier` at
hand that was fixed before the token came; nothing in a token chooses how it is checked, but for
`iss`, which names the verifier, and `kid`, which names one of the verifier's own keys.

Times are held against the caller's clock and not against the machine's: PyJWT would read its own.
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
"""How far an issuer's clock may be off ours."""
MAX_TOKEN_LENGTH = 8 * 1024
MAX_DEPTH = 32
"""Objects and arrays inside one another, in a header or a payload."""

_COMPACT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class BadToken(Unauthorized):
    """The token opens nothing. Why is for our log alone: the answer is the same for all."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason
        """Says what was wrong and repeats nothing of the token."""


@dataclass(frozen=True, slots=True)
class AuthSession:
    """Who is asking."""

    account: StellarAddress
    jti: str | None
    """Id of the token, by which it can be revoked; None: it is not ours to revoke."""
    issuer: str
    expires_at: UnixSeconds


@dataclass(frozen=True, slots=True)
class Verifier:
    """How the tokens of one issuer are checked."""

    issuer: str
    audience: str
    required: tuple[str, ...]
    """Claims that must be there, beside those of every token."""
    longest: int
    """Most seconds from `iat` to `exp`."""

    def claims(self, token: str, key: EllipticCurvePublicKey) -> Mapping[str, Any]:
        """The claims that the issuer signed with this key. Raises `BadToken`.

        What depends on the time is not looked at: that is `check_times`.
        """
        try:
            read = jwt.decode_complete(
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
        if read["header"].get("typ") != "JWT":
            raise BadToken("typ is not JWT")
        claims: Mapping[str, Any] = read["payload"]
        return claims

    def check_times(self, claims: Mapping[str, Any], now: UnixSeconds) -> UnixSeconds:
        """When the token expires. Raises `BadToken` unless it is in force now."""
        issued, expires = _seconds(claims, "iat"), _seconds(claims, "exp")
        begins = _seconds(claims, "nbf") if "nbf" in claims else issued
        if max(issued, begins) > now + LEEWAY_SECONDS:
            raise BadToken("not yet in force")
        if expires <= now - LEEWAY_SECONDS:
            raise BadToken("expired")
        if not 0 < expires - issued <= self.longest:
            raise BadToken("its lifetime is longer than we take, or none")
        return expires


def validate_format(token: str) -> None:
    """Refuse what is no compact JWS, or too long, before anything is decoded.

    Raises `BadToken`.
    """
    if len(token) > MAX_TOKEN_LENGTH:
        raise BadToken("too long")
    if not _COMPACT.fullmatch(token):
        raise BadToken("no compact JWS")
    for part in token.split(".")[:2]:
        _check_json(part)


def _check_json(part: str) -> None:
    try:
        text = base64url_decode(part).decode()
    except ValueError as error:
        raise BadToken("a part that is no base64 of UTF-8") from error
    # With one, the reader takes it for UTF-16, and reads another text than is looked at here.
    if "\0" in text:
        raise BadToken("a part that holds a NUL")
    if exceeds_json_depth(text, MAX_DEPTH):
        raise BadToken("nests too deep")


def unverified_header(token: str) -> Mapping[str, Any]:
    """The header as it stands, verified by nobody. Raises `BadToken`."""
    try:
        return jwt.get_unverified_header(token)
    except jwt.PyJWTError as error:
        raise BadToken(type(error).__name__) from error


@lru_cache(maxsize=4096)
def unverified_issuer(token: str) -> str:
    """`iss` as it stands, verified by nobody: good for choosing a verifier and nothing else.

    Remembered by the token's text, on which alone it depends. Raises `BadToken`.
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
    # `True` is an int to Python, and texts and fractions are for issuers that we do not have.
    if type(value) is not int:
        raise BadToken(f"{name} is no whole number")
    return UnixSeconds(value)
