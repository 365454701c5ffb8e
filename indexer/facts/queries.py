"""Queries that are compiled once, of which several are run in one round trip."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Generic, TypeVar

from psycopg.rows import namedtuple_row
from psycopg.types.numeric import IntLoader
from sqlalchemy import ClauseElement, Connection

from indexer.facts.rows import as_sqlalchemy, compiled
from warehouse_schema.queries import SEPARATOR

T = TypeVar("T")


class CompiledQuery(Generic[T]):
    """A query, or an UPDATE that returns rows, for `fetch_all`.

    Its parameters are named; lists of words are `joined`.

    Through SQLAlchemy a short query takes three times as long. Every `numeric` must be whole, as
    base units are.
    """

    def __init__(self, statement: ClauseElement, make: Callable[[Any], T]) -> None:
        self.make = make
        """A row, with the names of its columns, as the result."""
        self._statement = statement
        self._compiled: dict[Any, tuple[bytes, Mapping[str, Any]]] = {}

    def compiled_for(self, conn: Connection) -> tuple[bytes, Mapping[str, Any]]:
        """Text for the driver, with the connection's schema map, and values of literals."""
        schemas = conn.get_execution_options().get("schema_translate_map") or {}
        key = tuple(schemas.items())
        if key not in self._compiled:
            text, values = compiled(conn, self._statement)
            self._compiled[key] = text.as_bytes(None), values
        return self._compiled[key]


def rows_of(statement: ClauseElement) -> CompiledQuery[Any]:
    """A query whose results are named tuples."""
    return CompiledQuery(statement, lambda row: row)


QueryCall = tuple[CompiledQuery[Any], Mapping[str, Any]]
"""A query, and values of its parameters."""


def joined(words: Iterable[str]) -> str:
    """Words as the parameter that `any_in` splits. None is empty or has a `SEPARATOR`."""
    return SEPARATOR.join(words)


def fetch_all(conn: Connection, calls: Sequence[QueryCall]) -> list[list[Any]]:
    """The results of each query, all in one round trip.

    As separate statements, each sees what was committed before it. Raises SQLAlchemy's errors.
    """
    if not calls:
        return []
    statements = [query.compiled_for(conn) for query, _ in calls]
    driver: Any = conn.connection.driver_connection
    # A pipeline of one takes three times as long.
    together = driver.pipeline() if len(calls) > 1 else nullcontext()
    with as_sqlalchemy(conn, statements[0][0]), together:
        cursors = [driver.cursor(row_factory=namedtuple_row) for _ in calls]
        for cursor, (text, literals), (_, values) in zip(cursors, statements, calls, strict=True):
            cursor.adapters.register_loader("numeric", IntLoader)
            cursor.execute(text, {**literals, **values})
        found = [cursor.fetchall() for cursor in cursors]
    return [
        [query.make(row) for row in rows] for (query, _), rows in zip(calls, found, strict=True)
    ]
