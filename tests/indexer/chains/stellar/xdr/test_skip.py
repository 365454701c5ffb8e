"""The XDR language as the SDK prints it, and skippers made from it, held against the SDK's decoder.

Values of every type of the SDK's protocol are made at random from its definition; the SDK must read
them and write the same bytes, and the skipper must stop where they end.
"""

import random
from typing import Any

import pytest
from stellar_sdk import scval, xdr

from indexer.chains.stellar.xdr import language
from indexer.chains.stellar.xdr.language import (
    MAX_LENGTH,
    Array,
    Bool,
    Enumeration,
    Named,
    Number,
    Octets,
    Optional,
    Structure,
    Type,
    Union,
    definition,
    type_names,
)
from indexer.chains.stellar.xdr.skip import Malformed, fields, skipper
from tests.factories.recorded_ledgers import recorded_ledgers
from tests.factories.stellar_ledgers import FILES

SDK: dict[str, Any] = {name.lower(): kind for name, kind in vars(xdr).items()}
NEW_NAMES = frozenset({"TimePointMs", "MuxedContract"})
"""Types that protocol 30 adds."""
DEEP = 12


def _encoded(kind: Type, dice: random.Random, depth: int = 0) -> bytes:
    """A random value of a type."""
    match kind:
        case Number(size):
            return dice.randbytes(size)
        case Bool():
            return _word(dice.randrange(2))
        case Named(name):
            return _encoded(_of_sdk(name), dice, depth + 1)
        case Enumeration(values):
            return _word(dice.choice(sorted(values)))
        case Octets(most, counted):
            length = dice.randrange(min(most, 9) + 1) if counted else most
            return (_word(length) if counted else b"") + dice.randbytes(length) + bytes(-length % 4)
        case Array(element, most, counted):
            length = dice.randrange(min(most, 0 if depth > DEEP else 3) + 1) if counted else most
            items = b"".join(_encoded(element, dice, depth) for _ in range(length))
            return (_word(length) if counted else b"") + items
        case Optional(element):
            if depth > DEEP or dice.randrange(2):
                return _word(0)
            return _word(1) + _encoded(element, dice, depth)
        case Structure(parts):
            return b"".join(_encoded(part, dice, depth) for _, part in parts)
        case Union(arms):
            # Deep down, arms that end it: void ones, and those that lead nowhere deeper.
            shallow = [value for value in arms if depth < DEEP or _is_shallow(arms[value])]
            value = dice.choice(sorted(shallow or arms))
            arm = arms[value]
            return _word(value) + (b"" if arm is None else _encoded(arm, dice, depth))


def _of_sdk(name: str) -> Type:
    """A definition of protocol 28; `definition` has those of protocol 30."""
    source = SDK[name.lower()].__doc__.partition("XDR Source Code::")[2]
    return language.parse(source)


def _is_shallow(arm: Type | None) -> bool:
    return arm is None or isinstance(arm, Number | Bool | Octets | Optional | Array)


def _word(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=value < 0)


def test_the_whole_protocol_is_read() -> None:
    names = type_names()
    assert len(names) > 380
    assert {"LedgerCloseMeta", "SCVal", "uint32", "SCSymbol", "PublicKeyType"} <= names
    assert all(name.lower() in SDK for name in names - NEW_NAMES)


@pytest.mark.parametrize("name", sorted(type_names() - NEW_NAMES))
def test_a_value_of_any_type_ends_where_the_sdk_says(name: str) -> None:
    dice, skip, sdk = random.Random(name), skipper(name), SDK[name.lower()]
    for _ in range(6):
        raw = _encoded(_of_sdk(name), dice)
        assert sdk.from_xdr_bytes(raw).to_xdr_bytes() == raw
        assert skip(raw, 0) == len(raw)
        assert skip(b"\xff" * 8 + raw + b"\xff" * 8, 8) == 8 + len(raw)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_recorded_ledgers_end_where_they_end(path: Any) -> None:
    for raw in recorded_ledgers(path):
        assert skipper("LedgerCloseMeta")(raw, 0) == len(raw)


def test_definitions_say_what_the_protocol_says() -> None:
    assert definition("SCSymbol") == Octets(32, counted=True)
    assert definition("Hash") == Octets(32, counted=False)
    assert definition("LedgerEntryChanges") == Array(Named("LedgerEntryChange"), MAX_LENGTH, True)
    assert definition("PublicKeyType") == Enumeration(frozenset({0}))
    assert definition("SponsorshipDescriptor") == Optional(Named("AccountID"))
    event = definition("ContractEvent")
    assert isinstance(event, Structure)
    assert [name for name, _ in event.fields] == ["ext", "contractID", "type", "body"]


CHANGED = {
    *("StellarValueType", "StellarValue", "SCAddressType", "SCAddress", "ContractCostType"),
    *("SCSpecTypeUDT", "SCSpecUDTStructV0", "SCSpecUDTUnionV0", "SCSpecUDTEnumV0"),
    *("SCSpecUDTErrorEnumV0", "SCSpecEventV0"),
}


def test_protocol_30_replaces_the_definitions_it_changed() -> None:
    names = type_names() - NEW_NAMES
    assert {name for name in names if definition(name) != _of_sdk(name)} == CHANGED
    assert definition("TimePointMs") == Named("uint64")
    address = definition("SCAddress")
    assert isinstance(address, Union)
    assert address.arms[5] == Named("MuxedContract")
    assert definition("SCSpecTypeUDT") == Structure((("name", Octets(1024, counted=True)),))
    assert definition("ContractCostType") == Enumeration(frozenset(range(95)))


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


def test_what_the_protocol_does_not_have_is_no_type() -> None:
    with pytest.raises(KeyError):
        definition("LedgerCloseMetaV9")
    with pytest.raises(TypeError, match="SCVal"):
        fields("SCVal")


@pytest.mark.parametrize(
    "source",
    [
        "struct A { int b; }",
        "union A switch (int v) { default: void; };",
        "struct A { int b };",
        "struct A ?",
        "enum A { B };",
    ],
)
def test_what_is_not_of_the_language_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"XDR|case"):
        language.parse(source)


def _symbol(text: bytes) -> bytes:
    return _word(15) + _word(len(text)) + text + bytes(-len(text) % 4)


REFUSED = {
    "an unknown arm": ("SCVal", _word(99)),
    "an unknown member": ("ContractEventType", _word(7)),
    "a bool of 2": ("SCVal", _word(0) + _word(2)),
    "a flag of 2": ("SponsorshipDescriptor", _word(2)),
    "too long a symbol": ("SCVal", _symbol(b"a" * 33)),
    "padding that is not 0": ("SCVal", _symbol(b"a")[:-1] + b"\1"),
    "padding that is missing": ("SCVal", _symbol(b"a")[:-1]),
    "more signers than there may be": ("AccountEntryExtensionV2", _word(0) * 2 + _word(21)),
}


@pytest.mark.parametrize(("name", "raw"), REFUSED.values(), ids=REFUSED)
def test_what_no_encoder_writes_is_refused(name: str, raw: bytes) -> None:
    with pytest.raises(Malformed):
        skipper(name)(raw, 0)


def test_a_value_that_is_cut_short_ends_past_the_end_or_is_refused() -> None:
    raw = scval.to_vec([scval.to_uint64(7), scval.to_symbol("a"), scval.to_bool(True)])
    whole = raw.to_xdr_bytes()
    for cut in range(0, len(whole), 4):
        try:
            end = skipper("SCVal")(whole[:cut], 0)
        except Malformed:
            continue
        assert end > cut


def test_a_value_nested_too_deep_is_an_error_of_its_own() -> None:
    deep = _word(16) + _word(1) + _word(1)
    with pytest.raises(RecursionError):
        skipper("SCVal")(deep * 100_000, 0)
