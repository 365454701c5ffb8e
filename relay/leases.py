"""Sessions of Postgres that hold a lease of the relay, and the lock of sponsoring."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy import Connection, Engine, select
from sqlalchemy.dialects.postgresql import insert as upsert

from indexer.facts.sessions import lease_session, standby_session
from indexer.metrics.collectors import waiting
from relay.nonces import AccountId
from warehouse_schema import locks
from warehouse_schema.leases import RELAY_LEASES, LeaseState, lease_states
from warehouse_schema.relay import leases


def account_session(engine: Engine, account: AccountId) -> AbstractContextManager[Connection]:
    """Session that alone signs for an account. Raises `FollowerConflict` when another does."""
    return lease_session(
        engine,
        locks.RELAY,
        str(account),
        f"another process signs for {account.address} on {account.chain}",
        tables=RELAY_LEASES,
    )


def account_standby(
    engine: Engine, account: AccountId, should_stop: Callable[[], bool]
) -> AbstractContextManager[Connection | None]:
    """As `account_session`, but waits as a standby; None when `should_stop` came first."""
    return standby_session(engine, locks.RELAY, str(account), should_stop, tables=RELAY_LEASES)


def account_processes(conn: Connection) -> list[LeaseState]:
    """The processes that sign for accounts, and their standbys."""
    return lease_states(conn, RELAY_LEASES, locks.RELAY)


def webhook_processes(conn: Connection) -> list[LeaseState]:
    """The process that posts to webhooks, and its standbys."""
    return lease_states(conn, RELAY_LEASES, locks.WEBHOOKS)


def lock_sponsoring(conn: Connection) -> None:
    """Serialise decisions about paying for onboardings, until commit.

    Locks a row, which the api's role cannot do; any role can take an advisory lock.
    """
    row = {"kind": locks.SPONSORING, "name": ""}
    conn.execute(upsert(leases).values(row).on_conflict_do_nothing())
    with waiting("lock"):
        conn.execute(select(leases.c.kind).filter_by(**row).with_for_update())
