"""Where the parts of a `LedgerCloseMeta` stand: transactions, results and events.

Wrappers v0 (before protocol 20), v1 and v2; transaction meta v1 to v4, of which v3 and v4 hold
events. Every field is skipped, so the whole ledger is known to be XDR to its last byte.
"""

from dataclasses import dataclass, field
from functools import partial

from stellar_sdk import xdr

from indexer.chains.stellar.xdr.skip import Malformed, Skipper, fields, skipper

HASH = 32


def words(*values: int) -> bytes:
    """Integers of 4 bytes as XDR."""
    return b"".join(value.to_bytes(4, "big", signed=value < 0) for value in values)


_TX_V0 = words(xdr.EnvelopeType.ENVELOPE_TYPE_TX_V0)
_V0_SIGNED_AS = words(xdr.EnvelopeType.ENVELOPE_TYPE_TX, xdr.PublicKeyType.PUBLIC_KEY_TYPE_ED25519)
"""Prefix of the signed payload of a v0 envelope: the v1 envelope's type, and the type of its key.
"""
_ENVELOPES = {
    _TX_V0: "TransactionV0",
    words(xdr.EnvelopeType.ENVELOPE_TYPE_TX): "Transaction",
    words(xdr.EnvelopeType.ENVELOPE_TYPE_TX_FEE_BUMP): "FeeBumpTransaction",
}


@dataclass(slots=True)
class TransactionParts:
    """Parts of an applied transaction."""

    result: slice = field(default_factory=partial(slice, 0))
    """`TransactionResultPair`: the transaction's hash, the fee (8 bytes), the result code …"""
    meta_version: int = 0
    operations: list[list[slice]] = field(default_factory=list)
    """Events by operation."""
    staged: list[tuple[bytes, slice]] = field(default_factory=list)
    """Events of the transaction itself, with their `TransactionEventStage`."""
    return_value: slice | None = None
    """Of the contract invocation."""


@dataclass(slots=True)
class LedgerParts:
    """Parts of a ledger."""

    header: int = 0
    """Where the `LedgerHeader` begins."""
    transaction_set: slice = field(default_factory=partial(slice, 0))
    signed: list[tuple[bytes, slice]] = field(default_factory=list)
    """Signed payload of each transaction of the set: a prefix, and a slice of the ledger."""
    applied: list[TransactionParts] = field(default_factory=list)
    """In order of application."""


@dataclass(slots=True)
class _Cursor:
    """A position in a ledger."""

    raw: bytes
    at: int = 0

    def integer(self) -> int:
        """Read 4 bytes."""
        self.at += 4
        return int.from_bytes(self.raw[self.at - 4 : self.at], "big")

    def count(self) -> int:
        """Read a number of elements, each of which takes at least 4 bytes."""
        count = self.integer()
        if count and 4 * count > len(self.raw) - self.at:
            raise Malformed(f"{count} elements at {self.at - 4}")
        return count

    def expect(self, *allowed: int) -> int:
        value = self.integer()
        if value not in allowed:
            raise Malformed(f"{value} at {self.at - 4}, not {' or '.join(map(str, allowed))}")
        return value

    def skip(self, skip: Skipper) -> slice:
        """Pass a value."""
        begin, self.at = self.at, skip(self.raw, self.at)
        return slice(begin, self.at)


def locate_parts(raw: bytes) -> LedgerParts:
    """Locate the parts of a ledger. Raises `Malformed`."""
    parts, cursor = LedgerParts(), _Cursor(raw)
    version = cursor.integer()
    name = f"LedgerCloseMetaV{version}"
    try:
        for part, skip in fields(name):
            if part == "ledgerHeader":
                parts.header = cursor.at + HASH
            if part == "txSet":
                _locate_transaction_set(cursor, version, parts)
            elif part == "txProcessing":
                of_version = "TransactionResultMetaV1" if version == 2 else "TransactionResultMeta"
                for _ in range(cursor.count()):
                    parts.applied.append(_locate_transaction(cursor, fields(of_version)))
            else:
                cursor.skip(skip)
    except (KeyError, RecursionError) as error:
        raise Malformed(f"{name}: {type(error).__name__} {error}") from error
    if cursor.at != len(raw):
        raise Malformed(f"a ledger of {cursor.at} bytes in {len(raw)}")
    return parts


def _locate_transaction_set(cursor: _Cursor, version: int, parts: LedgerParts) -> None:
    """`TransactionSet` in wrapper v0, otherwise `GeneralizedTransactionSet`."""
    begin = cursor.at
    if version == 0:
        cursor.at += HASH
        _locate_envelopes(cursor, parts)
    else:
        cursor.expect(1)
        cursor.at += HASH
        base_fee = dict(fields("ParallelTxsComponent"))["baseFee"]
        for _ in range(cursor.count()):
            # `TransactionPhase`: components in sequence, or stages of parallel clusters.
            if cursor.expect(0, 1) == 0:
                for _ in range(cursor.count()):
                    cursor.expect(0)
                    cursor.skip(base_fee)
                    _locate_envelopes(cursor, parts)
            else:
                cursor.skip(base_fee)
                for _ in range(cursor.count()):
                    for _ in range(cursor.count()):
                        _locate_envelopes(cursor, parts)
    parts.transaction_set = slice(begin, cursor.at)


def _locate_envelopes(cursor: _Cursor, parts: LedgerParts) -> None:
    """`TransactionEnvelope<>`."""
    for _ in range(cursor.count()):
        begin = cursor.at
        kind = cursor.raw[begin : begin + 4]
        cursor.at += 4
        body = cursor.skip(skipper(_ENVELOPES[kind]))
        is_v0 = kind == _TX_V0
        parts.signed.append((_V0_SIGNED_AS, body) if is_v0 else (b"", slice(begin, body.stop)))
        for _ in range(cursor.count()):
            cursor.skip(skipper("DecoratedSignature"))


def _locate_transaction(
    cursor: _Cursor, result_meta: tuple[tuple[str, Skipper], ...]
) -> TransactionParts:
    """`TransactionResultMeta` or `TransactionResultMetaV1`."""
    transaction = TransactionParts()
    for part, skip in result_meta:
        if part == "txApplyProcessing":
            _locate_events(cursor, transaction)
        elif part == "result":
            transaction.result = cursor.skip(skip)
        else:
            cursor.skip(skip)
    return transaction


def _locate_events(cursor: _Cursor, transaction: TransactionParts) -> None:
    """`TransactionMeta`."""
    begin = cursor.at
    version = transaction.meta_version = cursor.integer()
    if version not in (3, 4):
        cursor.at = begin
        cursor.skip(skipper("TransactionMeta"))
        return
    for part, skip in fields(f"TransactionMetaV{version}"):
        if part == "sorobanMeta":
            if cursor.expect(0, 1):
                _locate_soroban_meta(cursor, version, transaction)
        elif version == 4 and part == "operations":
            for _ in range(cursor.count()):
                for operation_part, skip_part in fields("OperationMetaV2"):
                    if operation_part == "events":
                        transaction.operations.append(_locate_contract_events(cursor))
                    else:
                        cursor.skip(skip_part)
        elif version == 4 and part == "events":
            for _ in range(cursor.count()):
                event = cursor.skip(skipper("TransactionEvent"))
                stage = cursor.raw[event.start : event.start + 4]
                transaction.staged.append((stage, slice(event.start + 4, event.stop)))
        else:
            cursor.skip(skip)


def _locate_soroban_meta(cursor: _Cursor, version: int, transaction: TransactionParts) -> None:
    """`SorobanTransactionMeta` (meta v3, with the events) or `SorobanTransactionMetaV2` (v4)."""
    for part, skip in fields(
        "SorobanTransactionMetaV2" if version == 4 else "SorobanTransactionMeta"
    ):
        if part == "events":
            transaction.operations.append(_locate_contract_events(cursor))
            continue
        value = cursor.skip(skip)
        if part != "returnValue":
            continue
        if version == 3:
            transaction.return_value = value
        elif any(cursor.raw[value.start : value.start + 4]):
            # In v4 the return value is optional, behind a flag.
            transaction.return_value = slice(value.start + 4, value.stop)


def _locate_contract_events(cursor: _Cursor) -> list[slice]:
    """`ContractEvent<>`."""
    return [cursor.skip(skipper("ContractEvent")) for _ in range(cursor.count())]
