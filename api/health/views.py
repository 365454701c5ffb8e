"""`GET /healthz`: liveness. `GET /readyz`: readiness, and whether the data is current.

`GET /readyz/process`: readiness without what all processes share.
"""

from typing import Any

from flask import Blueprint
from sqlalchemy.exc import OperationalError

from api.auth.owner import public
from api.deps import deps, snapshot
from api.errors import Unavailable
from api.health import schema
from api.health.readiness import process_problems
from api.operation import RETRY_AFTER, ResponseDoc, operation
from indexer.service_status.fold import chain_states, ingestion_problems, overdue_problems

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
    if reasons := process_problems():
        raise _not_ready(reasons, chains=[])
    try:
        with snapshot() as connection:
            states = chain_states(connection, network)
            problems = [*ingestion_problems(states), *overdue_problems(connection)]
    except OperationalError as error:
        raise _not_ready(["the database cannot be reached"]) from error
    chains: list[schema.ChainReadiness] = [
        {
            "chain": state.status.chain,
            "height": state.status.height,
            "lag_seconds": state.status.lag_seconds,
            "age_seconds": state.age_seconds,
            "reason": state.health.reason,
        }
        for state in states
    ]
    if problems:
        raise _not_ready([each.text for each in problems], chains=chains)
    return {"status": "ready", "chains": chains}


@health.get("/readyz/process")
@operation(
    "isProcessReady",
    "Health",
    {200: "Ready."},
    also=(ResponseDoc(503, "Not ready.", schema.NotReady, headers=(RETRY_AFTER,)),),
)
def process_ready() -> schema.ProcessReady:
    """Readiness of this process alone, for load balancers.

    Not while it shuts down, nor without the database. Chains that lag, which all processes share,
    do not count.
    """
    if reasons := process_problems():
        raise _not_ready(reasons)
    return {"status": "ready"}


def _not_ready(reasons: list[str], **members: Any) -> Unavailable:
    return Unavailable("; ".join(reasons), code="NOT_READY", reasons=reasons, **members)
