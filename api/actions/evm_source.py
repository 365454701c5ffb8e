"""What EVM chains say while an owner waits, as actions and submissions need it."""

import logging
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from api.errors import ChainUnavailable
from indexer.actions.evm_calls import Order
from indexer.actions.evm_check import Mined
from indexer.errors import ConfigurationError, PermanentChainError, RetryableChainError
from warehouse_schema.identifiers import BaseUnits, ChainId, EvmAddress, TxHash

logger = logging.getLogger(__name__)

T = TypeVar("T")

MOST_AT_ONCE = 4
"""Of a process's eight threads: a node that hangs must not stop what needs no node."""
WAIT_SECONDS = 1.0
"""For one of those places."""


class EvmSource(Protocol):
    """Where chains are read (`indexer.evm_state.EvmState`). Raises what chains raise."""

    def allowance(
        self, chain: ChainId, order: Order, token: EvmAddress, payer: EvmAddress
    ) -> BaseUnits | None:
        """What the bridge may take already; None where it needs no leave."""

    def mined(self, chain: ChainId, tx: TxHash) -> Mined | None:
        """What became of a transaction; None while too few nodes know that it was mined."""


class FewAtOnce:
    """Chains that only some of a process's threads may wait for."""

    def __init__(self, source: EvmSource, most: int = MOST_AT_ONCE) -> None:
        self._source = source
        self._places = threading.BoundedSemaphore(most)

    def allowance(
        self, chain: ChainId, order: Order, token: EvmAddress, payer: EvmAddress
    ) -> BaseUnits | None:
        """Raises `ChainUnavailable`, as both do."""
        return self._asked(chain, lambda: self._source.allowance(chain, order, token, payer))

    def mined(self, chain: ChainId, tx: TxHash) -> Mined | None:
        """As in `EvmSource`."""
        return self._asked(chain, lambda: self._source.mined(chain, tx))

    def _asked(self, chain: ChainId, ask: Callable[[], T]) -> T:
        if not self._places.acquire(timeout=WAIT_SECONDS):
            raise ChainUnavailable(f"too many are asking about {chain} right now")
        try:
            return ask()
        except (RetryableChainError, PermanentChainError, ConfigurationError) as error:
            logger.error("not read chain=%s: %s", chain, error)
            raise ChainUnavailable(f"{chain} cannot be read right now") from error
        finally:
            self._places.release()
