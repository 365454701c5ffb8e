"""One token a challenge: the challenges that were used, kept until they cannot come back.

What has expired is deleted by those that come after it, so no job has to be awake for it.
"""

from sqlalchemy import Connection, delete, func, literal, select
from sqlalchemy.dialects.postgresql import insert

from api.auth.sep10 import ChallengeRefused, SignInChallenge
from warehouse_schema.access import used_challenges

KEPT_HOURS = 1
"""After a challenge expired, for machines whose clocks differ from Postgres's."""
MOST_DELETED = 100
"""By one login: more than it adds, and few enough not to be felt."""


class ChallengeUsed(ChallengeRefused):
    """It was turned into a token before."""

    code = "CHALLENGE_USED"


def use(connection: Connection, challenge: SignInChallenge) -> None:
    """Note that a challenge is used, for good once the transaction commits.

    Of several at once the first one has it: the others wait for its end. Raises `ChallengeUsed`.
    """
    note = (
        insert(used_challenges)
        .values(
            tx_hash=challenge.hash,
            account=challenge.account,
            expires_at=func.to_timestamp(challenge.expires_at),
        )
        .on_conflict_do_nothing()
        .returning(literal(1))
    )
    if connection.execute(note).scalar() is None:
        raise ChallengeUsed("this challenge was used already; ask for a new one")
    _forget_expired(connection)


def _forget_expired(connection: Connection) -> None:
    """Delete some of those that expired long ago, passing over rows that another one deletes."""
    long_ago = func.now() - func.make_interval(0, 0, 0, 0, KEPT_HOURS)
    # Its own step of the plan: as a plain subquery it might run more than once.
    some = (
        select(used_challenges.c.tx_hash)
        .where(used_challenges.c.expires_at < long_ago)
        .limit(MOST_DELETED)
        .with_for_update(skip_locked=True)
        .cte("long_expired")
    )
    connection.execute(
        delete(used_challenges).where(used_challenges.c.tx_hash.in_(select(some.c.tx_hash)))
    )
