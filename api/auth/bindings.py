"""Which Stellar account a user of the identity provider acts for: bound at first use, never moved.

A row is confirmed whenever the provider says that the user still has that wallet. While it cannot
be asked, a row that was confirmed within a day is taken for what it would say; one that the
provider has taken back is not.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import Engine, Update, func, select, update
from sqlalchemy.dialects.postgresql import insert

from api.auth.provider import Wallet
from warehouse_schema.access import subjects
from warehouse_schema.identifiers import StellarAddress

logger = logging.getLogger(__name__)

STALE = timedelta(hours=24)


class Bindings:
    """The bindings of one issuer's users, in Postgres, the same for every process."""

    def __init__(self, engine: Engine, issuer: str) -> None:
        self._engine = engine
        self._issuer = issuer

    def settle(self, subject: str, wallets: Sequence[Wallet]) -> StellarAddress | None:
        """The account of a user who has these wallets; the first one is bound if none is yet.

        None: the user is bound to an account that is not among them, and is given no other.
        """
        first, addresses = wallets[0], [wallet.address for wallet in wallets]
        values = {"issuer": self._issuer, "subject": subject, "account": first.address}
        with self._engine.begin() as connection:
            bind = insert(subjects).values(**values).on_conflict_do_nothing()
            if connection.execute(bind).rowcount:
                logger.info("bound account=%s imported=%s", first.address, first.imported)
            # Asked of the table again: of two first uses at once, one has bound.
            confirm = (
                self._of(subject)
                .where(subjects.c.account.in_(addresses))
                .values(confirmed_at=func.now())
            )
            account: StellarAddress | None = connection.scalar(
                confirm.returning(subjects.c.account)
            )
            if account is None:
                connection.execute(self._of(subject).values(confirmed_at=None))
        return account

    def take_back(self, subject: str) -> None:
        """The provider does not know the user any more, or no wallet of it."""
        with self._engine.begin() as connection:
            connection.execute(self._of(subject).values(confirmed_at=None))

    def confirmed_lately(self, subject: str) -> StellarAddress | None:
        """The account that the provider confirmed within a day."""
        asked = select(subjects.c.account).where(
            subjects.c.issuer == self._issuer,
            subjects.c.subject == subject,
            subjects.c.confirmed_at > func.now() - STALE,
        )
        with self._engine.connect() as connection:
            account: StellarAddress | None = connection.scalar(asked)
            return account

    def _of(self, subject: str) -> Update:
        return update(subjects).where(
            subjects.c.issuer == self._issuer, subjects.c.subject == subject
        )
