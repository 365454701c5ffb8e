"""LISTEN and NOTIFY through psycopg, because SQLAlchemy has no API for them."""

import psycopg
from psycopg import sql
from sqlalchemy import Connection


def listen(conn: Connection, channel: str) -> None:
    """Subscribe the session to a channel. Do not return it to a pool: it stays subscribed."""
    session = _session(conn)
    session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
    session.commit()


def wait_for_notifications(conn: Connection, seconds: float) -> set[str]:
    """Payloads of the first notification within `seconds`, and of all that arrived with it."""
    session = _session(conn)
    first = [each.payload for each in session.notifies(timeout=seconds, stop_after=1)]
    return {*first, *(each.payload for each in session.notifies(timeout=0))}


def _session(conn: Connection) -> psycopg.Connection[tuple[object, ...]]:
    session = conn.connection.driver_connection
    if not isinstance(session, psycopg.Connection):
        raise TypeError(f"{type(session).__name__} is not a psycopg session")
    return session
