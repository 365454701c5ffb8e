"""The stand-in's users, keys and responses; no HTTP here.

It responds as the provider does to the service's requests (its public key set, and a user with the
linked accounts), and has methods of its own to create users, tokens and faults. Its key and its app
secret are new at every start: its signatures are valid nowhere else.
"""

import base64
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from stellar_sdk import Keypair

ISSUER = "privy.io"
KID = "stand-in-1"

Json = dict[str, Any]
Fault = Literal["down", "refused", "429", "404", "slow", "nonsense"]
"""Out of order (500), our credentials refused (401), a rate limit (429), not found (404), a
response that takes `SLOW_SECONDS`, and one that is malformed."""
FAULTS: tuple[Fault, ...] = ("down", "refused", "429", "404", "slow", "nonsense")
SLOW_SECONDS = 20.0

_FAULTY: Mapping[str, tuple[int, Any]] = {
    "down": (500, {"error": "out of order"}),
    "refused": (401, {"error": "invalid app credentials"}),
    "429": (429, {"error": "too many requests"}),
    "404": (404, {"error": "not found"}),
    "nonsense": (200, [1, 2, 3]),
}

_NOT_OURS = (
    "ISTHMUS_IDENTITY_ISSUER",
    "ISTHMUS_IDENTITY_KEY",
    "ISTHMUS_IDENTITY_KEY_FILE",
    "ISTHMUS_IDENTITY_SECONDS",
)


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; `after` is how many seconds it takes."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    after: float = 0.0


class StandIn:
    """Users and their linked accounts, the signing key, and injected faults."""

    def __init__(self, app_id: str = "isthmus-demo") -> None:
        self.app_id = app_id
        self.app_secret = secrets.token_hex(16)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.kid = KID
        self.users: dict[str, list[Json]] = {}
        self.faults: dict[str, Fault] = {}
        """By endpoint: `keys` and `users`."""
        self.calls: list[str] = []
        """`keys`, or `users <subject>`, of each request."""

    def variables(self, url: str) -> dict[str, str]:
        """Settings of an API that signs its users in, with the secret; `url` is this stand-in's."""
        return {
            "ISTHMUS_IDENTITY_URL": url,
            "ISTHMUS_IDENTITY_APP_ID": self.app_id,
            "ISTHMUS_IDENTITY_APP_SECRET": self.app_secret,
            # An operator's shell may hold settings of the real provider.
            **dict.fromkeys(_NOT_OURS, ""),
        }

    # Requests of the service.

    def keys(self) -> Answer:
        """The public key set."""
        self.calls.append("keys")
        jwk = jwt.algorithms.ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return self._or_fault(
            "keys", Answer(200, {"keys": [{**jwk, "kid": self.kid, "use": "sig", "alg": "ES256"}]})
        )

    def user(self, subject: str, authorization: str, app_id: str) -> Answer:
        """A user, for the app's credentials."""
        self.calls.append(f"users {subject}")
        return self._or_fault("users", self._user(subject, authorization, app_id))

    def _user(self, subject: str, authorization: str, app_id: str) -> Answer:
        known = base64.b64encode(f"{self.app_id}:{self.app_secret}".encode()).decode()
        if authorization != f"Basic {known}" or app_id != self.app_id:
            return Answer(401, {"error": "invalid app credentials"})
        if subject not in self.users:
            return Answer(404, {"error": "user not found"})
        linked = [{"type": "email", "address": "someone@example.com"}, *self.users[subject]]
        return Answer(200, {"id": subject, "created_at": 1_700_000_000, "linked_accounts": linked})

    def _or_fault(self, endpoint: str, answer: Answer) -> Answer:
        fault = self.faults.get(endpoint)
        if fault is None:
            return answer
        if fault == "slow":
            return Answer(answer.status, answer.body, after=SLOW_SECONDS)
        status, body = _FAULTY[fault]
        return Answer(status, body, {"Retry-After": "7"} if status == 429 else {})

    # Methods for demos and tests.

    def add_user(self, *accounts: Json, subject: str | None = None) -> str:
        """A user with these accounts, one new embedded Stellar wallet if none is named."""
        subject = subject or f"did:privy:{secrets.token_hex(12)}"
        self.users[subject] = list(accounts) or [wallet(Keypair.random().public_key)]
        return subject

    def token(self, subject: str, **changes: Any) -> str:
        """An access token for an hour; a claim that is None is left out."""
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": self.app_id,
            "sub": subject,
            "sid": secrets.token_hex(12),
            "iat": now,
            "exp": now + 3600,
        }
        payload = {name: value for name, value in (claims | changes).items() if value is not None}
        return jwt.encode(payload, self.key, "ES256", headers={"kid": self.kid})

    def identity_token(self, subject: str, **changes: Any) -> str:
        """The other kind of token, which names the user and is no bearer token."""
        linked = json.dumps(self.users.get(subject, []))
        about = {"sid": None, "cr": "1700000000", "linked_accounts": linked}
        return self.token(subject, **(about | changes))


def wallet(address: str, **changes: Any) -> Json:
    """An embedded Stellar wallet as the provider describes one, with changes."""
    return {
        "type": "wallet",
        "chain_type": "stellar",
        "wallet_client": "privy",
        "wallet_client_type": "privy",
        "connector_type": "embedded",
        "address": address,
        "public_key": address,
        "id": "wallet-1",
        "wallet_index": 0,
        "imported": False,
        "delegated": False,
        "recovery_method": "privy-v2",
        "verified_at": 1_700_000_000,
        "first_verified_at": 1_700_000_000,
        "latest_verified_at": 1_700_000_000,
        **changes,
    }
