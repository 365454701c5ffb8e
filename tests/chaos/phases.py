"""Where in its work a follower is, as Postgres sees it: what a kill at this moment lands in.

A follower holds its chain's advisory lock on the session that writes (`indexer.drain.follower`),
and a transaction holds a row-exclusive lock on each table that it has written to. The order of the
phases below is the order of a range's transaction.
"""

import psycopg

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

_FOLLOWER_LOCKS = 7_040
"""As in `indexer.drain`."""
_QUERY = """
SELECT a.pid, a.state, a.query,
       ARRAY(SELECT DISTINCT l.relation::regclass::text FROM pg_locks AS l
             WHERE l.pid = a.pid AND l.mode = 'RowExclusiveLock' AND l.relation IS NOT NULL)
  FROM pg_stat_activity AS a
 WHERE a.pid = (SELECT pid FROM pg_locks
                 WHERE locktype = 'advisory' AND granted AND classid = %s
                   AND objid = (hashtext(%s)::bigint & 4294967295)::oid
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
"""


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

    def look(self, chain: str) -> tuple[str, int | None]:
        """The phase of a chain's follower and its session's process; STARTING and None without."""
        try:
            if self._connection is None:
                self._connection = psycopg.connect(
                    self._url, autocommit=True, application_name="chaos-watch"
                )
            row = self._connection.execute(_QUERY, (_FOLLOWER_LOCKS, chain)).fetchone()
        except psycopg.OperationalError:
            # Killed, or on its way back.
            self.close()
            return STARTING, None
        if row is None:
            return STARTING, None
        pid, state, query, written = row
        return _phase(state, query, set(written)), pid


def _phase(state: str, query: str, written: set[str]) -> str:
    if state == "idle":
        return ASKING
    if state == "active" and query.strip().upper().startswith("COMMIT"):
        return COMMITTING
    if "projections.stream_events" in written:
        return MESSAGES
    if "projections.book" in written:
        return BOOK
    if "projections.transfer_progress" in written:
        return MOVEMENTS
    if "facts.orphans" in written:
        return TAKING_BACK
    if written - {"facts.cursors"}:
        return FACTS
    return CURSOR if written else READING
