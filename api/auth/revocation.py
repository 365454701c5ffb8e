"""Revoked tokens of ours, stored until they have expired by every clock."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, bindparam, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from warehouse_schema.access import revoked_tokens
from warehouse_schema.identifiers import UnixSeconds

_RETENTION = timedelta(hours=1)
"""After expiry: far more than `LEEWAY_SECONDS` and the difference of clocks."""

# Compiled once: building the statement takes as long as the query.
_FIND = select(revoked_tokens.c.jti).where(revoked_tokens.c.jti == bindparam("jti"))


class Revocations:
    """The revoked tokens in Postgres, shared by all processes."""

    def __init__(self, engine: Engine) -> None:
        # Single statements: a transaction would cost two more round trips.
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")

    def contains(self, jti: str) -> bool:
        """Whether the token is revoked."""
        with self._engine.connect() as connection:
            return connection.scalar(_FIND, {"jti": jti}) is not None

    def add(self, jti: str, expires_at: UnixSeconds, now: UnixSeconds) -> None:
        """Revoke a token, idempotent, and delete old rows. `now`: by the clock of verification."""
        row = {"jti": jti, "expires_at": datetime.fromtimestamp(expires_at, UTC)}
        # The earlier of two clocks: one that is ahead deletes nothing that others still accept.
        oldest = func.least(func.now(), datetime.fromtimestamp(now, UTC)) - _RETENTION
        with self._engine.connect() as connection:
            connection.execute(insert(revoked_tokens).values(row).on_conflict_do_nothing())
            connection.execute(delete(revoked_tokens).where(revoked_tokens.c.expires_at < oldest))
