"""`schema.x` against the definitions in the docstrings of the SDK's classes."""

import re
from pathlib import Path
from typing import Any

import pytest
from stellar_sdk import xdr
from stellar_sdk.xdr import constants

from indexer.chains.stellar.xdr import schema
from indexer.chains.stellar.xdr.schema import (
    MAX_LENGTH,
    Array,
    Enumeration,
    Named,
    Octets,
    Structure,
    Union,
    load_schema,
    parse_schema,
)
from indexer.chains.stellar.xdr.skip import skipper

SCHEMA = load_schema()
ADDED = {"TimePointMs", "MuxedContract"}
CHANGED = {"StellarValueType", "StellarValue", "SCAddressType", "SCAddress"}
"""Protocol 30 against the SDK's protocol 28 (CAP-84, CAP-88)."""
UNREAD = {"ContractCostType", "SCSpecTypeUDT", "SCSpecEventV0"}
"""Types that protocol 30 changes too; no ledger contains them (CAP-87, contract specs)."""

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DEFINITION = re.compile(
    r"^(?:const|typedef)\b[^;]*;|^(?:struct|union|enum)\b.*?^\};", re.MULTILINE | re.DOTALL
)
_NAME = re.compile(
    r"(?:struct|union|enum) (\w+)|const (\w+)|typedef .*?(\w+) ?(?:[<\[][^;]*)?;", re.DOTALL
)


def _words(source: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", _COMMENT.sub("", source))


OURS: dict[str, list[str]] = {}
for text in _DEFINITION.findall(Path(schema.__file__).with_name("schema.x").read_text()):
    found = _NAME.match(text)
    assert found is not None, text
    OURS[found[1] or found[2] or found[3]] = _words(text)
SDK: dict[str, Any] = {name.lower(): kind for name, kind in vars(xdr).items()}


def _sdk_source(name: str) -> str:
    return _COMMENT.sub("", SDK[name.lower()].__doc__.partition("XDR Source Code::")[2])


SDK_TYPES = parse_schema(
    "".join(f"const {name} = {value};" for name, value in SCHEMA.constants.items())
    + "".join(_sdk_source(name) for name in SCHEMA.types if name not in ADDED)
).types


def test_each_definition_equals_the_sdk() -> None:
    consts = {name for name in OURS if OURS[name][0] == "const"}
    assert OURS.keys() == SCHEMA.types.keys() | consts
    assert {name for name in SDK_TYPES if OURS[name] != _words(_sdk_source(name))} == CHANGED
    assert {name for name in SDK_TYPES if SCHEMA.types[name] != SDK_TYPES[name]} == CHANGED
    assert all(name.lower() not in SDK for name in ADDED)


def test_constants_equal_the_sdk() -> None:
    consts = {name for name, definition in OURS.items() if definition[0] == "const"}
    assert {name: SCHEMA.constants[name] for name in consts} == {
        name: getattr(constants, name) for name in consts
    }


def test_protocol_30_extends_the_sdk() -> None:
    for name in CHANGED:
        # Added members and arms stand behind the old ones.
        old, new = _words(_sdk_source(name)), iter(OURS[name])
        assert all(word in new for word in old)
    values, addresses = SCHEMA.types["StellarValueType"], SCHEMA.types["SCAddress"]
    assert values == Enumeration(frozenset(range(5)))
    assert isinstance(addresses, Union)
    assert addresses.arms[5] == Named("MuxedContract")
    assert SCHEMA.types["MuxedContract"] == Structure(
        (("id", Named("uint64")), ("contractId", Named("ContractID")))
    )
    assert SCHEMA.types["TimePointMs"] == Named("uint64")
    assert not UNREAD & SCHEMA.types.keys()


def test_each_type_is_used_and_compiles() -> None:
    """The schema has exactly the types that ledgers need."""
    for name in SCHEMA.types:
        skipper(name)
    roots = {"LedgerCloseMeta", "TransactionEnvelope"}
    words = {word for name, definition in OURS.items() for word in set(definition) - {name}}
    members = {
        name: {word for word in OURS[name] if word in SCHEMA.constants}
        for name in SCHEMA.types
        if isinstance(SCHEMA.types[name], Enumeration)
    }
    unused = {
        name
        for name in OURS.keys() - roots - words
        if not members.get(name, set()) & words - members.get(name, set())
    }
    assert unused == set()


def test_definitions_are_parsed() -> None:
    assert SCHEMA.types["SCSymbol"] == Octets(32, counted=True)
    assert SCHEMA.types["Hash"] == Octets(32, counted=False)
    assert SCHEMA.types["LedgerEntryChanges"] == Array(Named("LedgerEntryChange"), MAX_LENGTH, True)
    assert SCHEMA.types["PublicKeyType"] == Enumeration(frozenset({0}))
    assert SCHEMA.types["SponsorshipDescriptor"] == Union({0: None, 1: Named("AccountID")})
    event = SCHEMA.types["ContractEvent"]
    assert isinstance(event, Structure)
    assert [name for name, _ in event.fields] == ["ext", "contractID", "type", "body"]


@pytest.mark.parametrize(
    "source",
    [
        "struct A { int b; }",
        "union A switch (int v) { default: void; };",
        "struct A { int b };",
        "struct A ?",
        "enum A { B };",
        "typedef opaque A;",
    ],
)
def test_malformed_schema_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="XDR"):
        parse_schema(source)
