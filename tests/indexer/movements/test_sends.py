"""Sends that are folded as columns equal the fold of single movements."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, insert
from sqlalchemy.exc import OperationalError

from indexer.bridges.oft.events import (
    OftReceived,
    OftSent,
    PacketDelivered,
    PacketSent,
    PacketVerified,
)
from indexer.chains.events import Event
from indexer.ingest.rebuild import fold_all_movements
from indexer.movements.fold import Movement, OftEvent, fold_oft
from indexer.movements.send_columns import movements_of_sends, sends_alone
from indexer.movements.send_store import send_rows
from indexer.movements.store import read_movements, refold_movements
from tests.factories.stage_facts import keep
from tests.factories.transfers import (
    BURN_KEY,
    NETWORK,
    make_alert,
    make_oft_received,
    make_oft_sent,
    make_packet_sent,
    make_packet_verified,
    moved,
)
from warehouse_schema.facts import message_status
from warehouse_schema.identifiers import BaseUnits, Bytes32

GUIDS = [Bytes32(f"0x{number:064x}") for number in range(1, 5)]
EVM_RECIPIENT = Bytes32("0x" + "00" * 12 + "ab" * 20)
EIDS = [30600, 30101, 30999]
"""Of Stellar, Ethereum, and of no chain of the network."""
COLUMNAR = (OftSent, OftReceived, PacketSent, PacketVerified, PacketDelivered)


def delivered() -> PacketDelivered:
    verified = make_packet_verified()
    names = [field.name for field in fields(PacketDelivered)]
    return PacketDelivered(**{name: getattr(verified, name) for name in names})


def frames(events: Sequence[Event]) -> dict[str, pl.DataFrame]:
    """Events by type, as the columnar decoder gives them."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in events:
        values = {name: value for name, value in asdict(each).items() if name != "seen"}
        rows[type(each).__name__].append({**asdict(each.seen), **values})
    amounts = dict.fromkeys(("amount_sent", "amount_received"), pl.UInt128)
    return {name: pl.DataFrame(of_type, schema_overrides=amounts) for name, of_type in rows.items()}


def as_movements(rows: pl.DataFrame) -> list[Movement]:
    return [Movement(**row) for row in rows.iter_rows(named=True)]


SENDING: list[Callable[[], OftEvent]] = [make_oft_sent, make_packet_sent]
RECEIVING: list[Callable[[], OftEvent]] = [
    *(make_oft_received, make_packet_verified, delivered, make_alert),
]


@st.composite
def ranges(draw: st.DrawFn) -> list[OftEvent]:
    """Events of a few guids, most of them sends and packets, none of a kind twice in a place."""
    made: list[OftEvent] = []
    for position in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from([*SENDING * 5, *RECEIVING]))
        each: Any = moved(replace(kind(), guid=draw(st.sampled_from(GUIDS))), position=position)
        if isinstance(each, OftSent):
            each = replace(
                each,
                dst_eid=draw(st.sampled_from(EIDS)),
                amount_sent=BaseUnits(draw(st.sampled_from([6_999_999, 7_000_000, 2**128 - 1]))),
            )
        if isinstance(each, PacketSent):
            each = replace(each, send_to=draw(st.sampled_from([EVM_RECIPIENT, BURN_KEY])))
        made.append(each)
    return made


@given(ranges(), st.booleans())
def test_columns_fold_as_events(events: list[OftEvent], are_columns: bool) -> None:
    """What is alone has the row of `fold_oft`; it is what has one send, at most one packet, and
    nothing else, and does not deliver more than it took."""
    columnar = [each for each in events if isinstance(each, COLUMNAR) and are_columns]
    others = [each for each in events if each not in columnar]
    found = as_movements(movements_of_sends(NETWORK, sends_alone(frames(columnar), others)))
    expected = []
    for guid in GUIDS:
        group = [each for each in events if each.guid == guid]
        kinds = sorted(type(each).__name__ for each in group)
        if are_columns and kinds in (["OftSent"], ["OftSent", "PacketSent"]):
            [row] = fold_oft(NETWORK, guid, group)
            expected += [row] if row.fee is not None and row.fee >= 0 else []
    assert sorted(found, key=lambda row: row.id) == expected


@pytest.mark.parametrize("eid", EIDS)
@pytest.mark.parametrize("send_to", [EVM_RECIPIENT, BURN_KEY])
def test_recipient_is_written_as_by_the_fold(eid: int, send_to: Bytes32) -> None:
    events: list[OftEvent] = [
        replace(make_oft_sent(), dst_eid=eid),
        make_packet_sent(eid, send_to),
    ]
    found = as_movements(movements_of_sends(NETWORK, sends_alone(frames(events), ())))
    assert found == fold_oft(NETWORK, make_oft_sent().guid, events)


def two_sends() -> list[Event]:
    """A send with its packet, and one without."""
    first, second = make_oft_sent(), replace(moved(make_oft_sent(), position=2), guid=GUIDS[0])
    return [first, make_packet_sent(), second]


def append(conn: Connection, events: Sequence[Event]) -> set[Any]:
    """Store a range of sends, and append its movements."""
    keep(conn, *events)
    return send_rows(NETWORK, sends_alone(frames(events), ())).append(conn, [])


def stored(conn: Connection) -> list[Movement]:
    return sorted(read_movements(conn), key=lambda row: row.id)


def test_sends_that_are_alone_are_appended(connection: Connection) -> None:
    assert append(connection, two_sends()) == set()
    assert len(stored(connection)) == 2
    assert stored(connection) == fold_all_movements(connection, NETWORK)


def delivered_before(conn: Connection) -> None:
    received = make_oft_received()
    keep(conn, received)
    refold_movements(conn, NETWORK, [("oft", received.guid)])


def delivered_and_not_folded(conn: Connection) -> None:
    keep(conn, make_oft_received())


def verified_before(conn: Connection) -> None:
    keep(conn, make_packet_verified())


def explained_before(conn: Connection) -> None:
    guid = make_oft_sent().guid
    row = {"service": "lz_scan", "message_id": guid, "group_key": guid, "status": "INFLIGHT"}
    conn.execute(insert(message_status).values(row))


def sent_before(conn: Connection) -> None:
    guid = make_oft_sent().guid
    keep(conn, moved(make_oft_sent(), position=5, height=90))
    refold_movements(conn, NETWORK, [("oft", guid)])


def packet_before(conn: Connection) -> None:
    keep(conn, moved(make_packet_sent(send_to=EVM_RECIPIENT), position=5, height=90))


@pytest.mark.parametrize(
    "before",
    [
        *(delivered_before, delivered_and_not_folded, verified_before, explained_before),
        *(sent_before, packet_before),
    ],
)
def test_send_of_which_more_is_stored_is_refolded(
    connection: Connection, before: Callable[[Connection], None]
) -> None:
    before(connection)
    known = append(connection, two_sends())
    assert known == {("oft", make_oft_sent().guid)}
    refold_movements(connection, NETWORK, known)
    assert len(stored(connection)) == 2
    assert stored(connection) == fold_all_movements(connection, NETWORK)


@pytest.mark.parametrize("event", [make_alert(), delivered()], ids=["alert", "packet delivered"])
def test_events_that_change_no_send_are_no_reason_to_refold(
    connection: Connection, event: Event
) -> None:
    keep(connection, event)
    assert append(connection, two_sends()) == set()
    assert stored(connection) == fold_all_movements(connection, NETWORK)


def test_append_waits_for_a_delivery_in_another_session(indexer_engine: Engine) -> None:
    with indexer_engine.connect() as other, indexer_engine.connect() as conn:
        delivery = other.begin()
        delivered_before(other)
        with conn.begin() as waiting:
            conn.exec_driver_sql("SET LOCAL lock_timeout = '100ms'")
            with pytest.raises(OperationalError, match="lock timeout"):
                append(conn, two_sends())
            waiting.rollback()
        delivery.commit()
        with conn.begin():
            known = append(conn, two_sends())
            assert known == {("oft", make_oft_sent().guid)}
            refold_movements(conn, NETWORK, known)
            assert stored(conn) == fold_all_movements(conn, NETWORK)


def test_packet_of_another_range_is_found(connection: Connection) -> None:
    """A send without a packet in its range, of which one is stored."""
    keep(connection, replace(make_packet_sent(send_to=EVM_RECIPIENT), guid=GUIDS[0]))
    known = append(connection, two_sends()[2:])
    assert known == {("oft", GUIDS[0])}


def test_range_without_sends_costs_no_statement() -> None:
    nothing: Mapping[str, pl.DataFrame] = {}
    refused: Any = None
    assert send_rows(NETWORK, sends_alone(nothing, ())).append(refused, []) == set()
