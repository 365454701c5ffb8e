"""`GET /v1/status`."""

from collections import Counter

from flask import Blueprint
from sqlalchemy import select

from api.auth.owner import public
from api.availability import followed_chains, health_problems
from api.deps import deps, snapshot
from api.operation import operation
from api.responses import cacheable, iso_microseconds
from api.status import schema
from indexer.facts.status import chain_status_on
from warehouse_schema.projections import reconciliation

status = Blueprint("status", __name__)
status.before_request(public)
status.after_request(cacheable)


@status.get("/v1/status")
@operation(
    "showStatus",
    "Routes",
    {200: "The last reconciliation."},
    cached=True,
    refusals=("DATABASE_UNAVAILABLE",),
)
def show_status() -> schema.Status:
    """Show the last reconciliation.

    It compares what left each chain with what arrived on the others and what is on the way, and
    counts pending transfers. It runs every few minutes.
    """
    network = deps().network
    with snapshot() as conn:
        row = conn.execute(select(reconciliation)).one_or_none()
        statuses = followed_chains(network, chain_status_on(conn, network))
        reasons = health_problems(conn, network, statuses)
    if row is None:
        return {
            "at": None,
            "adds_up": None,
            "reasons": reasons,
            "flows": [],
            "under_way": {},
            "findings": {},
        }
    return {
        "at": iso_microseconds(row.at),
        "adds_up": not row.findings,
        "reasons": reasons,
        "flows": row.flows,
        "under_way": row.stages,
        # Only counts: the sentences name transfers, which are their owners' alone.
        "findings": dict(Counter(finding["check"] for finding in row.findings)),
    }
