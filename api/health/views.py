"""`GET /healthz`: the process lives. `GET /readyz`: it can answer, and what it says is current."""

from functools import cache

from flask import Blueprint
from sqlalchemy.exc import OperationalError

from api.auth.owner import public
from api.availability import followed_chains, health_problems
from api.deps import deps, snapshot
from api.errors import ProcessNotReady
from api.health import schema
from indexer.facts.health import assess
from indexer.facts.status import ChainStatus, chain_status_on
from warehouse_schema.migrate import current_revision, head_revision

health = Blueprint("health", __name__)
health.before_request(public)


@health.get("/healthz")
def alive() -> schema.Alive:
    """Answers as long as the process does; looks at nothing else."""
    return {"status": "alive"}


@health.get("/readyz")
def ready() -> schema.Ready:
    """Whether to send traffic here: database, tables, every followed chain, reconciliation."""
    try:
        reasons, chains = _examine()
    except OperationalError as error:
        raise ProcessNotReady(["the database cannot be reached"]) from error
    if reasons:
        raise ProcessNotReady(reasons, chains=chains)
    return {"status": "ready", "chains": chains}


def _examine() -> tuple[list[str], list[schema.ChainReadiness]]:
    """What speaks against being ready, and how each followed chain stands."""
    with snapshot() as connection:
        revision = current_revision(connection)
    if revision != _newest_revision():
        # The tables below may not be there, or not be the ones this build reads.
        return [f"the database is at revision {revision}, this build at {_newest_revision()}"], []
    network = deps().network
    with snapshot() as connection:
        statuses = followed_chains(network, chain_status_on(connection, network))
        reasons = health_problems(connection, network, statuses)
    return reasons, [_shape_chain(status) for status in statuses]


def _shape_chain(status: ChainStatus) -> schema.ChainReadiness:
    return {
        "chain": status.chain,
        "height": status.height,
        "lag_seconds": status.lag_seconds,
        "age_seconds": None if status.idle_seconds is None else int(status.idle_seconds),
        "reason": assess(deps().network.chain(status.chain), status).reason,
    }


@cache
def _newest_revision() -> str | None:
    """The newest revision that this build knows; read from its files once."""
    return head_revision()
