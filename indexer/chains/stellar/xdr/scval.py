"""Strict readers of SCVals: topics and data of Stellar contract events, and return values.

A reader takes one SCVal and raises `Undecodable` for another type; `Topics` and `ScMap` apply
readers and add event, topic or key to the message. Readers also refuse values that the warehouse
cannot hold, so that no event of a foreign contract can stop the writing of a ledger. XDR is read by
`schema.x`, not by the SDK, which lacks protocol 30.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeVar

from stellar_sdk import StrKey, xdr

from indexer.addresses import account_of_key, contract_of_id, muxed_contract
from indexer.chains.events import Event
from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.xdr.schema import load_schema
from indexer.chains.stellar.xdr.skip import Malformed, skipper
from indexer.config.networks import StellarChain
from indexer.errors import Undecodable
from warehouse_schema.identifiers import (
    LAST_SECOND,
    BaseUnits,
    Bytes32,
    StellarAddress,
    UnixSeconds,
    bytes32,
)

T = TypeVar("T")
Kind = xdr.SCValType
EventDecoder: TypeAlias = Callable[[StellarEvent, StellarChain], Event | None]

_SYMBOL = re.compile(rb"[A-Za-z0-9_]{1,32}")
_LARGEST_BIGINT = (1 << 63) - 1


@cache
def _strkey_encoders() -> Mapping[bytes, Callable[[bytes], str]]:
    """Type of an `SCAddress` → encoder of the bytes after it as strkey."""
    encoders: dict[str, Callable[[bytes], str]] = {
        # The type of the key comes first.
        "ACCOUNT": lambda raw: account_of_key(raw[4:]),
        "CONTRACT": contract_of_id,
        # XDR has the muxed id first, a strkey last.
        "MUXED_ACCOUNT": lambda raw: StrKey.encode_med25519_public_key(raw[8:] + raw[:8]),
        # The type of the id takes four bytes in XDR, one in a strkey.
        "CLAIMABLE_BALANCE": lambda raw: StrKey.encode_claimable_balance(raw[3:]),
        "LIQUIDITY_POOL": StrKey.encode_liquidity_pool,
        "MUXED_CONTRACT": lambda raw: muxed_contract(raw[8:], int.from_bytes(raw[:8], "big")),
    }
    return {
        load_schema().constants[f"SC_ADDRESS_TYPE_{kind}"].to_bytes(4, "big"): encode
        for kind, encode in encoders.items()
    }


_KINDS = {kind.to_bytes(4, "big"): kind for kind in Kind}
"""By discriminant; an enum's own look-up by number takes as long as the rest of a small value."""


class ScVal(NamedTuple):
    """A value of valid XDR."""

    kind: Kind
    body: bytes
    """Bytes after the discriminant."""

    @classmethod
    def of(cls, raw: bytes) -> "ScVal":
        """Split valid XDR."""
        return cls(_KINDS[raw[:4]], raw[4:])


Reader: TypeAlias = Callable[[ScVal], T]


def parse(raw: bytes) -> ScVal:
    """Parse XDR. Raises `Undecodable`."""
    try:
        end = skipper("SCVal")(raw, 0)
    except (Malformed, RecursionError) as error:
        raise Undecodable(f"is not the XDR of an SCVal: {error}") from error
    if end != len(raw):
        raise Undecodable(f"is not the XDR of an SCVal: {end} bytes in {len(raw)}")
    return ScVal.of(raw)


_CACHED_TOPICS = 32_768
"""Accounts of two ledgers of 6,000 transfers, and a third more."""
_SHORT_BYTES = 80
"""Of an account, or an asset's name; the length of others is up to their emitter."""
_parse_short = lru_cache(maxsize=_CACHED_TOPICS)(parse)


def _parse_topic(raw: bytes) -> ScVal:
    """As `parse`. Names, assets and accounts recur from event to event."""
    return _parse_short(raw) if len(raw) <= _SHORT_BYTES else parse(raw)


def topic_name(event: StellarEvent) -> str | None:
    """Name of an event: topic 0 if it is a symbol, else None.

    Raises `Undecodable` when topic 0 is not XDR.
    """
    return _name_of(event.topics[0]) if event.topics else None


@lru_cache(maxsize=256)
def _name_of(topic: bytes) -> str | None:
    """Cached: a decoder and its parts ask for one event's name, and names are few."""
    first = _with_place("an event", "topic 0", parse, topic)
    return symbol(first) if first.kind is Kind.SCV_SYMBOL else None


def address(value: ScVal) -> StellarAddress:
    """An address of any type, also of muxed accounts and contracts."""
    return _strkey(_body("an address", value, Kind.SCV_ADDRESS))


@lru_cache(maxsize=_CACHED_TOPICS)
def _strkey(raw: bytes) -> StellarAddress:
    """The strkey of an `SCAddress`. Cached, as topics are."""
    return StellarAddress(_strkey_encoders()[raw[:4]](raw[4:]))


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
    number = u64(value)
    if number > _LARGEST_BIGINT:
        raise Undecodable(f"is {number}, more than {_LARGEST_BIGINT}")
    return number


def seconds(value: ScVal) -> UnixSeconds:
    """A u64 of Unix seconds, up to the end of the year 9999."""
    number = u64(value)
    if number > LAST_SECOND:
        raise Undecodable(f"is {number}, more than {LAST_SECOND}")
    return UnixSeconds(number)


def boolean(value: ScVal) -> bool:
    """A bool."""
    return any(_body("a bool", value, Kind.SCV_BOOL))


def blob(value: ScVal) -> bytes:
    """Bytes of any length."""
    return _octets("bytes", value, Kind.SCV_BYTES)


def word(value: ScVal) -> Bytes32:
    """Bytes, 32 of them."""
    raw = blob(value)
    if len(raw) != 32:
        raise Undecodable(f"has {len(raw)} bytes, not 32")
    return bytes32(raw)


def symbol(value: ScVal) -> str:
    """A symbol of 1 to 32 letters, digits and underscores, as the host enforces."""
    raw = _octets("a symbol", value, Kind.SCV_SYMBOL)
    if not _SYMBOL.fullmatch(raw):
        raise Undecodable(f"is not a symbol that a contract can make: {raw!r}")
    return raw.decode("ascii")


def string(value: ScVal) -> bytes:
    """A string, of any bytes."""
    return _octets("a string", value, Kind.SCV_STRING)


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
    """Reader of a symbol that must be one of `words`."""

    def read(value: ScVal) -> str:
        found = symbol(value)
        if found not in words:
            raise Undecodable(f"is {found!r}, not one of {words}")
        return found

    return read


def mapping(value: ScVal) -> Mapping[str, ScVal]:
    """A map by its symbol keys; keys of other types are ignored."""
    parts = list(_elements("a map", value, Kind.SCV_MAP, 2))
    entries = zip(parts[::2], parts[1::2], strict=True)
    named = [(key, each) for key, each in entries if key.kind is Kind.SCV_SYMBOL]
    fields = {symbol(key): each for key, each in named}
    if len(fields) != len(named):
        raise Undecodable("is a map that has a key twice")
    return fields


@dataclass(frozen=True, slots=True)
class Topics:
    """An event's topics, with the name at 0."""

    name: str
    values: Sequence[ScVal]

    @classmethod
    def of(cls, event: StellarEvent, *counts: int) -> "Topics":
        """Parse the topics. Raises `Undecodable` unless their number is one of `counts`."""
        name = topic_name(event) or "an event without a name"
        if len(event.topics) not in counts:
            raise Undecodable(f"{name} has {len(event.topics)} topics, not {counts}")
        try:
            return cls(name, [_parse_topic(raw) for raw in event.topics])
        except Undecodable as error:
            raise _at(name, "topics", error) from error

    def read(self, index: int, reader: Reader[T]) -> T:
        """Topic `index`; a negative one counts from the last."""
        try:
            return reader(self.values[index])
        except Undecodable as error:
            raise _at(self.name, f"topic {index}", error) from error


@dataclass(frozen=True, slots=True)
class ScMap:
    """A map by key; unread keys are ignored."""

    name: str
    values: Mapping[str, ScVal]

    @classmethod
    def of(cls, event: StellarEvent, version: int | None = None) -> "ScMap":
        """Parse an event's data, which must be a map. Raises `Undecodable`.

        Data of a contract that versions it must have this `version` (`v: u32`).
        """
        name = topic_name(event) or "an event without a name"
        data = _with_place(name, "data", parse, event.value)
        fields = cls(name, _with_place(name, "data", mapping, data))
        if version is not None and (found := fields.read("v", u32)) != version:
            raise Undecodable(f"{name} has version {found}, not {version}")
        return fields

    def read(self, key: str, reader: Reader[T]) -> T:
        """The value at `key`, which must exist."""
        if key not in self.values:
            raise Undecodable(f"{self.name} lacks {key}")
        return _with_place(self.name, key, reader, self.values[key])

    def optional(self, key: str, reader: Reader[T]) -> T | None:
        """The value at `key`, which must exist and may be void (Rust's `Option`)."""
        found = self.read(key, lambda value: value)
        return None if found.kind is Kind.SCV_VOID else self.read(key, reader)


_Input = TypeVar("_Input")


def _with_place(name: str, place: str, reader: Callable[[_Input], T], value: _Input) -> T:
    try:
        return reader(value)
    except Undecodable as error:
        raise _at(name, place, error) from error


def _at(name: str, place: str, error: Undecodable) -> Undecodable:
    """The error with its event and place."""
    return Undecodable(f"{name}: {place} {error}")


def _body(what: str, value: ScVal, kind: Kind) -> bytes:
    if value.kind is not kind:
        raise Undecodable(f"is {value.kind.name}, not {what}")
    return value.body


def _octets(what: str, value: ScVal, kind: Kind) -> bytes:
    """Bytes behind a length, without padding."""
    raw = _body(what, value, kind)
    return raw[4 : 4 + int.from_bytes(raw[:4], "big")]


def _elements(what: str, value: ScVal, kind: Kind, each: int) -> Iterator[ScVal]:
    """Values of an optional array whose elements are `each` values long."""
    raw = _body(what, value, kind)
    if not any(raw[:4]):
        raise Undecodable(f"is {value.kind.name} of nothing, not {what}")
    at, skip = 8, skipper("SCVal")
    for _ in range(each * int.from_bytes(raw[4:8], "big")):
        begin, at = at, skip(raw, at)
        yield ScVal.of(raw[begin:at])
