"""Constraints of the tables."""

from typing import Any

import pytest
from sqlalchemy import Connection, LargeBinary, Table, insert, select
from sqlalchemy.exc import IntegrityError, StatementError

from warehouse_schema.columns import BaseUnitsType
from warehouse_schema.events import EVENT_TABLES
from warehouse_schema.facts import alarms, blocks, evm_logs, stellar_events
from warehouse_schema.metadata import metadata
from warehouse_schema.projections import depth, movements, orders

PROVENANCE = ["chain", "height", "block_hash", "tx_hash", "position", "block_time"]
KEYED = [*EVENT_TABLES.values(), evm_logs, stellar_events]


def refuses(connection: Connection, constraint: str, table: Table, row: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError, match=constraint), connection.begin_nested():
        connection.execute(insert(table), row)


def test_fact_tables_are_keyed_by_provenance() -> None:
    for table in KEYED:
        assert [column.name for column in table.columns][:6] == PROVENANCE, table
        keys = [column.name for column in table.primary_key]
        assert keys == ["chain", "height", "position"], table


@pytest.mark.parametrize("amount", [0, 2**256 - 1, -(2**127), 10**78 - 1])
def test_integer_amount_is_stored_exactly(connection: Connection, amount: int) -> None:
    connection.execute(insert(depth), {"rail": "wise", "available": amount, "offer_count": 1})
    (kept,) = connection.scalars(select(depth.c.available))
    assert (kept, type(kept)) == (amount, int)


@pytest.mark.parametrize("amount", [1.0, "1", True])
def test_non_integer_amount_is_refused(connection: Connection, amount: object) -> None:
    with pytest.raises(StatementError, match="base units are int"):
        connection.execute(insert(depth), {"rail": "wise", "available": amount, "offer_count": 1})


def test_chain_has_one_block_per_height(connection: Connection) -> None:
    block = {
        "chain": "eip155:1",
        "height": 7,
        "hash": "0x07",
        "parent_hash": "0x06",
        "time": 1,
        "events": 0,
    }
    connection.execute(insert(blocks), block)
    refuses(connection, "pk_blocks", blocks, {**block, "hash": "0x77"})
    refuses(connection, "uq_blocks_chain_hash", blocks, {**block, "height": 8})
    connection.execute(insert(blocks), {**block, "chain": "eip155:8453"})


def test_open_alarm_is_unique_per_kind_and_subject(connection: Connection) -> None:
    alarm = {"chain": "eip155:1", "kind": "undecodable", "subject": "log", "detail": "why"}
    connection.execute(insert(alarms), alarm)
    refuses(connection, "uq_alarms_open", alarms, alarm)
    connection.execute(alarms.update().values(cleared_at=alarms.c.raised_at))
    connection.execute(insert(alarms), alarm)


@pytest.mark.parametrize("table", [evm_logs, stellar_events], ids=str)
def test_raw_event_has_one_outcome(connection: Connection, table: Table) -> None:
    row = {column.name: sample(column) for column in table.columns}
    refuses(connection, "one_outcome", table, {**row, "event": "OftSent", "undecodable": "why"})


def sample(column: Any) -> Any:
    if isinstance(column.type, LargeBinary):
        return b""
    if isinstance(column.type, BaseUnitsType):
        return 1
    return {int: 1, str: "x", list: [], bool: True}[column.type.python_type]


MOVEMENT = {
    "id": "oft:0x01",
    "mechanism": "oft",
    "group_key": "0x01",
    "stage": "IN_FLIGHT",
    "source_tx": "0x02",
}


@pytest.mark.parametrize(
    ("constraint", "change"),
    [
        ("mechanism", {"mechanism": "pigeon"}),
        ("stage", {"stage": "LOST"}),
        ("seen_somewhere", {"source_tx": None}),
        ("completed_is_delivered", {"stage": "COMPLETED"}),
    ],
)
def test_inconsistent_movement_is_refused(
    connection: Connection, constraint: str, change: dict[str, Any]
) -> None:
    connection.execute(insert(movements), MOVEMENT)
    refuses(
        connection,
        f"ck_movements_{constraint}",
        movements,
        {**MOVEMENT, "id": "other", **change},
    )


@pytest.mark.parametrize(
    ("constraint", "change"),
    [
        ("status", {"status": "lost"}),
        ("ended_by_a_transaction", {"end_tx": "0x02"}),
        ("fulfilled_on_chain", {"status": "fulfilled"}),
        ("nullifier_when_settled", {"nullifier": "0x03"}),
    ],
)
def test_inconsistent_order_is_refused(
    connection: Connection, constraint: str, change: dict[str, Any]
) -> None:
    row = {column.name: sample(column) for column in orders.columns if not column.nullable}
    row |= {"status": "active", "chain_status": "open"}
    connection.execute(insert(orders), row)
    refuses(connection, f"ck_orders_{constraint}", orders, {**row, "order_id": "y", **change})


def test_every_table_belongs_to_a_schema() -> None:
    assert [table.name for table in metadata.tables.values() if table.schema is None] == []
