"""Leases: rights that a session holds across transactions, and loses when it ends.

A lease is a row that names the session, and an advisory lock that the session holds while it
lives. The lock's second number is random for each lease and counts only if the session that the row
names holds it. A role that can take advisory locks but not write the row can neither get a lease
nor block one.
"""

import secrets

from sqlalchemy import Connection, Table, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

_HELD = text("""
    SELECT EXISTS (
        SELECT FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid)
         WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted
           AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
           AND l.classid = CAST(:kind AS bigint)::oid AND l.objid = CAST(:key AS bigint)::oid
           AND l.pid = :pid AND a.usename = :login
    )
""")
"""Every role sees all locks, and process and user of all sessions."""


def take_lease(conn: Connection, leases: Table, kind: int, name: str) -> int | None:
    """The key of a lease that the session has from here on; None when another session has it.

    Runs in the caller's transaction and holds the lease's row until that ends. `kind` is a number
    of `warehouse_schema.locks`.
    """
    which = {"kind": kind, "name": name}
    conn.execute(insert(leases).values(which).on_conflict_do_nothing())
    columns = leases.c
    mine = (columns.kind == kind, columns.name == name)
    query = select(columns.key, columns.pid, columns.login).where(*mine).with_for_update()
    row = conn.execute(query).one()
    if conn.scalar(_HELD, {"kind": kind, **row._asdict()}):
        return None
    key = secrets.randbits(31)
    conn.execute(select(func.pg_advisory_lock(kind, key)))
    session = {"key": key, "pid": func.pg_backend_pid(), "login": text("session_user")}
    conn.execute(update(leases).where(*mine).values(session))
    return key


def end_lease(conn: Connection, kind: int, key: int) -> None:
    """Let go of a lease; it ends with its session, too."""
    conn.execute(select(func.pg_advisory_unlock(kind, key)))
