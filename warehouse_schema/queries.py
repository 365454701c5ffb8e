"""Words for queries that SQLAlchemy has no word for."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Float,
    Text,
    bindparam,
    cast,
    extract,
    func,
    literal_column,
)

SEPARATOR = "\x1f"
"""ASCII's unit separator: in no hash, address or id."""


def any_of(words: Iterable[str]) -> ColumnElement[Any]:
    """What a text column equals if it is one of the words: one parameter, however many words."""
    return func.any(array_of(words))


def array_of(words: Iterable[str]) -> ColumnElement[Any]:
    """The words as an array of texts."""
    listed = list(words)
    joined = SEPARATOR.join(listed)
    if joined and joined.count(SEPARATOR) == len(listed) - 1:
        # The driver takes eight times as long for an array of thousands of words.
        text = bindparam(None, joined, type_=Text)
        return func.string_to_array(text, func.chr(ord(SEPARATOR)), type_=ARRAY(Text))
    return bindparam(None, listed, type_=ARRAY(Text))


def any_in(parameter: str) -> ColumnElement[Any]:
    """As `any_of`, for a query that is compiled once: the parameter is the words' joined text."""
    return func.any(array_in(parameter))


def array_in(parameter: str) -> ColumnElement[Any]:
    """As `array_of`, for a query that is compiled once: the parameter is the words' joined text."""
    text = bindparam(parameter, type_=Text)
    separator: ColumnElement[str] = literal_column(f"chr({ord(SEPARATOR)})")
    return func.string_to_array(text, separator, type_=ARRAY(Text))


def unix_seconds(moment: ColumnElement[Any]) -> ColumnElement[int]:
    """A timestamp as whole unix seconds, rounded down."""
    return cast(func.floor(extract("epoch", moment)), BigInteger)


def seconds_since(moment: ColumnElement[Any]) -> ColumnElement[float]:
    """Seconds since then, by the database's clock."""
    return cast(extract("epoch", func.clock_timestamp() - moment), Float)
