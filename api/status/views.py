"""`GET /v1/status`."""

from flask import Blueprint
from sqlalchemy import select

from api.auth.owner import public
from api.deps import snapshot
from api.responses import cacheable
from api.status import schema
from api.status.shapes import NOTHING, shape_status
from warehouse_schema.projections import reconciliation

status = Blueprint("status", __name__)
status.before_request(public)
status.after_request(cacheable)


@status.get("/v1/status")
def show_status() -> schema.Status:
    """Whether the money adds up, as Dagster's `reconcile` saw it last."""
    with snapshot() as conn:
        row = conn.execute(select(reconciliation)).one_or_none()
    return NOTHING if row is None else shape_status(row)
