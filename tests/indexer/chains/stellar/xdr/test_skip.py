"""Skippers against the SDK's decoder.

Random values of every type of the schema, in the form of the SDK's protocol: the SDK must read them
and write the same bytes, and the skipper must stop where they end.
"""

import random
from typing import Any

import pytest
from stellar_sdk import scval

from indexer.chains.stellar.xdr.schema import (
    Array,
    Enumeration,
    Named,
    Number,
    Octets,
    Structure,
    Type,
    Union,
)
from indexer.chains.stellar.xdr.skip import Malformed, fields, skipper
from tests.factories.recorded_ledgers import recorded_ledgers
from tests.factories.stellar_ledgers import FILES
from tests.indexer.chains.stellar.xdr.test_schema import SDK, SDK_TYPES

MAX_DEPTH = 12


def _encoded(kind: Type, rng: random.Random, depth: int = 0) -> bytes:
    """A random value of a type."""
    match kind:
        case Number(size):
            return rng.randbytes(size)
        case Named(name):
            return _encoded(SDK_TYPES[name], rng, depth + 1)
        case Enumeration(values):
            return _word(rng.choice(sorted(values)))
        case Octets(most, counted):
            length = rng.randrange(min(most, 9) + 1) if counted else most
            return (_word(length) if counted else b"") + rng.randbytes(length) + bytes(-length % 4)
        case Array(element, most, counted):
            length = (
                rng.randrange(min(most, 0 if depth > MAX_DEPTH else 3) + 1) if counted else most
            )
            items = b"".join(_encoded(element, rng, depth) for _ in range(length))
            return (_word(length) if counted else b"") + items
        case Structure(parts):
            return b"".join(_encoded(part, rng, depth) for _, part in parts)
        case Union(arms):
            # Deep down, arms that end it: void ones, and those that lead nowhere deeper.
            shallow = [value for value in arms if depth < MAX_DEPTH or _is_shallow(arms[value])]
            value = rng.choice(sorted(shallow or arms))
            arm = arms[value]
            return _word(value) + (b"" if arm is None else _encoded(arm, rng, depth))


def _is_shallow(arm: Type | None) -> bool:
    return arm is None or isinstance(arm, Number | Octets | Array)


def _word(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=value < 0)


@pytest.mark.parametrize("name", sorted(SDK_TYPES))
def test_random_value_ends_where_the_sdk_says(name: str) -> None:
    rng, skip, sdk = random.Random(name), skipper(name), SDK[name.lower()]
    for _ in range(6):
        raw = _encoded(SDK_TYPES[name], rng)
        assert sdk.from_xdr_bytes(raw).to_xdr_bytes() == raw
        assert skip(raw, 0) == len(raw)
        assert skip(b"\xff" * 8 + raw + b"\xff" * 8, 8) == 8 + len(raw)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_recorded_ledger_ends_at_its_last_byte(path: Any) -> None:
    for raw in recorded_ledgers(path):
        assert skipper("LedgerCloseMeta")(raw, 0) == len(raw)


def _value(arm: int, fields: bytes) -> bytes:
    signature = bytes(4 + 32) + _word(64) + bytes(64)
    return bytes(32 + 8) + _word(0) + _word(arm) + fields + signature


PROTOCOL_30 = {
    "a signed value with milliseconds": ("StellarValue", _value(3, bytes(8))),
    "an empty set with milliseconds": ("StellarValue", _value(4, bytes(8 + 32 + 32 + 4))),
    "a muxed contract": ("SCAddress", _word(5) + bytes(8 + 32)),
    "a muxed contract as a value": ("SCVal", _word(18) + _word(5) + bytes(8 + 32)),
}


@pytest.mark.parametrize(("name", "raw"), PROTOCOL_30.values(), ids=PROTOCOL_30)
def test_arm_of_protocol_30_ends_where_its_layout_says(name: str, raw: bytes) -> None:
    assert skipper(name)(raw, 0) == len(raw)
    with pytest.raises(ValueError, match="not a valid"):
        SDK[name.lower()].from_xdr_bytes(raw)


def test_unknown_type_or_no_struct_has_no_fields() -> None:
    with pytest.raises(KeyError):
        skipper("LedgerCloseMetaV9")
    with pytest.raises(KeyError):
        fields("LedgerCloseMetaV9")
    with pytest.raises(TypeError, match="SCVal"):
        fields("SCVal")


def _symbol(text: bytes) -> bytes:
    return _word(15) + _word(len(text)) + text + bytes(-len(text) % 4)


MALFORMED = {
    "an unknown arm": ("SCVal", _word(99)),
    "an unknown member": ("ContractEventType", _word(7)),
    "a bool of 2": ("SCVal", _word(0) + _word(2)),
    "a flag of 2": ("SponsorshipDescriptor", _word(2)),
    "too long a symbol": ("SCVal", _symbol(b"a" * 33)),
    "padding that is not 0": ("SCVal", _symbol(b"a")[:-1] + b"\1"),
    "padding that is missing": ("SCVal", _symbol(b"a")[:-1]),
    "more signers than there may be": ("AccountEntryExtensionV2", _word(0) * 2 + _word(21)),
    "more sets than bytes for them": ("SCPQuorumSet", _word(0) * 2 + _word(100_000)),
}


@pytest.mark.parametrize(("name", "raw"), MALFORMED.values(), ids=MALFORMED)
def test_invalid_encoding_is_malformed(name: str, raw: bytes) -> None:
    with pytest.raises(Malformed):
        skipper(name)(raw, 0)


def test_truncated_value_ends_past_the_bytes_or_is_malformed() -> None:
    raw = scval.to_vec([scval.to_uint64(7), scval.to_symbol("a"), scval.to_bool(True)])
    whole = raw.to_xdr_bytes()
    for cut in range(0, len(whole), 4):
        try:
            end = skipper("SCVal")(whole[:cut], 0)
        except Malformed:
            continue
        assert end > cut


def test_too_deep_value_raises_recursion_error() -> None:
    deep = _word(16) + _word(1) + _word(1)
    with pytest.raises(RecursionError):
        skipper("SCVal")(deep * 100_000, 0)
