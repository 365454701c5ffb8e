"""Words for queries that SQLAlchemy has no word for."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Text, bindparam, func


def any_of(words: Iterable[str]) -> ColumnElement[Any]:
    """What a text column equals if it is one of the words: one parameter, however many words."""
    return func.any(bindparam(None, list(words), type_=ARRAY(Text)))
