"""What a ledger's header commits to, recomputed.

The header hashes to the ledger's name; it holds the hash of the transaction set and that of the
results in order of application. Each result of a contract invocation holds the hash of its return
value and its events. Events of classic operations, and fees, have no such proof: for them the
source is trusted. Rules: stellar-core's LedgerManager and Stellar-ledger.x.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from stellar_sdk import xdr

from indexer.decode.ledgers import (
    Applied,
    ClosedLedger,
    closed_ledger,
    operation_events,
    parse_meta,
)
from indexer.errors import InconsistentAnswer
from warehouse_schema.identifiers import TxHash

_UNIFIED_EVENTS_PROTOCOL = 23
_BACKFILLED_META = 4


@dataclass(frozen=True, slots=True)
class LedgerProof:
    """How much of a ledger's contract events its header proves."""

    invocations: int
    """Successful contract invocations."""
    unproven: tuple[TxHash, ...]
    """Invocations whose events do not hash to their result, where that is known to happen: ledgers
    before protocol 23 that were re-encoded with meta v4, which rewrites old events."""


def verify_ledger(meta: bytes | xdr.LedgerCloseMeta, passphrase: str) -> LedgerProof:
    """Recompute every hash of a ledger of that network.

    Raises `InconsistentAnswer` on the first that differs, `UnsupportedProtocol` as `parse_meta`.
    """
    closed = closed_ledger(parse_meta(meta) if isinstance(meta, bytes) else meta)
    entry = closed.ledger_header
    ledger = f"ledger {entry.header.ledger_seq.uint32}"
    _check(ledger, "header", entry.header.to_xdr_bytes(), entry.hash)
    _check(ledger, "transaction set", _tx_set(closed), entry.header.scp_value.tx_set_hash)
    _check(ledger, "results", _result_set(closed), entry.header.tx_set_result_hash)
    _check_transactions(ledger, closed, passphrase)
    return _proof(ledger, closed)


def is_of_network(meta: xdr.LedgerCloseMeta, passphrase: str) -> bool:
    """Whether the ledger's transactions hash to its results' under that passphrase.

    An empty ledger is of any network.
    """
    closed = closed_ledger(meta)
    return _hashes_of_set(closed, passphrase) == _hashes_of_results(closed)


def transaction_hash(envelope: xdr.TransactionEnvelope, passphrase: str) -> bytes:
    """A transaction's name on that network."""
    network = sha256(passphrase.encode()).digest()
    return sha256(network + _signed_part(envelope)).digest()


def _signed_part(envelope: xdr.TransactionEnvelope) -> bytes:
    kind = xdr.EnvelopeType
    if envelope.v1 is not None:
        return kind.ENVELOPE_TYPE_TX.to_xdr_bytes() + envelope.v1.tx.to_xdr_bytes()
    if envelope.fee_bump is not None:
        return kind.ENVELOPE_TYPE_TX_FEE_BUMP.to_xdr_bytes() + envelope.fee_bump.tx.to_xdr_bytes()
    if envelope.v0 is not None:
        # An old envelope is named as if its source were written with the type of its key.
        key_type = xdr.PublicKeyType.PUBLIC_KEY_TYPE_ED25519.to_xdr_bytes()
        return kind.ENVELOPE_TYPE_TX.to_xdr_bytes() + key_type + envelope.v0.tx.to_xdr_bytes()
    raise InconsistentAnswer(f"an envelope of unknown type {envelope.type}")


def _tx_set(closed: ClosedLedger) -> bytes:
    """What the transaction set's hash is taken of."""
    if isinstance(closed, xdr.LedgerCloseMetaV0):
        envelopes = b"".join(envelope.to_xdr_bytes() for envelope in closed.tx_set.txs)
        return closed.tx_set.previous_ledger_hash.hash + envelopes
    return closed.tx_set.to_xdr_bytes()


def _result_set(closed: ClosedLedger) -> bytes:
    results = [applied.result for applied in closed.tx_processing]
    return xdr.TransactionResultSet(results).to_xdr_bytes()


def _check_transactions(ledger: str, closed: ClosedLedger, passphrase: str) -> None:
    if _hashes_of_set(closed, passphrase) != _hashes_of_results(closed):
        raise InconsistentAnswer(f"{ledger}: its results are not those of its transactions")


def _hashes_of_set(closed: ClosedLedger, passphrase: str) -> list[bytes]:
    return sorted(transaction_hash(envelope, passphrase) for envelope in _envelopes(closed))


def _hashes_of_results(closed: ClosedLedger) -> list[bytes]:
    return sorted(applied.result.transaction_hash.hash for applied in closed.tx_processing)


def _envelopes(closed: ClosedLedger) -> Iterator[xdr.TransactionEnvelope]:
    if isinstance(closed, xdr.LedgerCloseMetaV0):
        yield from closed.tx_set.txs
    elif closed.tx_set.v1_tx_set is not None:
        for phase in closed.tx_set.v1_tx_set.phases:
            yield from _envelopes_of_phase(phase)


def _envelopes_of_phase(phase: xdr.TransactionPhase) -> Iterator[xdr.TransactionEnvelope]:
    for component in phase.v0_components or ():
        if component.txs_maybe_discounted_fee is not None:
            yield from component.txs_maybe_discounted_fee.txs
    if phase.parallel_txs_component is not None:
        for stage in phase.parallel_txs_component.execution_stages:
            for cluster in stage.parallel_tx_execution_stage:
                yield from cluster.dependent_tx_cluster


def _proof(ledger: str, closed: ClosedLedger) -> LedgerProof:
    invocations, unproven = 0, []
    for applied in closed.tx_processing:
        committed = _invocation_hash(applied.result.result)
        if committed is None:
            continue
        invocations += 1
        if sha256(_invocation(applied.tx_apply_processing)).digest() != committed:
            unproven.append(TxHash(applied.result.transaction_hash.hash.hex()))
            if not _may_be_rewritten(closed, applied):
                raise InconsistentAnswer(f"{ledger}: {unproven[-1]} did not emit these events")
    return LedgerProof(invocations, tuple(unproven))


def _may_be_rewritten(closed: ClosedLedger, applied: Applied) -> bool:
    protocol = closed.ledger_header.header.ledger_version.uint32
    return protocol < _UNIFIED_EVENTS_PROTOCOL and applied.tx_apply_processing.v == _BACKFILLED_META


def _invocation_hash(result: xdr.TransactionResult) -> bytes | None:
    """What a successful invocation's result commits to; None for other transactions."""
    for operation in _operation_results(result):
        invoked = operation.tr and operation.tr.invoke_host_function_result
        if invoked and invoked.success is not None:
            return invoked.success.hash
    return None


def _operation_results(result: xdr.TransactionResult) -> Sequence[xdr.OperationResult]:
    inner = result.result.inner_result_pair
    outcome = result.result if inner is None else inner.result.result
    return outcome.results or ()


def _invocation(meta: xdr.TransactionMeta) -> bytes:
    """`InvokeHostFunctionSuccessPreImage`: an invocation is alone in its transaction."""
    returned = _return_value(meta)
    if returned is None:
        raise InconsistentAnswer("an invocation without a return value")
    events = [event for operation in operation_events(meta) for event in operation]
    return xdr.InvokeHostFunctionSuccessPreImage(returned, events).to_xdr_bytes()


def _return_value(meta: xdr.TransactionMeta) -> xdr.SCVal | None:
    if meta.v4 is not None:
        return None if meta.v4.soroban_meta is None else meta.v4.soroban_meta.return_value
    if meta.v3 is not None and meta.v3.soroban_meta is not None:
        return meta.v3.soroban_meta.return_value
    return None


def _check(ledger: str, what: str, committed: bytes, digest: xdr.Hash) -> None:
    if sha256(committed).digest() != digest.hash:
        raise InconsistentAnswer(f"{ledger}: its {what} do not hash to {digest.hash.hex()}")
