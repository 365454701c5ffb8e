"""Where an XDR value ends, found without building it.

A skipper takes bytes and where a value begins, and gives where it ends. It is compiled from the
definition of the value's type into closures, and is as strict as XDR is: unknown arms and members,
more elements than a type allows, and padding or flags that are not 0 or 1 are refused. So what it
passes over is what an encoder would write for the same value, and a slice of it can be kept.

The end of the bytes is the caller's to check: a value that is cut short ends past it.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeAlias

from indexer.chains.stellar.xdr.language import (
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
)

Skipper: TypeAlias = Callable[[bytes, int], int]
"""Bytes and where a value begins → where it ends."""


class Malformed(ValueError):
    """Bytes that no encoder writes for the type; the message says where."""


def skipper(name: str) -> Skipper:
    """The skipper of a type by its name in the protocol's `.x` files.

    It raises `Malformed`, and `RecursionError` for a value nested deeper than Python can follow.
    """
    return _skipper(_named(name))


@cache
def fields(name: str) -> tuple[tuple[str, Skipper], ...]:
    """Name and skipper of each field of a struct, in order. Raises `TypeError` for another type."""
    kind = definition(name)
    if not isinstance(kind, Structure):
        raise TypeError(f"{name} is no struct")
    return tuple((field, _skipper(_compile(each))) for field, each in kind.fields)


def elements(raw: bytes, at: int, step: Skipper) -> int:
    """Where a counted array ends whose elements `step` passes over."""
    length = int.from_bytes(raw[at : at + 4], "big")
    at += 4
    for _ in range(length):
        at = step(raw, at)
    return at


_Compiled: TypeAlias = int | Skipper
"""A number of bytes where any will do, otherwise a skipper."""
_Arms: TypeAlias = Mapping[bytes, tuple[int, Skipper | None]]
"""Discriminant as bytes → bytes to step over, itself included, and what skips the rest."""

_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")
"""By the number of bytes modulo four."""

_compiled: dict[str, _Compiled] = {}
_recursive: dict[str, Skipper] = {}
_begun: set[str] = set()


def _named(name: str) -> _Compiled:
    if name in _begun:
        # Inside of itself a type is looked up when it is met, once it is there. Each call more
        # would be one level less that a value may nest.
        return lambda raw, at: _recursive[name](raw, at)
    if name not in _compiled:
        _begun.add(name)
        _compiled[name] = _compile(definition(name))
        _recursive[name] = _skipper(_compiled[name])
        _begun.remove(name)
    return _compiled[name]


def _compile(kind: Type) -> _Compiled:
    match kind:
        case Number(size):
            return size
        case Named(name):
            return _named(name)
        case Bool():
            return _choice({0: 0, 1: 0})
        case Enumeration(values):
            return _choice(dict.fromkeys(values, 0))
        case Optional(element):
            return _choice({0: 0, 1: _compile(element)})
        case Union(arms):
            return _choice({v: 0 if arm is None else _compile(arm) for v, arm in arms.items()})
        case Octets(most, counted):
            return _counted_octets(most) if counted else _fixed_octets(most)
        case Array(element, most, counted):
            return _counted(_compile(element), most) if counted else _fixed(_compile(element), most)
        case Structure(fields):
            return _sequence([_compile(each) for _, each in fields])


def _skipper(compiled: _Compiled) -> Skipper:
    if isinstance(compiled, int):
        size = compiled
        return lambda _raw, at: at + size
    return compiled


def _choice(arms: Mapping[int, _Compiled]) -> Skipper:
    """A discriminant and what it stands before."""
    known: _Arms = {
        value.to_bytes(4, "big", signed=value < 0): (
            (4 + arm, None) if isinstance(arm, int) else (4, arm)
        )
        for value, arm in arms.items()
    }

    def skip(raw: bytes, at: int) -> int:
        try:
            lead, rest = known[raw[at : at + 4]]
        except KeyError:
            raise Malformed(f"{raw[at : at + 4].hex() or 'an end'} at {at}") from None
        return at + lead if rest is None else rest(raw, at + lead)

    return skip


def _counted_octets(most: int) -> Skipper:
    def skip(raw: bytes, at: int) -> int:
        length = int.from_bytes(raw[at : at + 4], "big")
        padding = _PADDING[length & 3]
        at += 4 + length
        end = at + len(padding)
        if length > most or raw[at:end] != padding:
            raise Malformed(f"{length} bytes before {at}, or their padding")
        return end

    return skip


def _fixed_octets(size: int) -> _Compiled:
    padding = _PADDING[size & 3]
    if not padding:
        return size

    def skip(raw: bytes, at: int) -> int:
        at += size
        end = at + len(padding)
        if raw[at:end] != padding:
            raise Malformed(f"the padding at {at}")
        return end

    return skip


def _counted(element: _Compiled, most: int) -> Skipper:
    def count(raw: bytes, at: int) -> int:
        length = int.from_bytes(raw[at : at + 4], "big")
        if length > most:
            raise Malformed(f"{length} elements at {at}")
        return length

    if isinstance(element, int):
        size = element
        return lambda raw, at: at + 4 + count(raw, at) * size
    each = element

    def skip(raw: bytes, at: int) -> int:
        length = count(raw, at)
        at += 4
        for _ in range(length):
            at = each(raw, at)
        return at

    return skip


def _fixed(element: _Compiled, length: int) -> _Compiled:
    return _sequence([element] * length)


def _sequence(parts: list[_Compiled]) -> _Compiled:
    """One after another, with runs of bytes that need no look stepped over at once."""
    steps: list[tuple[int, Skipper]] = []
    lead = 0
    for part in parts:
        if isinstance(part, int):
            lead += part
        else:
            steps.append((lead, part))
            lead = 0
    tail = lead
    if not steps:
        return tail
    if len(steps) == 1:
        ((before, only),) = steps
        return lambda raw, at: only(raw, at + before) + tail
    if len(steps) == 2:
        (before, first), (between, second) = steps
        return lambda raw, at: second(raw, first(raw, at + before) + between) + tail

    def skip(raw: bytes, at: int) -> int:
        for before, step in steps:
            at = step(raw, at + before)
        return at + tail

    return skip
