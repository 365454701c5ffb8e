"""Tokens and keys of our own making, and the ways to forge one."""

import base64
import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from api.auth.tokens import Tokens
from tests.factories.app import NOW
from warehouse_schema.identifiers import UnixSeconds

URL = "https://api.isthmus.test"
ACCOUNT = "GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"
JTI = "5e" * 32


@cache
def private_key(name: str, curve: type[ec.EllipticCurve] = ec.SECP256R1) -> Any:
    """A key that is the same wherever it is asked for by that name."""
    secret = int.from_bytes(name.encode(), "big") + 1
    return ec.derive_private_key(secret, curve())


def private_pem(key: Any) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def public_pem(key: Any) -> str:
    public = key.public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def make_tokens(*, key: str = "ours", others: tuple[str, ...] = (), now: int = NOW, **more):
    """Our issuer, on a clock that stands."""
    publics = [private_key(name).public_key() for name in others]
    more = {"issuer": URL} | more
    return Tokens(private_key(key), *publics, clock=lambda: UnixSeconds(now), **more)


def claims(**changes: Any) -> dict[str, Any]:
    """What a good token of ours says, with changes; None takes a claim away."""
    good = {
        "iss": URL,
        "aud": URL,
        "sub": ACCOUNT,
        "jti": JTI,
        "iat": NOW,
        "exp": NOW + 3600,
    }
    return {name: value for name, value in (good | changes).items() if value is not None}


def part(value: Any) -> str:
    """One part of a token, of JSON or raw bytes."""
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def sign(payload: Any, key: Any, algorithm: str = "ES256", **header: Any) -> str:
    """A token as whoever has the key can make it; a header that is None is left out."""
    head = {"typ": "JWT", "alg": algorithm, **header}
    signing_input = f"{part({k: v for k, v in head.items() if v is not None})}.{part(payload)}"
    signer = jwt.get_algorithm_by_name(algorithm)
    signature = signer.sign(signing_input.encode(), key)
    return f"{signing_input}.{part(signature)}"
