"""`/v1/session`: who a token says is asking, and how to give the token up."""

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
    """Who is asking, and until when the token is good."""
    asking = current_session()
    return {
        "account": asking.account,
        "issuer": asking.issuer,
        "expires_at": iso_time(asking.expires_at),
    }


@session.delete("/v1/session")
def end() -> schema.Revoked:
    """Log out: this token is refused from the next request on, by every process."""
    asking = current_session()
    if asking.jti is None:
        raise BadRequest(
            f"this token is {asking.issuer}'s, and only there can it be ended: log out with its "
            "client; the token itself is good until it expires",
            code="NOT_OUR_TOKEN",
        )
    needs = deps()
    Revocations(needs.engine).add(asking.jti, asking.expires_at, needs.clock())
    return {"revoked": True}
