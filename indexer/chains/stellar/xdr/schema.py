"""The XDR types of a ledger, parsed from `schema.x`, and a parser of the XDR language.

XDR: RFC 4506; the language is its section 6.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

MAX_LENGTH = 0xFFFFFFFF
"""Bytes or elements where a definition gives no limit."""

_TOKEN = re.compile(r"//.*|(0[xX][0-9a-fA-F]+|-?\d+|\w+|[{}()\[\]<>;:,=*])|(\S)")
_NUMBERS = {"int": 4, "hyper": 8}


@dataclass(frozen=True, slots=True)
class Number:
    """Integer of 4 or 8 bytes."""

    size: int


@dataclass(frozen=True, slots=True)
class Named:
    """Reference to a named type."""

    name: str


@dataclass(frozen=True, slots=True)
class Enumeration:
    """One of these values in 4 bytes; `bool` is one of 0 and 1 (RFC 4506, section 4.4)."""

    values: frozenset[int]


@dataclass(frozen=True, slots=True)
class Octets:
    """`opaque` or `string`, zero-padded to a multiple of four bytes.

    Exactly `size` bytes, or with `counted` a 4-byte length of at most `size` before them.
    """

    size: int
    counted: bool


@dataclass(frozen=True, slots=True)
class Array:
    """Exactly `size` elements, or with `counted` a 4-byte number of at most `size` before them."""

    element: "Type"
    size: int
    counted: bool


@dataclass(frozen=True, slots=True)
class Structure:
    """Fields in order."""

    fields: tuple[tuple[str, "Type"], ...]


@dataclass(frozen=True, slots=True)
class Union:
    """Arm by the value of the discriminant, an int or an enum; None is void.

    An optional element (`*`) is the arm of 1 (section 4.19).
    """

    arms: Mapping[int, "Type | None"]


Type: TypeAlias = Number | Named | Enumeration | Octets | Array | Structure | Union


@dataclass(frozen=True, slots=True)
class XdrSchema:
    """Types by name; constants and members of enums by name."""

    types: Mapping[str, Type]
    constants: Mapping[str, int]


def parse_schema(text: str) -> XdrSchema:
    """Parse definitions, each behind the constants that it uses.

    Raises `ValueError` for text that is not XDR, `KeyError` for an unknown constant.
    """
    tokens = []
    for token in _TOKEN.finditer(text):
        if token[2]:
            raise ValueError(f"{token[2]!r} is not a token of XDR")
        if token[1]:
            tokens.append(token[1])
    parser = _Parser(tokens)
    return XdrSchema(*parser.definitions())


class _Parser:
    """Recursive descent, without lookahead beyond one token."""

    def __init__(self, tokens: list[str]) -> None:
        # The empty token is the end of the text.
        self._tokens = [*reversed([*tokens, ""])]
        self._constants: dict[str, int] = {}

    def definitions(self) -> tuple[dict[str, Type], dict[str, int]]:
        types: dict[str, Type] = {}
        while not self._accept(""):
            if self._accept("const"):
                self._member()
            elif self._accept("typedef"):
                name, kind = self._declaration()
                types[name] = kind
            else:
                # The name of a struct, union or enum follows the keyword.
                name = self._tokens[-2]
                types[name] = self._specifier()
            self._expect(";")
        return types, self._constants

    def _declaration(self) -> tuple[str, Type]:
        is_octets = self._accept("opaque") or self._accept("string")
        element = None if is_octets else self._specifier()
        if element is not None and self._accept("*"):
            return self._tokens.pop(), Union({0: None, 1: element})
        name = self._tokens.pop()
        counted = self._accept("<")
        if not counted and not self._accept("["):
            if element is None:
                raise ValueError(f"XDR octets {name!r} have no length")
            return name, element
        size = MAX_LENGTH if self._tokens[-1] == ">" else self._value()
        self._expect(">" if counted else "]")
        return name, Octets(size, counted) if element is None else Array(element, size, counted)

    def _specifier(self) -> Type:
        word = self._tokens.pop()
        if word == "unsigned":
            word = self._tokens.pop()
        if word in _NUMBERS:
            return Number(_NUMBERS[word])
        if word == "bool":
            return Enumeration(frozenset({0, 1}))
        if word not in ("struct", "union", "enum"):
            return Named(word)
        if self._tokens[-1] not in ("{", "switch"):
            self._tokens.pop()
        if word == "union":
            return self._union()
        self._expect("{")
        if word == "enum":
            values = {self._member()}
            while self._accept(","):
                values.add(self._member())
            self._expect("}")
            return Enumeration(frozenset(values))
        fields = []
        while not self._accept("}"):
            fields.append(self._declaration())
            self._expect(";")
        return Structure(tuple(fields))

    def _union(self) -> Union:
        for word in ("switch", "("):
            self._expect(word)
        self._declaration()
        for word in (")", "{"):
            self._expect(word)
        arms: dict[int, Type | None] = {}
        while not self._accept("}"):
            labels = []
            while self._accept("case"):
                labels.append(self._value())
                self._expect(":")
            if not labels:
                raise ValueError(f"{self._tokens[-1]!r} where XDR has 'case'")
            arm = None if self._accept("void") else self._declaration()[1]
            self._expect(";")
            arms.update(dict.fromkeys(labels, arm))
        return Union(arms)

    def _member(self) -> int:
        """`NAME = value`, of a const or an enum."""
        name = self._tokens.pop()
        self._expect("=")
        self._constants[name] = value = self._value()
        return value

    def _value(self) -> int:
        """Number or name of a constant."""
        word = self._tokens.pop()
        return int(word, 0) if word[:1].isdigit() or word[:1] == "-" else self._constants[word]

    def _accept(self, word: str) -> bool:
        """Consume the next token if it is this one."""
        if self._tokens[-1] != word:
            return False
        self._tokens.pop()
        return True

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise ValueError(f"{self._tokens[-1]!r} where XDR has {word!r}")


@cache
def load_schema() -> XdrSchema:
    """`schema.x`, parsed at the first use: that takes 10 ms, which most commands need not spend."""
    return parse_schema(Path(__file__).with_name("schema.x").read_text("ascii"))
