"""`GET /v1/status`."""

from flask import Blueprint, g

from api.auth.owner import public
from api.deps import deps
from api.operation import operation
from api.reads import POSITION, POSITION_DOC, needed_position, read_recent
from api.responses import cacheable
from api.status import schema
from api.status.recent import Answer, is_as_of, recent_status
from api.status.responses import status_response
from indexer.service_status import service_status

status = Blueprint("status", __name__)
status.before_request(public)
status.after_request(cacheable)


@status.get("/v1/status")
@operation(
    "showStatus",
    "Routes",
    {200: "The status."},
    cached=True,
    headers=(POSITION_DOC,),
    parameters=(POSITION,),
    refusals=("DATABASE_UNAVAILABLE",),
)
def show_status() -> schema.Status:
    """Show whether transfers are moving, and the last reconciliation.

    The reconciliation compares what left each chain with what arrived on the others and what is on
    the way, and counts pending transfers. It runs every few minutes; all else is seconds old.
    """
    network = deps().network

    def read() -> Answer:
        found = read_recent(lambda conn: service_status(conn, network))
        return Answer(status_response(found), g.get("position"))

    needed = needed_position()
    answer = recent_status().get(read, lambda answer: is_as_of(answer, needed))
    g.position = answer.position
    return answer.body
