"""Where an XDR value ends, found without building it.

A skipper is compiled from a type's definition into closures. It is as strict as XDR: an unknown arm
or enum member, more elements than the type allows, padding or flags that are not 0 or 1 raise
`Malformed`. So the bytes it passes are the only encoding of their value, and a slice of them can be
hashed and stored. The caller checks the end of the bytes: a value that is cut short ends past it.
"""

import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeAlias

from indexer.chains.stellar.xdr.schema import (
    Array,
    Enumeration,
    Named,
    Number,
    Octets,
    Structure,
    Type,
    Union,
    load_schema,
)

Skipper: TypeAlias = Callable[[bytes, int], int]
"""Bytes and where a value begins → where it ends."""


class Malformed(ValueError):
    """Bytes that no encoder writes for the type; the message says where."""


@cache
def skipper(name: str) -> Skipper:
    """The skipper of a type of `schema.x`, compiled at the first use.

    It raises `Malformed`, and `RecursionError` for a value nested deeper than Python's stack.
    """
    with _compiling:
        return _as_skipper(_compile(Named(name)))


@cache
def fields(name: str) -> tuple[tuple[str, Skipper], ...]:
    """Name and skipper of each field of a struct, in order.

    Raises `KeyError` for an unknown type, `TypeError` for one that is no struct.
    """
    kind = load_schema().types[name]
    if not isinstance(kind, Structure):
        raise TypeError(f"{name} is no struct")
    with _compiling:
        return tuple((field, _as_skipper(_compile(each))) for field, each in kind.fields)


_Compiled: TypeAlias = int | Skipper
"""A size, where any bytes of that size are valid; otherwise a skipper."""

_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")
"""By the number of bytes modulo four."""

_compiling = threading.Lock()
_compiled: dict[str, _Compiled] = {}
_recursive: dict[str, Skipper] = {}
_in_progress: set[str] = set()


def _compile(kind: Type) -> _Compiled:
    match kind:
        case Number(size):
            return size
        case Named(name):
            if name in _in_progress:
                # A recursive type: looked up at run time. A call more per level would lower the
                # depth that Python's stack allows.
                return lambda raw, at: _recursive[name](raw, at)
            if name not in _compiled:
                _in_progress.add(name)
                _compiled[name] = _compile(load_schema().types[name])
                _recursive[name] = _as_skipper(_compiled[name])
                _in_progress.remove(name)
            return _compiled[name]
        case Enumeration(values):
            return _union(dict.fromkeys(values, 0))
        case Union(arms):
            return _union({v: 0 if arm is None else _compile(arm) for v, arm in arms.items()})
        case Octets(size, counted=True):
            return _counted_octets(size)
        case Octets(size):
            return _sequence([size, _zeros(_PADDING[size & 3])]) if size & 3 else size
        case Array(element, size, counted):
            each = _compile(element)
            return _counted_array(each, size) if counted else _sequence([each] * size)
        case Structure(fields):
            return _sequence([_compile(each) for _, each in fields])


def _as_skipper(compiled: _Compiled) -> Skipper:
    if isinstance(compiled, int):
        size = compiled
        return lambda _raw, at: at + size
    return compiled


def _union(arms: Mapping[int, _Compiled]) -> Skipper:
    """Discriminant and arm; also enum, bool and optional."""
    by_discriminant: dict[bytes, tuple[int, Skipper | None]] = {
        value.to_bytes(4, "big", signed=value < 0): (
            (4 + arm, None) if isinstance(arm, int) else (4, arm)
        )
        for value, arm in arms.items()
    }

    def skip(raw: bytes, at: int) -> int:
        try:
            size, rest = by_discriminant[raw[at : at + 4]]
        except KeyError:
            raise Malformed(f"{raw[at : at + 4].hex() or 'an end'} at {at}") from None
        return at + size if rest is None else rest(raw, at + size)

    return skip


def _counted_octets(max_size: int) -> Skipper:
    def skip(raw: bytes, at: int) -> int:
        length = int.from_bytes(raw[at : at + 4], "big")
        padding = _PADDING[length & 3]
        at += 4 + length
        end = at + len(padding)
        if length > max_size or raw[at:end] != padding:
            raise Malformed(f"{length} bytes before {at}, or their padding")
        return end

    return skip


def _zeros(padding: bytes) -> Skipper:
    def skip(raw: bytes, at: int) -> int:
        end = at + len(padding)
        if raw[at:end] != padding:
            raise Malformed(f"the padding at {at}")
        return end

    return skip


def _counted_array(element: _Compiled, max_count: int) -> Skipper:
    def skip(raw: bytes, at: int) -> int:
        count = int.from_bytes(raw[at : at + 4], "big")
        at += 4
        # No element of `schema.x` is shorter than 4 bytes. Some end past the end of the bytes
        # without an error, so a forged count would otherwise cost up to 2^32 iterations.
        if count > max_count or (count and 4 * count > len(raw) - at):
            raise Malformed(f"{count} elements at {at - 4}")
        if isinstance(element, int):
            return at + count * element
        for _ in range(count):
            at = element(raw, at)
        return at

    return skip


def _sequence(parts: list[_Compiled]) -> _Compiled:
    """Values one after another; sizes are added up, so that only skippers cost a call."""
    steps: list[tuple[int, Skipper]] = []
    size = 0
    for part in parts:
        if isinstance(part, int):
            size += part
        else:
            steps.append((size, part))
            size = 0
    tail = size
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
