"""Recorded ledgers as a newer protocol would have closed them, rebuilt byte by byte.

Written from the layouts of stellar-xdr, CAP-84 and CAP-88, without the product's reader; the SDK,
which reads the recorded ledgers, says what stands in them. Validators' signatures in a header are
made up, for nothing that reads a ledger can check them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from stellar_sdk import xdr

from tests.factories.sdk_ledgers import (
    Applied,
    closed_ledger,
    envelopes,
    invocation,
    invocation_hash,
    operation_events,
    parse_meta,
    signed_part,
)

_HASH = 32
_SIGNATURE = bytes(4 + 32) + (64).to_bytes(4, "big") + bytes(64)
"""`LedgerCloseValueSignature`: a node's ed25519 key and 64 bytes."""
_PROPOSED = bytes(32 + 32 + 4)
"""A set that was not applied: its hash, the hash and the version of the ledger before."""


@dataclass(frozen=True)
class Closing:
    """What a protocol writes into the header of a ledger."""

    protocol: int
    arm: int
    """Of `StellarValue.ext`."""


P29 = Closing(29, 1)
BOUNDARY, EMPTY_BOUNDARY = Closing(30, 1), Closing(30, 2)
"""The ledger that upgrades from 29 to 30 has an arm of 29."""
P30, EMPTY_P30 = Closing(30, 3), Closing(30, 4)
_CONTRACT_VALUE = b"\0\0\0\x12" + b"\0\0\0\x01"
"""How the SCVal of a contract's address begins."""
MILLISECONDS = 789
"""Of the second in which a ledger of protocol 30 closed."""


def closed_as(raw: bytes, closing: Closing, *, seconds_ahead: int = 0) -> bytes:
    """A recorded `LedgerCloseMeta` with a header of that protocol, under a new hash.

    Its milliseconds are of its close time, or of so many seconds later.
    """
    begin, end = _header(raw)
    value = begin + 4 + _HASH
    arm = _after_upgrades(raw, value + _HASH + 8)
    close_time = _integer(raw, value + _HASH, 8) + seconds_ahead
    header = b"".join(
        (
            closing.protocol.to_bytes(4, "big"),
            raw[begin + 4 : arm],
            _arm(closing.arm, close_time * 1000 + MILLISECONDS),
            raw[_after_arm(raw, arm) : end],
        )
    )
    return raw[: begin - _HASH] + sha256(header).digest() + header + raw[end:]


def header_entry(raw: bytes, closing: Closing) -> bytes:
    """The `LedgerHeaderHistoryEntry` of what `closed_as` gave: hash, header, extension."""
    begin, end = _header(raw, closing)
    return raw[begin - _HASH : end + 4]


@dataclass(frozen=True)
class Muxed:
    """A recorded ledger in which an argument and an event name a muxed contract, and its names."""

    raw: bytes
    """Every hash follows, but that of the header, which `closed_as` takes anew."""
    index: int
    """Which transaction it is, from 1 in order of application."""
    old_hash: str
    new_hash: str
    argument: bytes
    """The SCVal of the muxed contract in the call."""
    event: bytes
    """The event that names one."""
    old_value: bytes
    """The SCVal of the contract's address in the event as it was."""
    new_value: bytes


def with_muxed_contract(raw: bytes, passphrase: str, muxed_id: int) -> Muxed:
    """Give a muxed id to a contract among the arguments of a call, and to one in an event of it."""
    closed = closed_ledger(parse_meta(raw))
    processing: Sequence[Applied] = closed.tx_processing
    signed = {each.to_xdr_bytes(): signed_part(each) for each in envelopes(closed)}
    network = sha256(passphrase.encode()).digest()
    names = {sha256(network + part).digest(): whole for whole, part in signed.items()}
    for index, applied in enumerate(processing, start=1):
        name = applied.result.transaction_hash.hash
        envelope, event = names[name], _own_event(applied)
        argument = _contract_argument(envelope)
        if event is None or argument is None:
            continue
        begin = event.index(_CONTRACT_VALUE)
        value = event[begin : begin + len(argument)]
        new_argument, new_value = _muxed(argument, muxed_id), _muxed(value, muxed_id)
        new_envelope, new_event = (
            envelope.replace(argument, new_argument),
            event.replace(value, new_value),
        )
        new_name = sha256(network + signed[envelope].replace(argument, new_argument)).digest()
        emitted, result = invocation(applied.tx_apply_processing), applied.result.to_xdr_bytes()
        new_emitted = sha256(_replaced(emitted, event, new_event)).digest()
        new_result = _replaced(result, name, new_name)
        new_result = _replaced(new_result, sha256(emitted).digest(), new_emitted)
        # An event stands among the diagnostic ones a second time.
        raw = raw.replace(event, new_event)
        for old, new in ((envelope, new_envelope), (result, new_result)):
            raw = _replaced(raw, old, new)
        for committed, old, new in (
            (closed.tx_set.to_xdr_bytes(), envelope, new_envelope),
            (_results(processing), result, new_result),
        ):
            changed = sha256(_replaced(committed, old, new)).digest()
            raw = _replaced(raw, sha256(committed).digest(), changed)
        return Muxed(
            *(raw, index, name.hex(), new_name.hex()),
            *(new_argument, new_event, value, new_value),
        )
    raise AssertionError("no call names a contract in an argument and in an event")


def _muxed(value: bytes, muxed_id: int) -> bytes:
    """The SCVal of a contract's address, with a muxed id: the id stands before the contract."""
    return value[:7] + b"\x05" + muxed_id.to_bytes(8, "big") + value[8:]


def _contract_argument(envelope: bytes) -> bytes | None:
    """The SCVal of the first contract among the arguments of a call."""
    signed = xdr.TransactionEnvelope.from_xdr_bytes(envelope).v1
    call = None if signed is None else signed.tx.operations[0].body.invoke_host_function_op
    if call is None or call.host_function.invoke_contract is None:
        return None
    values = (each.to_xdr_bytes() for each in call.host_function.invoke_contract.args)
    return next((each for each in values if each.startswith(_CONTRACT_VALUE)), None)


def _own_event(applied: Applied) -> bytes | None:
    """The last event of a successful call with a contract in it that is no asset's event."""
    if invocation_hash(applied.result.result) is None:
        return None
    events = [each for some in operation_events(applied.tx_apply_processing) for each in some]
    own = (each for each in reversed(events) if each.body.v0.topics[-1].str is None)
    return next((raw for each in own if _CONTRACT_VALUE in (raw := each.to_xdr_bytes())), None)


def _results(applied: Sequence[Applied]) -> bytes:
    return xdr.TransactionResultSet([each.result for each in applied]).to_xdr_bytes()


def _replaced(raw: bytes, old: bytes, new: bytes) -> bytes:
    """With the one place changed in which these bytes stand."""
    if raw.count(old) != 1:
        raise AssertionError(f"{old[:40].hex()}… stands there {raw.count(old)} times")
    return raw.replace(old, new)


def _header(raw: bytes, closing: Closing | None = None) -> tuple[int, int]:
    """Where the header begins, behind its hash, and where it ends."""
    at = 4
    if _integer(raw, 0, 4) > 0:
        at += 4 if _integer(raw, 4, 4) == 0 else 16
    begin = at + _HASH
    at = _after_upgrades(raw, begin + 4 + _HASH + _HASH + 8)
    at = _after_arm(raw, at) if closing is None else at + len(_arm(closing.arm, 0))
    # The results' hash, the buckets', numbers, the four hashes of the skip list, flags.
    at += 2 * _HASH + 4 + 8 + 8 + 4 + 8 + 4 + 4 + 4 + 4 * _HASH
    return begin, at + (4 if _integer(raw, at, 4) == 0 else 12)


def _arm(number: int, close_time_ms: int) -> bytes:
    milliseconds = close_time_ms.to_bytes(8, "big") if number in (3, 4) else b""
    proposed = _PROPOSED if number in (2, 4) else b""
    return number.to_bytes(4, "big") + milliseconds + proposed + _SIGNATURE


def _after_upgrades(raw: bytes, at: int) -> int:
    count, at = _integer(raw, at, 4), at + 4
    for _ in range(count):
        length = _integer(raw, at, 4)
        at += 4 + length + -length % 4
    return at


def _after_arm(raw: bytes, at: int) -> int:
    """Behind an arm of the recorded ledgers, which are of protocols up to 26."""
    return at + 4 + {0: 0, 1: len(_SIGNATURE)}[_integer(raw, at, 4)]


def _integer(raw: bytes, at: int, size: int) -> int:
    return int.from_bytes(raw[at : at + size], "big")
