"""Sessions of Postgres that hold a lease of the relay, and the lock of sponsoring."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from sqlalchemy import Connection, Engine, select
from sqlalchemy.dialects.postgresql import insert as upsert

from indexer.facts.sessions import wait_for_lease
from indexer.metrics.collectors import waiting
from relay.nonces import AccountId
from warehouse_schema import locks
from warehouse_schema.relay import leases

_RELEASE_SECONDS = 2.0
"""A session that ended holds its lease until Postgres has noticed."""


def account_session(engine: Engine, account: AccountId) -> AbstractContextManager[Connection]:
    """Session that alone signs for an account. Raises `FollowerConflict` when another does."""
    return lease_session(
        engine,
        locks.RELAY,
        f"{account.chain} {account.address}",
        f"another process signs for {account.address} on {account.chain}",
        wait_seconds=_RELEASE_SECONDS,
    )


@contextmanager
def lease_session(
    engine: Engine, kind: int, name: str, conflict: str, *, wait_seconds: float = 0.0
) -> Iterator[Connection]:
    """Session that holds a lease. Raises `FollowerConflict(conflict)` when another holds it."""
    with engine.connect() as conn:
        wait_for_lease(conn, leases, kind, name, conflict, wait_seconds)
        try:
            yield conn
        finally:
            # Ends the session in whatever state it is; the lease and LISTEN end with it.
            conn.invalidate()


def lock_sponsoring(conn: Connection) -> None:
    """Serialise decisions about paying for onboardings, until commit.

    Locks a row, which the api's role cannot do; any role can take an advisory lock.
    """
    row = {"kind": locks.SPONSORING, "name": ""}
    conn.execute(upsert(leases).values(row).on_conflict_do_nothing())
    with waiting("lock"):
        conn.execute(select(leases.c.kind).filter_by(**row).with_for_update())
