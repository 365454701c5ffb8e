"""`FeeSource` with a concurrency limit; failures become `FeesUnavailable`."""

from contextlib import AbstractContextManager

from api.concurrency import MAX_PER_CHAIN, ConcurrencyLimits
from api.errors import FeesUnavailable
from api.ports import FeeSource
from indexer.chain_state.fees import BurnTerms, SendTerms
from warehouse_schema.identifiers import BaseUnits, Bytes32, ChainId, Wei

_CIRCLE = "burns"
"""Circle's service answers for every chain, so it has slots of its own."""


class LimitedFees:
    """Limits the threads that wait for each chain, and for Circle's service.

    All methods raise `FeesUnavailable`.
    """

    def __init__(self, source: FeeSource, max_waiting: int = MAX_PER_CHAIN) -> None:
        self._source = source
        self._limits = ConcurrencyLimits(max_waiting)

    def burn(self, source: ChainId, dest: ChainId) -> BurnTerms:
        """As in `FeeSource`."""
        with self._slot(_CIRCLE, source):
            return self._source.burn(source, dest)

    def send(self, source: ChainId, dest: ChainId, to: Bytes32, amount: BaseUnits) -> SendTerms:
        """As in `FeeSource`."""
        with self._slot(source, source):
            return self._source.send(source, dest, to, amount)

    def gas_price(self, chain: ChainId) -> Wei:
        """As in `FeeSource`."""
        with self._slot(chain, chain):
            return self._source.gas_price(chain)

    def _slot(self, limit: str, chain: ChainId) -> AbstractContextManager[None]:
        return self._limits.slot(
            limit,
            busy=FeesUnavailable("too many quotes are being priced right now"),
            failed=FeesUnavailable(f"fees on {chain} cannot be read right now"),
        )
