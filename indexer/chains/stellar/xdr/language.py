"""The XDR language (RFC 4506, section 6), and the definitions of Stellar's protocol in it.

The SDK prints each type's definition in the docstring of its class, word for word from the `.x`
files of the protocol it implements: protocol 28. `protocol_30.x` holds the definitions that have
changed since; they replace the SDK's.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import TypeAlias

from stellar_sdk import xdr
from stellar_sdk.xdr import constants

from indexer.errors import ConfigurationError

MAX_LENGTH = 0xFFFFFFFF
"""Bytes or elements where a definition gives no limit."""


@dataclass(frozen=True, slots=True)
class Number:
    """An integer or a float of 4 or 8 bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class Bool:
    """0 or 1 in 4 bytes."""


@dataclass(frozen=True, slots=True)
class Named:
    """A type that is defined elsewhere."""

    name: str


@dataclass(frozen=True, slots=True)
class Enumeration:
    """One of these values in 4 bytes."""

    values: frozenset[int]


@dataclass(frozen=True, slots=True)
class Octets:
    """Bytes, padded to a multiple of four: exactly `most`, or a counted number of at most that."""

    most: int
    counted: bool


@dataclass(frozen=True, slots=True)
class Array:
    """Elements: exactly `most`, or a counted number of at most that."""

    element: "Type"
    most: int
    counted: bool


@dataclass(frozen=True, slots=True)
class Optional:
    """An element that may be left out (`*`)."""

    element: "Type"


@dataclass(frozen=True, slots=True)
class Structure:
    """Fields in order."""

    fields: tuple[tuple[str, "Type"], ...]


@dataclass(frozen=True, slots=True)
class Union:
    """An arm for each value of the discriminant, which is an int or an enum; None is void."""

    arms: Mapping[int, "Type | None"]


Type: TypeAlias = (
    Number | Bool | Named | Enumeration | Octets | Array | Optional | Structure | Union
)


@cache
def definition(name: str) -> Type:
    """The definition of a type by its name in the `.x` files, such as `LedgerCloseMeta`.

    Raises `KeyError` for a name that the protocol does not have, `ValueError` for a definition that
    is not of the language.
    """
    return parse(_sources()[name])


def type_names() -> frozenset[str]:
    """Every type of the protocol that has a name."""
    return frozenset(_sources())


def constant(name: str) -> int:
    """The value of a constant or of an enum's member. Raises `KeyError` for an unknown name."""
    return _constants()[name]


def parse(source: str) -> Type:
    """One definition. Raises `ValueError` for what is not of the language."""
    return _Parser(source).definition()


@cache
def _sources() -> Mapping[str, str]:
    """Type name → its definition. Definitions inside of others have no name, and stay there."""
    found = _named(_of_sdk())
    if not found:
        raise ConfigurationError("the SDK's XDR is read from its docstrings: run without -OO")
    return found | _named(_changed())


@cache
def _constants() -> Mapping[str, int]:
    """Name → value of every constant, and of every enum's members."""
    found = {name: value for name, value in vars(constants).items() if isinstance(value, int)}
    for kind in vars(xdr).values():
        if isinstance(kind, type) and issubclass(kind, IntEnum):
            found |= {member.name: member.value for member in kind}
    for source in _changed():
        if source.startswith(("const", "enum")):
            found |= {name: int(value) for name, value in _CONSTANT.findall(source)}
    return found


def _of_sdk() -> Iterator[str]:
    for kind in vars(xdr).values():
        if isinstance(kind, type):
            yield (kind.__doc__ or "").partition(_TITLE)[2]


def _changed() -> list[str]:
    return _DEFINITION.findall(_CHANGED.read_text("ascii"))


def _named(sources: Iterable[str]) -> dict[str, str]:
    found = {}
    for source in sources:
        if named := _NAMED.match(source) or _TYPEDEF.match(source):
            found[named[1]] = source
    return found


_CHANGED = Path(__file__).with_name("protocol_30.x")
_TITLE = "XDR Source Code::"
_NAMED = re.compile(r"\s*(?:struct|union|enum)\s+(?!switch\b)(\w+)")
_TYPEDEF = re.compile(r"\s*typedef\b[^;]*?(\w+)\s*(?:<[^>]*>|\[[^\]]*\])?\s*;", re.DOTALL)
_CONSTANT = re.compile(r"(\w+)\s*=\s*(\d+)")
_DEFINITION = re.compile(r"^(?:const|typedef)\b[^;]*;|^(?:struct|union|enum)\b.*?^\};", re.M | re.S)
"""A definition of a `.x` file: it begins, and one in braces ends, at the start of a line."""
_TOKEN = re.compile(
    r"\s*(?://[^\n]*|/\*.*?\*/|(0[xX][0-9a-fA-F]+|-?\d+|\w+|[{}()\[\]<>;:,=*]))", re.S
)
_NUMBERS = {"int": 4, "hyper": 8, "float": 4, "double": 8}


class _Parser:
    """Reads one definition, from the left to the right."""

    def __init__(self, source: str) -> None:
        self._tokens = list(_tokens(source))
        self._at = 0

    def definition(self) -> Type:
        """`typedef …;`, `struct N {…};`, `union N switch …;` or `enum N {…};`."""
        if self._taken("typedef"):
            _, kind = self._declaration()
        else:
            kind = self._specifier()
        self._expect(";")
        return kind

    def _declaration(self) -> tuple[str, Type]:
        """A type, a name and, after the name, what makes an array of it; the type with its name."""
        if self._taken("opaque") or self._taken("string"):
            name = self._next()
            most, counted = self._length()
            return name, Octets(most, counted)
        kind = self._specifier()
        if self._taken("*"):
            return self._next(), Optional(kind)
        name = self._next()
        if self._peek() in ("<", "["):
            most, counted = self._length()
            return name, Array(kind, most, counted)
        return name, kind

    def _length(self) -> tuple[int, bool]:
        """`[n]`, `<n>` or `<>`."""
        counted = self._next() == "<"
        most = MAX_LENGTH if self._peek() == ">" else _value(self._next())
        self._expect(">" if counted else "]")
        return most, counted

    def _specifier(self) -> Type:
        word = self._next()
        if word == "unsigned":
            word = self._next() if self._peek() in _NUMBERS else "int"
        if word in _NUMBERS:
            return Number(_NUMBERS[word])
        if word == "bool":
            return Bool()
        if word not in ("struct", "union", "enum"):
            return Named(word)
        if self._peek() not in ("{", "switch"):
            self._next()
        if word == "struct":
            return self._structure()
        return self._union() if word == "union" else self._enumeration()

    def _structure(self) -> Structure:
        self._expect("{")
        fields = []
        while not self._taken("}"):
            fields.append(self._declaration())
            self._expect(";")
        return Structure(tuple(fields))

    def _enumeration(self) -> Enumeration:
        self._expect("{")
        values = set()
        while not self._taken("}"):
            self._next()
            self._expect("=")
            values.add(_value(self._next()))
            self._taken(",")
        return Enumeration(frozenset(values))

    def _union(self) -> Union:
        self._expect("switch")
        self._expect("(")
        self._declaration()
        self._expect(")")
        self._expect("{")
        arms: dict[int, Type | None] = {}
        while not self._taken("}"):
            labels = []
            while self._taken("case"):
                labels.append(_value(self._next()))
                self._expect(":")
            if not labels:
                raise ValueError(f"an arm begins with {self._peek()!r}; only `case` is known")
            arm = None if self._taken("void") else self._declaration()[1]
            self._expect(";")
            arms.update(dict.fromkeys(labels, arm))
        return Union(arms)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        word = self._peek()
        self._at += 1
        return word

    def _taken(self, word: str) -> bool:
        """Step over the word if it comes next."""
        if self._peek() != word:
            return False
        self._at += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._taken(word):
            raise ValueError(f"{self._peek()!r} where XDR has {word!r}")


def _tokens(source: str) -> Iterator[str]:
    at, end = 0, len(source.rstrip())
    while at < end:
        found = _TOKEN.match(source, at)
        if found is None:
            raise ValueError(f"not the XDR language: {source[at : at + 20]!r}")
        at = found.end()
        if found[1]:
            yield found[1]


def _value(word: str) -> int:
    """A number, or what the protocol calls it."""
    return int(word, 0) if word[0].isdigit() or word[0] == "-" else constant(word)
