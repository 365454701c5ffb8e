"""Reads from a streaming replica that has replayed what the client has seen.

A position is a timeline and a byte of the write-ahead log. The primary's position after a commit
lies behind the commit's record, and a snapshot that begins once a replica has replayed a position
shows every commit before it. So the order is: ask for the replica's position, begin the snapshot.
"""

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, TypeVar

from sqlalchemy import Connection, Engine, Row, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

from api.errors import BadRequest

logger = logging.getLogger(__name__)

T = TypeVar("T")

POSITION_HEADER = "X-Position"
MAX_AGE_SECONDS = 10.0
"""Of the newest commit that a replica has replayed: followers commit every few seconds."""
_RETRY_SECONDS = 5.0
"""After a replica failed."""
_POSITION = re.compile(r"([1-9][0-9]{0,9}):([0-9A-F]{1,8})/([0-9A-F]{1,8})")

ReadOutcome: TypeAlias = Literal["replica", "behind", "stale", "unavailable", "no_position"]
"""`replica`: it answered; otherwise why the primary did."""


@dataclass(frozen=True, slots=True, order=True)
class WalPosition:
    """A byte of the write-ahead log. A failover begins another timeline."""

    timeline: int
    lsn: int

    def __str__(self) -> str:
        return f"{self.timeline}:{self.lsn >> 32:X}/{self.lsn & 0xFFFFFFFF:X}"

    @classmethod
    def parse(cls, header: str) -> Self:
        """Raises `BadRequest` that names the header."""
        found = _POSITION.fullmatch(header)
        if found is None:
            raise BadRequest(
                f"{POSITION_HEADER} must be one of an earlier answer, such as 1:0/16B3748",
                code="BAD_POSITION",
            )
        return cls(int(found[1]), int(found[2], 16) << 32 | int(found[3], 16))


_PRIMARY = text("""
    SELECT left(pg_walfile_name(lsn), 8) AS timeline, lsn - '0/0'::pg_lsn AS lsn
      FROM pg_current_wal_insert_lsn() AS lsn
""")
"""The insert position: also a commit that is not flushed yet lies before it."""


def primary_position(conn: Connection) -> WalPosition:
    """A position that no commit that this transaction sees, or saw end, lies behind.

    Raises `OperationalError` on a server in recovery.
    """
    row = conn.execute(_PRIMARY).one()
    return WalPosition(int(row.timeline, 16), int(row.lsn))


class NotOnReplica(Exception):
    """The primary has to answer, and why."""

    def __init__(self, outcome: ReadOutcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


_IDENTITY = text("""
    SELECT (SELECT system_identifier FROM pg_control_system()) AS cluster,
           (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database
""")
# The timeline is that of the last checkpoint: after a failover it is late, never early. `received`
# is read after `replayed`, which grows meanwhile. The timeout ends with the transaction.
_STATE = text("""
    SELECT (SELECT system_identifier FROM pg_control_system()) AS cluster,
           (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database,
           pg_is_in_recovery() AS is_standby,
           pg_postmaster_start_time() AS server,
           (SELECT timeline_id FROM pg_control_checkpoint()) AS timeline,
           pg_last_wal_replay_lsn() - '0/0'::pg_lsn AS replayed,
           pg_last_wal_receive_lsn() - '0/0'::pg_lsn AS received,
           extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) AS age,
           set_config('statement_timeout', '1s', true)
""")


class Replica:
    """A replica of the primary's database. Threads share it."""

    def __init__(
        self,
        engine: Engine,
        primary: Engine,
        *,
        max_age: float = MAX_AGE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._primary = primary
        self._max_age = max_age
        self._monotonic = monotonic
        self._retry_at = 0.0
        self._identity: tuple[int, int] | None = None

    def read(self, needed: WalPosition | None, read: Callable[[Connection, WalPosition], T]) -> T:
        """What `read` returns in a snapshot of the replica, given a position that covers it.

        Raises `NotOnReplica` if the replica has not replayed `needed`, is stale, or fails.
        """
        if self._monotonic() < self._retry_at:
            raise NotOnReplica("unavailable")
        identity = self._primary_identity()
        try:
            with self._engine.connect() as conn:
                autocommit = conn.execution_options(isolation_level="AUTOCOMMIT")
                before = autocommit.execute(_STATE).one()
                autocommit.rollback()
                self._require_usable(before, identity)
                replayed = WalPosition(before.timeline, int(before.replayed))
                if needed is not None and not (
                    replayed.timeline == needed.timeline and replayed >= needed
                ):
                    raise NotOnReplica("behind")
                snapshot = conn.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
                with snapshot.begin():
                    # The snapshot begins here.
                    state = snapshot.execute(_STATE).one()
                    self._require_usable(state, identity)
                    if state.server != before.server:
                        # A pooler with several servers: the first answer was another's.
                        raise NotOnReplica("unavailable")
                    # Of a record that is being replayed the snapshot may show the commit already:
                    # all of them lie before what was received.
                    covering = WalPosition(state.timeline, int(state.received))
                    return read(snapshot, covering)
        except (OperationalError, NoFreeConnection) as error:
            self._retry_at = self._monotonic() + _RETRY_SECONDS
            # Not the error as a whole: it would quote the statement's parameters.
            logger.warning(
                "the replica does not answer, reads go to the primary: %s",
                " ".join(str(getattr(error, "orig", None) or error.args[0]).split()),
            )
            raise NotOnReplica("unavailable") from error

    def _primary_identity(self) -> tuple[int, int]:
        """Cluster and database of the primary, which no failover changes."""
        if self._identity is None:
            with self._primary.connect() as conn:
                row = conn.execute(_IDENTITY).one()
            self._identity = (row.cluster, row.database)
        return self._identity

    def _require_usable(self, state: Row[Any], identity: tuple[int, int]) -> None:
        """Raises `NotOnReplica`."""
        if not state.is_standby or (state.cluster, state.database) != identity:
            raise NotOnReplica("unavailable")
        # Behind what it replays only while it reads archived files, and catches up.
        is_streaming = state.received is not None and state.received >= state.replayed
        if not is_streaming or state.age is None or state.age > self._max_age:
            raise NotOnReplica("stale")
