"""The lease of a chain's one backfill.

Beside the package of the backfill, which loads polars: others take the lease without it.
"""

from contextlib import AbstractContextManager

from sqlalchemy import Connection, Engine

from indexer.facts.sessions import COMMAND_SECONDS, lease_session
from warehouse_schema import locks
from warehouse_schema.identifiers import ChainId


def backfill_lease(
    engine: Engine, chain: ChainId, *, timeout: float = COMMAND_SECONDS
) -> AbstractContextManager[Connection]:
    """A connection that alone may backfill the chain.

    Raises `FollowerConflict` when another session still does after `timeout` seconds.
    """
    return lease_session(engine, locks.BACKFILL, chain, busy_message(chain), timeout=timeout)


def busy_message(chain: ChainId) -> str:
    """Message of the `FollowerConflict` for a chain that another session backfills."""
    return (
        f"another backfill of {chain} is running, such as the gap repair that Dagster starts by "
        "itself: try again once it has ended"
    )
