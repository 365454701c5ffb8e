"""Checks of a signed submission before the relay pays for its inclusion.

A failed transaction costs the relay its fee, and the owner can change an account at any time
between the action and the submission.
"""

import base64

from stellar_sdk import TransactionEnvelope
from stellar_sdk.operation import InvokeHostFunction, Payment
from stellar_sdk.utils import to_xdr_amount

from indexer.actions.payment_check import payer_problem, recipient_problem
from indexer.chains.stellar.account_state import StellarAccountNodes
from indexer.config.networks import StellarChain
from indexer.errors import CallReverted
from warehouse_schema.identifiers import AssetId, BaseUnits, StellarAddress


def submission_problem(
    chain: StellarChain, nodes: StellarAccountNodes, envelope: bytes
) -> str | None:
    """Reason why a signed transaction would fail now; None when nothing prevents it.

    Raises errors of nodes, and `ValueError` for an operation that the service never issues.
    """
    text = base64.b64encode(envelope).decode()
    built = TransactionEnvelope.from_xdr(text, chain.passphrase)
    [operation] = built.transaction.operations
    if isinstance(operation, InvokeHostFunction):
        try:
            # The owner has signed, and so authorized the whole call tree.
            nodes.simulate_call(text)
        except CallReverted as error:
            return str(error)
        return None
    if not isinstance(operation, Payment):
        raise ValueError(f"a {type(operation).__name__} is not issued by the service")
    payer = StellarAddress(built.transaction.source.account_id)
    recipient = StellarAddress(operation.destination.account_id)
    amount = BaseUnits(to_xdr_amount(operation.amount))
    if operation.asset.is_native():
        funds = nodes.funds(payer)
        if funds is None or funds.spendable < amount:
            return "the payer has too little XLM above its minimum balance"
        return None if nodes.funds(recipient) is not None else "the recipient has no account"
    asset = AssetId(f"stellar:{operation.asset.code}:{operation.asset.issuer}")
    return payer_problem(nodes.trustline(payer, asset), amount) or recipient_problem(
        nodes.trustline(recipient, asset), amount
    )
