"""Events as rows: which type lives in which table, there and back again without loss.

The match is by name. A table's columns are the fields of `Provenance`, then the type's own
(`tests/architecture/test_events.py` holds them to it).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import chain as concatenated
from typing import Any, TypeAlias
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb
from psycopg.types.numeric import IntLoader
from sqlalchemy import ARRAY, BigInteger, Column, Connection, Integer, Select, Table
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from indexer.bridges.cctp import events as cctp
from indexer.bridges.oft import events as oft
from indexer.bridges.tokens import events as tokens
from indexer.chains.events import Event, Provenance
from indexer.chains.raw import EvmLog, RawEvent, StellarEvent
from indexer.market import escrow_events, rail_terms_events
from warehouse_schema.columns import BaseUnitsType
from warehouse_schema.events import EVENT_TABLES
from warehouse_schema.facts import evm_logs, stellar_events

EVENT_TYPES: Mapping[str, type[Event]] = {
    name: item
    for module in (cctp, escrow_events, oft, rail_terms_events, tokens)
    for name, item in vars(module).items()
    if isinstance(item, type) and issubclass(item, Event) and item is not Event
}
"""Every event type there is, by its name."""

RAW_TABLES: Mapping[type[RawEvent], Table] = {EvmLog: evm_logs, StellarEvent: stellar_events}

_PROVENANCE = tuple(field.name for field in fields(Provenance))


@dataclass(frozen=True, slots=True)
class TableMapping:
    """A dataclass with provenance, its table, and the columns of its own fields, in their order."""

    type: type[Any]
    table: Table
    own: tuple[str, ...]
    has_arrays: bool = False

    @property
    def columns(self) -> list[Column[Any]]:
        """Provenance first; the order of `row` and of what `item` takes."""
        return [self.table.c[name] for name in (*_PROVENANCE, *self.own)]

    def row(self, item: Event | RawEvent) -> tuple[Any, ...]:
        """The item as values of `columns`."""
        seen = item.seen
        return tuple(
            concatenated(
                (getattr(seen, name) for name in _PROVENANCE),
                (getattr(item, name) for name in self.own),
            )
        )

    def item(self, values: Sequence[Any]) -> Any:
        """The item of a row of `columns`; what `row` did, undone."""
        if self.has_arrays:
            values = [tuple(value) if isinstance(value, list) else value for value in values]
        split = len(_PROVENANCE)
        return self.type(Provenance(*values[:split]), *values[split:])


def _shelf(item_type: type[Any], table: Table) -> TableMapping:
    seen, *own = (field.name for field in fields(item_type))
    if seen != "seen":
        raise TypeError(f"{item_type.__name__} begins with {seen}")
    arrays = any(isinstance(table.c[name].type, ARRAY) for name in own)
    return TableMapping(item_type, table, tuple(own), arrays)


EVENT_MAPPINGS: Mapping[type[Event], TableMapping] = {
    EVENT_TYPES[name]: _shelf(EVENT_TYPES[name], table) for name, table in EVENT_TABLES.items()
}
RAW_MAPPINGS: Mapping[type[RawEvent], TableMapping] = {
    raw_type: _shelf(raw_type, table) for raw_type, table in RAW_TABLES.items()
}


def storage_error(event: Event) -> str | None:
    """Why Postgres would refuse the event's row, or None.

    Strangers choose some of what they emit (a domain of 2^32 - 1, a NUL in a memo). One such event
    must not stop its chain.
    """
    for column in EVENT_MAPPINGS[type(event)].columns:
        holder = event.seen if column.name in _PROVENANCE else event
        reason = _why_unfit(column, getattr(holder, column.name))
        if reason is not None:
            return f"{column.name}: {reason}"
    return None


_LARGEST = {Integer: 2**31 - 1, BigInteger: 2**63 - 1, BaseUnitsType: 10**78 - 1}


def _why_unfit(column: Column[Any], value: Any) -> str | None:
    if isinstance(value, str):
        return _why_unfit_text(value)
    if isinstance(value, tuple):
        reasons = (_why_unfit_text(item) for item in value if isinstance(item, str))
        return next((reason for reason in reasons if reason is not None), None)
    largest = _LARGEST.get(type(column.type))
    if largest is not None and value is not None and abs(value) > largest:
        return f"{value} is beyond {largest}"
    return None


def _why_unfit_text(text: str) -> str | None:
    if "\0" in text:
        return f"{text!r} has a NUL"
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        return f"{text!r} has half a surrogate pair"
    return None


# COPY, the fast way in.

_ToDriver: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]


def copy_rows(conn: Connection, table: Table, rows: Iterable[Sequence[Any]]) -> int:
    """Append rows of all the table's columns, in their order; how many they were.

    Part of the connection's transaction. A sequence becomes an array, a dict JSON, and base units
    must be int. Raises SQLAlchemy's errors, as `Connection.execute` does.
    """
    return _copy(conn, table, list(table.columns), rows)


def copy_into(
    conn: Connection, columns: Sequence[Column[Any]], rows: Iterable[Sequence[Any]]
) -> int:
    """As `copy_rows`, for some of one table's columns; the others take their defaults."""
    (table,) = {column.table for column in columns}
    return _copy(conn, table, columns, rows)


def _copy(
    conn: Connection, table: Any, columns: Sequence[Column[Any]], rows: Iterable[Sequence[Any]]
) -> int:
    to_driver = _to_driver(columns)
    count = 0
    with copy_in(conn, table, [column.name for column in columns]) as copy:
        for row in rows:
            copy.write_row(to_driver(row))
            count += 1
    return count


@contextmanager
def copy_in(
    conn: Connection, table: Table, columns: Sequence[str], *, options: str = "FORMAT text"
) -> Iterator[psycopg.Copy]:
    """`COPY` into these columns of a table, as part of the connection's transaction.

    `options` are Postgres's own. Raises SQLAlchemy's errors, as `Connection.execute` does.
    """
    statement = sql.SQL("COPY {} ({}) FROM STDIN WITH ({})").format(
        sql.Identifier(*(name for name in (table.schema, table.name) if name)),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(options),
    )
    driver: Any = conn.connection.driver_connection
    with _as_sqlalchemy(conn, statement), driver.cursor() as cursor, cursor.copy(statement) as copy:
        yield copy


def copy_out(conn: Connection, query: Select[Any]) -> Iterator[bytes]:
    """`COPY` of a query's rows out, each as a line of CSV, as part of the connection's transaction.

    A null is nothing, an empty text is quoted. Raises SQLAlchemy's errors.
    """
    text, parameters = _compiled(conn, query)
    statement = sql.SQL("COPY ({}) TO STDOUT WITH (FORMAT csv)").format(text)
    driver: Any = conn.connection.driver_connection
    with (
        _as_sqlalchemy(conn, statement),
        driver.cursor() as cursor,
        # The parameters are put in on this side: COPY takes none.
        cursor.copy(statement, parameters) as copy,
    ):
        yield from copy


def stream_rows(
    conn: Connection, query: Select[Any], at_once: int
) -> Iterator[list[tuple[Any, ...]]]:
    """Rows of a query, so many at a time, of a server-side cursor in the connection's transaction.

    Every `numeric` must be whole, as base units are: the driver makes an `int` of it at once, which
    takes half the time of SQLAlchemy's rows. Raises `ValueError` on a fraction, and SQLAlchemy's
    errors.
    """
    text, parameters = _compiled(conn, query)
    statement = sql.Composed([text])
    driver: Any = conn.connection.driver_connection
    with (
        _as_sqlalchemy(conn, statement),
        driver.cursor(name=f"stream_{uuid4().hex}") as cursor,
    ):
        cursor.adapters.register_loader("numeric", IntLoader)
        cursor.execute(statement, parameters)
        while rows := cursor.fetchmany(at_once):
            yield rows


def _compiled(conn: Connection, query: Select[Any]) -> tuple[sql.SQL, Mapping[str, Any]]:
    """A query as the driver takes it, and its parameters; of the schemas that `conn` reads."""
    schemas = conn.get_execution_options().get("schema_translate_map")
    options = {"schema_translate_map": schemas, "render_schema_translate": True} if schemas else {}
    compiled = query.compile(
        dialect=conn.dialect, compile_kwargs={"render_postcompile": True}, **options
    )
    return sql.SQL(str(compiled)), compiled.params


@contextmanager
def _as_sqlalchemy(conn: Connection, statement: sql.Composed) -> Iterator[None]:
    """Whatever psycopg raises within leaves as SQLAlchemy's."""
    driver: Any = conn.connection.driver_connection
    try:
        yield
    except psycopg.Error as error:
        if driver.closed:
            conn.invalidate(error)
        raise DBAPIError.instance(
            statement.as_string(None),
            None,
            error,
            psycopg.Error,
            connection_invalidated=driver.closed,
            dialect=conn.dialect,
        ) from error


def _to_driver(columns: Sequence[Column[Any]]) -> _ToDriver:
    """What makes a row of the columns one that the driver takes."""
    wide = [place for place, column in enumerate(columns) if isinstance(column.type, BaseUnitsType)]
    other = {
        place: _WRAPPED[type(column.type)]
        for place, column in enumerate(columns)
        if type(column.type) in _WRAPPED
    }
    width = len(columns)

    def to_driver(row: Sequence[Any]) -> Sequence[Any]:
        if len(row) != width:
            raise ValueError(f"{len(row)} values for {width} columns")
        for place in wide:
            if type(row[place]) is not int and row[place] is not None:
                raise TypeError(f"base units are int, got {type(row[place]).__name__}")
        if not other:
            return row
        values = list(row)
        for place, wrap in other.items():
            if values[place] is not None:
                values[place] = wrap(values[place])
        return values

    return to_driver


_WRAPPED: Mapping[type[TypeEngine[Any]], Callable[[Any], Any]] = {ARRAY: list, JSONB: Jsonb}
"""Column type → what the driver takes for a value of it; others go as they are."""
