"""Signatures of webhooks by the Standard Webhooks specification. Pure but for the key.

https://github.com/standard-webhooks/standard-webhooks: the signed bytes are id, timestamp and body,
joined by dots. `v1a` is Ed25519 by the service's key, `v1` HMAC-SHA256 by the webhook's own secret.
The bytes cannot be a Stellar transaction, whose signatures are over 32 bytes.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence

from relay.keys import StellarKey, stellar_signature
from warehouse_schema.identifiers import UnixSeconds


def signed_headers(
    keys: Sequence[StellarKey], event: str, at: UnixSeconds, body: bytes, secret: str | None = None
) -> Mapping[str, str]:
    """Headers of a POST, signed by each key.

    `secret` is `whsec_` and base64, None for a webhook without one.

    Raises `WrongSignature`, and `RetryableChainError` when the key's service does not answer.
    """
    message = f"{event}.{at}.".encode() + body
    signatures = [
        f"v1a,{base64.b64encode(stellar_signature(key, message)).decode()}" for key in keys
    ]
    if secret is not None:
        shared = base64.b64decode(secret.removeprefix("whsec_"))
        digest = hmac.digest(shared, message, hashlib.sha256)
        signatures.insert(0, f"v1,{base64.b64encode(digest).decode()}")
    return {
        "Content-Type": "application/json",
        "User-Agent": "isthmus-webhooks/1",
        "webhook-id": event,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(signatures),
    }


def encode_public_key(key: StellarKey) -> str:
    """Public key in the specification's format, `whpk_` and base64."""
    return f"whpk_{base64.b64encode(key.public_key).decode()}"
