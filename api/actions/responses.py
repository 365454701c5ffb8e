"""Actions as JSON. Amounts are decimal integer strings in base units."""

from typing import cast

from api.actions import schema
from indexer.actions.evm_calls import UnsignedCalls
from indexer.actions.stellar_tx import IssuedTransaction
from indexer.config.networks import EvmChain, Network
from indexer.transfers.inputs import TransferTerms
from warehouse_schema.identifiers import AssetId, BaseUnits


def shape_calls(network: Network, calls: UnsignedCalls) -> schema.EvmCalls:
    """Calls of an EVM chain."""
    chain = cast(EvmChain, network.chain(calls.chain))
    return {
        "kind": "evm_calls",
        "chainId": chain.number,
        "calls": [
            {"to": call.to, "data": f"0x{call.data.hex()}", "value": str(call.value)}
            for call in calls.calls
        ],
    }


def shape_transaction(network: Network, transaction: IssuedTransaction) -> schema.StellarTx:
    """A transaction of the owner's Stellar account."""
    passphrase = network.stellar.passphrase
    envelope = transaction.envelope
    return {"kind": "stellar_tx", "xdr": envelope, "network_passphrase": passphrase}


def shape_trustline(
    network: Network, asset: AssetId, transaction: IssuedTransaction
) -> schema.StellarTrustline:
    """A trustline that a sponsor will sign for once its owner has."""
    return {
        "kind": "stellar_trustline",
        "asset": asset,
        "xdr": transaction.envelope,
        "network_passphrase": network.stellar.passphrase,
    }


def shape_address(terms: TransferTerms, asset: AssetId, held: BaseUnits) -> schema.SendToAddress:
    """The transfer's deposit address, and what of the amount is not there yet.

    Raises `ValueError` when it has none.
    """
    if terms.deposit_address is None:
        raise ValueError(f"transfer {terms.id} has no deposit address")
    return {
        "kind": "send_to_address",
        "chain": terms.source_chain,
        "asset": asset,
        "address": terms.deposit_address,
        "amount": str(terms.amount_in - held),
    }
