"""Times of the cursors, set instead of waited for."""

from datetime import timedelta

from sqlalchemy import Connection, func, update

from warehouse_schema.facts import cursors


def set_cursor_times(conn: Connection, from_now: timedelta, *columns: str) -> None:
    """Set columns to so long from now; an hour ahead is fresh however long a test takes."""
    conn.execute(update(cursors).values(dict.fromkeys(columns, func.now() + from_now)))
