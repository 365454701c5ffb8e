"""What others ask for carrying money across, as pricing needs it; what cannot be had is a `503`."""

from collections.abc import Callable
from typing import TypeVar

from api.concurrency import MAX_PER_CHAIN, ConcurrencyLimits
from api.errors import FeesUnavailable
from api.ports import FeeSource
from indexer.chain_state.fees import BurnTerms, SendTerms
from warehouse_schema.identifiers import BaseUnits, Bytes32, ChainId

T = TypeVar("T")

_BURNS = "burns"
"""Circle's service has places of its own: it answers for every chain."""


class LimitedFees:
    """Fees: for each chain, and for Circle's service, only some of a process's threads may wait."""

    def __init__(self, source: FeeSource, most: int = MAX_PER_CHAIN) -> None:
        self._source = source
        self._few = ConcurrencyLimits(most)

    def burn(self, source: ChainId, dest: ChainId) -> BurnTerms:
        """Raises `FeesUnavailable`, as all of these do."""
        return self._asked(_BURNS, source, lambda: self._source.burn(source, dest))

    def send(self, source: ChainId, dest: ChainId, to: Bytes32, amount: BaseUnits) -> SendTerms:
        """As in `FeeSource`."""
        return self._asked(source, source, lambda: self._source.send(source, dest, to, amount))

    def gas_price(self, chain: ChainId) -> BaseUnits:
        """As in `FeeSource`."""
        return self._asked(chain, chain, lambda: self._source.gas_price(chain))

    def _asked(self, places: str, chain: ChainId, ask: Callable[[], T]) -> T:
        with self._few.of(places).slot(
            busy=FeesUnavailable("too many quotes are being priced right now"),
            failed=FeesUnavailable(
                f"what others charge for a transfer over {chain} cannot be read right now"
            ),
        ):
            return ask()
