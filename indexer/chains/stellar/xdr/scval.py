"""Strict reading of SCVals, the values of Stellar contract events and of what contracts return.

Values are read from their XDR by the protocol's definitions (`xdr_language`), not by the SDK. A
value has the type it must have, or the event is `Undecodable` and the message says which event,
which topic or key, and what was wrong. A reader takes one SCVal; `Topics` and `ScMap` apply
readers and add the place to the message. Readers also refuse what the warehouse cannot hold, so
that no event that a stranger emits can stop the writing of a ledger.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from stellar_sdk import StrKey, xdr

from indexer.addresses import muxed_contract
from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.xdr.schema import SCHEMA
from indexer.chains.stellar.xdr.skip import Malformed, skipper
from indexer.errors import Undecodable
from warehouse_schema.identifiers import (
    BaseUnits,
    Bytes32,
    StellarAddress,
    UnixSeconds,
    bytes32,
)

T = TypeVar("T")
Kind = xdr.SCValType

_SKIP = skipper("SCVal")
_SYMBOL = re.compile(rb"[A-Za-z0-9_]{1,32}")
_LARGEST_BIGINT = (1 << 63) - 1
_LAST_SECOND = 253_402_300_799
"""9999-12-31T23:59:59Z: the last second that ISO 8601 writes in four digits of year."""

_STRKEYS: Mapping[bytes, Callable[[bytes], str]] = {
    SCHEMA.constants[f"SC_ADDRESS_TYPE_{kind}"].to_bytes(4, "big"): encode
    for kind, encode in {
        # Behind the type of its key.
        "ACCOUNT": lambda raw: StrKey.encode_ed25519_public_key(raw[4:]),
        "CONTRACT": StrKey.encode_contract,
        # In XDR the muxed id stands first, in a strkey last.
        "MUXED_ACCOUNT": lambda raw: StrKey.encode_med25519_public_key(raw[8:] + raw[:8]),
        # The type of the id takes four bytes in XDR, one in a strkey.
        "CLAIMABLE_BALANCE": lambda raw: StrKey.encode_claimable_balance(raw[3:]),
        "LIQUIDITY_POOL": StrKey.encode_liquidity_pool,
        "MUXED_CONTRACT": lambda raw: muxed_contract(raw[8:], int.from_bytes(raw[:8], "big")),
    }.items()
}
"""Kind of an address → its strkey of what stands behind the kind."""


@dataclass(frozen=True, slots=True)
class ScVal:
    """A value whose XDR is known to be well formed."""

    kind: Kind
    body: bytes
    """What stands behind the discriminant."""


Reader: TypeAlias = Callable[[ScVal], T]


def parse(raw: bytes) -> ScVal:
    """Read XDR. Raises `Undecodable`."""
    try:
        end = _SKIP(raw, 0)
    except (Malformed, RecursionError) as error:
        raise Undecodable(f"is not the XDR of an SCVal: {error}") from error
    if end != len(raw):
        raise Undecodable(f"is not the XDR of an SCVal: {end} bytes in {len(raw)}")
    return _value(raw)


def topic_name(event: StellarEvent) -> str | None:
    """Topic 0 when it is a symbol, which is what names an event; else None.

    Raises `Undecodable` when topic 0 is not XDR.
    """
    if not event.topics:
        return None
    first = _placed("an event", "topic 0", parse, event.topics[0])
    return symbol(first) if first.kind is Kind.SCV_SYMBOL else None


def address(value: ScVal) -> StellarAddress:
    """An address of any kind, muxed accounts and contracts included."""
    raw = _body("an address", value, Kind.SCV_ADDRESS)
    return StellarAddress(_STRKEYS[raw[:4]](raw[4:]))


def amount(value: ScVal) -> BaseUnits:
    """An i128 that is not negative."""
    number = signed_amount(value)
    if number < 0:
        raise Undecodable(f"is negative: {number}")
    return number


def signed_amount(value: ScVal) -> BaseUnits:
    """An i128 of either sign."""
    return BaseUnits(int.from_bytes(_body("an i128", value, Kind.SCV_I128), "big", signed=True))


def u32(value: ScVal) -> int:
    """A u32."""
    return int.from_bytes(_body("a u32", value, Kind.SCV_U32), "big")


def u64(value: ScVal) -> int:
    """A u64."""
    return int.from_bytes(_body("a u64", value, Kind.SCV_U64), "big")


def count(value: ScVal) -> int:
    """A u64 that a 64-bit signed column holds: sequence numbers, spans of seconds."""
    return _at_most(_LARGEST_BIGINT, u64(value))


def seconds(value: ScVal) -> UnixSeconds:
    """A u64 of unix seconds, up to the end of the year 9999."""
    return UnixSeconds(_at_most(_LAST_SECOND, u64(value)))


def boolean(value: ScVal) -> bool:
    """A bool."""
    return any(_body("a bool", value, Kind.SCV_BOOL))


def blob(value: ScVal) -> bytes:
    """Bytes of any length."""
    return _counted(_body("bytes", value, Kind.SCV_BYTES))


def word(value: ScVal) -> Bytes32:
    """Bytes, 32 of them."""
    raw = blob(value)
    if len(raw) != 32:
        raise Undecodable(f"has {len(raw)} bytes, not 32")
    return bytes32(raw)


def symbol(value: ScVal) -> str:
    """A symbol of 1 to 32 letters, digits and underscores, as the host enforces."""
    raw = _counted(_body("a symbol", value, Kind.SCV_SYMBOL))
    if not _SYMBOL.fullmatch(raw):
        raise Undecodable(f"is not a symbol that a contract can make: {raw!r}")
    return raw.decode("ascii")


def string(value: ScVal) -> bytes:
    """A string, which may hold any bytes."""
    return _counted(_body("a string", value, Kind.SCV_STRING))


def text(value: ScVal) -> str:
    """A string of UTF-8 without NUL, which Postgres text cannot hold."""
    raw = string(value)
    decoded = as_text(raw)
    if decoded is None:
        raise Undecodable(f"is not UTF-8 without NUL: {raw!r}")
    return decoded


def as_text(raw: bytes) -> str | None:
    """The bytes as text, or None when they are not UTF-8 or contain NUL."""
    try:
        decoded = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in decoded else decoded


def symbols(value: ScVal) -> tuple[str, ...]:
    """A vector of symbols."""
    return tuple(map(symbol, vector(value)))


def vector(value: ScVal) -> tuple[ScVal, ...]:
    """The elements of a vector."""
    return tuple(_elements("a vector", value, Kind.SCV_VEC, 1))


def one_of(*words: str) -> Reader[Any]:
    """A reader of a symbol that must be one of `words`."""

    def read(value: ScVal) -> str:
        found = symbol(value)
        if found not in words:
            raise Undecodable(f"is {found!r}, not one of {words}")
        return found

    return read


def mapping(value: ScVal) -> Mapping[str, ScVal]:
    """A map by its symbol keys; keys of another type are nobody's field and are left out."""
    parts = list(_elements("a map", value, Kind.SCV_MAP, 2))
    entries = zip(parts[::2], parts[1::2], strict=True)
    named = [(key, each) for key, each in entries if key.kind is Kind.SCV_SYMBOL]
    fields = {symbol(key): each for key, each in named}
    if len(fields) != len(named):
        raise Undecodable("is a map that has a key twice")
    return fields


def record(what: str, value: ScVal) -> "ScMap":
    """A map that is read field by field; `what` names it in messages."""
    return ScMap(what, mapping(value))


@dataclass(frozen=True, slots=True)
class Topics:
    """An event's topics, the name included at 0."""

    name: str
    values: Sequence[ScVal]

    @classmethod
    def of(cls, event: StellarEvent, *counts: int) -> "Topics":
        """Read the topics. Raises `Undecodable` unless there are as many as one of `counts`."""
        name = topic_name(event) or "an event without a name"
        if len(event.topics) not in counts:
            raise Undecodable(f"{name} has {len(event.topics)} topics, not {counts}")
        return cls(name, [_placed(name, "topics", parse, raw) for raw in event.topics])

    def read(self, index: int, reader: Reader[T]) -> T:
        """Topic `index`; a negative one counts from the last."""
        return _placed(self.name, f"topic {index}", reader, self.values[index])


@dataclass(frozen=True, slots=True)
class ScMap:
    """A map by key; keys that nobody reads are ignored."""

    name: str
    values: Mapping[str, ScVal]

    @classmethod
    def of(cls, event: StellarEvent) -> "ScMap":
        """Read an event's data, which must be a map. Raises `Undecodable`."""
        name = topic_name(event) or "an event without a name"
        data = _placed(name, "data", parse, event.value)
        return cls(name, _placed(name, "data", mapping, data))

    @classmethod
    def of_version(cls, event: StellarEvent, version: int) -> "ScMap":
        """As `of`, for contracts that write `v: u32` into every event's data."""
        fields = cls.of(event)
        found = fields.read("v", u32)
        if found != version:
            raise Undecodable(f"{fields.name} has version {found}, not {version}")
        return fields

    def read(self, key: str, reader: Reader[T]) -> T:
        """The value at `key`, which must be there."""
        if key not in self.values:
            raise Undecodable(f"{self.name} lacks {key}")
        return _placed(self.name, key, reader, self.values[key])

    def optional(self, key: str, reader: Reader[T]) -> T | None:
        """The value at `key`, which must be there but may be void (Rust's `Option`)."""
        found = self.read(key, lambda value: value)
        return None if found.kind is Kind.SCV_VOID else self.read(key, reader)


_Input = TypeVar("_Input")


def _placed(name: str, place: str, reader: Callable[[_Input], T], value: _Input) -> T:
    try:
        return reader(value)
    except Undecodable as error:
        raise Undecodable(f"{name}: {place} {error}") from error


def _value(raw: bytes) -> ScVal:
    return ScVal(Kind(int.from_bytes(raw[:4], "big")), raw[4:])


def _body(what: str, value: ScVal, kind: Kind) -> bytes:
    if value.kind is not kind:
        raise Undecodable(f"is {value.kind.name}, not {what}")
    return value.body


def _counted(raw: bytes) -> bytes:
    """Counted bytes, without count and padding."""
    return raw[4 : 4 + int.from_bytes(raw[:4], "big")]


def _elements(what: str, value: ScVal, kind: Kind, each: int) -> Iterator[ScVal]:
    """The values of an optional, counted array of elements of `each` values."""
    raw = _body(what, value, kind)
    if not any(raw[:4]):
        raise Undecodable(f"is {value.kind.name} of nothing, not {what}")
    at = 8
    for _ in range(each * int.from_bytes(raw[4:8], "big")):
        begin, at = at, _SKIP(raw, at)
        yield _value(raw[begin:at])


def _at_most(largest: int, number: int) -> int:
    if number > largest:
        raise Undecodable(f"is {number}, more than {largest}")
    return number
