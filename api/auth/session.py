"""`/v1/session`: shows and ends the session of a token."""

from flask import Blueprint

from api.auth import schema
from api.auth.owner import current_session, owner_only
from api.auth.revocation import Revocations
from api.deps import deps
from api.errors import BadRequest
from api.operation import operation
from api.responses import iso_time

session = Blueprint("session", __name__)
session.before_request(owner_only)


@session.get("/v1/session")
@operation(
    "showSession", "Who is asking", {200: "Who is asking, and until when the token is good."}
)
def show() -> schema.Session:
    """Whose the token is."""
    shown = current_session()
    return {
        "account": shown.account,
        "issuer": shown.issuer,
        "expires_at": iso_time(shown.expires_at),
    }


@session.delete("/v1/session")
@operation(
    "endSession", "Who is asking", {200: "The token is given up."}, refusals=("NOT_OUR_TOKEN",)
)
def end() -> schema.Revoked:
    """Log out.

    The token is refused from the next request on.
    """
    ended = current_session()
    if ended.jti is None:
        raise BadRequest(
            f"this token is {ended.issuer}'s, and only there can it be ended: log out with its "
            "client; the token itself is good until it expires",
            code="NOT_OUR_TOKEN",
        )
    Revocations(deps().engine).add(ended.jti, ended.expires_at, deps().clock())
    return {"revoked": True}
