"""Ledgers as the SDK reads them: another decoder than the product's, to compare it with.

The SDK knows protocol 28; what protocol 30 adds, the devnet's own definitions read. Everything is
hashed as it is encoded again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from typing import TypeAlias

from stellar_sdk import StrKey, xdr
from xdrlib3 import Unpacker

from devnet.stellar.protocol30 import MillisecondValue, read
from indexer.chains.events import Provenance
from indexer.chains.raw import Block, StellarEvent
from indexer.chains.stellar.xdr.event_ids import (
    AFTER_ALL_TRANSACTION,
    AFTER_TRANSACTION_OPERATION,
    FEE_CHARGES_TRANSACTION,
    EventId,
)
from indexer.chains.stellar.xdr.ledgers import Ledger, LedgerProof, LedgerTransaction
from indexer.errors import InconsistentAnswer
from warehouse_schema.identifiers import (
    BlockHash,
    ChainId,
    Height,
    StellarAddress,
    TxHash,
    UnixMilliseconds,
    UnixSeconds,
)

ClosedLedger: TypeAlias = xdr.LedgerCloseMetaV0 | xdr.LedgerCloseMetaV1 | xdr.LedgerCloseMetaV2
Applied: TypeAlias = xdr.TransactionResultMeta | xdr.TransactionResultMetaV1

_SUCCESS = frozenset(
    (
        xdr.TransactionResultCode.txSUCCESS,
        xdr.TransactionResultCode.txFEE_BUMP_INNER_SUCCESS,
    )
)
_STAGE = xdr.TransactionEventStage


_UNIFIED_EVENTS_PROTOCOL = 23
_BACKFILLED_META = 4


@dataclass(frozen=True, slots=True)
class _Emitted:
    """An event and where it was emitted."""

    event_id: EventId
    transaction: LedgerTransaction
    event: xdr.ContractEvent


def read_ledger(meta: xdr.LedgerCloseMeta, chain: ChainId) -> Ledger:
    """A ledger with every contract event, not proven."""
    closed = closed_ledger(meta)
    block = _block(closed.ledger_header, chain)
    transactions = tuple(_transactions(closed.tx_processing))
    events = sorted(
        _emitted(closed.tx_processing, transactions, block.height),
        key=lambda emitted: emitted.event_id,
    )
    return Ledger(
        block=block,
        transactions=transactions,
        events=tuple(_event(e, block) for e in events if e.transaction.successful),
        failed_fees=tuple(_event(e, block) for e in events if not e.transaction.successful),
    )


def parse_meta(raw: bytes) -> xdr.LedgerCloseMeta:
    """Raises `InconsistentAnswer` for what is no `LedgerCloseMeta`."""
    try:
        return read(xdr.LedgerCloseMeta, raw)
    except (EOFError, ValueError, RecursionError) as error:
        raise InconsistentAnswer(f"not the XDR of a ledger: {error}") from error


def closed_ledger(meta: xdr.LedgerCloseMeta) -> ClosedLedger:
    """What the wrapper holds, of whichever version."""
    for closed in (meta.v0, meta.v1, meta.v2):
        if closed is not None:
            return closed
    raise InconsistentAnswer(f"a ledger in a wrapper of unknown version {meta.v}")


def header_entry(raw: bytes) -> xdr.LedgerHeaderHistoryEntry:
    """The header of a `LedgerCloseMeta`."""
    unpacker = Unpacker(raw)
    if unpacker.unpack_uint() > 0:
        xdr.LedgerCloseMetaExt.unpack(unpacker)
    return xdr.LedgerHeaderHistoryEntry.unpack(unpacker)


def _block(entry: xdr.LedgerHeaderHistoryEntry, chain: ChainId) -> Block:
    header = entry.header
    if sha256(header.to_xdr_bytes()).digest() != entry.hash.hash:
        name = entry.hash.hash.hex()
        raise InconsistentAnswer(
            f"ledger {header.ledger_seq.uint32}: its header does not hash to {name}"
        )
    value = header.scp_value.ext
    milliseconds = value.close_time_ms if isinstance(value, MillisecondValue) else None
    return Block(
        chain=chain,
        height=Height(header.ledger_seq.uint32),
        hash=BlockHash(entry.hash.hash.hex()),
        parent_hash=BlockHash(header.previous_ledger_hash.hash.hex()),
        time=UnixSeconds(header.scp_value.close_time.time_point.uint64),
        protocol_version=header.ledger_version.uint32,
        close_time_ms=None if milliseconds is None else UnixMilliseconds(milliseconds),
    )


def _transactions(applied: Sequence[Applied]) -> Iterator[LedgerTransaction]:
    for index, each in enumerate(applied, start=1):
        yield LedgerTransaction(
            hash=TxHash(each.result.transaction_hash.hash.hex()),
            index=index,
            successful=each.result.result.result.code in _SUCCESS,
        )


def _emitted(
    applied: Sequence[Applied], transactions: Sequence[LedgerTransaction], ledger: Height
) -> Iterator[_Emitted]:
    """Every event, numbered as Stellar RPC numbers it; charges and refunds count on."""
    charges, refunds = count(), count()
    for transaction, each in zip(transactions, applied, strict=True):
        meta, after = each.tx_apply_processing, count()
        for staged in _staged_events(meta):
            if staged.stage is _STAGE.TRANSACTION_EVENT_STAGE_BEFORE_ALL_TXS:
                event_id = EventId(ledger, FEE_CHARGES_TRANSACTION, 0, next(charges))
            elif staged.stage is _STAGE.TRANSACTION_EVENT_STAGE_AFTER_TX:
                event_id = EventId(
                    ledger, transaction.index, AFTER_TRANSACTION_OPERATION, next(after)
                )
            else:
                event_id = EventId(ledger, AFTER_ALL_TRANSACTION, 0, next(refunds))
            yield from _of_contract(event_id, transaction, staged.event)
        for operation, events in enumerate(operation_events(meta)):
            for index, event in enumerate(events):
                event_id = EventId(ledger, transaction.index, operation, index)
                yield from _of_contract(event_id, transaction, event)


def _of_contract(
    event_id: EventId, transaction: LedgerTransaction, event: xdr.ContractEvent
) -> Iterator[_Emitted]:
    """The event if a contract emitted it; others take a number too, but are not given."""
    if event.type is xdr.ContractEventType.CONTRACT and event.contract_id is not None:
        yield _Emitted(event_id, transaction, event)


def _staged_events(meta: xdr.TransactionMeta) -> Sequence[xdr.TransactionEvent]:
    return () if meta.v4 is None else meta.v4.events


def operation_events(meta: xdr.TransactionMeta) -> Sequence[Sequence[xdr.ContractEvent]]:
    """Events by operation. Meta v3 keeps those of its one operation with the transaction."""
    if meta.v4 is not None:
        return [operation.events for operation in meta.v4.operations]
    if meta.v3 is not None and meta.v3.soroban_meta is not None:
        return [meta.v3.soroban_meta.events]
    return []


def _event(emitted: _Emitted, block: Block) -> StellarEvent:
    event = emitted.event
    if event.contract_id is None or event.body.v0 is None:
        raise InconsistentAnswer(f"event {emitted.event_id} has no contract or no body")
    return StellarEvent(
        seen=Provenance(
            chain=block.chain,
            height=block.height,
            block_hash=block.hash,
            tx_hash=emitted.transaction.hash,
            position=emitted.event_id.position,
            block_time=block.time,
        ),
        event_id=str(emitted.event_id),
        contract=StellarAddress(StrKey.encode_contract(event.contract_id.contract_id.hash)),
        topics=tuple(topic.to_xdr_bytes() for topic in event.body.v0.topics),
        value=event.body.v0.data.to_xdr_bytes(),
    )


def verify_ledger(meta: xdr.LedgerCloseMeta, passphrase: str) -> LedgerProof:
    """Recompute every hash of a ledger of that network.

    Raises `InconsistentAnswer` on the first that differs.
    """
    closed = closed_ledger(meta)
    entry = closed.ledger_header
    ledger = f"ledger {entry.header.ledger_seq.uint32}"
    _check(ledger, "header", entry.header.to_xdr_bytes(), entry.hash)
    _check(ledger, "transaction set", _tx_set(closed), entry.header.scp_value.tx_set_hash)
    _check(ledger, "results", _result_set(closed), entry.header.tx_set_result_hash)
    _check_transactions(ledger, closed, passphrase)
    return _proof(ledger, closed)


def _transaction_hash(envelope: xdr.TransactionEnvelope, passphrase: str) -> bytes:
    """A transaction's name on that network."""
    network = sha256(passphrase.encode()).digest()
    return sha256(network + signed_part(envelope)).digest()


def signed_part(envelope: xdr.TransactionEnvelope) -> bytes:
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
    return sorted(_transaction_hash(envelope, passphrase) for envelope in envelopes(closed))


def _hashes_of_results(closed: ClosedLedger) -> list[bytes]:
    return sorted(applied.result.transaction_hash.hash for applied in closed.tx_processing)


def envelopes(closed: ClosedLedger) -> Iterator[xdr.TransactionEnvelope]:
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
        committed = invocation_hash(applied.result.result)
        if committed is None:
            continue
        invocations += 1
        if sha256(invocation(applied.tx_apply_processing)).digest() != committed:
            unproven.append(TxHash(applied.result.transaction_hash.hash.hex()))
            if not _may_be_rewritten(closed, applied):
                raise InconsistentAnswer(f"{ledger}: {unproven[-1]} did not emit these events")
    return LedgerProof(invocations, tuple(unproven))


def _may_be_rewritten(closed: ClosedLedger, applied: Applied) -> bool:
    protocol = closed.ledger_header.header.ledger_version.uint32
    return protocol < _UNIFIED_EVENTS_PROTOCOL and applied.tx_apply_processing.v == _BACKFILLED_META


def invocation_hash(result: xdr.TransactionResult) -> bytes | None:
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


def invocation(meta: xdr.TransactionMeta) -> bytes:
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
