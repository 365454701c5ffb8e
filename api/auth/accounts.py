"""Who may sign for an account, and what it can be paid, as the ledger says now.

What cannot be read is a `503`.
"""

from collections.abc import Callable
from typing import TypeVar

from api.concurrency import MAX_CONCURRENT, ConcurrencyLimit
from api.errors import Unavailable
from api.ports import Accounts
from indexer.chains.stellar.xdr.ledger_entries import SigningRules, Trustline
from warehouse_schema.identifiers import AssetId, StellarAddress

T = TypeVar("T")


class LedgerUnavailable(Unavailable):
    """The ledger cannot be read now, so nobody knows who may sign."""

    code = "LEDGER_UNAVAILABLE"


class LimitedAccounts:
    """Accounts that only some of a process's threads may wait for."""

    def __init__(self, accounts: Accounts, most: int = MAX_CONCURRENT) -> None:
        self._accounts = accounts
        self._few = ConcurrencyLimit(most)

    def signing_rules(self, account: StellarAddress) -> SigningRules | None:
        """Raises `LedgerUnavailable`, as both do."""
        return self._asked(lambda: self._accounts.signing_rules(account))

    def trustline(self, account: StellarAddress, asset: AssetId) -> Trustline | None:
        """As in `Accounts`."""
        return self._asked(lambda: self._accounts.trustline(account, asset))

    def _asked(self, ask: Callable[[], T]) -> T:
        with self._few.slot(
            busy=LedgerUnavailable("too many accounts are being read right now"),
            failed=LedgerUnavailable("the ledger cannot be read right now"),
        ):
            return ask()
