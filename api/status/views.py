"""`GET /v1/status`."""

from flask import Blueprint
from sqlalchemy import select

from api.auth.owner import public
from api.availability import followed_chains, health_problems
from api.deps import deps, snapshot
from api.responses import cacheable
from api.status import schema
from api.status.responses import shape_status
from indexer.facts.status import chain_status_on
from warehouse_schema.projections import reconciliation

status = Blueprint("status", __name__)
status.before_request(public)
status.after_request(cacheable)


@status.get("/v1/status")
def show_status() -> schema.Status:
    """Whether the money adds up, as `reconcile` saw it last, and what is not well."""
    with snapshot() as conn:
        row = conn.execute(select(reconciliation)).one_or_none()
        network = deps().network
        statuses = followed_chains(network, chain_status_on(conn, network))
        reasons = health_problems(conn, network, statuses)
    return shape_status(row, reasons)
