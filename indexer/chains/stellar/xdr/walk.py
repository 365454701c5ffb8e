"""Ledgers from `LedgerCloseMeta` XDR: transactions, events with their RPC ids, and their proof.

Wrappers v0 (before protocol 20), v1 and v2; transaction meta v1 to v4, of which v3 and v4 hold
events. A skipper passes over every field, so that the whole ledger is seen to be XDR to its last
byte, and on the way it is noted where transactions, results and events stand. Slices of the bytes
are then hashed against the header, and cut into events.

The header hashes to the ledger's name; it holds the hash of the transaction set and that of the
results in order of application. Each result of a contract invocation holds the hash of its return
value and its events. Events of classic operations, and fees, have no such proof: for them the
source is trusted. Rules: stellar-core's LedgerManager and Stellar-ledger.x.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import count

from stellar_sdk import StrKey, xdr

from indexer.chains.events import Provenance
from indexer.chains.raw import Block, StellarEvent
from indexer.chains.stellar.xdr.event_ids import (
    AFTER_ALL_TRANSACTION,
    AFTER_TRANSACTION_OPERATION,
    FEE_CHARGES_TRANSACTION,
    EventId,
)
from indexer.chains.stellar.xdr.ledgers import (
    Ledger,
    LedgerProof,
    LedgerTransaction,
    block_of_meta,
)
from indexer.chains.stellar.xdr.skip import Malformed, Skipper, elements, fields, skipper
from indexer.errors import InconsistentAnswer
from warehouse_schema.identifiers import ChainId, StellarAddress, TxHash

_UNIFIED_EVENTS_PROTOCOL = 23
_BACKFILLED_META = 4


def _words(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "big", signed=value < 0) for value in values)


_HASH = 32
_NONE = _words(0)
_SUCCESS = _words(xdr.TransactionResultCode.txSUCCESS)
_INNER_SUCCESS = _words(xdr.TransactionResultCode.txFEE_BUMP_INNER_SUCCESS)
_INVOKED = _SUCCESS + _words(
    1,
    xdr.OperationResultCode.opINNER,
    xdr.OperationType.INVOKE_HOST_FUNCTION,
    xdr.InvokeHostFunctionResultCode.INVOKE_HOST_FUNCTION_SUCCESS,
)
"""How the result of an invocation begins, which is alone in its transaction; a hash follows."""
_CONTRACT = 4 + 4
"""Bytes of an event before its contract's id: an extension point and the id's flag."""
_BEFORE_TOPICS = 4 + 4 + 4
"""Bytes between the id and the topics: the event's type, its body's version and the topics' number.
"""
_BY_CONTRACT = _words(xdr.ContractEventType.CONTRACT)
_BEFORE_ALL = _words(xdr.TransactionEventStage.TRANSACTION_EVENT_STAGE_BEFORE_ALL_TXS)
_AFTER_ONE = _words(xdr.TransactionEventStage.TRANSACTION_EVENT_STAGE_AFTER_TX)
_V0_ENVELOPE = _words(xdr.EnvelopeType.ENVELOPE_TYPE_TX_V0)
_SIGNED_AS = _words(xdr.EnvelopeType.ENVELOPE_TYPE_TX, xdr.PublicKeyType.PUBLIC_KEY_TYPE_ED25519)
"""What an old envelope's transaction is signed behind: the new type, and the type of its key."""
_SIGNED = {
    _V0_ENVELOPE: skipper("TransactionV0"),
    _words(xdr.EnvelopeType.ENVELOPE_TYPE_TX): skipper("Transaction"),
    _words(xdr.EnvelopeType.ENVELOPE_TYPE_TX_FEE_BUMP): skipper("FeeBumpTransaction"),
}
_SIGNATURES = skipper("DecoratedSignature")
_SC_VAL, _EVENT = skipper("SCVal"), skipper("ContractEvent")
_STAGED_EVENT = skipper("TransactionEvent")
_META = skipper("TransactionMeta")
_VALUE = skipper("StellarValue")
_BEFORE_VALUE = 4 + _HASH
"""A header's version and parent, before the value, which begins with the transaction set's hash;
behind it stands the hash of the results."""


@dataclass(slots=True)
class _Applied:
    """Where the parts of an applied transaction stand, each as begin and end."""

    result: slice = field(default_factory=partial(slice, 0))
    meta_version: int = 0
    operations: list[list[slice]] = field(default_factory=list)
    """Events by operation."""
    staged: list[tuple[bytes, slice]] = field(default_factory=list)
    """Events of the transaction itself, with their stage."""
    returned: slice | None = None
    """What the invocation returned."""


@dataclass(slots=True)
class _Walked:
    """Where the parts of a ledger stand."""

    header: int = 0
    transaction_set: slice = field(default_factory=partial(slice, 0))
    signed: list[tuple[bytes, slice]] = field(default_factory=list)
    """What each transaction's name is the hash of: what it begins with, and the rest of it."""
    applied: list[_Applied] = field(default_factory=list)


def walk_ledger(
    raw: bytes, chain: ChainId, passphrase: str, contracts: Collection[StellarAddress] | None = None
) -> tuple[Ledger, LedgerProof]:
    """Read a ledger and recompute every hash of it.

    With `contracts`, only their events are given. Raises `Malformed` for what is not the XDR of a
    ledger or is not written as an encoder would, `InconsistentAnswer` when a hash differs, and
    `UnsupportedProtocol` as `block_of_meta` does.
    """
    block = block_of_meta(raw, chain)
    walked = _walk(raw)
    _check_set(raw, block, walked)
    _check_results(raw, block, walked)
    if not _are_named(raw, walked, passphrase):
        raise InconsistentAnswer(
            f"ledger {block.height}: its results are not those of its transactions"
        )
    proof = _proof(raw, block, walked)
    transactions = [_transaction(raw, *each) for each in enumerate(walked.applied, start=1)]
    kept = None if contracts is None else frozenset(map(StrKey.decode_contract, contracts))
    events = list(_events(raw, block, walked.applied, transactions, kept))
    events.sort(key=lambda each: each[0].event_id)
    return (
        Ledger(
            block=block,
            transactions=tuple(transactions),
            events=tuple(event for event, successful in events if successful),
            failed_fees=tuple(event for event, successful in events if not successful),
        ),
        proof,
    )


# Where things stand.


def _walk(raw: bytes) -> _Walked:
    walked = _Walked()
    version = _integer(raw, 0)
    name = f"LedgerCloseMetaV{version}"
    inside: Mapping[str, Skipper] = {
        "txSet": partial(_walk_set, walked, version),
        "txProcessing": partial(_walk_processing, walked, version),
    }
    try:
        at = 4
        for part, skip in fields(name):
            if part == "ledgerHeader":
                walked.header = at + _HASH
            at = inside.get(part, skip)(raw, at)
    except (KeyError, RecursionError) as error:
        raise Malformed(f"{name}: {type(error).__name__} {error}") from error
    if at != len(raw):
        raise Malformed(f"a ledger of {at} bytes in {len(raw)}")
    return walked


def _walk_set(walked: _Walked, version: int, raw: bytes, at: int) -> int:
    """`TransactionSet` in wrapper v0, otherwise `GeneralizedTransactionSet`."""
    begin, envelope = at, partial(_walk_envelope, walked)
    if version == 0:
        at = elements(raw, at + _HASH, envelope)
    else:
        _expect(raw, at, 1)
        at = elements(raw, at + 4 + _HASH, partial(_walk_phase, envelope))
    walked.transaction_set = slice(begin, at)
    return at


def _walk_phase(envelope: Skipper, raw: bytes, at: int) -> int:
    """`TransactionPhase`: components one after another, or stages of clusters side by side."""
    version, at = _integer(raw, at), at + 4
    if version == 0:
        return elements(raw, at, partial(_walk_component, envelope))
    _expect(raw, at - 4, 1)
    cluster = partial(elements, step=envelope)
    return elements(raw, _base_fee(raw, at), partial(elements, step=cluster))


def _walk_component(envelope: Skipper, raw: bytes, at: int) -> int:
    _expect(raw, at, 0)
    return elements(raw, _base_fee(raw, at + 4), envelope)


def _walk_envelope(walked: _Walked, raw: bytes, at: int) -> int:
    kind = raw[at : at + 4]
    end = _SIGNED[kind](raw, at + 4)
    if kind == _V0_ENVELOPE:
        walked.signed.append((_SIGNED_AS, slice(at + 4, end)))
    else:
        walked.signed.append((b"", slice(at, end)))
    return elements(raw, end, _SIGNATURES)


def _walk_processing(walked: _Walked, version: int, raw: bytes, at: int) -> int:
    parts = fields("TransactionResultMetaV1" if version == 2 else "TransactionResultMeta")
    return elements(raw, at, partial(_walk_applied, walked, parts))


def _walk_applied(
    walked: _Walked, parts: tuple[tuple[str, Skipper], ...], raw: bytes, at: int
) -> int:
    applied = _Applied()
    walked.applied.append(applied)
    for part, skip in parts:
        if part == "txApplyProcessing":
            at = _walk_meta(applied, raw, at)
        elif part == "result":
            begin, at = at, skip(raw, at)
            applied.result = slice(begin, at)
        else:
            at = skip(raw, at)
    return at


def _walk_meta(applied: _Applied, raw: bytes, at: int) -> int:
    applied.meta_version = _integer(raw, at)
    inside = _PARTS_OF_META.get(applied.meta_version)
    if inside is None:
        return _META(raw, at)
    at += 4
    for part, skip in fields(f"TransactionMetaV{applied.meta_version}"):
        at = inside[part](applied, raw, at) if part in inside else skip(raw, at)
    return at


def _walk_operations(applied: _Applied, raw: bytes, at: int) -> int:
    """`OperationMetaV2<>`."""
    return elements(raw, at, partial(_walk_operation, applied))


def _walk_operation(applied: _Applied, raw: bytes, at: int) -> int:
    for part, skip in fields("OperationMetaV2"):
        at = _walk_events(applied, raw, at) if part == "events" else skip(raw, at)
    return at


def _walk_events(applied: _Applied, raw: bytes, at: int) -> int:
    """`ContractEvent<>`: the events of one operation."""
    events: list[slice] = []
    applied.operations.append(events)
    return elements(raw, at, partial(_walk_event, events))


def _walk_event(events: list[slice], raw: bytes, at: int) -> int:
    end = _EVENT(raw, at)
    events.append(slice(at, end))
    return end


def _walk_staged(applied: _Applied, raw: bytes, at: int) -> int:
    """`TransactionEvent<>`."""
    return elements(raw, at, partial(_walk_staged_event, applied))


def _walk_staged_event(applied: _Applied, raw: bytes, at: int) -> int:
    end = _STAGED_EVENT(raw, at)
    applied.staged.append((raw[at : at + 4], slice(at + 4, end)))
    return end


def _walk_soroban(name: str, applied: _Applied, raw: bytes, at: int) -> int:
    """An optional `SorobanTransactionMeta`, of meta v3 with the events, of v4 without."""
    if _flag(raw, at) == 0:
        return at + 4
    at += 4
    for part, skip in fields(name):
        begin = at
        at = _walk_events(applied, raw, at) if part == "events" else skip(raw, at)
        if part == "returnValue":
            applied.returned = slice(begin, at)
    return at


def _walk_soroban_v4(applied: _Applied, raw: bytes, at: int) -> int:
    at = _walk_soroban("SorobanTransactionMetaV2", applied, raw, at)
    if applied.returned is not None:
        # There it may be left out; a flag stands before it.
        begin, end = applied.returned.start, applied.returned.stop
        applied.returned = slice(begin + 4, end) if _flag(raw, begin) else None
    return at


_PARTS_OF_META: Mapping[int, Mapping[str, Callable[[_Applied, bytes, int], int]]] = {
    3: {"sorobanMeta": partial(_walk_soroban, "SorobanTransactionMeta")},
    4: {
        "operations": _walk_operations,
        "sorobanMeta": _walk_soroban_v4,
        "events": _walk_staged,
    },
}
"""Version of transaction meta that holds events → what walks the parts that matter."""


def _integer(raw: bytes, at: int) -> int:
    return int.from_bytes(raw[at : at + 4], "big")


def _expect(raw: bytes, at: int, value: int) -> None:
    if _integer(raw, at) != value:
        raise Malformed(f"{_integer(raw, at)} at {at}, not {value}")


def _flag(raw: bytes, at: int) -> int:
    flag = _integer(raw, at)
    if flag > 1:
        raise Malformed(f"{flag} at {at}, not 0 or 1")
    return flag


def _base_fee(raw: bytes, at: int) -> int:
    """An optional int64."""
    return at + 4 + 8 * _flag(raw, at)


# What the header says of it.


def _check_set(raw: bytes, block: Block, walked: _Walked) -> None:
    begin, end = walked.transaction_set.start, walked.transaction_set.stop
    committed = raw[begin:end]
    if _integer(raw, 0) == 0:
        committed = committed[:_HASH] + committed[_HASH + 4 :]
    begin = walked.header + _BEFORE_VALUE
    _check(block, "transaction set", committed, raw[begin : begin + _HASH])


def _check_results(raw: bytes, block: Block, walked: _Walked) -> None:
    results = [raw[applied.result] for applied in walked.applied]
    begin = _VALUE(raw, walked.header + _BEFORE_VALUE)
    committed = _words(len(results)) + b"".join(results)
    _check(block, "results", committed, raw[begin : begin + _HASH])


def _are_named(raw: bytes, walked: _Walked, passphrase: str) -> bool:
    """Whether the transactions of the set are those that the results name."""
    network = sha256(passphrase.encode()).digest()
    named = sorted(
        sha256(network + before + raw[signed]).digest() for before, signed in walked.signed
    )
    return named == sorted(_name(raw, applied) for applied in walked.applied)


def _proof(raw: bytes, block: Block, walked: _Walked) -> LedgerProof:
    invocations, unproven = 0, []
    for applied in walked.applied:
        committed = _invocation_hash(raw, applied)
        if committed is None:
            continue
        invocations += 1
        if sha256(_invocation(raw, applied)).digest() != committed:
            unproven.append(TxHash(_name(raw, applied).hex()))
            if not _may_be_rewritten(block, applied):
                raise InconsistentAnswer(
                    f"ledger {block.height}: {unproven[-1]} did not emit these events"
                )
    return LedgerProof(invocations, tuple(unproven))


def _may_be_rewritten(block: Block, applied: _Applied) -> bool:
    return (
        block.protocol_version is not None
        and block.protocol_version < _UNIFIED_EVENTS_PROTOCOL
        and applied.meta_version == _BACKFILLED_META
    )


def _invocation_hash(raw: bytes, applied: _Applied) -> bytes | None:
    at = applied.result.start + _HASH + 8
    if raw[at : at + 4] == _INNER_SUCCESS:
        at += 4 + _HASH + 8
    begin = at + len(_INVOKED)
    return raw[begin : begin + _HASH] if raw[at:begin] == _INVOKED else None


def _invocation(raw: bytes, applied: _Applied) -> bytes:
    if applied.returned is None:
        raise InconsistentAnswer("an invocation without a return value")
    events = [raw[event] for operation in applied.operations for event in operation]
    return raw[applied.returned] + _words(len(events)) + b"".join(events)


def _name(raw: bytes, applied: _Applied) -> bytes:
    begin = applied.result.start
    return raw[begin : begin + _HASH]


def _check(block: Block, what: str, committed: bytes, digest: bytes) -> None:
    if sha256(committed).digest() != digest:
        raise InconsistentAnswer(f"ledger {block.height}: its {what} do not hash to {digest.hex()}")


# What is kept of it.


def _transaction(raw: bytes, index: int, applied: _Applied) -> LedgerTransaction:
    code = applied.result.start + _HASH + 8
    return LedgerTransaction(
        hash=TxHash(_name(raw, applied).hex()),
        index=index,
        successful=raw[code : code + 4] in (_SUCCESS, _INNER_SUCCESS),
    )


def _events(
    raw: bytes,
    block: Block,
    applied: list[_Applied],
    transactions: list[LedgerTransaction],
    kept: frozenset[bytes] | None,
) -> Iterator[tuple[StellarEvent, bool]]:
    """Events of contracts that are kept, and whether their transactions succeeded."""
    for transaction, event_id, where in _numbered(block, applied, transactions):
        begin = where.start + _CONTRACT
        if raw[begin - 4 : begin] == _NONE:
            continue
        contract = raw[begin : begin + _HASH]
        if kept is not None and contract not in kept:
            continue
        if raw[begin + _HASH : begin + _HASH + 4] == _BY_CONTRACT:
            yield _event(raw, block, transaction, event_id, where), transaction.successful


def _numbered(
    block: Block, applied: list[_Applied], transactions: list[LedgerTransaction]
) -> Iterator[tuple[LedgerTransaction, EventId, slice]]:
    """Every event, numbered as Stellar RPC numbers it; charges and refunds count on."""
    ledger, charges, refunds = block.height, count(), count()
    for transaction, each in zip(transactions, applied, strict=True):
        after = count()
        for stage, where in each.staged:
            if stage == _BEFORE_ALL:
                event_id = EventId(ledger, FEE_CHARGES_TRANSACTION, 0, next(charges))
            elif stage == _AFTER_ONE:
                event_id = EventId(
                    ledger, transaction.index, AFTER_TRANSACTION_OPERATION, next(after)
                )
            else:
                event_id = EventId(ledger, AFTER_ALL_TRANSACTION, 0, next(refunds))
            yield transaction, event_id, where
        for operation, events in enumerate(each.operations):
            for index, where in enumerate(events):
                yield transaction, EventId(ledger, transaction.index, operation, index), where


def _event(
    raw: bytes, block: Block, transaction: LedgerTransaction, event_id: EventId, where: slice
) -> StellarEvent:
    begin = where.start + _CONTRACT
    at = begin + _HASH + _BEFORE_TOPICS
    topics = []
    for _ in range(_integer(raw, at - 4)):
        end = _SC_VAL(raw, at)
        topics.append(raw[at:end])
        at = end
    return StellarEvent(
        seen=Provenance(
            chain=block.chain,
            height=block.height,
            block_hash=block.hash,
            tx_hash=transaction.hash,
            position=event_id.position,
            block_time=block.time,
        ),
        event_id=str(event_id),
        contract=StellarAddress(StrKey.encode_contract(raw[begin : begin + _HASH])),
        topics=tuple(topics),
        value=raw[at : where.stop],
    )
