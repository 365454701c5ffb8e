"""Closed ledgers for the RPC: decoded once from the meta, then only read."""

from base64 import b64encode
from dataclasses import dataclass

from stellar_sdk import StrKey, xdr
from stellar_sdk.sep.toid import TOID

from devnet.stellar.protocol30 import MillisecondValue
from devnet.stellar.transactions import Transaction, envelope_hash

LAST_TX = (1 << 20) - 1
"""Stands for "after all transactions" in an event id."""
LAST_OP = (1 << 12) - 1
LAST_EVENT = (1 << 32) - 1
_SUCCEEDED = (
    xdr.TransactionResultCode.txSUCCESS,
    xdr.TransactionResultCode.txFEE_BUMP_INNER_SUCCESS,
)


def toid(ledger: int, tx: int, op: int) -> int:
    """ledger << 32 | tx << 12 | op, as the RPC counts: tx from 1, op from 0 in event ids."""
    return ledger << 32 | tx << 12 | op


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event; `topics` and `value` are base64 ScVals."""

    ledger: int
    tx: int
    op: int
    index: int
    kind: str
    contract: str
    topics: tuple[str, ...]
    value: str
    tx_hash: str

    @property
    def id(self) -> str:
        """The RPC's id of the event."""
        return event_id(self.ledger, self.tx, self.op, self.index)


def event_id(ledger: int, tx: int, op: int, index: int) -> str:
    """The id of an event, which is also its cursor: `%019d-%010d`."""
    return f"{toid(ledger, tx, op):019d}-{index:010d}"


def parse_event_id(text: str) -> tuple[int, int, int, int]:
    """Raise ValueError for anything but `event_id`'s form."""
    position, _, index = text.partition("-")
    if len(position) != 19 or len(index) != 10 or not (position + index).isdigit():
        raise ValueError(f"not an event cursor: {text!r}")
    return *parse_toid(position), int(index)


def parse_toid(text: str) -> tuple[int, int, int]:
    """Ledger, transaction and operation of a TOID; raise ValueError for anything else."""
    known = TOID.from_int64(int(text))
    return known.ledger_sequence, known.transaction_order, known.operation_order


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A transaction of a ledger; the XDR members are raw bytes.

    `inner_hash` is the hash of the transaction inside a fee bump, and None for any other.
    """

    hash: str
    inner_hash: str | None
    ledger: int
    close_time: int
    order: int
    succeeded: bool
    envelope: bytes
    result: bytes
    meta: bytes
    diagnostics: tuple[bytes, ...]
    transaction_events: tuple[bytes, ...]
    contract_events: tuple[tuple[bytes, ...], ...]


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """A closed ledger; `header` is a LedgerHeaderHistoryEntry, `meta` a LedgerCloseMeta."""

    sequence: int
    hash: str
    protocol: int
    close_time_ms: int
    header: bytes
    meta: bytes
    transactions: tuple[TransactionRow, ...]
    events: tuple[EventRow, ...]

    @property
    def close_time(self) -> int:
        """Whole seconds, as in the RPC."""
        return self.close_time_ms // 1000


def b64(raw: bytes) -> str:
    """Base64 text, as the RPC sends XDR."""
    return b64encode(raw).decode()


def ledger_row(meta: xdr.LedgerCloseMeta, raw: bytes) -> LedgerRow:
    """Index one ledger; `raw` is the XDR of `meta`."""
    closed = meta.v2
    assert closed is not None
    entry = closed.ledger_header
    sequence = entry.header.ledger_seq.uint32
    value = entry.header.scp_value
    close_time = value.close_time.time_point.uint64
    milliseconds = value.ext if isinstance(value.ext, MillisecondValue) else None
    envelopes = {envelope_hash(envelope): envelope for envelope in _envelopes(closed.tx_set)}
    transactions = tuple(
        _transaction_row(
            item, sequence, close_time, order, envelopes[item.result.transaction_hash.hash]
        )
        for order, item in enumerate(closed.tx_processing, start=1)
    )
    return LedgerRow(
        sequence=sequence,
        hash=entry.hash.hash.hex(),
        protocol=entry.header.ledger_version.uint32,
        close_time_ms=milliseconds.close_time_ms if milliseconds else close_time * 1000,
        header=entry.to_xdr_bytes(),
        meta=raw,
        transactions=transactions,
        events=tuple(_event_rows(sequence, closed.tx_processing)),
    )


def _envelopes(tx_set: xdr.GeneralizedTransactionSet) -> list[xdr.TransactionEnvelope]:
    assert tx_set.v1_tx_set is not None
    found: list[xdr.TransactionEnvelope] = []
    for phase in tx_set.v1_tx_set.phases:
        for component in phase.v0_components or []:
            assert component.txs_maybe_discounted_fee is not None
            found.extend(component.txs_maybe_discounted_fee.txs)
        if phase.parallel_txs_component is not None:
            for stage in phase.parallel_txs_component.execution_stages:
                for cluster in stage.parallel_tx_execution_stage:
                    found.extend(cluster.dependent_tx_cluster)
    return found


def _transaction_row(
    item: xdr.TransactionResultMetaV1,
    ledger: int,
    close_time: int,
    order: int,
    envelope: xdr.TransactionEnvelope,
) -> TransactionRow:
    v4 = item.tx_apply_processing.v4
    assert v4 is not None
    tx = Transaction.from_xdr(envelope)
    return TransactionRow(
        hash=tx.hash.hex(),
        inner_hash=tx.inner_hash.hex() if tx.is_fee_bump else None,
        ledger=ledger,
        close_time=close_time,
        order=order,
        succeeded=item.result.result.result.code in _SUCCEEDED,
        envelope=envelope.to_xdr_bytes(),
        result=item.result.result.to_xdr_bytes(),
        meta=item.tx_apply_processing.to_xdr_bytes(),
        diagnostics=tuple(event.to_xdr_bytes() for event in v4.diagnostic_events),
        transaction_events=tuple(event.to_xdr_bytes() for event in v4.events),
        contract_events=tuple(
            tuple(event.to_xdr_bytes() for event in operation.events) for operation in v4.operations
        ),
    )


def _event_rows(ledger: int, processing: list[xdr.TransactionResultMetaV1]) -> list[EventRow]:
    """In the order of their ids: fee charges, operations, after each transaction, refunds."""
    stage = xdr.TransactionEventStage
    charges: list[EventRow] = []
    during: list[EventRow] = []
    refunds: list[EventRow] = []
    for order, item in enumerate(processing, start=1):
        v4 = item.tx_apply_processing.v4
        assert v4 is not None
        tx_hash = item.result.transaction_hash.hash.hex()
        for op, operation in enumerate(v4.operations):
            for index, event in enumerate(operation.events):
                during.append(_event_row(event, (ledger, order, op, index), tx_hash))
        after = 0
        for fee in v4.events:
            if fee.stage == stage.TRANSACTION_EVENT_STAGE_BEFORE_ALL_TXS:
                charges.append(_event_row(fee.event, (ledger, 0, 0, len(charges)), tx_hash))
            elif fee.stage == stage.TRANSACTION_EVENT_STAGE_AFTER_TX:
                during.append(_event_row(fee.event, (ledger, order, LAST_OP, after), tx_hash))
                after += 1
            else:
                place = (ledger, LAST_TX, 0, len(refunds))
                refunds.append(_event_row(fee.event, place, tx_hash))
    return charges + during + refunds


def _event_row(
    event: xdr.ContractEvent, place: tuple[int, int, int, int], tx_hash: str
) -> EventRow:
    body, contract = event.body.v0, event.contract_id
    assert body is not None
    ledger, tx, op, index = place
    return EventRow(
        ledger=ledger,
        tx=tx,
        op=op,
        index=index,
        kind="contract" if event.type == xdr.ContractEventType.CONTRACT else "system",
        contract="" if contract is None else StrKey.encode_contract(contract.contract_id.hash),
        topics=tuple(topic.to_xdr() for topic in body.topics),
        value=body.data.to_xdr(),
        tx_hash=tx_hash,
    )
