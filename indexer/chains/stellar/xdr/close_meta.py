"""A ledger decoded from its `LedgerCloseMeta` and proven: transactions, and events with RPC ids.

The header hashes to the ledger's name. It holds the hash of the transaction set and that of the
results in order of application. The result of a contract invocation holds the hash of its return
value and its events. Events of classic operations and of fees have no such proof: for them the
source is trusted. Rules: stellar-core's LedgerManager and Stellar-ledger.x.
"""

from collections.abc import Collection, Iterator
from hashlib import sha256
from itertools import count

from stellar_sdk import StrKey, xdr

from indexer.addresses import contract_of_id
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
from indexer.chains.stellar.xdr.meta_parts import (
    HASH,
    LedgerParts,
    TransactionParts,
    locate_parts,
    words,
)
from indexer.chains.stellar.xdr.skip import Malformed, skipper
from indexer.chains.stellar.xdr.transaction_set import check_transaction_set
from indexer.config.networks import StellarChain
from indexer.errors import InconsistentAnswer, UndecodableLedger
from warehouse_schema.identifiers import ChainId, StellarAddress, TxHash

_UNIFIED_EVENTS_PROTOCOL = 23
_BACKFILLED_META = 4

_BEFORE_CODE = HASH + 8
"""Bytes of a result before its code: the transaction's hash and the fee."""
_NO_CONTRACT = words(0)
_SUCCESS = words(xdr.TransactionResultCode.txSUCCESS)
_INNER_SUCCESS = words(xdr.TransactionResultCode.txFEE_BUMP_INNER_SUCCESS)
_INVOKED = _SUCCESS + words(
    1,
    xdr.OperationResultCode.opINNER,
    xdr.OperationType.INVOKE_HOST_FUNCTION,
    xdr.InvokeHostFunctionResultCode.INVOKE_HOST_FUNCTION_SUCCESS,
)
"""Start of the result of an invocation, the only operation of its transaction; a hash follows."""
_BEFORE_CONTRACT = 4 + 4
"""Bytes of an event before its contract's id: an extension point and the id's flag."""
_BEFORE_TOPICS = 4 + 4 + 4
"""Bytes between the id and the topics: event type, version of the body, number of topics."""
_BY_CONTRACT = words(xdr.ContractEventType.CONTRACT)
_BEFORE_ALL = words(xdr.TransactionEventStage.TRANSACTION_EVENT_STAGE_BEFORE_ALL_TXS)
_AFTER_ONE = words(xdr.TransactionEventStage.TRANSACTION_EVENT_STAGE_AFTER_TX)
_BEFORE_VALUE = 4 + HASH
"""Bytes of a header before its `StellarValue`: version and parent's hash.

The value begins with the hash of the transaction set; the hash of the results follows it."""


def decode_meta(
    raw: bytes, chain: StellarChain, *, every_contract: bool = False
) -> tuple[Ledger, LedgerProof]:
    """A proven ledger with the events of the chain's contracts, or of every contract.

    One transaction that this build cannot decode makes its whole ledger undecodable, since XDR
    fields carry no length. Anyone can pay for such a transaction, so it costs that ledger alone,
    and only until a newer build decodes it.

    Raises `UndecodableLedger`, `InconsistentAnswer` when it is damaged, and `UnsupportedProtocol`.
    """
    contracts = None if every_contract else [*chain.event_contracts, *chain.tokens]
    try:
        return decode_ledger(raw, chain.id, chain.passphrase, contracts)
    except Malformed as error:
        # If header and transaction set prove that the bytes are the chain's, a retry cannot help.
        block = block_of_meta(raw, chain.id)
        check_transaction_set(raw, 0, len(raw), block)
        raise UndecodableLedger(f"ledger {block.height} cannot be decoded: {error}") from error


def decode_ledger(
    raw: bytes, chain: ChainId, passphrase: str, contracts: Collection[StellarAddress] | None = None
) -> tuple[Ledger, LedgerProof]:
    """Decode a ledger and recompute every hash of it.

    With `contracts`, only their events. Raises `Malformed` for bytes that no encoder writes for a
    ledger, `InconsistentAnswer` when a hash differs, and `UnsupportedProtocol` as `block_of_meta`.
    """
    block = block_of_meta(raw, chain)
    parts = locate_parts(raw)
    _check_hashes(raw, block, parts, passphrase)
    proof = _prove_events(raw, block, parts)
    transactions = []
    for index, applied in enumerate(parts.applied, start=1):
        code = applied.result.start + _BEFORE_CODE
        successful = raw[code : code + 4] in (_SUCCESS, _INNER_SUCCESS)
        name = TxHash(_transaction_hash(raw, applied).hex())
        transactions.append(LedgerTransaction(hash=name, index=index, successful=successful))
    wanted = None if contracts is None else frozenset(map(StrKey.decode_contract, contracts))
    events = list(_contract_events(raw, block, parts.applied, transactions, wanted))
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


# Proof.


def _check_hashes(raw: bytes, block: Block, parts: LedgerParts, passphrase: str) -> None:
    """Transaction set and results hash to the header; the results are those of the set."""
    transaction_set = raw[parts.transaction_set]
    if raw[:4] == words(0):
        # The hash of an old set leaves out the number of transactions.
        transaction_set = transaction_set[:HASH] + transaction_set[HASH + 4 :]
    results = [raw[applied.result] for applied in parts.applied]
    value = parts.header + _BEFORE_VALUE
    after_value = skipper("StellarValue")(raw, value)
    for what, committed, at in (
        ("transaction set", transaction_set, value),
        ("results", words(len(results)) + b"".join(results), after_value),
    ):
        digest = raw[at : at + HASH]
        if sha256(committed).digest() != digest:
            raise InconsistentAnswer(
                f"ledger {block.height}: its {what} do not hash to {digest.hex()}"
            )
    network = sha256(passphrase.encode()).digest()
    of_set = [sha256(network + prefix + raw[body]).digest() for prefix, body in parts.signed]
    of_results = [_transaction_hash(raw, applied) for applied in parts.applied]
    if sorted(of_set) != sorted(of_results):
        raise InconsistentAnswer(
            f"ledger {block.height}: its results are not those of its transactions"
        )


def _prove_events(raw: bytes, block: Block, parts: LedgerParts) -> LedgerProof:
    """Hash return value and events of each invocation against its result."""
    invocations, unproven = 0, []
    for applied in parts.applied:
        at = applied.result.start + _BEFORE_CODE
        if raw[at : at + 4] == _INNER_SUCCESS:
            # A fee bump's result holds the pair of its inner transaction.
            at += 4 + _BEFORE_CODE
        digest = at + len(_INVOKED)
        if raw[at:digest] != _INVOKED:
            continue
        invocations += 1
        if applied.return_value is None:
            raise InconsistentAnswer("an invocation without a return value")
        events = [raw[event] for operation in applied.operations for event in operation]
        emitted = raw[applied.return_value] + words(len(events)) + b"".join(events)
        if sha256(emitted).digest() == raw[digest : digest + HASH]:
            continue
        unproven.append(TxHash(_transaction_hash(raw, applied).hex()))
        is_rewritten = (
            block.protocol_version is not None
            and block.protocol_version < _UNIFIED_EVENTS_PROTOCOL
            and applied.meta_version == _BACKFILLED_META
        )
        if not is_rewritten:
            raise InconsistentAnswer(
                f"ledger {block.height}: {unproven[-1]} did not emit these events"
            )
    return LedgerProof(invocations, tuple(unproven))


def _transaction_hash(raw: bytes, applied: TransactionParts) -> bytes:
    begin = applied.result.start
    return raw[begin : begin + HASH]


# Events.


def _contract_events(
    raw: bytes,
    block: Block,
    applied: list[TransactionParts],
    transactions: list[LedgerTransaction],
    wanted: frozenset[bytes] | None,
) -> Iterator[tuple[StellarEvent, bool]]:
    """Contract events, and whether their transactions succeeded."""
    skip_value = skipper("SCVal")
    for transaction, event_id, where in _numbered_events(block, applied, transactions):
        contract = where.start + _BEFORE_CONTRACT
        at = contract + HASH
        if raw[contract - 4 : contract] == _NO_CONTRACT or raw[at : at + 4] != _BY_CONTRACT:
            continue
        if wanted is not None and raw[contract:at] not in wanted:
            continue
        begin = at + _BEFORE_TOPICS
        topics = []
        for _ in range(int.from_bytes(raw[begin - 4 : begin], "big")):
            end = skip_value(raw, begin)
            topics.append(raw[begin:end])
            begin = end
        event = StellarEvent(
            seen=block.provenance(transaction.hash, event_id.position),
            event_id=str(event_id),
            contract=contract_of_id(raw[contract:at]),
            topics=tuple(topics),
            value=raw[begin : where.stop],
        )
        yield event, transaction.successful


def _numbered_events(
    block: Block, applied: list[TransactionParts], transactions: list[LedgerTransaction]
) -> Iterator[tuple[LedgerTransaction, EventId, slice]]:
    """Every event with its RPC id; fee charges and refunds count through the ledger."""
    ledger, charges, refunds = block.height, count(), count()
    for transaction, parts in zip(transactions, applied, strict=True):
        after = count()
        for stage, where in parts.staged:
            if stage == _BEFORE_ALL:
                event_id = EventId(ledger, FEE_CHARGES_TRANSACTION, 0, next(charges))
            elif stage == _AFTER_ONE:
                event_id = EventId(
                    ledger, transaction.index, AFTER_TRANSACTION_OPERATION, next(after)
                )
            else:
                event_id = EventId(ledger, AFTER_ALL_TRANSACTION, 0, next(refunds))
            yield transaction, event_id, where
        for operation, events in enumerate(parts.operations):
            for index, where in enumerate(events):
                yield transaction, EventId(ledger, transaction.index, operation, index), where
