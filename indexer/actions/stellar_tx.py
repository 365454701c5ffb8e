"""An owner's Stellar transaction: as it is tried, as it is issued, and with which number.

Once issued, nothing of it changes but that signatures are added: its hash says all of it, and is
what a submission is held against.
"""

import base64
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

from stellar_sdk import Account, TransactionBuilder, TransactionEnvelope, xdr
from stellar_sdk.operation import InvokeHostFunction
from stellar_sdk.operation.operation import Operation

from indexer.chains.stellar.xdr.simulation import SimulationResult
from warehouse_schema.identifiers import Height, StellarAddress, TxHash, UnixSeconds

INCLUSION_FEE = 100
"""Stroops an operation: the network's least. Who includes it in a hurry bumps it."""


NEVER_EXPIRES = UnixSeconds(2**40)
"""A time bound of what is tried and never signed."""
NULL_ACCOUNT = StellarAddress("GAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAWHF")
"""Who asks: the key of 32 zero bytes, which nobody holds. What is asked does not depend on it."""


@dataclass(frozen=True, slots=True)
class IssuedTransaction:
    """A transaction as it is issued; base64 of the envelope, and the hash that is signed."""

    envelope: str
    tx: TxHash


@dataclass(frozen=True, slots=True)
class SpentSequence:
    """The sequence number that an account spent last."""

    sequence: int
    ledger: Height
    """The ledger that spent it, or a later one."""


@dataclass(frozen=True, slots=True)
class EarlierTransaction:
    """A transaction that was issued for a transfer before."""

    tx: TxHash
    sequence: int


def next_sequence(
    spent: SpentSequence, ingested: Height, issued: Collection[EarlierTransaction]
) -> int | None:
    """The number of a transfer's next transaction; None while that cannot be told.

    A number that was given to a transaction which may still be sent is given again, so that of the
    two a ledger takes one. One that is spent may have been spent by that very transaction: until
    the ledger that spent it is ingested, it is unknown whether the money has moved. How far the
    nodes are beyond that ledger does not matter.
    """
    if ingested < spent.ledger and any(each.sequence <= spent.sequence for each in issued):
        return None
    return max([spent.sequence + 1, *(each.sequence for each in issued)])


def draft(
    passphrase: str,
    source: StellarAddress,
    sequence: int,
    expires_at: UnixSeconds,
    operations: Sequence[Operation],
) -> IssuedTransaction:
    """An unsigned transaction; a contract call in it is to be tried and `completed`.

    No ledger takes it that closes later than `expires_at`.
    """
    if expires_at <= 0:
        raise ValueError("a transaction that never expires is not ours to issue")
    builder = TransactionBuilder(Account(source, sequence - 1), passphrase, INCLUSION_FEE)
    for operation in operations:
        builder.append_operation(operation)
    return _issued(builder.add_time_bounds(0, expires_at).build())


def view_tx(passphrase: str, question: Operation) -> IssuedTransaction:
    """The transaction that simulates a view; it is never signed."""
    return draft(passphrase, NULL_ACCOUNT, 1, NEVER_EXPIRES, [question])


def complete_tx(
    passphrase: str, drafted: IssuedTransaction, found: SimulationResult
) -> IssuedTransaction:
    """The draft of one contract call with what it needs.

    Raises `ValueError` when that is more than the source's consent to this very call: a node could
    have the owner sign anything else with it.
    """
    envelope = _envelope(passphrase, drafted)
    transaction = envelope.transaction
    [call] = transaction.operations
    if not isinstance(call, InvokeHostFunction):
        raise ValueError(f"{drafted.tx} calls no contract")
    call.auth = [xdr.SorobanAuthorizationEntry.from_xdr_bytes(entry) for entry in found.auth]
    _check_consent(call)
    transaction.soroban_data = xdr.SorobanTransactionData.from_xdr_bytes(found.data)
    transaction.fee += found.resource_fee
    return _issued(envelope)


def parse_tx(passphrase: str, envelope: bytes | str) -> IssuedTransaction:
    """A transaction by its envelope: XDR, or base64 of it."""
    text = envelope if isinstance(envelope, str) else base64.b64encode(envelope).decode()
    built = cast(TransactionEnvelope, TransactionBuilder.from_xdr(text, passphrase))
    return IssuedTransaction(text, TxHash(built.hash_hex()))


def _check_consent(call: InvokeHostFunction) -> None:
    own = xdr.SorobanCredentialsType.SOROBAN_CREDENTIALS_SOURCE_ACCOUNT
    for entry in call.auth:
        consented = entry.root_invocation.function.contract_fn
        if entry.credentials.type != own or consented != call.host_function.invoke_contract:
            raise ValueError("the call needs more than its source's consent to it")


def _issued(envelope: TransactionEnvelope) -> IssuedTransaction:
    return IssuedTransaction(envelope.to_xdr(), TxHash(envelope.hash_hex()))


def _envelope(passphrase: str, issued: IssuedTransaction) -> TransactionEnvelope:
    return cast(TransactionEnvelope, TransactionBuilder.from_xdr(issued.envelope, passphrase))
