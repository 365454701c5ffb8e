"""Waiting for what other threads and processes do with leases."""

import time

from sqlalchemy import Engine

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
