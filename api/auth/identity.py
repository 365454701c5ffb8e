"""Access tokens of the operator's identity provider.

ES256 by the provider's key, one exact issuer, this app alone. An identity token has the same
issuer, audience, algorithm and key; only an access token has `sid` and no `linked_accounts`. The
token identifies the user; `wallets.py` looks up the user's Stellar account.
"""

import re
import time
from collections.abc import Callable

from sqlalchemy import Engine

from api.auth.bindings import Bindings
from api.auth.claims import AuthSession, BadToken, Verifier, unverified_header, validate_format
from api.auth.key_set import KeySet, KeySource, pinned_key
from api.auth.provider import IdentityProviderApi
from api.auth.tokens import verifying_key
from api.auth.wallets import Wallets
from api.settings import ApiSettings
from warehouse_schema.identifiers import UnixSeconds

_SUBJECT = re.compile(r"did:privy:[A-Za-z0-9]{1,64}")


class IdentityProvider:
    """Verifies the provider's access tokens."""

    def __init__(
        self,
        verifier: Verifier,
        keys: KeySource,
        wallets: Wallets,
        *,
        clock: Callable[[], UnixSeconds],
    ) -> None:
        self.issuer = verifier.issuer
        self._verifier = verifier
        self._keys = keys
        self._wallets = wallets
        self._clock = clock

    def verify(self, token: str) -> AuthSession:
        """Raises `BadToken`, and what `Wallets.account_of` raises."""
        validate_format(token)
        kid = unverified_header(token).get("kid")
        claims = self._verifier.claims(token, self._keys(kid))
        expires_at = self._verifier.check_times(claims, self._clock())
        if not isinstance(claims["sid"], str) or not claims["sid"]:
            raise BadToken("sid is no text")
        if "linked_accounts" in claims:
            raise BadToken("an identity token")
        if not _SUBJECT.fullmatch(claims["sub"]):
            raise BadToken("sub is no user")
        account = self._wallets.account_of(claims["sub"])
        return AuthSession(account, None, self.issuer, expires_at)


def identity_from_settings(
    settings: ApiSettings,
    engine: Engine,
    clock: Callable[[], UnixSeconds],
    timer: Callable[[], float] = time.monotonic,
) -> IdentityProvider | None:
    """None if no provider is configured. Raises `ConfigurationError`."""
    app_id, app_secret = settings.identity_app_id, settings.identity_app_secret
    if app_id is None or app_secret is None:
        return None
    issuer, max_lifetime = settings.identity_issuer, settings.identity_seconds
    provider = IdentityProviderApi(settings.identity_url, app_id, app_secret, timer=timer)
    keys: KeySource = KeySet(provider.key_set, timer=timer).key
    if settings.identity_key is not None:
        keys = pinned_key(verifying_key(settings.identity_key, "ISTHMUS_IDENTITY_KEY"))
    return IdentityProvider(
        Verifier(issuer, app_id, required=("sid",), max_lifetime=max_lifetime),
        keys,
        Wallets(provider, Bindings(engine, issuer), timer=timer),
        clock=clock,
    )
