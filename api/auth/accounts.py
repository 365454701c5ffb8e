"""`Accounts` with a concurrency limit; failures become `LedgerUnavailable`."""

from contextlib import AbstractContextManager

from api.concurrency import MAX_CONCURRENT, ConcurrencyLimits
from api.errors import Unavailable
from api.ports import Accounts
from indexer.chains.stellar.xdr.ledger_entries import SigningRules, Trustline
from warehouse_schema.identifiers import AssetId, StellarAddress


class LedgerUnavailable(Unavailable):
    """The ledger cannot be read now, so signers and trustlines are unknown."""

    code = "LEDGER_UNAVAILABLE"


class LimitedAccounts:
    """Limits the threads that wait for the ledger. All methods raise `LedgerUnavailable`."""

    def __init__(self, accounts: Accounts, max_waiting: int = MAX_CONCURRENT) -> None:
        self._accounts = accounts
        self._limits = ConcurrencyLimits(max_waiting)

    def signing_rules(self, account: StellarAddress) -> SigningRules | None:
        """As in `Accounts`."""
        with self._slot():
            return self._accounts.signing_rules(account)

    def trustline(self, account: StellarAddress, asset: AssetId) -> Trustline | None:
        """As in `Accounts`."""
        with self._slot():
            return self._accounts.trustline(account, asset)

    def _slot(self) -> AbstractContextManager[None]:
        return self._limits.slot(
            "accounts",
            busy=LedgerUnavailable("too many accounts are being read right now"),
            failed=LedgerUnavailable("the ledger cannot be read right now"),
        )
