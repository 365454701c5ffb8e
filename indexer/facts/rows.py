"""Events and raw events as rows, by COPY and server-side cursors.

A table's columns are the fields of `Provenance`, then the type's own, by name
(`tests/architecture/test_events.py` checks it).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb
from psycopg.types.numeric import IntLoader
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ClauseElement,
    Column,
    Connection,
    Integer,
    LargeBinary,
    Select,
    Table,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeEngine

from indexer.bridges import bridge_modules
from indexer.chains.events import Event, Provenance
from indexer.chains.raw import EvmLog, RawEvent, StellarEvent
from indexer.market import escrow_events, rail_terms_events
from warehouse_schema.columns import BaseUnitsType
from warehouse_schema.events import EVENT_TABLES
from warehouse_schema.facts import evm_logs, stellar_events

EVENT_TYPES: Mapping[str, type[Event]] = {
    name: item
    for module in (*bridge_modules("events"), escrow_events, rail_terms_events)
    for name, item in vars(module).items()
    if isinstance(item, type) and issubclass(item, Event) and item is not Event
}
"""All event types by name."""

_LARGEST = {Integer: 2**31 - 1, BigInteger: 2**63 - 1, BaseUnitsType: 10**78 - 1}
_SURROGATE = re.compile("[\ud800-\udfff]")
_PROVENANCE = tuple(field.name for field in fields(Provenance))


@dataclass(frozen=True, slots=True)
class TableMapping:
    """A dataclass with provenance, its table, and the columns of its own fields in order."""

    type: type[Any]
    table: Table
    own: tuple[str, ...]
    row: Callable[[Any], tuple[Any, ...]]
    """An item as values of `columns`."""
    has_arrays: bool
    numbers: tuple[tuple[int, int], ...]
    """Places in `columns` of numbers, and the largest that each holds."""
    others: tuple[int, ...]
    """Places of the other columns."""

    @property
    def columns(self) -> list[Column[Any]]:
        """Provenance first; the order of `row` and `item`."""
        return [self.table.c[name] for name in (*_PROVENANCE, *self.own)]

    def item(self, values: Sequence[Any]) -> Any:
        """The item of a row of `columns`; inverse of `row`."""
        if self.has_arrays:
            values = [tuple(value) if isinstance(value, list) else value for value in values]
        split = len(_PROVENANCE)
        return self.type(Provenance(*values[:split]), *values[split:])


def mapping_of(item_type: type[Any], table: Table) -> TableMapping:
    """The mapping of a type whose first field is `seen`."""
    seen, *own = (field.name for field in fields(item_type))
    if seen != "seen":
        raise TypeError(f"{item_type.__name__} begins with {seen}")
    row = attrgetter(*(f"seen.{name}" for name in _PROVENANCE), *own)
    arrays = any(isinstance(table.c[name].type, ARRAY) for name in own)
    kinds = [type(table.c[name].type) for name in (*_PROVENANCE, *own)]
    numbers = {place: _LARGEST[kind] for place, kind in enumerate(kinds) if kind in _LARGEST}
    others = tuple(place for place in range(len(kinds)) if place not in numbers)
    return TableMapping(item_type, table, tuple(own), row, arrays, (*numbers.items(),), others)


EVENT_MAPPINGS: Mapping[type[Event], TableMapping] = {
    EVENT_TYPES[name]: mapping_of(EVENT_TYPES[name], table) for name, table in EVENT_TABLES.items()
}
RAW_MAPPINGS: Mapping[type[RawEvent], TableMapping] = {
    EvmLog: mapping_of(EvmLog, evm_logs),
    StellarEvent: mapping_of(StellarEvent, stellar_events),
}


def storage_error(event: Event) -> str | None:
    """Why Postgres would reject the event's row, or None.

    Emitters choose some values (a domain of 2^32 - 1, a NUL in a memo); one such event must not
    stop its chain.
    """
    mapping = EVENT_MAPPINGS[type(event)]
    values = mapping.row(event)
    for place, largest in mapping.numbers:
        value = values[place]
        if value is not None and not -largest <= value <= largest:
            return f"{mapping.columns[place].name}: {value} is beyond {largest}"
    for place in mapping.others:
        value = values[place]
        if type(value) is str and value.isascii() and "\0" not in value:
            continue
        for text in value if isinstance(value, tuple) else (value,):
            if type(text) is not str:
                continue
            if "\0" in text:
                return f"{mapping.columns[place].name}: {text!r} has a NUL"
            if _SURROGATE.search(text):
                return f"{mapping.columns[place].name}: {text!r} has half a surrogate pair"
    return None


# COPY and server-side cursors. All are part of the connection's transaction and raise SQLAlchemy's
# errors, as `Connection.execute` does.


def copy_rows(conn: Connection, table: Table, rows: Iterable[Sequence[Any]]) -> int:
    """Append rows of all the table's columns, in their order. Returns their number.

    A sequence becomes an array, a dict JSON; base units must be int.
    """
    return copy_into(conn, list(table.columns), rows)


def copy_into(
    conn: Connection, columns: Sequence[Column[Any]], rows: Iterable[Sequence[Any]]
) -> int:
    """As `copy_rows`, for some of one table's columns; the others take their defaults."""
    (table,) = {column.table for column in columns}
    count = 0
    with copy_in(conn, table, [column.name for column in columns]) as copy:
        for row in _driver_rows(columns, rows):
            copy.write_row(row)
            count += 1
    return count


@dataclass(frozen=True, slots=True)
class RowBatch:
    """New rows of some columns of one table."""

    columns: Sequence[Column[Any]]
    rows: Sequence[Sequence[Any]]
    skips_stored: bool = False
    """A row whose key is stored already is left out."""


def write_rows(conn: Connection, batches: Sequence[RowBatch]) -> None:
    """Append all rows: a batch of many by COPY, the others by INSERTs in one statement.

    Batches come in any order: none may depend on another's rows, nor on the order of generated
    numbers. Values as for `copy_rows`. Raises SQLAlchemy's errors, as `Connection.execute` does.
    """
    by_insert: list[RowBatch] = []
    for batch in batches:
        if batch.skips_stored or len(batch.rows) <= _MAX_INSERTED_ROWS:
            by_insert.append(batch)
        else:
            copy_into(conn, batch.columns, batch.rows)
    inserts = [insert for batch in by_insert for insert in _inserts(batch)]
    driver: Any = conn.connection.driver_connection
    for start in range(0, len(inserts), _MAX_TOGETHER):
        together = inserts[start : start + _MAX_TOGETHER]
        statement = _together(tuple(text for text, _ in together))
        with as_sqlalchemy(conn, statement), driver.cursor() as cursor:
            cursor.execute(statement, [value for _, values in together for value in values])


_MAX_INSERTED_ROWS = 6
"""A COPY takes as long as the INSERTs of six rows, and a tenth of that for each further row."""
_MAX_TOGETHER = 12
"""INSERTs of one statement: of the tables of a block."""


@lru_cache(maxsize=1_000)
def _together(inserts: tuple[bytes, ...]) -> bytes:
    """INSERTs as one statement: in a pipeline, each costs the driver as much as all together."""
    if len(inserts) == 1:
        return inserts[0]
    named = (b"i%d AS (%s)" % (number, insert) for number, insert in enumerate(inserts))
    return b"WITH " + b", ".join(named) + b" SELECT"


def _inserts(batch: RowBatch) -> Iterator[tuple[bytes, list[Any]]]:
    """Statements of some rows each, and their values."""
    columns = tuple(batch.columns)
    for start in range(0, len(batch.rows), _MAX_INSERTED_ROWS):
        rows = list(_driver_rows(columns, batch.rows[start : start + _MAX_INSERTED_ROWS]))
        text = _insert_statement(columns, len(rows), skips_stored=batch.skips_stored)
        yield text, [value for row in rows for value in row]


@cache
def _insert_statement(columns: tuple[Column[Any], ...], rows: int, *, skips_stored: bool) -> bytes:
    (table,) = {column.table for column in columns}
    row = sql.SQL("({})").format(sql.SQL(", ").join([sql.Placeholder()] * len(columns)))
    statement = sql.SQL("INSERT INTO {} ({}) VALUES {}{}").format(
        _table_name(table),
        sql.SQL(", ").join(sql.Identifier(column.name) for column in columns),
        sql.SQL(", ").join([row] * rows),
        sql.SQL(" ON CONFLICT DO NOTHING" if skips_stored else ""),
    )
    return statement.as_bytes(None)


def _driver_rows(
    columns: Sequence[Column[Any]], rows: Iterable[Sequence[Any]]
) -> Iterator[Sequence[Any]]:
    """Rows as the driver takes them. Raises `TypeError` for base units that are not int."""
    units = [
        place for place, column in enumerate(columns) if isinstance(column.type, BaseUnitsType)
    ]
    adapters = {
        place: adapter
        for place, column in enumerate(columns)
        if (adapter := _adapter(column.type)) is not None
    }
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"{len(row)} values for {len(columns)} columns")
        for place in units:
            if type(row[place]) is not int and row[place] is not None:
                raise TypeError(f"base units are int, got {type(row[place]).__name__}")
        if adapters:
            row = [
                value if value is None or place not in adapters else adapters[place](value)
                for place, value in enumerate(row)
            ]
        yield row


def _adapter(kind: TypeEngine[Any]) -> Callable[[Any], Any] | None:
    """Conversion of a column's values for the driver; None where it needs none."""
    if isinstance(kind, ARRAY):
        return _bytea_array if isinstance(kind.item_type, LargeBinary) else list
    return Jsonb if isinstance(kind, JSONB) else None


def _bytea_array(elements: Iterable[bytes]) -> str:
    """Postgres's text of an array of bytea.

    The driver's own took a fifth of the profile of a full Stellar ledger.
    """
    return "{" + ",".join([f'"\\\\x{element.hex()}"' for element in elements]) + "}"


@contextmanager
def copy_in(conn: Connection, table: Any, columns: Sequence[str]) -> Iterator[psycopg.Copy]:
    """`COPY` text into these columns of a table."""
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        _table_name(table),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
    )
    driver: Any = conn.connection.driver_connection
    with as_sqlalchemy(conn, statement), driver.cursor() as cursor, cursor.copy(statement) as copy:
        yield copy


def _table_name(table: Any, schema: str | None = None) -> sql.Identifier:
    return sql.Identifier(*(name for name in (schema or table.schema, table.name) if name))


def copy_out(conn: Connection, query: Select[Any]) -> Iterator[bytes]:
    """`COPY` of a query's rows out, a line of CSV each: null is nothing, empty text quoted."""
    text, parameters = compiled(conn, query)
    statement = sql.SQL("COPY ({}) TO STDOUT WITH (FORMAT csv)").format(text)
    driver: Any = conn.connection.driver_connection
    with (
        as_sqlalchemy(conn, statement),
        driver.cursor() as cursor,
        # The driver interpolates the parameters: COPY takes none.
        cursor.copy(statement, parameters) as copy,
    ):
        yield from copy


def stream_rows(
    conn: Connection, query: Select[Any], batch: int
) -> Iterator[list[tuple[Any, ...]]]:
    """Rows of a query in batches, through a server-side cursor.

    Every `numeric` must be whole, as base units are: the driver loads it as `int`, which takes half
    the time of SQLAlchemy's rows. Raises `ValueError` on a fraction.
    """
    text, parameters = compiled(conn, query)
    statement = sql.Composed([text])
    driver: Any = conn.connection.driver_connection
    with (
        as_sqlalchemy(conn, statement),
        driver.cursor(name=f"stream_{uuid4().hex}") as cursor,
    ):
        cursor.adapters.register_loader("numeric", IntLoader)
        cursor.execute(statement, parameters)
        while rows := cursor.fetchmany(batch):
            yield rows


def compiled(conn: Connection, query: ClauseElement) -> tuple[sql.SQL, Mapping[str, Any]]:
    """The query's text for the driver and its parameters, with the connection's schema map."""
    schemas = conn.get_execution_options().get("schema_translate_map")
    options = {"schema_translate_map": schemas, "render_schema_translate": True} if schemas else {}
    compiled = query.compile(
        dialect=conn.dialect, compile_kwargs={"render_postcompile": True}, **options
    )
    return sql.SQL(str(compiled)), compiled.params


@contextmanager
def as_sqlalchemy(conn: Connection, statement: sql.Composed | bytes) -> Iterator[None]:
    """Re-raise psycopg's errors as SQLAlchemy's."""
    driver: Any = conn.connection.driver_connection
    try:
        yield
    except psycopg.Error as error:
        if driver.closed:
            conn.invalidate(error)
        raise DBAPIError.instance(
            statement.decode() if isinstance(statement, bytes) else statement.as_string(None),
            None,
            error,
            psycopg.Error,
            connection_invalidated=driver.closed,
            dialect=conn.dialect,
        ) from error
