"""Lets a request in by its token, or refuses it: the one place where that is decided.

A token names its issuer. The issuers that count are known before a token comes, each with its own
verifier, and a token of any other opens nothing.

A token of ours that was revoked is refused at every request, changing or reading: Postgres is asked
each time (`revocation.py`). What stands behind this gate reads Postgres anyway, and a logout that
holds here and not yet there would be none.
"""

import logging
import re
from collections.abc import Iterable
from typing import Protocol

from api.auth.claims import MAX_TOKEN_LENGTH, AuthSession, BadToken, unverified_issuer
from api.auth.revocation import Revocations
from api.errors import Unauthorized

logger = logging.getLogger(__name__)

_BEARER = re.compile(r"bearer +(\S+)", re.IGNORECASE)


class Issuer(Protocol):
    """Whose tokens count."""

    @property
    def issuer(self) -> str:
        """`iss` of its tokens, to the letter."""

    def verify(self, token: str) -> AuthSession:
        """Whose the token is. Raises `BadToken`, and another `ApiError` when it cannot be said."""


class Authenticator:
    """Admits who brings a good token of one of these issuers."""

    def __init__(self, issuers: Iterable[Issuer], revocations: Revocations) -> None:
        self._issuers = {each.issuer: each for each in issuers}
        self._revocations = revocations

    def admit(self, authorization: str | None) -> AuthSession:
        """Who asks, by the value of the request's Authorization header.

        Raises `Unauthorized`, and what else an `Issuer` may. Servers join a header that was sent
        twice with a comma, which no token holds, so two are refused as one bad one is.
        """
        if authorization is None:
            raise Unauthorized
        try:
            return self._admit(_token(authorization))
        except BadToken as error:
            logger.info("token refused reason=%r", error.reason)
            raise

    def _admit(self, token: str) -> AuthSession:
        issuer = self._issuers.get(unverified_issuer(token))
        if issuer is None:
            raise BadToken("of no issuer that counts")
        session = issuer.verify(token)
        if session.jti is not None and self._revocations.holds(session.jti):
            raise BadToken("revoked")
        return session


def _token(authorization: str) -> str:
    if len(authorization) > MAX_TOKEN_LENGTH:
        raise BadToken("too long")
    found = _BEARER.fullmatch(authorization)
    if found is None:
        raise BadToken("no bearer token")
    return found[1]
