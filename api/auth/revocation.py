"""Tokens of ours that were given up before they expired.

A row holds until its token has expired by everybody's clock; whoever revokes takes the old ones
away.
"""

from datetime import UTC, datetime, timedelta

from sqlalchemy import Engine, bindparam, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from warehouse_schema.access import revoked_tokens
from warehouse_schema.identifiers import UnixSeconds

_KEPT_AFTER_EXPIRY = timedelta(hours=1)
"""Far more than a token is good beyond its expiry for the sake of clocks that differ."""

# Built once: that took as long as asking.
_FIND = select(revoked_tokens.c.jti).where(revoked_tokens.c.jti == bindparam("jti"))


class Revocations:
    """The list of revoked tokens, in Postgres, the same for every process."""

    def __init__(self, engine: Engine) -> None:
        # One statement at a time: a transaction around it would cost two more round trips.
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")

    def holds(self, jti: str) -> bool:
        """Whether the token was revoked."""
        with self._engine.connect() as connection:
            return connection.scalar(_FIND, {"jti": jti}) is not None

    def add(self, jti: str, expires_at: UnixSeconds, now: UnixSeconds) -> None:
        """Revoke a token for good; `now` is what tokens are held against here. A second time
        changes nothing.
        """
        row = {"jti": jti, "expires_at": datetime.fromtimestamp(expires_at, UTC)}
        # A clock that is ahead, ours or Postgres's, forgets nothing that others still take.
        earliest = func.least(func.now(), datetime.fromtimestamp(now, UTC)) - _KEPT_AFTER_EXPIRY
        with self._engine.connect() as connection:
            connection.execute(insert(revoked_tokens).values(row).on_conflict_do_nothing())
            connection.execute(delete(revoked_tokens).where(revoked_tokens.c.expires_at < earliest))
