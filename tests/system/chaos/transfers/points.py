"""Commit points: each table that a process writes, and what Postgres says of its transaction.

Whose a session is tells its connection's port. At the door of a table a process is met in the
middle of a transaction; from there it is killed before it can commit, somewhere on the way to
COMMIT, or as soon as Postgres has committed, before it can do the next thing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

POINTS: Mapping[str, tuple[str, ...]] = {
    "api": (
        "intake.quotes",
        "intake.transfers",
        "intake.actions",
        "intake.submissions",
        "intake.cancellations",
        "intake.webhooks",
        "intake.watched_addresses",
        "intake.consents",
    ),
    "follower eip155": (
        "facts.cursors",
        "facts.evm_logs",
        "facts.orphans",
        "facts.lost_sources",
        "projections.movements",
        "projections.transfer_states",
        "projections.transfer_events",
    ),
    "follower stellar": (
        "facts.cursors",
        "facts.stellar_events",
        "projections.movements",
        "projections.transfer_states",
        "projections.transfer_events",
    ),
    "attester": (
        "facts.message_polls",
        "facts.message_status",
        "facts.cctp_attestations",
        "projections.transfer_states",
    ),
    "keeper": ("projections.transfer_states", "projections.transfer_events"),
    "relay": (
        "relay.health",
        "relay.slots",
        "relay.attempts",
        "relay.obstacles",
    ),
    "sender": ("relay.webhook_states", "relay.webhook_deliveries", "relay.webhook_senders"),
}
"""Process → tables that it writes to. Missing are `relay.refund_orders`, which an operator's
command writes, and `relay.halts`: no account of ours stops here."""

_AT = """
SELECT a.pid, a.client_port, a.xact_start::text, l.relation::regclass::text
  FROM pg_stat_activity AS a JOIN pg_locks AS l USING (pid)
 WHERE a.datname = current_database() AND NOT l.granted
   AND l.relation = ANY (%s::text[]::regclass[])
"""
_NOW = """
SELECT backend_xid::text, xact_start::text, state FROM pg_stat_activity WHERE pid = %s
"""


@dataclass(frozen=True)
class Met:
    """A session in the middle of a transaction, at a table's door."""

    pid: int
    """Of the session's process, Postgres's own."""
    port: int
    """Of its connection's other end."""
    began: str
    table: str


class Doors:
    """Tables that nobody may write to. They open by themselves when Postgres is killed."""

    def __init__(self, url: str, tables: Sequence[str]) -> None:
        self._connection: psycopg.Connection | None = None
        names = sql.SQL(", ").join(sql.Identifier(*each.split(".")) for each in tables)
        try:
            self._connection = psycopg.connect(url, application_name="chaos-doors")
            self._connection.execute("SET lock_timeout = '2s'")
            self._connection.execute(sql.SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(names))
        except psycopg.OperationalError:
            # Postgres is on its way back, or somebody waits at a table's door for longer.
            self.close()

    def close(self) -> None:
        """Let everybody pass."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class Sessions:
    """Looks at sessions over a connection of its own, made anew when it was lost."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection | None = None

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def at(self, tables: Sequence[str]) -> list[Met]:
        """Sessions that wait at one of these tables' doors."""
        return [Met(*row) for row in self._rows(_AT, [*tables])]

    def xid(self, met: Met) -> str | None:
        """The number of its transaction, once it has one and as long as it lasts."""
        row = self._row(_NOW, met.pid)
        return row[0] if row is not None and row[1] == met.began else None

    def is_over(self, met: Met) -> bool:
        """Whether its transaction has ended; also when Postgres is away."""
        row = self._row(_NOW, met.pid)
        return row is None or row[1] != met.began

    def status(self, xid: str) -> str | None:
        """`committed`, `aborted`, `in progress`; None when it cannot be had."""
        try:
            row = self._row("SELECT pg_xact_status(%s::xid8)", xid)
        except psycopg.errors.InvalidParameterValue:
            # Postgres died, and knows of no such number: nothing of it was ever on disk.
            return "aborted"
        return None if row is None else row[0]

    def next_xid(self) -> str | None:
        """All that write from now on have this number or a later one; None: it cannot be had."""
        row = self._row("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
        return None if row is None else row[0]

    def one_of(self, first: str | None, end: str | None) -> str | None:
        """A transaction from the first to before the end, if the same became of all of them.

        Of one that was over between two looks nobody sees the number.
        """
        if first is None or end is None:
            return None
        xids = [str(xid) for xid in range(int(first), int(end))]
        became = {self.status(xid) for xid in xids}
        return xids[0] if len(became) == 1 and became <= {"committed", "aborted"} else None

    def _row(self, query: Any, *parameters: Any) -> tuple[Any, ...] | None:
        rows = self._rows(query, *parameters)
        return rows[0] if rows else None

    def _rows(self, query: Any, *parameters: Any) -> list[tuple[Any, ...]]:
        try:
            if self._connection is None:
                self._connection = psycopg.connect(
                    self._url, autocommit=True, application_name="chaos-sessions"
                )
            return self._connection.execute(query, parameters).fetchall()
        except psycopg.OperationalError:
            self.close()
            return []
