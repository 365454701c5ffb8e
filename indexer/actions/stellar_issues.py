"""Issued Stellar transactions of an owner, as far as they decide about the next one."""

from dataclasses import dataclass
from typing import cast

from stellar_sdk import TransactionBuilder, TransactionEnvelope
from stellar_sdk.operation import InvokeHostFunction
from stellar_sdk.operation.operation import Operation

from indexer.actions.stellar_orders import StellarStep, operation_of
from indexer.actions.stellar_tx import IssuedTransaction
from warehouse_schema.identifiers import StellarAddress, TxHash


@dataclass(frozen=True, slots=True)
class Issue:
    """A transaction that was issued for a transfer."""

    issued: IssuedTransaction
    sequence: int
    step_id: str
    """Which of the transfer's steps it is (`step_id`)."""


def parse_issue(passphrase: str, envelope: str) -> Issue:
    """Parse an issued envelope. Raises `ValueError` for any other."""
    built = cast(TransactionEnvelope, TransactionBuilder.from_xdr(envelope, passphrase))
    transaction = built.transaction
    [operation] = transaction.operations
    issued = IssuedTransaction(envelope, TxHash(built.hash_hex()))
    return Issue(issued, transaction.sequence, _operation_id(operation))


def step_id(step: StellarStep, owner: StellarAddress) -> str:
    """Name of a step within its transfer: the operation, or contract and function of a call.

    The rest follows from the transfer, except the validity of an approval.
    """
    return _operation_id(operation_of(step, owner))


def _operation_id(operation: Operation) -> str:
    if not isinstance(operation, InvokeHostFunction):
        return type(operation).__name__
    call = operation.host_function.invoke_contract
    if call is None:
        raise ValueError("an operation that calls no contract")
    contract = call.contract_address.to_xdr_bytes().hex()
    return f"{contract}:{call.function_name.sc_symbol.decode()}"
