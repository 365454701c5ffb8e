"""Strict reading of SCVals, the values of Stellar contract events.

A value has the type it must have, or the event is `Undecodable` and the message says which event,
which topic or key, and what was wrong. A reader takes one SCVal; `Topics` and `Fields` apply
readers and add the place to the message. Readers also refuse what the warehouse cannot hold, so
that no event that a stranger emits can stop the writing of a ledger.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from stellar_sdk import scval, xdr

from indexer.errors import Undecodable
from indexer.events.raw import StellarEvent
from warehouse_schema.identifiers import (
    BaseUnits,
    Bytes32,
    StellarAddress,
    UnixSeconds,
    bytes32,
)

T = TypeVar("T")
Reader: TypeAlias = Callable[[xdr.SCVal], T]

_SYMBOL = re.compile(r"[A-Za-z0-9_]{1,32}")
_LARGEST_BIGINT = (1 << 63) - 1
_LAST_SECOND = 253_402_300_799
"""9999-12-31T23:59:59Z: the last second that ISO 8601 writes in four digits of year."""


def parse(raw: bytes) -> xdr.SCVal:
    """Read XDR. Raises `Undecodable`."""
    try:
        return xdr.SCVal.from_xdr_bytes(raw)
    except (ValueError, EOFError, RecursionError) as error:
        raise Undecodable(f"is not the XDR of an SCVal: {error}") from error


def topic_name(event: StellarEvent) -> str | None:
    """Topic 0 when it is a symbol, which is what names an event; else None.

    Raises `Undecodable` when topic 0 is not XDR.
    """
    if not event.topics:
        return None
    first = _placed("an event", "topic 0", parse, event.topics[0])
    return symbol(first) if first.type is xdr.SCValType.SCV_SYMBOL else None


def address(value: xdr.SCVal) -> StellarAddress:
    """An address of any kind, muxed accounts included."""
    return StellarAddress(_typed("an address", scval.from_address, value).address)


def amount(value: xdr.SCVal) -> BaseUnits:
    """An i128 that is not negative."""
    number = signed_amount(value)
    if number < 0:
        raise Undecodable(f"is negative: {number}")
    return number


def signed_amount(value: xdr.SCVal) -> BaseUnits:
    """An i128 of either sign."""
    return BaseUnits(_typed("an i128", scval.from_int128, value))


def u32(value: xdr.SCVal) -> int:
    """A u32."""
    return _typed("a u32", scval.from_uint32, value)


def u64(value: xdr.SCVal) -> int:
    """A u64."""
    return _typed("a u64", scval.from_uint64, value)


def count(value: xdr.SCVal) -> int:
    """A u64 that a 64-bit signed column holds: sequence numbers, spans of seconds."""
    return _at_most(_LARGEST_BIGINT, u64(value))


def seconds(value: xdr.SCVal) -> UnixSeconds:
    """A u64 of unix seconds, up to the end of the year 9999."""
    return UnixSeconds(_at_most(_LAST_SECOND, u64(value)))


def boolean(value: xdr.SCVal) -> bool:
    """A bool."""
    return _typed("a bool", scval.from_bool, value)


def blob(value: xdr.SCVal) -> bytes:
    """Bytes of any length."""
    return _typed("bytes", scval.from_bytes, value)


def word(value: xdr.SCVal) -> Bytes32:
    """Bytes, 32 of them."""
    raw = blob(value)
    if len(raw) != 32:
        raise Undecodable(f"has {len(raw)} bytes, not 32")
    return bytes32(raw)


def symbol(value: xdr.SCVal) -> str:
    """A symbol of 1 to 32 letters, digits and underscores, as the host enforces."""
    text = _typed("a symbol", scval.from_symbol, value)
    if not _SYMBOL.fullmatch(text):
        raise Undecodable(f"is not a symbol that a contract can make: {text!r}")
    return text


def text(value: xdr.SCVal) -> str:
    """A string of UTF-8 without NUL, which Postgres text cannot hold."""
    raw = _typed("a string", scval.from_string, value)
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


def symbols(value: xdr.SCVal) -> tuple[str, ...]:
    """A vector of symbols."""
    return tuple(symbol(item) for item in _typed("a vector", scval.from_vec, value))


def one_of(*words: str) -> Reader[Any]:
    """A reader of a symbol that must be one of `words`."""

    def read(value: xdr.SCVal) -> str:
        found = symbol(value)
        if found not in words:
            raise Undecodable(f"is {found!r}, not one of {words}")
        return found

    return read


def mapping(value: xdr.SCVal) -> Mapping[str, xdr.SCVal]:
    """A map by its symbol keys; keys of another type are nobody's field and are left out."""
    if value.type is not xdr.SCValType.SCV_MAP or value.map is None:
        raise Undecodable(f"is {value.type.name}, not a map")
    entries = [e for e in value.map.sc_map if e.key.type is xdr.SCValType.SCV_SYMBOL]
    fields = {symbol(entry.key): entry.val for entry in entries}
    if len(fields) != len(entries):
        raise Undecodable("is a map that has a key twice")
    return fields


def record(what: str, value: xdr.SCVal) -> "Fields":
    """A map that is read field by field; `what` names it in messages."""
    return Fields(what, mapping(value))


@dataclass(frozen=True, slots=True)
class Topics:
    """An event's topics, the name included at 0."""

    name: str
    values: Sequence[xdr.SCVal]

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
class Fields:
    """A map by key; keys that nobody reads are ignored."""

    name: str
    values: Mapping[str, xdr.SCVal]

    @classmethod
    def of(cls, event: StellarEvent) -> "Fields":
        """Read an event's data, which must be a map. Raises `Undecodable`."""
        name = topic_name(event) or "an event without a name"
        data = _placed(name, "data", parse, event.value)
        return cls(name, _placed(name, "data", mapping, data))

    @classmethod
    def of_version(cls, event: StellarEvent, version: int) -> "Fields":
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
        return None if found.type is xdr.SCValType.SCV_VOID else self.read(key, reader)


_Input = TypeVar("_Input")


def _placed(name: str, place: str, reader: Callable[[_Input], T], value: _Input) -> T:
    try:
        return reader(value)
    except Undecodable as error:
        raise Undecodable(f"{name}: {place} {error}") from error


def _typed(kind: str, reader: Callable[[xdr.SCVal], T], value: xdr.SCVal) -> T:
    try:
        return reader(value)
    except ValueError as error:
        raise Undecodable(f"is {value.type.name}, not {kind}: {error}") from error


def _at_most(largest: int, number: int) -> int:
    if number > largest:
        raise Undecodable(f"is {number}, more than {largest}")
    return number
