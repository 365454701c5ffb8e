"""What the Stellar chain says while an owner waits, as actions need it."""

import logging
import threading
from collections.abc import Collection
from typing import Protocol

from api.errors import Unavailable
from indexer.actions.stellar_issues import Issue
from indexer.actions.stellar_orders import StellarOrder
from indexer.actions.stellar_tx import StellarTx
from indexer.errors import PermanentChainError, RetryableChainError
from warehouse_schema.identifiers import Height, StellarAddress, UnixSeconds

logger = logging.getLogger(__name__)

MOST_AT_ONCE = 4
"""Of a process's eight threads: a node that hangs must not stop what needs no node."""
WAIT_SECONDS = 1.0
"""For one of those places."""


class StellarSource(Protocol):
    """Where the chain is asked (`indexer.stellar_state.StellarState`). Raises what chains raise."""

    def following(
        self,
        order: StellarOrder,
        owner: StellarAddress,
        expires_at: UnixSeconds,
        ingested: Height,
        issued: Collection[Issue],
    ) -> StellarTx | None:
        """The owner's next transaction; None until more is ingested. Raises `CallReverted`."""


class FewOfStellar:
    """The chain, for which only some of a process's threads may wait."""

    def __init__(self, source: StellarSource, most: int = MOST_AT_ONCE) -> None:
        self._source = source
        self._places = threading.BoundedSemaphore(most)

    def following(
        self,
        order: StellarOrder,
        owner: StellarAddress,
        expires_at: UnixSeconds,
        ingested: Height,
        issued: Collection[Issue],
    ) -> StellarTx | None:
        """Raises `Unavailable`; `CallReverted` as it comes."""
        if not self._places.acquire(timeout=WAIT_SECONDS):
            raise Unavailable("too many are asking the ledger", code="LEDGER_UNAVAILABLE")
        try:
            return self._source.following(order, owner, expires_at, ingested, issued)
        except (RetryableChainError, PermanentChainError) as error:
            logger.error("no transaction could be made: %s", error)
            raise Unavailable(
                "the ledger cannot be read right now", code="LEDGER_UNAVAILABLE"
            ) from error
        finally:
            self._places.release()
