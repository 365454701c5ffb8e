"""Signatures of webhooks by the Standard Webhooks specification. Pure.

https://github.com/standard-webhooks/standard-webhooks: the signed bytes are id, timestamp and body,
joined by dots. `v1a` is Ed25519 by the service's key, which anyone can verify; `v1` is HMAC-SHA256
by the webhook's own secret, which the published libraries verify. The bytes cannot be a Stellar
transaction, whose signatures are over 32 bytes.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping

from relay.keys import StellarKey, stellar_signature
from warehouse_schema.identifiers import UnixSeconds


def signed_headers(
    key: StellarKey, event: str, at: UnixSeconds, body: bytes, secret: str | None = None
) -> Mapping[str, str]:
    """Headers of a post; `secret` is `whsec_` and base64, None for a webhook that has none.

    Raises `WrongSignature`, and `RetryableChainError` when a key's service does not answer.
    """
    signed = f"{event}.{at}.".encode() + body
    signatures = [f"v1a,{_base64(stellar_signature(key, signed))}"]
    if secret is not None:
        shared = base64.b64decode(secret.removeprefix("whsec_"))
        signatures.insert(0, f"v1,{_base64(hmac.digest(shared, signed, hashlib.sha256))}")
    return {
        "Content-Type": "application/json",
        "User-Agent": "isthmus-webhooks/1",
        "webhook-id": event,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(signatures),
    }


def encode_public_key(key: StellarKey) -> str:
    """As the specification writes a public key."""
    return f"whpk_{_base64(key.public_key)}"


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
