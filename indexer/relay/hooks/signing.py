"""Webhooks as the Standard Webhooks specification signs them, by Ed25519 (`v1a`). Pure.

https://github.com/standard-webhooks/standard-webhooks: what is signed is id, time and body with
dots between, so that no part of it can be taken for another, and nothing of it for a transaction of
Stellar, whose signatures are over 32 bytes.
"""

import base64
from collections.abc import Mapping

from indexer.relay.keys import StellarKey, stellar_signature
from warehouse_schema.identifiers import UnixSeconds


def signed_headers(key: StellarKey, event: str, at: UnixSeconds, body: bytes) -> Mapping[str, str]:
    """Raises `WrongSignature`, and `RetryableChainError` when a key's service does not answer."""
    signature = stellar_signature(key, f"{event}.{at}.".encode() + body)
    return {
        "Content-Type": "application/json",
        "User-Agent": "isthmus-webhooks/1",
        "webhook-id": event,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1a,{base64.b64encode(signature).decode()}",
    }


def public_text(key: StellarKey) -> str:
    """As the specification writes a public key."""
    return f"whpk_{base64.b64encode(key.public_key).decode()}"
