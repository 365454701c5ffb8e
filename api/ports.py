"""What views ask of chains, as Protocols: features do not import what implements them."""

from collections.abc import Collection
from typing import Protocol

from indexer.actions.evm_calls import EvmOrder
from indexer.actions.evm_check import MinedTx
from indexer.actions.mint_check import MintRefusal
from indexer.actions.stellar_orders import StellarOrder
from indexer.actions.stellar_tx import Issue, IssuedTransaction
from indexer.chain_state.fees import BurnTerms, SendTerms
from indexer.chains.stellar.xdr.ledger_entries import SigningRules, Trustline
from warehouse_schema.identifiers import (
    AssetId,
    BaseUnits,
    Bytes32,
    ChainId,
    EvmAddress,
    Height,
    StellarAddress,
    TxHash,
    UnixSeconds,
    Wei,
)


class Accounts(Protocol):
    """Stellar accounts as the ledger has them now. Raises `indexer.errors`."""

    def signing_rules(self, account: StellarAddress) -> SigningRules | None:
        """None only when the ledger says that there is no such account."""

    def trustline(self, account: StellarAddress, asset: AssetId) -> Trustline | None:
        """None only when the ledger says that there is no such trustline."""


class FeeSource(Protocol):
    """Bridge fees and gas prices (`indexer.chain_state.fees.Fees`). Raises `indexer.errors`."""

    def burn(self, source: ChainId, dest: ChainId) -> BurnTerms:
        """Of a CCTP burn."""

    def send(self, source: ChainId, dest: ChainId, to: Bytes32, amount: BaseUnits) -> SendTerms:
        """Of an OFT's send."""

    def gas_price(self, chain: ChainId) -> Wei:
        """Wei for a unit of gas."""


class EvmSource(Protocol):
    """EVM chains (`indexer.chain_state.evm.EvmState`). Raises `indexer.errors`."""

    def allowance(
        self, chain: ChainId, order: EvmOrder, token: EvmAddress, payer: EvmAddress
    ) -> BaseUnits | None:
        """The bridge's allowance; None where it needs none."""

    def mined(self, chain: ChainId, tx: TxHash) -> MinedTx | None:
        """The outcome of a transaction; None while too few nodes have its receipt."""

    def mint_refusal(self, chain: ChainId, recipient: EvmAddress) -> MintRefusal | None:
        """Why CCTP would not mint to the recipient now; None if it would."""


class StellarSource(Protocol):
    """The Stellar chain (`indexer.chain_state.stellar`). Raises `indexer.errors`."""

    def following(
        self,
        order: StellarOrder,
        owner: StellarAddress,
        expires_at: UnixSeconds,
        ingested: Height,
        issued: Collection[Issue],
    ) -> IssuedTransaction | None:
        """The owner's next transaction; None until more is ingested. Raises `CallReverted`."""

    def cctp_pause(self) -> MintRefusal | None:
        """Why CCTP mints to no recipient now; None if it does."""
