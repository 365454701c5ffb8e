"""Every blueprint states its rule: `blueprint.before_request(public)` or another of `RULES`.

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

_KEY = "isthmus-gate"


def public() -> None:
    """Anyone may call; no token is looked at."""


def owner_only() -> None:
    """Who brings a valid token may call, and is `owner()` then. Raises `Unauthorized`, or
    `TooMany`: an owner has one budget, whichever tokens and addresses are used.

    `OPTIONS` is a browser's question before the request, and browsers ask it without a token.
    """
    if request.method != "OPTIONS":
        # Of the refusal too: nobody on the way keeps an answer that is for one alone.
        after_this_request(_unkept)
        gate: Authenticator = current_app.extensions[_KEY]
        g.session = gate.admit(request.headers.get("Authorization"))
        count_owner(g.session.account)


def _unkept(response: Response) -> Response:
    response.headers["Cache-Control"] = "no-store"
    return response


RULES: tuple[Callable[[], None], ...] = (public, owner_only)
"""The rules a blueprint may state."""


def init_authenticator(app: Flask, deps: Deps) -> None:
    """Give an app the gate that `owner_only` asks."""
    issuers = [issuer for issuer in (deps.tokens, deps.identity) if issuer is not None]
    app.extensions[_KEY] = Authenticator(issuers, Revocations(deps.engine))


def get_authenticator(app: Flask) -> Authenticator:
    """The gate of an app, for who is let in by other ways than a request's header."""
    gate: Authenticator = app.extensions[_KEY]
    return gate


def current_session() -> AuthSession:
    """Who is asking, in a view behind `owner_only`."""
    session: AuthSession = g.session
    return session


def owner() -> StellarAddress:
    """The Stellar account of this request, in a view behind `owner_only`: the owner of what it may
    see and change. Never learned from anything but the token."""
    return current_session().account
