"""Whether what an owner signed would succeed now: asked before the relay pays for its inclusion.

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
    """Why a signed transaction of ours would fail as things stand; None: nothing is in its way.

    Raises what nodes raise, and `ValueError` for an operation that the service never issues.
    """
    text = base64.b64encode(envelope).decode()
    built = TransactionEnvelope.from_xdr(text, chain.passphrase)
    [operation] = built.transaction.operations
    if isinstance(operation, InvokeHostFunction):
        try:
            nodes.simulate_signed(text)
        except CallReverted as error:
            return str(error)
        return None
    if not isinstance(operation, Payment):
        raise ValueError(f"a {type(operation).__name__} is none of ours")
    payer = StellarAddress(built.transaction.source.account_id)
    return _payment_problem(nodes, payer, operation)


def _payment_problem(
    nodes: StellarAccountNodes, payer: StellarAddress, payment: Payment
) -> str | None:
    recipient = StellarAddress(payment.destination.account_id)
    amount = BaseUnits(to_xdr_amount(payment.amount))
    if payment.asset.is_native():
        return _native_problem(nodes, payer, recipient, amount)
    asset = AssetId(f"stellar:{payment.asset.code}:{payment.asset.issuer}")
    return payer_problem(nodes.trustline(payer, asset), amount) or recipient_problem(
        nodes.trustline(recipient, asset), amount
    )


def _native_problem(
    nodes: StellarAccountNodes, payer: StellarAddress, recipient: StellarAddress, amount: BaseUnits
) -> str | None:
    """Of XLM the payer keeps its minimum balance, and the recipient's account has to be there."""
    funds = nodes.funds(payer)
    if funds is None or funds.spendable < amount:
        return "the payer has too little XLM above its minimum balance"
    return None if nodes.funds(recipient) is not None else "the recipient has no account"
