"""`GET /v1/routes`."""

from flask import Blueprint

from api.auth.owner import public
from api.deps import deps
from api.operation import operation
from api.reads import POSITION, POSITION_DOC, read_recent
from api.responses import cacheable
from api.routes import schema
from api.routes.responses import route_response
from indexer.config.routes import routes as all_routes
from indexer.facts.health import assess
from indexer.facts.status import chain_status_on
from indexer.policy.relay_accounts import account_statuses
from indexer.service_status.availability import relayed_chains

routes = Blueprint("routes", __name__)
routes.before_request(public)
routes.after_request(cacheable)


@routes.get("/v1/routes")
@operation(
    "listRoutes",
    "Routes",
    {200: "All routes."},
    cached=True,
    headers=(POSITION_DOC,),
    parameters=(POSITION,),
    refusals=("DATABASE_UNAVAILABLE",),
)
def list_routes() -> schema.Routes:
    """List the routes of transfers.

    `available` marks the chains that are healthy now.
    """
    network = deps().network
    statuses, senders = read_recent(
        lambda conn: (chain_status_on(conn, network), relayed_chains(account_statuses(conn)))
    )
    healthy = {
        status.chain for status in statuses if assess(network.chain(status.chain), status).is_well
    }
    return {"routes": [route_response(route, healthy, senders) for route in all_routes(network)]}
