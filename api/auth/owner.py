"""Auth rules of blueprints: `blueprint.before_request(public)` or another of `RULES`.

A blueprint without a rule, or with two, fails `tests/architecture/test_auth_rules.py`.
"""

from collections.abc import Callable

from flask import Flask, Response, after_this_request, current_app, g, request

from api.auth.authenticator import Authenticator
from api.auth.claims import AuthSession
from api.auth.revocation import Revocations
from api.deps import Deps
from api.rate_limits import count_owner
from warehouse_schema.identifiers import StellarAddress

_KEY = "isthmus-authenticator"


def public() -> None:
    """No authentication."""


def owner_only() -> None:
    """Requires a valid token. Raises `Unauthorized`, or `TooMany`: an owner has one rate limit for
    all its tokens and addresses.

    `OPTIONS` is exempt: browsers send CORS preflights without a token.
    """
    if request.method != "OPTIONS":
        # Also on a refusal: no cache may store a response for one owner.
        after_this_request(_no_store)
        session = get_authenticator(current_app).admit(request.headers.get("Authorization"))
        g.session = session
        count_owner(session.account)


def _no_store(response: Response) -> Response:
    response.headers["Cache-Control"] = "no-store"
    return response


RULES: tuple[Callable[[], None], ...] = (public, owner_only)


def init_authenticator(app: Flask, deps: Deps) -> None:
    """Create the app's authenticator."""
    issuers = [issuer for issuer in (deps.tokens, deps.identity) if issuer is not None]
    app.extensions[_KEY] = Authenticator(issuers, Revocations(deps.engine))


def get_authenticator(app: Flask) -> Authenticator:
    """For tokens that do not arrive in a request's header, as on the stream."""
    authenticator: Authenticator = app.extensions[_KEY]
    return authenticator


def current_session() -> AuthSession:
    """The request's session, in a view behind `owner_only`."""
    session: AuthSession = g.session
    return session


def owner() -> StellarAddress:
    """The request's account, in a view behind `owner_only`: taken from the token alone."""
    return current_session().account
