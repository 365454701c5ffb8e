"""`GET /healthz`: liveness. `GET /readyz`: readiness, and whether the data is current."""

from functools import cache
from typing import Any

from flask import Blueprint
from sqlalchemy.exc import OperationalError

from api.auth.owner import public
from api.availability import followed_chains, health_problems
from api.deps import deps, snapshot
from api.errors import Unavailable
from api.health import schema
from api.operation import RETRY_AFTER, ResponseDoc, operation
from indexer.facts.health import assess
from indexer.facts.status import chain_status_on
from warehouse_schema.migrate import current_revision, head_revision

health = Blueprint("health", __name__)
health.before_request(public)


@health.get("/healthz")
@operation("isAlive", "Health", {200: "Alive."})
def alive() -> schema.Alive:
    """Liveness: whether the process answers."""
    return {"status": "alive"}


@health.get("/readyz")
@operation(
    "isReady",
    "Health",
    {200: "Ready."},
    also=(ResponseDoc(503, "Not ready.", schema.NotReady, headers=(RETRY_AFTER,)),),
)
def ready() -> schema.Ready:
    """Readiness: whether to send traffic here.

    Checks the database, its revision, the ingestion of each chain, and that the last
    reconciliation is less than an hour old.
    """
    network = deps().network
    try:
        with snapshot() as connection:
            revision = current_revision(connection)
        if revision is None or revision < _build_revision():
            # The tables below may not exist, or not as this build reads them. Revisions are
            # numbered, and a later one leaves what this build reads: it serves in an upgrade.
            reason = f"the database is at revision {revision}, this build at {_build_revision()}"
            raise _not_ready([reason], chains=[])
        with snapshot() as connection:
            statuses = followed_chains(network, chain_status_on(connection, network))
            reasons = health_problems(connection, network, statuses)
    except OperationalError as error:
        raise _not_ready(["the database cannot be reached"]) from error
    chains: list[schema.ChainReadiness] = [
        {
            "chain": status.chain,
            "height": status.height,
            "lag_seconds": status.lag_seconds,
            "age_seconds": None if status.idle_seconds is None else int(status.idle_seconds),
            "reason": assess(network.chain(status.chain), status).reason,
        }
        for status in statuses
    ]
    if reasons:
        raise _not_ready(reasons, chains=chains)
    return {"status": "ready", "chains": chains}


def _not_ready(reasons: list[str], **members: Any) -> Unavailable:
    return Unavailable("; ".join(reasons), code="NOT_READY", reasons=reasons, **members)


@cache
def _build_revision() -> str:
    """The newest migration of this build, read from its files once."""
    return head_revision() or ""
