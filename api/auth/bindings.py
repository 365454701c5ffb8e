"""Bindings of the identity provider's users to Stellar accounts: set at first use, never changed.

A row is confirmed whenever the provider reports that wallet. While the provider is unavailable, a
row that was confirmed within a day stands for its answer; one that it denied since does not.
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
    """Bindings of one issuer's users, in Postgres, shared by all processes."""

    def __init__(self, engine: Engine, issuer: str) -> None:
        self._engine = engine
        self._issuer = issuer

    def settle(self, subject: str, wallets: Sequence[Wallet]) -> StellarAddress | None:
        """The bound account of a user with these wallets; binds the first if there is none yet.

        None: the user is bound to another account, and is not moved.
        """
        first, addresses = wallets[0], [wallet.address for wallet in wallets]
        values = {"issuer": self._issuer, "subject": subject, "account": first.address}
        with self._engine.begin() as connection:
            bind = insert(subjects).values(**values).on_conflict_do_nothing()
            if connection.execute(bind).rowcount:
                logger.info("bound account=%s imported=%s", first.address, first.imported)
            # Read from the table: a concurrent first use may have bound another account.
            confirm = (
                self._row(subject)
                .where(subjects.c.account.in_(addresses))
                .values(confirmed_at=func.now())
            )
            account: StellarAddress | None = connection.scalar(
                confirm.returning(subjects.c.account)
            )
            if account is None:
                connection.execute(self._row(subject).values(confirmed_at=None))
        return account

    def revoke_confirmation(self, subject: str) -> None:
        """The provider knows no such user any more, or none of its wallets."""
        with self._engine.begin() as connection:
            connection.execute(self._row(subject).values(confirmed_at=None))

    def recently_confirmed(self, subject: str) -> StellarAddress | None:
        """The account that the provider confirmed within a day."""
        query = select(subjects.c.account).where(
            subjects.c.issuer == self._issuer,
            subjects.c.subject == subject,
            subjects.c.confirmed_at > func.now() - STALE,
        )
        with self._engine.connect() as connection:
            account: StellarAddress | None = connection.scalar(query)
            return account

    def _row(self, subject: str) -> Update:
        return update(subjects).where(
            subjects.c.issuer == self._issuer, subjects.c.subject == subject
        )
