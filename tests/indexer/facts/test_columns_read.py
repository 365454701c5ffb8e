"""Frames equal the table rows, hostile values included."""

from typing import Any

import polars as pl
import pytest
from sqlalchemy import Connection, Table, insert, select, text
from sqlalchemy.exc import DBAPIError

from indexer.facts import columns_read, store
from indexer.facts.columns_read import frame_schema, read_frame, read_frames
from indexer.facts.rows import EVENT_MAPPINGS, copy_into
from indexer.facts.store import DecodedEvent
from tests.factories.events import (
    STELLAR,
    make_event,
    make_evm_log,
    make_provenance,
    make_sparse_event,
    make_stellar_event,
)
from warehouse_schema.columns import BaseUnitsType
from warehouse_schema.daily import provider_days
from warehouse_schema.facts import evm_logs, stellar_events
from warehouse_schema.projections import depth

HOSTILE = [
    "",
    "\\N",
    '"',
    '""',
    ",",
    "a,b",
    "a\nb",
    "a\r\nb",
    "\\",
    "ⵣ½ \t",
    "NULL",
    "{}",
    "[]",
    " ",
]


def rows_of(conn: Connection, table: Table) -> list[tuple[Any, ...]]:
    """As psycopg gives them, with base units as the frames have them."""
    units = [isinstance(column.type, BaseUnitsType) for column in table.columns]
    return [
        tuple(
            str(value) if is_unit and value is not None else value
            for value, is_unit in zip(row, units, strict=True)
        )
        for row in conn.execute(select(table).order_by(table.c.height, table.c.position))
    ]


def test_every_event_type_is_read_as_columns(connection: Connection) -> None:
    for event_type, shelf in EVENT_MAPPINGS.items():
        events = [
            make_event(event_type, make_provenance(1)),
            make_sparse_event(event_type, make_provenance(2)),
        ]
        copy_into(connection, shelf.columns, map(shelf.row, events))
        query = select(shelf.table).order_by(shelf.table.c.height, shelf.table.c.position)
        (frame,) = read_frames(connection, query)
        assert frame.rows() == rows_of(connection, shelf.table), event_type
        assert dict(frame.schema) == frame_schema(query), event_type


def test_raw_events_round_trip(connection: Connection) -> None:
    logs = [make_evm_log(make_provenance(1)), make_evm_log(make_provenance(2), topics=())]
    events = [
        make_stellar_event(make_provenance(1, chain=STELLAR)),
        make_stellar_event(make_provenance(2, chain=STELLAR), topics=(), value=b""),
    ]
    for table, items in ((evm_logs, logs), (stellar_events, events)):
        store.append(connection, [], [DecodedEvent(item, None, "why") for item in items])
        query = select(table).order_by(table.c.height, table.c.position)
        (frame,) = read_frames(connection, query)
        assert frame.rows() == rows_of(connection, table)


def test_hostile_texts_round_trip(connection: Connection) -> None:
    logs = [
        make_evm_log(make_provenance(n), address=word, topics=(word, "x", word))
        for n, word in enumerate(HOSTILE)
    ]
    store.append(connection, [], [DecodedEvent(log, None, None) for log in logs])
    frame = pl.concat(read_frames(connection, select(evm_logs).order_by(evm_logs.c.height)))
    assert frame["address"].to_list() == HOSTILE
    assert frame["topics"].to_list() == [[word, "x", word] for word in HOSTILE]


def test_frames_are_streamed(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_read, "BYTES_A_FRAME", 30)
    rows = [{"rail": f"rail {n:02}", "available": n, "offer_count": n} for n in range(10)]
    connection.execute(insert(depth), rows)
    frames = list(read_frames(connection, select(depth).order_by(depth.c.rail)))
    assert len(frames) > 2
    assert pl.concat(frames)["offer_count"].to_list() == list(range(10))
    # A row that is larger alone is a frame of its own, not an endless wait.
    monkeypatch.setattr(columns_read, "BYTES_A_FRAME", 1)
    assert len(list(read_frames(connection, select(depth)))) == 10


def test_no_rows_give_typed_empty_frame(connection: Connection) -> None:
    query = select(provider_days)
    assert list(read_frames(connection, query)) == []
    frame = read_frame(connection, query)
    assert frame.height == 0
    assert [frame.schema[name] for name in ("day", "locked")] == [pl.Date(), pl.Int128()]


def test_base_units_are_text_or_int128(connection: Connection) -> None:
    largest = 10**78 - 1
    row = {"rail": "wise", "available": largest, "offer_count": 1}
    connection.execute(insert(depth), row)
    (frame,) = read_frames(connection, select(depth))
    assert frame["available"].to_list() == [str(largest)]
    with pytest.raises(pl.exceptions.InvalidOperationError):
        read_frame(connection, select(depth))
    connection.execute(text("UPDATE projections.depth SET available = -(2::numeric ^ 126)"))
    assert read_frame(connection, select(depth))["available"].to_list() == [-(2**126)]


def test_query_parameters_are_passed(connection: Connection) -> None:
    rows = [{"rail": rail, "available": 1, "offer_count": 1} for rail in ("a'b", "100 %", "c")]
    connection.execute(insert(depth), rows)
    query = select(depth.c.rail).where(depth.c.rail.in_(["a'b", "100 %"])).order_by(depth.c.rail)
    assert read_frame(connection, query)["rail"].to_list() == ["100 %", "a'b"]


def test_database_error_is_sqlalchemys(connection: Connection) -> None:
    connection.execute(insert(depth), {"rail": "wise", "available": 1, "offer_count": 0})
    with pytest.raises(DBAPIError, match="division by zero"), connection.begin_nested():
        list(read_frames(connection, select((1 // depth.c.offer_count).label("n"))))
    assert read_frame(connection, select(depth.c.rail))["rail"].to_list() == ["wise"]
