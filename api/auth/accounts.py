"""Who may sign for an account, and what it can be paid, as the ledger says now.

What cannot be read is a `503`.
"""

import logging
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from api.errors import Unavailable
from indexer.decode.accounts import SigningRules, Trustline
from indexer.errors import PermanentChainError, RetryableChainError
from warehouse_schema.identifiers import AssetId, StellarAddress

logger = logging.getLogger(__name__)

T = TypeVar("T")

MOST_AT_ONCE = 4
"""Of a process's eight threads: a node that hangs must not stop what needs no node."""
WAIT_SECONDS = 1.0
"""For one of those places."""


class Accounts(Protocol):
    """Where accounts are read."""

    def signing_rules(self, account: StellarAddress) -> SigningRules | None:
        """None when there is definitely no such account; raises for everything in between."""

    def trustline(self, account: StellarAddress, asset: AssetId) -> Trustline | None:
        """None when there is definitely none."""


class LedgerUnavailable(Unavailable):
    """The ledger cannot be read now, so nobody knows who may sign."""

    code = "LEDGER_UNAVAILABLE"


class FewAtOnce:
    """Accounts that only some of a process's threads may wait for."""

    def __init__(self, accounts: Accounts, most: int = MOST_AT_ONCE) -> None:
        self._accounts = accounts
        self._places = threading.BoundedSemaphore(most)

    def signing_rules(self, account: StellarAddress) -> SigningRules | None:
        """Raises `LedgerUnavailable`, as both do."""
        return self._asked(lambda: self._accounts.signing_rules(account))

    def trustline(self, account: StellarAddress, asset: AssetId) -> Trustline | None:
        """As in `Accounts`."""
        return self._asked(lambda: self._accounts.trustline(account, asset))

    def _asked(self, ask: Callable[[], T]) -> T:
        if not self._places.acquire(timeout=WAIT_SECONDS):
            raise LedgerUnavailable("too many accounts are being read right now")
        try:
            return ask()
        except (RetryableChainError, PermanentChainError) as error:
            logger.error("no account could be read: %s", error)
            raise LedgerUnavailable("the ledger cannot be read right now") from error
        finally:
            self._places.release()
