"""Words for queries that SQLAlchemy has no word for."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ARRAY, BigInteger, ColumnElement, Float, Text, bindparam, cast, extract, func


def any_of(words: Iterable[str]) -> ColumnElement[Any]:
    """What a text column equals if it is one of the words: one parameter, however many words."""
    return func.any(bindparam(None, list(words), type_=ARRAY(Text)))


def unix_seconds(moment: ColumnElement[Any]) -> ColumnElement[int]:
    """A timestamp as whole unix seconds, rounded down."""
    return cast(func.floor(extract("epoch", moment)), BigInteger)


def seconds_since(moment: ColumnElement[Any]) -> ColumnElement[float]:
    """Seconds since then, by the database's clock."""
    return cast(extract("epoch", func.clock_timestamp() - moment), Float)
