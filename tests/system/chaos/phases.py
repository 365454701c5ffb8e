"""Where in its work a follower is, as Postgres sees it: what a kill at this moment lands in.

The row of its chain's lease names the session that writes (`warehouse_schema.leases`), and a
transaction holds a row-exclusive lock on each table that it has written to. The order of the
phases below is the order of a range's transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from warehouse_schema import locks

STARTING = "starting"
"""No session that follows: imports, or the connection is being made."""
ASKING = "asking the node"
"""Between two transactions."""
READING = "reading"
CURSOR = "cursor moved"
FACTS = "facts written"
TAKING_BACK = "taking back"
MOVEMENTS = "movements folded"
BOOK = "book folded"
MESSAGES = "messages written"
COMMITTING = "committing"

PHASES = (
    STARTING,
    ASKING,
    READING,
    CURSOR,
    FACTS,
    TAKING_BACK,
    MOVEMENTS,
    BOOK,
    MESSAGES,
    COMMITTING,
)
IN_TRANSACTION = (CURSOR, FACTS, TAKING_BACK, MOVEMENTS, BOOK, MESSAGES, COMMITTING)

_QUERY = """
SELECT a.pid, a.state, a.query,
       ARRAY(SELECT DISTINCT l.relation::regclass::text FROM pg_locks AS l
             WHERE l.pid = a.pid AND l.mode = 'RowExclusiveLock' AND l.granted
               AND l.relation IS NOT NULL),
       ARRAY(SELECT l.relation::regclass::text FROM pg_locks AS l
             WHERE l.pid = a.pid AND NOT l.granted AND l.relation IS NOT NULL)
  FROM pg_stat_activity AS a
 WHERE (a.pid, a.backend_start) =
       (SELECT session_pid, session_started_at FROM locks.leases WHERE kind = %s AND name = %s)
"""


@dataclass(frozen=True)
class Seen:
    """A follower at one moment."""

    phase: str
    session: int | None
    """Process of its session; None without one."""
    awaited: frozenset[str]
    """Tables that it waits to write to."""


class Gate:
    """A table that nobody may write to."""

    def __init__(self, url: str, table: str) -> None:
        self.table = table
        self._connection: psycopg.Connection | None = None
        try:
            self._connection = psycopg.connect(url, application_name="chaos-gate")
            self._connection.execute("SET lock_timeout = '2s'")
            name = sql.Identifier(*table.split("."))
            self._connection.execute(sql.SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(name))
        except psycopg.OperationalError:
            # Postgres is on its way back, or somebody waits at the table's door for longer.
            self.open()

    def open(self) -> None:
        """Let everybody pass."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class Watch:
    """Looks at followers' sessions over a connection of its own, made anew when it was lost."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection | None = None

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def block(self, chain: str) -> str | None:
        """Hash of the last block that is committed."""
        row = self._row("SELECT block_hash FROM facts.cursors WHERE chain = %s", (chain,))
        return None if row is None else str(row[0])

    def look(self, chain: str) -> Seen:
        """The phase of a chain's follower, its session's process, and what that waits for."""
        row = self._row(_QUERY, (locks.FOLLOWER, chain))
        if row is None:
            return Seen(STARTING, None, frozenset())
        pid, state, query, written, awaited = row
        return Seen(_phase(state, query, set(written)), pid, frozenset(awaited))

    def _row(self, query: LiteralString, parameters: Sequence[object]) -> tuple[Any, ...] | None:
        """One row; None also while Postgres is away."""
        try:
            if self._connection is None:
                self._connection = psycopg.connect(
                    self._url, autocommit=True, application_name="chaos-watch"
                )
            return self._connection.execute(query, parameters).fetchone()
        except psycopg.OperationalError:
            self.close()
            return None

    @contextmanager
    def gate(self, table: str) -> Iterator[Gate]:
        """Let nobody write to a table meanwhile: who comes to it stops there, and can be killed.

        The gate opens by itself when Postgres is killed.
        """
        gate = Gate(self._url, table)
        try:
            yield gate
        finally:
            gate.open()


def _phase(state: str, query: str, written: set[str]) -> str:
    if state == "idle":
        return ASKING
    if state == "active" and query.strip().upper().startswith("COMMIT"):
        return COMMITTING
    if "projections.stream_events" in written:
        return MESSAGES
    if "projections.book" in written:
        return BOOK
    if "projections.movements" in written:
        return MOVEMENTS
    if "facts.orphans" in written:
        return TAKING_BACK
    if written - {"facts.cursors"}:
        return FACTS
    return CURSOR if written else READING
