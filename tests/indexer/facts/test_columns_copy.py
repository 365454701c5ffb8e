"""COPY from frames writes the same rows as row inserts."""

from typing import Any

import polars as pl
import pytest
from sqlalchemy import Connection, select
from sqlalchemy.exc import DataError, IntegrityError

from indexer.chains.events import Event
from indexer.chains.raw import EvmLog, RawEvent, StellarEvent
from indexer.decode.columns import decode_columns
from indexer.decode.evm import decode
from indexer.facts import columns_copy
from indexer.facts.columns_copy import TABLES, copy_text, text_of_frame, text_of_rows
from indexer.facts.rows import EVENT_MAPPINGS, EVENT_TYPES, RAW_MAPPINGS, TableMapping
from tests.factories.events import (
    make_event,
    make_evm_log,
    make_provenance,
    make_sparse_event,
    make_stellar_event,
)
from tests.factories.evm_logs import log_frame
from tests.factories.stellar_events import event_frame
from tests.indexer.decode.test_columns_evm import made
from tests.indexer.decode.test_evm import ethereum
from warehouse_schema.events import oft_sent
from warehouse_schema.facts import evm_logs, stellar_events

NASTY = ["", "\\N", "\\.", "a\n\\.\nb", '"', "{}", "NULL", "\t", "\r\n", "½ 😀", "'", ",", "\\"]


def stored(conn: Connection, shelf: TableMapping) -> list[Any]:
    query = select(*shelf.columns).order_by(shelf.table.c.height, shelf.table.c.position)
    return [shelf.item(row) for row in conn.execute(query)]


def test_every_event_type_is_copied_as_rows(connection: Connection):
    for kind, shelf in EVENT_MAPPINGS.items():
        events: list[Event] = [
            make_event(kind, make_provenance(100, 0)),
            make_sparse_event(kind, make_provenance(100, 2**63 - 1)),
        ]
        copied = text_of_rows(shelf.columns, map(shelf.row, events))
        copy_text(connection, copied)
        assert (copied.rows, copied.table) == (2, shelf.table.name)
        assert stored(connection, shelf) == events


@pytest.mark.parametrize("text", NASTY)
def test_copy_escapes_text(connection: Connection, text: str):
    shelf = EVENT_MAPPINGS[EVENT_TYPES["RailSet"]]
    event = make_event(EVENT_TYPES["RailSet"], rail=text, currencies=(text, "USD", text))
    copy_text(connection, text_of_rows(shelf.columns, [shelf.row(event)]))
    assert stored(connection, shelf) == [event]


@pytest.mark.parametrize("kind", [EvmLog, StellarEvent])
def test_raw_events_are_copied(connection: Connection, kind: type[RawEvent]):
    shelf = RAW_MAPPINGS[kind]
    make: Any = make_evm_log if kind is EvmLog else make_stellar_event
    raws = [make(), make(make_provenance(101, 1)), make(make_provenance(102), topics=())]
    copy_text(connection, text_of_rows(shelf.columns, map(shelf.row, raws)))
    assert stored(connection, shelf) == raws


def test_decoded_frames_are_copied(connection: Connection):
    chain = ethereum()
    logs = list(made(chain).values())
    for name, frame in decode_columns(log_frame(logs), chain).events.items():
        shelf = EVENT_MAPPINGS[EVENT_TYPES[name]]
        copy_text(connection, text_of_frame(shelf.table, frame))
        expected = [event for event in (decode(log, chain) for log in logs) if event is not None]
        of_type = [event for event in expected if type(event).__name__ == name]
        assert stored(connection, shelf) == of_type


@pytest.mark.parametrize("size", [2, 1_000])
def test_log_frame_is_copied(connection: Connection, monkeypatch: pytest.MonkeyPatch, size: int):
    monkeypatch.setattr(columns_copy, "_SLICE", size)
    logs = [make_evm_log(make_provenance(100, n), data=bytes(n)) for n in range(5)]
    frame = log_frame(logs).with_columns(
        chain=pl.lit(logs[0].seen.chain),
        event=pl.lit(None, dtype=pl.String),
    )
    copy_text(connection, text_of_frame(evm_logs, frame))
    assert stored(connection, RAW_MAPPINGS[EvmLog]) == logs


def test_frame_of_stellar_events_is_copied(connection: Connection):
    events = [make_stellar_event(make_provenance(100, n), value=bytes(n)) for n in range(5)]
    events.append(make_stellar_event(make_provenance(101), topics=()))
    frame = event_frame(events).with_columns(chain=pl.lit(events[0].seen.chain))
    copy_text(connection, text_of_frame(stellar_events, frame))
    assert stored(connection, RAW_MAPPINGS[StellarEvent]) == events


def test_frame_with_other_column_type_is_refused():
    frame = pl.DataFrame({"amount_sent": [1.5]})
    with pytest.raises(TypeError, match=r"oft_sent\.amount_sent is a Float64"):
        text_of_frame(oft_sent, frame)
    with pytest.raises(TypeError, match="a float cannot be copied"):
        text_of_rows([oft_sent.c.amount_sent], [(1.5,)])


def test_duplicate_rows_raise(connection: Connection):
    shelf = RAW_MAPPINGS[EvmLog]
    copied = text_of_rows(shelf.columns, [shelf.row(make_evm_log())])
    with connection.begin_nested():
        copy_text(connection, copied)
    with pytest.raises(IntegrityError), connection.begin_nested():
        copy_text(connection, copied)


def test_invalid_copy_text_raises(connection: Connection):
    columns = [oft_sent.c.amount_sent]
    with pytest.raises(DataError), connection.begin_nested():
        copy_text(connection, text_of_rows(columns, [("many",)]))


def test_facts_movements_and_days_accept_copy():
    others = {"blocks", "quarantined_ledgers", "evm_logs", "stellar_events"}
    others |= {"movements", "provider_days", "market_days", "route_days"}
    assert others | {"oft_sent"} <= set(TABLES)
    assert len(TABLES) == len(others) + len(EVENT_TYPES)
