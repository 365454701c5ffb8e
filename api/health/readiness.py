"""Whether a process can serve, which load balancers ask it, and anyone as often as they like.

Requests for it are not limited: probes may come from an address that clients share, such as that of
a node of Kubernetes or of a load balancer, and a machine must not leave because of its clients.
"""

from functools import cache

from flask import Flask, current_app
from sqlalchemy.exc import OperationalError

from api.deps import deps, snapshot
from api.recent import Recent
from warehouse_schema.migrate import current_revision, head_revision

READINESS_SECONDS = 0.5
"""How long a process serves an answer. Load balancers ask each second."""

_KEY = "isthmus_readiness"


def register_readiness(app: Flask, seconds: float) -> None:
    """Have an app serve an answer for so long."""
    app.extensions[_KEY] = Recent[list[str]](seconds)


def process_problems() -> list[str]:
    """Why this process cannot serve; empty when it can."""
    if deps().shutdown.has_begun:
        return ["the process is shutting down"]
    recent: Recent[list[str]] = current_app.extensions[_KEY]
    return recent.get(_database_problems)


def _database_problems() -> list[str]:
    try:
        with snapshot() as connection:
            revision = current_revision(connection)
    except OperationalError:
        return ["the database cannot be reached"]
    # The tables may not exist, or not as this build reads them. Revisions are numbered, and a later
    # one leaves what this build reads: it serves in an upgrade.
    if revision is None or revision < _build_revision():
        return [f"the database is at revision {revision}, this build at {_build_revision()}"]
    return []


@cache
def _build_revision() -> str:
    """The newest migration of this build, read from its files once."""
    return head_revision() or ""
