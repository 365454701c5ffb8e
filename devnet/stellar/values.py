"""Contract values: which Python value stands for which ScVal, and both ways between them.

A contract function's parameters, its return value and the structs that it stores are annotated
with the names below; `codec_of` reads the annotation. Addresses are strkeys throughout.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from stellar_sdk import scval, xdr

from devnet.stellar.protocol30 import MuxedContract

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


class WrongType(ValueError):
    """An ScVal is not of the kind that a function or a stored entry declares."""


@dataclass(frozen=True)
class Codec(Generic[T]):
    """A kind of contract value; `decode` raises `WrongType` on any other kind."""

    encode: Callable[[T], xdr.SCVal]
    decode: Callable[[xdr.SCVal], T]


def _codec(encode: Callable[[Any], xdr.SCVal], decode: Callable[[xdr.SCVal], T]) -> Codec[T]:
    def checked(value: xdr.SCVal) -> T:
        try:
            return decode(value)
        except ValueError as error:
            raise WrongType(str(error)) from error

    return Codec(encode, checked)


def _bytes_of(length: int) -> Codec[bytes]:
    def decode(value: xdr.SCVal) -> bytes:
        raw = scval.from_bytes(value)
        if len(raw) != length:
            raise ValueError(f"expected {length} bytes, got {len(raw)}")
        return raw

    return _codec(scval.to_bytes, decode)


def optional(inner: Codec[T]) -> "Codec[T | None]":
    """`Option<T>`: void stands for nothing."""

    def encode(value: T | None) -> xdr.SCVal:
        return scval.to_void() if value is None else inner.encode(value)

    def decode(value: xdr.SCVal) -> T | None:
        return None if value.type == xdr.SCValType.SCV_VOID else inner.decode(value)

    return Codec(encode, decode)


def sequence(inner: Codec[T]) -> Codec[list[T]]:
    """`Vec<T>`."""

    def encode(values: Sequence[T]) -> xdr.SCVal:
        return scval.to_vec([inner.encode(value) for value in values])

    return _codec(encode, lambda value: [inner.decode(item) for item in scval.from_vec(value)])


def pair(first: Codec[A], second: Codec[B]) -> Codec[tuple[A, B]]:
    """A tuple of two: a vector with two elements."""

    def decode(value: xdr.SCVal) -> tuple[A, B]:
        one, two = scval.from_vec(value)
        return first.decode(one), second.decode(two)

    return _codec(
        lambda values: scval.to_vec([first.encode(values[0]), second.encode(values[1])]), decode
    )


def triple(first: Codec[A], second: Codec[B], third: Codec[T]) -> Codec[tuple[A, B, T]]:
    """A tuple of three: a vector with three elements."""

    def decode(value: xdr.SCVal) -> tuple[A, B, T]:
        one, two, three = scval.from_vec(value)
        return first.decode(one), second.decode(two), third.decode(three)

    def encode(values: tuple[A, B, T]) -> xdr.SCVal:
        one, two, three = values
        return scval.to_vec([first.encode(one), second.encode(two), third.encode(three)])

    return _codec(encode, decode)


def _to_muxed_address(text: str) -> xdr.SCVal:
    if not text.startswith("W"):
        return scval.to_address(text)
    return xdr.SCVal(xdr.SCValType.SCV_ADDRESS, address=MuxedContract.from_strkey(text))


def _from_muxed_address(value: xdr.SCVal) -> str:
    if isinstance(value.address, MuxedContract):
        return value.address.strkey
    return scval.from_address(value).address


ADDRESS = _codec(scval.to_address, lambda value: scval.from_address(value).address)
MUXED_ADDRESS = _codec(_to_muxed_address, _from_muxed_address)
BOOL = _codec(scval.to_bool, scval.from_bool)
BYTES = _codec(scval.to_bytes, scval.from_bytes)
BYTES20 = _bytes_of(20)
BYTES32 = _bytes_of(32)
I128 = _codec(scval.to_int128, scval.from_int128)
STRING = _codec(scval.to_string, lambda value: scval.from_string(value).decode())
SYMBOL = _codec(scval.to_symbol, scval.from_symbol)
U32 = _codec(scval.to_uint32, scval.from_uint32)
U64 = _codec(scval.to_uint64, scval.from_uint64)
VOID: Codec[None] = _codec(lambda _: scval.to_void(), scval.from_void)

Address = Annotated[str, ADDRESS]
MuxedAddress = Annotated[str, MUXED_ADDRESS]
"""An address or, from Protocol 30 on, a muxed contract (`W…`)."""
Bool = Annotated[bool, BOOL]
Bytes = Annotated[bytes, BYTES]
Bytes32 = Annotated[bytes, BYTES32]
Int128 = Annotated[int, I128]
String = Annotated[str, STRING]
Symbol = Annotated[str, SYMBOL]
Uint32 = Annotated[int, U32]
Uint64 = Annotated[int, U64]
MaybeAddress = Annotated[str | None, optional(ADDRESS)]
MaybeBytes32 = Annotated[bytes | None, optional(BYTES32)]
MaybeInt128 = Annotated[int | None, optional(I128)]
MaybeString = Annotated[str | None, optional(STRING)]
MaybeUint64 = Annotated[int | None, optional(U64)]
Addresses = Annotated[list[str], sequence(ADDRESS)]
MaybeUint32 = Annotated[int | None, optional(U32)]
Bytes20 = Annotated[bytes, BYTES20]
ManyBytes20 = Annotated[list[bytes], sequence(BYTES20)]
ManyBytes32 = Annotated[list[bytes], sequence(BYTES32)]
Symbols = Annotated[list[str], sequence(SYMBOL)]


@cache
def struct(kind: type[T]) -> Codec[T]:
    """The codec of a dataclass: a map from field names, as symbols in alphabetical order."""
    hints = get_type_hints(kind, include_extras=True)
    members = {field.name: codec_of(hints[field.name]) for field in fields(kind)}  # type: ignore[arg-type]

    def encode(value: T) -> xdr.SCVal:
        return scval.to_struct(
            {name: codec.encode(getattr(value, name)) for name, codec in members.items()}
        )

    def decode(value: xdr.SCVal) -> T:
        given = scval.from_struct(value)
        if set(given) != set(members):
            raise ValueError(f"{kind.__name__} needs the keys {sorted(members)}")
        return kind(**{name: codec.decode(given[name]) for name, codec in members.items()})

    return _codec(encode, decode)


def codec_of(hint: Any) -> Codec[Any]:
    """The codec that an annotation names: one of the types above, a dataclass, or None."""
    if hint is None or hint is type(None):
        return VOID
    if get_origin(hint) is Annotated:
        return next(item for item in get_args(hint)[1:] if isinstance(item, Codec))
    return struct(hint)


def key(name: str, *parts: xdr.SCVal) -> xdr.SCVal:
    """The storage key of an enum variant with data: `[Symbol(name), …parts]`."""
    return scval.to_vec([scval.to_symbol(name), *parts])
