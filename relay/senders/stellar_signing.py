"""Stellar transactions as bytes, signed. Pure but for the key.

Each has bounds in time: from the ledger that it was signed after, for a minute or a few. Past them
it can take effect no more, whatever became of it.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from stellar_sdk import (
    Account,
    Address,
    DecoratedSignature,
    FeeBumpTransactionEnvelope,
    MuxedAccount,
    TransactionBuilder,
    TransactionEnvelope,
    xdr,
)
from stellar_sdk.operation import BumpSequence, InvokeHostFunction
from stellar_sdk.operation.operation import Operation

from indexer.chains.stellar.xdr.simulation import SimulationResult
from relay.keys import StellarKey, stellar_address, stellar_signature
from relay.nonces import SignedTransaction
from warehouse_schema.identifiers import StellarAddress, TxHash, UnixSeconds


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call of a contract function."""

    contract: StellarAddress
    function: str
    arguments: tuple[xdr.SCVal, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Close times of the ledgers that may include a transaction, both included."""

    first: UnixSeconds
    last: UnixSeconds


def build_call(
    source: StellarAddress,
    passphrase: str,
    number: int,
    call: Invocation | None,
    fee: int,
    bounds: Bounds,
) -> TransactionEnvelope:
    """A transaction of one call, or of nothing; `fee` is what its inclusion bids, stroops."""
    # Bumping to a number that is passed already does nothing.
    operation = BumpSequence(0) if call is None else _operation(call)
    return build_transaction(source, passphrase, number, [operation], fee, bounds)


def build_transaction(
    source: StellarAddress,
    passphrase: str,
    number: int,
    operations: Sequence[Operation],
    bid: int,
    bounds: Bounds,
) -> TransactionEnvelope:
    """An unsigned transaction; `bid` is stroops an operation."""
    builder = TransactionBuilder(Account(source, number - 1), passphrase, base_fee=bid)
    builder.add_time_bounds(bounds.first, bounds.last)
    for operation in operations:
        builder.append_operation(operation)
    return builder.build()


def with_resources(envelope: TransactionEnvelope, found: SimulationResult) -> TransactionEnvelope:
    """The same with what its call was found to need."""
    data = xdr.SorobanTransactionData.from_xdr_bytes(found.data)
    [call] = envelope.transaction.operations
    if isinstance(call, InvokeHostFunction):
        call.auth = [xdr.SorobanAuthorizationEntry.from_xdr_bytes(each) for each in found.auth]
    envelope.transaction.soroban_data = data
    envelope.transaction.fee += found.resource_fee
    return envelope


def sign_stellar(key: StellarKey, envelope: TransactionEnvelope) -> SignedTransaction:
    """Add the key's signature to those of a transaction. Raises `WrongSignature`."""
    digest = envelope.hash()
    signature = DecoratedSignature(key.public_key[-4:], stellar_signature(key, digest))
    signatures = [signature, *envelope.signatures]
    whole = TransactionEnvelope(
        envelope.transaction, envelope.network_passphrase, signatures=signatures
    )
    raw = whole.to_xdr_object().to_xdr_bytes()
    return SignedTransaction(TxHash(digest.hex()), raw, envelope.transaction.fee)


def sign_fee_bump(key: StellarKey, passphrase: str, inner: bytes, bid: int) -> SignedTransaction:
    """Somebody's signed transaction in a fee bump of the key's account (CAP-15).

    `bid` is stroops an operation, of which the bump itself counts as one; what a contract call
    needs beside comes on top. Raises `WrongSignature`.
    """
    envelope = TransactionEnvelope.from_xdr(base64.b64encode(inner).decode(), passphrase)
    source = stellar_address(key)
    bump = TransactionBuilder.build_fee_bump_transaction(source, bid, envelope, passphrase)
    digest = bump.hash()
    signature = DecoratedSignature(key.public_key[-4:], stellar_signature(key, digest))
    whole = FeeBumpTransactionEnvelope(bump.transaction, passphrase, signatures=[signature])
    raw = whole.to_xdr_object().to_xdr_bytes()
    return SignedTransaction(TxHash(digest.hex()), raw, bump.transaction.fee)


def sequence_of(raw: bytes) -> int:
    """The number of a signed transaction. Raises `ValueError` for a fee bump."""
    envelope = xdr.TransactionEnvelope.from_xdr_bytes(raw)
    if envelope.v1 is None:
        raise ValueError(f"an {envelope.type.name} has no number")
    return envelope.v1.tx.seq_num.sequence_number.int64


def source_of(raw: bytes) -> StellarAddress:
    """The account whose number a signed transaction has. Raises `ValueError` for a fee bump."""
    envelope = xdr.TransactionEnvelope.from_xdr_bytes(raw)
    if envelope.v1 is None:
        raise ValueError(f"an {envelope.type.name} has no number")
    return StellarAddress(MuxedAccount.from_xdr_object(envelope.v1.tx.source_account).account_id)


def bounds_of(raw: bytes) -> Bounds:
    """The bounds inside a signed transaction. Raises `ValueError` where it has none."""
    envelope = xdr.TransactionEnvelope.from_xdr_bytes(raw)
    bounds = None if envelope.v1 is None else envelope.v1.tx.cond.time_bounds
    if bounds is None:
        raise ValueError("a transaction without bounds in time")
    return Bounds(
        UnixSeconds(bounds.min_time.time_point.uint64),
        UnixSeconds(bounds.max_time.time_point.uint64),
    )


def _operation(call: Invocation) -> InvokeHostFunction:
    arguments = xdr.InvokeContractArgs(
        contract_address=Address(call.contract).to_xdr_sc_address(),
        function_name=xdr.SCSymbol(call.function.encode()),
        args=list(call.arguments),
    )
    kind = xdr.HostFunctionType.HOST_FUNCTION_TYPE_INVOKE_CONTRACT
    return InvokeHostFunction(xdr.HostFunction(kind, invoke_contract=arguments), auth=[])
