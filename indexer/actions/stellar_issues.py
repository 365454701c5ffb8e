"""What of an owner's Stellar transactions that were issued decides about the next one."""

from dataclasses import dataclass
from typing import cast

from stellar_sdk import TransactionBuilder, TransactionEnvelope, xdr
from stellar_sdk.operation import InvokeHostFunction
from stellar_sdk.operation.operation import Operation

from indexer.actions.stellar_orders import StellarStep, operation_of
from indexer.actions.stellar_tx import EarlierTransaction, IssuedTransaction
from warehouse_schema.identifiers import StellarAddress, TxHash


@dataclass(frozen=True, slots=True)
class Issue:
    """A transaction that was issued for a transfer."""

    issued: IssuedTransaction
    sequence: int
    step_id: str
    """Which of the transfer's steps it is (`step_id`)."""

    @property
    def numbered(self) -> EarlierTransaction:
        """As the choice of a number wants it."""
        return EarlierTransaction(self.issued.tx, self.sequence)


def parse_issue(passphrase: str, envelope: str) -> Issue:
    """An issue by its envelope. Raises `ValueError` for what is none of ours."""
    built = cast(TransactionEnvelope, TransactionBuilder.from_xdr(envelope, passphrase))
    transaction = built.transaction
    [operation] = transaction.operations
    issued = IssuedTransaction(envelope, TxHash(built.hash_hex()))
    return Issue(issued, transaction.sequence, _does(operation))


def step_id(step: StellarStep, owner: StellarAddress) -> str:
    """Which step of its transfer this is: the operation, and of a call the contract's function.

    All else in it follows from the transfer, but for how long an approval holds.
    """
    return _does(operation_of(step, owner))


def _does(operation: Operation) -> str:
    if not isinstance(operation, InvokeHostFunction):
        return type(operation).__name__
    call = operation.host_function.invoke_contract
    if call is None:
        raise ValueError("an operation that calls no contract")
    return f"{_contract(call)}:{call.function_name.sc_symbol.decode()}"


def _contract(call: xdr.InvokeContractArgs) -> str:
    return call.contract_address.to_xdr_bytes().hex()
