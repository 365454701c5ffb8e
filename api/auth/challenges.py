"""Used SEP-10 challenges: each gives one token.

Every login deletes some expired rows, so no job is needed for it.
"""

from sqlalchemy import Connection, delete, func, literal, select
from sqlalchemy.dialects.postgresql import insert

from api.auth.sep10 import ChallengeRefused, SignInChallenge
from warehouse_schema.access import used_challenges

RETENTION_HOURS = 1
"""After a challenge expired, for clocks that differ from Postgres's."""
MAX_DELETED = 100
"""Per login: more than it adds, and few enough to be fast."""


def use(connection: Connection, challenge: SignInChallenge) -> None:
    """Mark a challenge as used. Raises `ChallengeRefused` if it was used before.

    Of concurrent requests one succeeds; the others wait until its transaction ends.
    """
    used = (
        insert(used_challenges)
        .values(
            tx_hash=challenge.hash,
            account=challenge.account,
            expires_at=func.to_timestamp(challenge.expires_at),
        )
        .on_conflict_do_nothing()
        .returning(literal(1))
    )
    if connection.execute(used).scalar() is None:
        raise ChallengeRefused(
            "this challenge was used already; ask for a new one", code="CHALLENGE_USED"
        )
    # A CTE: Postgres might evaluate a plain subquery more than once. Skips rows that another
    # transaction deletes.
    expired = (
        select(used_challenges.c.tx_hash)
        .where(
            used_challenges.c.expires_at
            < func.now() - func.make_interval(0, 0, 0, 0, RETENTION_HOURS)
        )
        .limit(MAX_DELETED)
        .with_for_update(skip_locked=True)
        .cte("long_expired")
    )
    connection.execute(
        delete(used_challenges).where(used_challenges.c.tx_hash.in_(select(expired.c.tx_hash)))
    )
