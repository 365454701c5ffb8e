"""What other processes say by NOTIFY, for a session that listens. SQLAlchemy has no word for it."""

import psycopg
from psycopg import sql
from sqlalchemy import Connection


def listen(conn: Connection, channel: str) -> None:
    """Hear a channel from now on. The session is not to go back to a pool: it would hear on."""
    session = _session(conn)
    session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
    session.commit()


def heard(conn: Connection, seconds: float) -> set[str]:
    """Payloads of the first notice within so many seconds, and of whatever came with it."""
    session = _session(conn)
    first = [each.payload for each in session.notifies(timeout=seconds, stop_after=1)]
    return {*first, *(each.payload for each in session.notifies(timeout=0))}


def _session(conn: Connection) -> psycopg.Connection[tuple[object, ...]]:
    session = conn.connection.driver_connection
    if not isinstance(session, psycopg.Connection):
        raise TypeError(f"{type(session).__name__} is no session of psycopg")
    return session
