"""`/v1/session`: shows and ends the session of a token."""

from flask import Blueprint, current_app

from api.auth import schema
from api.auth.owner import current_session, get_authenticator, owner_only
from api.deps import deps
from api.errors import BadRequest
from api.operation import operation
from api.responses import iso_time

session = Blueprint("session", __name__)
session.before_request(owner_only)


@session.get("/v1/session")
@operation("showSession", "Authentication", {200: "The session."})
def show() -> schema.Session:
    """Show the session of the token."""
    shown = current_session()
    return {
        "account": shown.account,
        "issuer": shown.issuer,
        "expires_at": iso_time(shown.expires_at),
    }


@session.delete("/v1/session")
@operation(
    "endSession", "Authentication", {200: "The token is revoked."}, refusals=("NOT_OUR_TOKEN",)
)
def end() -> schema.Revoked:
    """Log out.

    The token is invalid from then on: at once where the request was answered, and within half a
    second in every other process of the service.
    """
    ended = current_session()
    if ended.jti is None:
        raise BadRequest(
            f"a token of {ended.issuer} cannot be revoked here: log out there; the token stays "
            "valid until it expires",
            code="NOT_OUR_TOKEN",
        )
    get_authenticator(current_app).revoke(ended, deps().clock())
    return {"revoked": True}
