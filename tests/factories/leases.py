"""Waiting for what other threads and processes do with leases and locks."""

import time

from sqlalchemy import Connection, Engine, text

from warehouse_schema.leases import LeaseState, LeaseTables, lease_states

TIMEOUT = 30.0


def wait_for_standby(engine: Engine, tables: LeaseTables, kind: int, name: str) -> LeaseState:
    """Until a process waits for a lease."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        with engine.connect() as conn:
            states = lease_states(conn, tables, kind, name=name)
        if states and states[0].standbys:
            return states[0]
        time.sleep(0.01)
    raise TimeoutError(f"nothing waits for {kind} {name}")


def wait_for_blocked(conn: Connection) -> int:
    """Until a session waits for a lock of this one; its process id."""
    # Not from pg_stat_activity: a transaction sees it as it was at its first look.
    query = text(
        "SELECT pid FROM pg_locks WHERE NOT granted"
        " AND pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    )
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if (pid := conn.scalar(query)) is not None:
            return int(pid)
        time.sleep(0.005)
    raise TimeoutError("no session waits for this one")
