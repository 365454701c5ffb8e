"""The identity provider's stand-in, the service's side of it on a timer that a test moves."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flask.testing import FlaskClient
from sqlalchemy import Engine

from api.auth.bindings import Bindings
from api.auth.claims import Verifier
from api.auth.identity import IdentityProvider
from api.auth.key_set import KeySet, KeySource
from api.auth.provider import IdentityProviderApi
from api.auth.wallets import Wallets
from devnet.identity.provider import ISSUER, StandIn
from devnet.identity.server import serving
from tests.factories.app import NOW, make_app
from tests.factories.tokens import make_tokens
from warehouse_schema.identifiers import UnixSeconds

LONGEST = 7200

PATIENT = 60.0
"""Seconds that a response may take on a busy machine."""
IMPATIENT = 1.0
"""For a test of a response that takes longer."""


@dataclass
class Timer:
    """Seconds that pass when a test says so."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class World:
    """A running stand-in, and what the service asks it with."""

    engine: Engine
    url: str
    stand_in: StandIn
    timer: Timer = field(default_factory=Timer)
    timeout: float = PATIENT
    """Of providers made from now on, in seconds."""

    def provider(self, **changes: Any) -> IdentityProviderApi:
        """One process's way to the stand-in."""
        credentials = {"app_id": self.stand_in.app_id, "app_secret": self.stand_in.app_secret}
        access = {"url": self.url} | credentials | changes
        return IdentityProviderApi(**access, timeout=self.timeout, timer=self.timer)

    def wallets(self, **more: Any) -> Wallets:
        """One process's memory of who has which wallet."""
        bindings = Bindings(self.engine, ISSUER)
        return Wallets(self.provider(), bindings, timer=self.timer, **more)

    def identity(self, keys: KeySource | None = None, *, now: int = NOW) -> IdentityProvider:
        """One process's verifier of the provider's tokens."""
        return IdentityProvider(
            Verifier(ISSUER, self.stand_in.app_id, required=("sid",), max_lifetime=LONGEST),
            keys or KeySet(self.provider().key_set, timer=self.timer).key,
            self.wallets(),
            clock=lambda: UnixSeconds(now),
        )

    def client(self, **more: Any) -> FlaskClient:
        """Calls one process of the API."""
        app = make_app(self.engine, tokens=make_tokens(), identity=self.identity(**more))
        return app.test_client()

    def token(self, subject: str, **changes: Any) -> str:
        """A good one at the time of the tests, with changes."""
        return self.stand_in.token(subject, **({"iat": NOW, "exp": NOW + 3600} | changes))


@contextmanager
def identity_world(engine: Engine) -> Iterator[World]:
    stand_in = StandIn()
    with serving(stand_in) as url:
        yield World(engine, url, stand_in)
