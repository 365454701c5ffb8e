"""Who may sign for an account, as the ledger says now; what cannot be read is a `503`."""

import logging
import threading
from typing import Protocol

from api.errors import Unavailable
from indexer.decode.accounts import SigningRules
from indexer.errors import PermanentChainError, RetryableChainError
from warehouse_schema.identifiers import StellarAddress

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 4
"""Of a process's eight threads: a node that hangs must not stop what needs no node."""
WAIT_SECONDS = 1.0
"""For one of those places."""


class Accounts(Protocol):
    """Where accounts are read."""

    def signing_rules(self, account: StellarAddress) -> SigningRules | None:
        """None when there is definitely no such account; raises for everything in between."""


class LedgerUnavailable(Unavailable):
    """The ledger cannot be read now, so nobody knows who may sign."""

    code = "LEDGER_UNAVAILABLE"


class FewAtOnce:
    """Accounts that only some of a process's threads may wait for."""

    def __init__(self, accounts: Accounts, most: int = MOST_AT_ONCE) -> None:
        self._accounts = accounts
        self._places = threading.BoundedSemaphore(most)

    def signing_rules(self, account: StellarAddress) -> SigningRules | None:
        """Raises `LedgerUnavailable`."""
        if not self._places.acquire(timeout=WAIT_SECONDS):
            raise LedgerUnavailable("too many are signing in right now")
        try:
            return self._accounts.signing_rules(account)
        except (RetryableChainError, PermanentChainError) as error:
            logger.error("no account could be read: %s", error)
            raise LedgerUnavailable("the ledger cannot be read right now") from error
        finally:
            self._places.release()
