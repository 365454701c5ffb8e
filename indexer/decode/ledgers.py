"""Ledgers from `LedgerCloseMeta` XDR: header, transactions, and events with their RPC ids.

Wrappers v0 (before protocol 20), v1 and v2; transaction meta v1 to v4, of which v3 and v4 hold
events. What a ledger says of itself is proven in `indexer.decode.ledger_hashes`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count, pairwise
from typing import TypeAlias

from stellar_sdk import StrKey, xdr
from xdrlib3 import Unpacker

from indexer.decode.positions import (
    AFTER_ALL_TRANSACTION,
    AFTER_TRANSACTION_OPERATION,
    FEE_CHARGES_TRANSACTION,
    EventId,
)
from indexer.errors import InconsistentAnswer, UnsupportedProtocol
from indexer.events.common import Provenance
from indexer.events.raw import Block, StellarEvent
from warehouse_schema.identifiers import (
    BlockHash,
    ChainId,
    Height,
    StellarAddress,
    TxHash,
    UnixSeconds,
)

NEWEST_PROTOCOL = 28
"""Newest protocol whose XDR the installed SDK knows; a newer ledger is refused unread."""
_NEWEST_WRAPPER = 2
"""Newest version of `LedgerCloseMeta`. A node writes all its ledgers in one, whoever uses them."""

ClosedLedger: TypeAlias = xdr.LedgerCloseMetaV0 | xdr.LedgerCloseMetaV1 | xdr.LedgerCloseMetaV2
Applied: TypeAlias = xdr.TransactionResultMeta | xdr.TransactionResultMetaV1

_SUCCESS = frozenset(
    (
        xdr.TransactionResultCode.txSUCCESS,
        xdr.TransactionResultCode.txFEE_BUMP_INNER_SUCCESS,
    )
)
_STAGE = xdr.TransactionEventStage


@dataclass(frozen=True, slots=True)
class LedgerTransaction:
    """A transaction of a ledger; of a fee bump the outer hash and its result."""

    hash: TxHash
    index: int
    """Order of application, from 1."""
    successful: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """A closed ledger, as far as we read it."""

    block: Block
    transactions: tuple[LedgerTransaction, ...]
    """In order of application."""
    events: tuple[StellarEvent, ...]
    """Contract events of successful transactions, in order of their ids."""
    failed_fees: tuple[StellarEvent, ...]
    """What failed transactions emitted all the same: the fees they were charged."""


@dataclass(frozen=True, slots=True)
class _Emitted:
    """An event and where it was emitted."""

    event_id: EventId
    transaction: LedgerTransaction
    event: xdr.ContractEvent


def read_ledger(meta: bytes | xdr.LedgerCloseMeta, chain: ChainId) -> Ledger:
    """Read a ledger of that chain.

    Raises `UnsupportedProtocol` when it is newer than our XDR, `InconsistentAnswer` when it is no
    ledger or its header does not hash to its name.
    """
    closed = closed_ledger(parse_meta(meta) if isinstance(meta, bytes) else meta)
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
    """Read `LedgerCloseMeta`. Raises as `read_ledger` does."""
    # The header first: of a ledger that is newer than our XDR, nothing else may be believed.
    header_entry(raw)
    try:
        return xdr.LedgerCloseMeta.from_xdr_bytes(raw)
    except EOFError as error:
        raise InconsistentAnswer("not the XDR of a ledger: it ends before its end") from error
    except (ValueError, RecursionError) as error:
        raise InconsistentAnswer(f"not the XDR of a ledger: {error}") from error


def closed_ledger(meta: xdr.LedgerCloseMeta) -> ClosedLedger:
    """What the wrapper holds, of whichever version."""
    for closed in (meta.v0, meta.v1, meta.v2):
        if closed is not None:
            return closed
    raise InconsistentAnswer(f"a ledger in a wrapper of unknown version {meta.v}")


def block_of_meta(raw: bytes, chain: ChainId) -> Block:
    """The header of a `LedgerCloseMeta`, without reading the rest. Raises as `read_ledger`."""
    return _block(header_entry(raw), chain)


def block_of_header(raw: bytes, chain: ChainId) -> Block:
    """A `LedgerHeaderHistoryEntry`, as RPC's headerXdr has it. Raises as `read_ledger` does."""
    return _block(_header_entry(Unpacker(raw), raw, 0), chain)


def header_entry(raw: bytes) -> xdr.LedgerHeaderHistoryEntry:
    """The header of a `LedgerCloseMeta`, without reading the rest. Raises as `read_ledger`."""
    unpacker = Unpacker(raw)
    try:
        wrapper = unpacker.unpack_uint()
        if wrapper > 0:
            xdr.LedgerCloseMetaExt.unpack(unpacker)
    except (ValueError, EOFError) as error:
        raise InconsistentAnswer(f"not the XDR of a ledger: {error}") from error
    entry = _header_entry(unpacker, raw, unpacker.get_position())
    if wrapper > _NEWEST_WRAPPER and _names_itself(entry):
        raise UnsupportedProtocol(
            f"a ledger in a wrapper of version {wrapper}; this build reads up to {_NEWEST_WRAPPER}"
        )
    return entry


def check_linked(blocks: Sequence[Block]) -> None:
    """Raise `InconsistentAnswer` unless each ledger names the one before as its parent."""
    for parent, child in pairwise(blocks):
        if (child.height, child.parent_hash) != (parent.height + 1, parent.hash):
            raise InconsistentAnswer(f"ledger {child.height} does not follow {parent.height}")


def _header_entry(unpacker: Unpacker, raw: bytes, start: int) -> xdr.LedgerHeaderHistoryEntry:
    # After 32 bytes of hash the protocol version stands first, so that it can be read whatever a
    # later protocol puts behind it.
    protocol = int.from_bytes(raw[start + 32 : start + 36], "big")
    if protocol > NEWEST_PROTOCOL:
        raise UnsupportedProtocol(
            f"a ledger of protocol {protocol}; this build reads up to {NEWEST_PROTOCOL}"
        )
    try:
        return xdr.LedgerHeaderHistoryEntry.unpack(unpacker)
    except (ValueError, EOFError) as error:
        raise InconsistentAnswer(f"not the XDR of a ledger header: {error}") from error


def _names_itself(entry: xdr.LedgerHeaderHistoryEntry) -> bool:
    return sha256(entry.header.to_xdr_bytes()).digest() == entry.hash.hash


def _block(entry: xdr.LedgerHeaderHistoryEntry, chain: ChainId) -> Block:
    header = entry.header
    if not _names_itself(entry):
        name = entry.hash.hash.hex()
        raise InconsistentAnswer(
            f"ledger {header.ledger_seq.uint32}: its header does not hash to {name}"
        )
    return Block(
        chain=chain,
        height=Height(header.ledger_seq.uint32),
        hash=BlockHash(entry.hash.hash.hex()),
        parent_hash=BlockHash(header.previous_ledger_hash.hash.hex()),
        time=UnixSeconds(header.scp_value.close_time.time_point.uint64),
        protocol_version=header.ledger_version.uint32,
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
