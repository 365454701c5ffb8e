"""Authenticates requests by bearer token.

A token names its issuer (`iss`), which selects one of the configured verifiers. A revoked token of
ours is refused within half a second of its logout in every process (`revocation.py`).
"""

import logging
import re
from collections.abc import Iterable
from typing import TypeAlias

from api.auth.claims import MAX_TOKEN_LENGTH, AuthSession, BadToken, unverified_issuer
from api.auth.identity import IdentityProvider
from api.auth.revocation import Revocations
from api.auth.tokens import Tokens
from api.errors import Unauthorized
from warehouse_schema.identifiers import UnixSeconds

logger = logging.getLogger(__name__)

Issuer: TypeAlias = Tokens | IdentityProvider
"""Verifies tokens whose `iss` is exactly its `issuer`."""

_BEARER = re.compile(r"bearer +(\S+)", re.IGNORECASE)


class Authenticator:
    """Accepts valid tokens of these issuers that are not revoked."""

    def __init__(self, issuers: Iterable[Issuer], revocations: Revocations) -> None:
        self._issuers = {each.issuer: each for each in issuers}
        self._revocations = revocations

    def admit(self, authorization: str | None) -> AuthSession:
        """The session of an Authorization header's value.

        Raises `Unauthorized`, and what `verify` of the issuer raises. Servers join repeated
        headers with a comma, which no token contains, so two tokens are refused.
        """
        if authorization is None:
            raise Unauthorized
        try:
            if len(authorization) > MAX_TOKEN_LENGTH:
                raise BadToken("too long")
            bearer = _BEARER.fullmatch(authorization)
            if bearer is None:
                raise BadToken("no bearer token")
            issuer = self._issuers.get(unverified_issuer(bearer[1]))
            if issuer is None:
                raise BadToken("unknown issuer")
            session = issuer.verify(bearer[1])
            if session.jti is not None and self._revocations.contains(session.jti):
                raise BadToken("revoked")
        except BadToken as error:
            logger.info("token refused reason=%r", error.reason)
            raise
        return session

    def revoke(self, session: AuthSession, now: UnixSeconds) -> None:
        """Refuse the session's token from now on. Raises `ValueError` for one without a `jti`."""
        if session.jti is None:
            raise ValueError(f"a token of {session.issuer} has no id")
        self._revocations.add(session.jti, session.expires_at, now)
