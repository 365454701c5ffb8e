"""Response bodies of actions. Amounts are decimal integer strings in base units."""

from collections.abc import Sequence
from typing import cast

from api.actions import schema
from indexer.actions.agreed import Agreement
from indexer.actions.evm_calls import UnsignedCall
from indexer.actions.stellar_tx import IssuedTransaction
from indexer.config.networks import EvmChain, Network
from warehouse_schema.identifiers import AssetId, BaseUnits, ChainId, EvmAddress


def evm_calls_response(
    network: Network, chain: ChainId, calls: Sequence[UnsignedCall]
) -> schema.EvmCalls:
    """Unsigned calls on an EVM chain."""
    return {
        "kind": "evm_calls",
        "chainId": cast(EvmChain, network.chain(chain)).number,
        "calls": [
            {"to": call.to, "data": f"0x{call.data.hex()}", "value": str(call.value)}
            for call in calls
        ],
    }


def stellar_tx_response(network: Network, transaction: IssuedTransaction) -> schema.StellarTx:
    """An unsigned transaction of the owner's account."""
    passphrase = network.stellar.passphrase
    return {"kind": "stellar_tx", "xdr": transaction.envelope, "network_passphrase": passphrase}


def trustline_response(
    network: Network, asset: AssetId, transaction: IssuedTransaction
) -> schema.StellarTrustline:
    """An unsigned transaction of a sponsor's account, which its owner signs first."""
    return {
        "kind": "stellar_trustline",
        "asset": asset,
        "xdr": transaction.envelope,
        "network_passphrase": network.stellar.passphrase,
    }


def deposit_address_response(
    agreed: Agreement, address: EvmAddress, held: BaseUnits
) -> schema.SendToAddress:
    """A payment of the rest of the amount to the deposit address."""
    return {
        "kind": "send_to_address",
        "chain": agreed.source_chain,
        "asset": agreed.source_asset,
        "address": address,
        "amount": str(agreed.amount_in - held),
    }
