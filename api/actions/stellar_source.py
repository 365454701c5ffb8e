"""What the Stellar chain says while an owner waits, as actions need it."""

from collections.abc import Collection
from contextlib import AbstractContextManager

from api.concurrency import MAX_CONCURRENT, ConcurrencyLimit
from api.errors import Unavailable
from api.ports import StellarSource
from indexer.actions.mint_check import MintRefusal
from indexer.actions.stellar_issues import Issue
from indexer.actions.stellar_orders import StellarOrder
from indexer.actions.stellar_tx import IssuedTransaction
from warehouse_schema.identifiers import Height, StellarAddress, UnixSeconds


class LimitedStellarSource:
    """The chain, for which only some of a process's threads may wait."""

    def __init__(self, source: StellarSource, most: int = MAX_CONCURRENT) -> None:
        self._source = source
        self._few = ConcurrencyLimit(most)

    def following(
        self,
        order: StellarOrder,
        owner: StellarAddress,
        expires_at: UnixSeconds,
        ingested: Height,
        issued: Collection[Issue],
    ) -> IssuedTransaction | None:
        """Raises `Unavailable`; `CallReverted` as it comes."""
        with self._waiting():
            return self._source.following(order, owner, expires_at, ingested, issued)

    def cctp_pause(self) -> MintRefusal | None:
        """Raises `Unavailable`."""
        with self._waiting():
            return self._source.cctp_pause()

    def _waiting(self) -> AbstractContextManager[None]:
        return self._few.slot(
            busy=Unavailable("too many are asking the ledger", code="LEDGER_UNAVAILABLE"),
            failed=Unavailable("the ledger cannot be read right now", code="LEDGER_UNAVAILABLE"),
        )
