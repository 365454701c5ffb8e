"""An owner's Stellar transaction: draft, simulation, issue and sequence number.

After the issue only signatures are added; a submission is compared by the hash.
"""

import base64
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

from stellar_sdk import Account, TransactionBuilder, TransactionEnvelope, xdr
from stellar_sdk.operation import InvokeHostFunction
from stellar_sdk.operation.operation import Operation

from indexer.actions.stellar_orders import StellarStep, operation_of
from indexer.chains.stellar.xdr.simulation import SimulationResult
from warehouse_schema.identifiers import Height, StellarAddress, TxHash, UnixSeconds

INCLUSION_FEE = 100
"""Stroops per operation: the network's minimum. The relay's fee bump pays more."""
NEVER_EXPIRES = UnixSeconds(2**40)
"""Time bound of transactions that are only simulated."""
NULL_ACCOUNT = StellarAddress("GAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAWHF")
"""Source of view calls: the key of 32 zero bytes. Their results do not depend on it."""


@dataclass(frozen=True, slots=True)
class IssuedTransaction:
    """An issued transaction: base64 of the envelope, and the hash that is signed."""

    envelope: str
    tx: TxHash


@dataclass(frozen=True, slots=True)
class Issue:
    """A transaction that was issued for a transfer."""

    issued: IssuedTransaction
    sequence: int
    step_id: str
    """Which of the transfer's steps it is (`step_id`)."""


@dataclass(frozen=True, slots=True)
class SpentSequence:
    """The last used sequence number of an account."""

    sequence: int
    ledger: Height
    """The ledger that used it, or a later one."""


def next_sequence(spent: SpentSequence, ingested: Height, issued: Collection[int]) -> int | None:
    """Sequence number of a transfer's next transaction; None while it cannot be decided.

    `issued`: numbers of the transactions issued before. The number of one that may still be sent is
    reused, so a ledger includes only one of the two. A used number may have been used by the issued
    transaction: until the ledger that used it is ingested, it is unknown whether the money has
    moved. The nodes' height does not matter.
    """
    if ingested < spent.ledger and any(number <= spent.sequence for number in issued):
        return None
    return max([spent.sequence + 1, *issued])


def draft(
    passphrase: str,
    source: StellarAddress,
    sequence: int,
    expires_at: UnixSeconds,
    operations: Sequence[Operation],
) -> IssuedTransaction:
    """Build an unsigned transaction; a contract call then needs a simulation and `complete_tx`.

    No ledger that closes after `expires_at` includes it.
    """
    if expires_at <= 0:
        raise ValueError("a transaction that never expires is not ours to issue")
    builder = TransactionBuilder(Account(source, sequence - 1), passphrase, INCLUSION_FEE)
    for operation in operations:
        builder.append_operation(operation)
    return _issued(builder.add_time_bounds(0, expires_at).build())


def view_tx(passphrase: str, question: Operation) -> IssuedTransaction:
    """The transaction that simulates a view call; it is never signed."""
    return draft(passphrase, NULL_ACCOUNT, 1, NEVER_EXPIRES, [question])


def complete_tx(
    passphrase: str, drafted: IssuedTransaction, found: SimulationResult
) -> IssuedTransaction:
    """Add the simulation's resources and authorization to the draft of one contract call.

    Raises `ValueError` if it needs more than the source's authorization of this call: a node could
    otherwise make the owner sign anything.
    """
    envelope = cast(TransactionEnvelope, TransactionBuilder.from_xdr(drafted.envelope, passphrase))
    transaction = envelope.transaction
    [call] = transaction.operations
    if not isinstance(call, InvokeHostFunction):
        raise ValueError(f"{drafted.tx} calls no contract")
    call.auth = [xdr.SorobanAuthorizationEntry.from_xdr_bytes(entry) for entry in found.auth]
    own = xdr.SorobanCredentialsType.SOROBAN_CREDENTIALS_SOURCE_ACCOUNT
    for entry in call.auth:
        authorized = entry.root_invocation.function.contract_fn
        if entry.credentials.type != own or authorized != call.host_function.invoke_contract:
            raise ValueError("the call needs more than its source's consent to it")
    transaction.soroban_data = xdr.SorobanTransactionData.from_xdr_bytes(found.data)
    transaction.fee += found.resource_fee
    return _issued(envelope)


def parse_issue(passphrase: str, envelope: str) -> Issue:
    """Parse an issued envelope. Raises `ValueError` for any other."""
    built = cast(TransactionEnvelope, TransactionBuilder.from_xdr(envelope, passphrase))
    [operation] = built.transaction.operations
    issued = IssuedTransaction(envelope, TxHash(built.hash_hex()))
    return Issue(issued, built.transaction.sequence, _operation_id(operation))


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


def parse_tx(passphrase: str, envelope: bytes | str) -> IssuedTransaction:
    """Parse an envelope: XDR, or base64 of it."""
    text = envelope if isinstance(envelope, str) else base64.b64encode(envelope).decode()
    built = cast(TransactionEnvelope, TransactionBuilder.from_xdr(text, passphrase))
    return IssuedTransaction(text, TxHash(built.hash_hex()))


def _issued(envelope: TransactionEnvelope) -> IssuedTransaction:
    return IssuedTransaction(envelope.to_xdr(), TxHash(envelope.hash_hex()))
