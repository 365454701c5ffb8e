"""What EVM chains say while an owner waits, as actions and submissions need it."""

from collections.abc import Callable
from typing import TypeVar

from api.concurrency import MAX_PER_CHAIN, ConcurrencyLimits
from api.errors import ChainUnavailable
from api.ports import EvmSource
from indexer.actions.evm_calls import EvmOrder
from indexer.actions.evm_check import MinedTx
from indexer.actions.mint_check import MintRefusal
from warehouse_schema.identifiers import BaseUnits, ChainId, EvmAddress, TxHash

T = TypeVar("T")


class LimitedEvmSource:
    """Chains, for each of which only some of a process's threads may wait."""

    def __init__(self, source: EvmSource, most: int = MAX_PER_CHAIN) -> None:
        self._source = source
        self._few = ConcurrencyLimits(most)

    def allowance(
        self, chain: ChainId, order: EvmOrder, token: EvmAddress, payer: EvmAddress
    ) -> BaseUnits | None:
        """Raises `ChainUnavailable`, as all do."""
        return self._asked(chain, lambda: self._source.allowance(chain, order, token, payer))

    def mined(self, chain: ChainId, tx: TxHash) -> MinedTx | None:
        """As in `EvmSource`."""
        return self._asked(chain, lambda: self._source.mined(chain, tx))

    def mint_refusal(self, chain: ChainId, recipient: EvmAddress) -> MintRefusal | None:
        """As in `EvmSource`."""
        return self._asked(chain, lambda: self._source.mint_refusal(chain, recipient))

    def _asked(self, chain: ChainId, ask: Callable[[], T]) -> T:
        with self._few.of(chain).slot(
            busy=ChainUnavailable(f"too many are asking about {chain} right now"),
            failed=ChainUnavailable(f"{chain} cannot be read right now"),
        ):
            return ask()
