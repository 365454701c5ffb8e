"""Chain sources with concurrency limits; failures become `503`."""

from collections.abc import Collection
from contextlib import AbstractContextManager

from api.concurrency import MAX_CONCURRENT, MAX_PER_CHAIN, ConcurrencyLimits
from api.errors import ChainUnavailable, Unavailable
from api.ports import EvmSource, StellarSource
from indexer.actions.evm_calls import EvmOrder
from indexer.actions.evm_check import MinedTx
from indexer.actions.mint_check import MintRefusal
from indexer.actions.stellar_orders import StellarOrder
from indexer.actions.stellar_tx import Issue, IssuedTransaction
from warehouse_schema.identifiers import (
    BaseUnits,
    ChainId,
    EvmAddress,
    Height,
    StellarAddress,
    TxHash,
    UnixSeconds,
)


class LimitedEvmSource:
    """Limits the threads that wait for each EVM chain. All methods raise `ChainUnavailable`."""

    def __init__(self, source: EvmSource, max_waiting: int = MAX_PER_CHAIN) -> None:
        self._source = source
        self._limits = ConcurrencyLimits(max_waiting)

    def allowance(
        self, chain: ChainId, order: EvmOrder, token: EvmAddress, payer: EvmAddress
    ) -> BaseUnits | None:
        """As in `EvmSource`."""
        with self._slot(chain):
            return self._source.allowance(chain, order, token, payer)

    def mined(self, chain: ChainId, tx: TxHash) -> MinedTx | None:
        """As in `EvmSource`."""
        with self._slot(chain):
            return self._source.mined(chain, tx)

    def mint_refusal(self, chain: ChainId, recipient: EvmAddress) -> MintRefusal | None:
        """As in `EvmSource`."""
        with self._slot(chain):
            return self._source.mint_refusal(chain, recipient)

    def _slot(self, chain: ChainId) -> AbstractContextManager[None]:
        return self._limits.slot(
            chain,
            busy=ChainUnavailable(f"too many are asking about {chain} right now"),
            failed=ChainUnavailable(f"{chain} cannot be read right now"),
        )


class LimitedStellarSource:
    """Limits the threads that wait for Stellar. All methods raise `Unavailable`."""

    def __init__(self, source: StellarSource, max_waiting: int = MAX_CONCURRENT) -> None:
        self._source = source
        self._limits = ConcurrencyLimits(max_waiting)

    def following(
        self,
        order: StellarOrder,
        owner: StellarAddress,
        expires_at: UnixSeconds,
        ingested: Height,
        issued: Collection[Issue],
    ) -> IssuedTransaction | None:
        """As in `StellarSource`; lets `CallReverted` through."""
        with self._slot():
            return self._source.following(order, owner, expires_at, ingested, issued)

    def cctp_pause(self) -> MintRefusal | None:
        """As in `StellarSource`."""
        with self._slot():
            return self._source.cctp_pause()

    def _slot(self) -> AbstractContextManager[None]:
        return self._limits.slot(
            "stellar",
            busy=Unavailable("too many are asking the ledger", code="LEDGER_UNAVAILABLE"),
            failed=Unavailable("the ledger cannot be read right now", code="LEDGER_UNAVAILABLE"),
        )
