"""`/v1/session`: shows and ends the session of a token."""

from flask import Blueprint

from api.auth import schema
from api.auth.owner import current_session, owner_only
from api.auth.revocation import Revocations
from api.deps import deps
from api.errors import BadRequest
from api.responses import iso_time

session = Blueprint("session", __name__)
session.before_request(owner_only)


@session.get("/v1/session")
def show() -> schema.Session:
    """The session of the token."""
    shown = current_session()
    return {
        "account": shown.account,
        "issuer": shown.issuer,
        "expires_at": iso_time(shown.expires_at),
    }


@session.delete("/v1/session")
def end() -> schema.Revoked:
    """Revoke the token: every process refuses it from the next request on."""
    ended = current_session()
    if ended.jti is None:
        raise BadRequest(
            f"this token is {ended.issuer}'s, and only there can it be ended: log out with its "
            "client; the token itself is good until it expires",
            code="NOT_OUR_TOKEN",
        )
    Revocations(deps().engine).add(ended.jti, ended.expires_at, deps().clock())
    return {"revoked": True}
