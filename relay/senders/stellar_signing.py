"""Stellar transactions as signed bytes. Pure but for the key.

Each has time bounds, from the ledger before its signature for a few minutes. Past them it can have
no effect.
"""

import base64
from copy import copy
from dataclasses import dataclass

from stellar_sdk import (
    Account,
    Address,
    DecoratedSignature,
    FeeBumpTransactionEnvelope,
    Keypair,
    MuxedAccount,
    TransactionBuilder,
    TransactionEnvelope,
    xdr,
)
from stellar_sdk.exceptions import BadSignatureError
from stellar_sdk.operation import BumpSequence, InvokeHostFunction

from indexer.chains.stellar.xdr.simulation import SimulationResult
from relay.keys import StellarKey, stellar_address, stellar_signature
from relay.nonces import SignedTransaction
from warehouse_schema.identifiers import StellarAddress, Stroops, TxHash, UnixSeconds


@dataclass(frozen=True, slots=True)
class Invocation:
    """Call of a contract function."""

    contract: StellarAddress
    function: str
    arguments: tuple[xdr.SCVal, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Close times of the first and last ledger that may include a transaction."""

    first: UnixSeconds
    last: UnixSeconds


@dataclass(frozen=True, slots=True)
class TransactionHeader:
    """Source account, sequence number and time bounds of a signed transaction."""

    source: StellarAddress
    sequence: int
    bounds: Bounds


def build_call(
    source: StellarAddress,
    passphrase: str,
    number: int,
    call: Invocation | None,
    bid: Stroops,
    bounds: Bounds,
) -> TransactionEnvelope:
    """Build an unsigned call, or None: a transaction without effect."""
    builder = TransactionBuilder(Account(source, number - 1), passphrase, base_fee=bid)
    builder.add_time_bounds(bounds.first, bounds.last)
    if call is None:
        # Bumping to a number that is passed already does nothing.
        return builder.append_operation(BumpSequence(0)).build()
    arguments = xdr.InvokeContractArgs(
        contract_address=Address(call.contract).to_xdr_sc_address(),
        function_name=xdr.SCSymbol(call.function.encode()),
        args=list(call.arguments),
    )
    kind = xdr.HostFunctionType.HOST_FUNCTION_TYPE_INVOKE_CONTRACT
    function = xdr.HostFunction(kind, invoke_contract=arguments)
    return builder.append_operation(InvokeHostFunction(function, auth=[])).build()


def with_resources(envelope: TransactionEnvelope, found: SimulationResult) -> TransactionEnvelope:
    """Add the resources and authorizations that the simulation of its call found."""
    data = xdr.SorobanTransactionData.from_xdr_bytes(found.data)
    [call] = envelope.transaction.operations
    if isinstance(call, InvokeHostFunction):
        call.auth = [xdr.SorobanAuthorizationEntry.from_xdr_bytes(each) for each in found.auth]
    envelope.transaction.soroban_data = data
    envelope.transaction.fee += found.resource_fee
    return envelope


def sign_stellar(
    key: StellarKey, envelope: TransactionEnvelope | FeeBumpTransactionEnvelope
) -> SignedTransaction:
    """Add the key's signature to a transaction. Raises `WrongSignature`."""
    digest = envelope.hash()
    signature = DecoratedSignature(key.public_key[-4:], stellar_signature(key, digest))
    whole = copy(envelope)
    whole.signatures = [signature, *envelope.signatures]
    raw = whole.to_xdr_object().to_xdr_bytes()
    return SignedTransaction(TxHash(digest.hex()), raw, Stroops(envelope.transaction.fee))


def sign_fee_bump(
    key: StellarKey, passphrase: str, inner: bytes, bid: Stroops
) -> SignedTransaction:
    """Wrap a signed transaction in a fee bump of the key's account (CAP-15).

    `bid` is per operation, and the bump counts as one; resource fees of a contract call come on
    top. Raises `WrongSignature`.
    """
    envelope = TransactionEnvelope.from_xdr(base64.b64encode(inner).decode(), passphrase)
    source = stellar_address(key)
    return sign_stellar(
        key, TransactionBuilder.build_fee_bump_transaction(source, bid, envelope, passphrase)
    )


def read_header(raw: bytes) -> TransactionHeader:
    """Read a signed transaction. Raises `ValueError` for a fee bump, or without time bounds."""
    envelope = xdr.TransactionEnvelope.from_xdr_bytes(raw)
    if envelope.v1 is None:
        raise ValueError(f"an {envelope.type.name} has no number")
    tx = envelope.v1.tx
    if tx.cond.time_bounds is None:
        raise ValueError("a transaction without time bounds")
    bounds = Bounds(
        UnixSeconds(tx.cond.time_bounds.min_time.time_point.uint64),
        UnixSeconds(tx.cond.time_bounds.max_time.time_point.uint64),
    )
    source = StellarAddress(MuxedAccount.from_xdr_object(tx.source_account).account_id)
    return TransactionHeader(source, tx.seq_num.sequence_number.int64, bounds)


def tx_hash(passphrase: str, raw: bytes) -> TxHash:
    """Hash of a signed transaction on a network."""
    text = base64.b64encode(raw).decode()
    return TxHash(TransactionEnvelope.from_xdr(text, passphrase).hash_hex())


def is_fill(raw: bytes) -> bool:
    """True for a transaction of `build_call` without a call, which has time bounds."""
    envelope = xdr.TransactionEnvelope.from_xdr_bytes(raw)
    if envelope.v1 is None or envelope.v1.tx.cond.time_bounds is None:
        return False
    kinds = [each.body.type for each in envelope.v1.tx.operations]
    return kinds == [xdr.OperationType.BUMP_SEQUENCE]


def is_signed_by(address: StellarAddress, passphrase: str, raw: bytes) -> bool:
    """True when an account's own key signed a transaction for a network."""
    envelope = TransactionEnvelope.from_xdr(base64.b64encode(raw).decode(), passphrase)
    key, digest = Keypair.from_public_key(address), envelope.hash()
    return any(_verifies(key, digest, each.signature) for each in envelope.signatures)


def _verifies(key: Keypair, digest: bytes, signature: bytes) -> bool:
    try:
        key.verify(digest, signature)
    except BadSignatureError:
        return False
    return True


def read_invocation(raw: bytes) -> Invocation | None:
    """The contract call in a signed transaction; None when it is something else."""
    envelope = xdr.TransactionEnvelope.from_xdr_bytes(raw)
    operations = () if envelope.v1 is None else envelope.v1.tx.operations
    calls = [each.body.invoke_host_function_op for each in operations]
    called = calls[0].host_function.invoke_contract if len(calls) == 1 and calls[0] else None
    if called is None:
        return None
    contract = Address.from_xdr_sc_address(called.contract_address).address
    name = called.function_name.sc_symbol.decode()
    return Invocation(StellarAddress(contract), name, tuple(called.args))
