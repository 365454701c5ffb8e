"""Refold of the book beside the stored one: memory, differences and writes."""

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, delete, inspect, literal_column, select, text, update

from indexer.facts.alarms import open_alarms, raise_alarm
from indexer.orderbook import refold as book_refold
from indexer.orderbook.refold import Refold, reconcile_alarms
from indexer.orderbook.store import BOOK_TABLES
from tests.factories.book import CHAIN, account
from tests.factories.book_history import Ledger, RandomHistory
from tests.factories.book_walk import (
    Client,
    apply_range,
    dump,
    expected_rows,
    last_message,
    refolded,
    stream,
)
from warehouse_schema import projections as tables


@pytest.fixture(scope="module")
def history() -> list[Ledger]:
    return RandomHistory(9).ledgers(120)


def written_by(conn: Connection) -> Any:
    return conn.scalar(select(literal_column("xmin::text")).select_from(tables.book))


def test_refold_of_ingested_ledgers_changes_nothing(connection: Connection, history):
    apply_range(connection, history)
    before, last_before = dump(connection), last_message(connection)
    refold = refolded(connection, history)
    for table in BOOK_TABLES:
        found = refold.differences(table, 3)
        assert (found.added, found.removed, found.changed, found.first) == (0, 0, 0, ())
    assert refold.replace_stored() is False
    assert (dump(connection), last_message(connection)) == (before, last_before)
    assert refold.orders == len(before["orders"])
    assert refold.book.state.totals.offer_count == len(before["offers"])
    assert refold.book.events == sum(len(events) for _, events in history)


def test_refold_needs_ledgers_with_events_and_the_last(connection: Connection, history):
    apply_range(connection, history)
    with_events = [ledger for ledger in history[:-1] if ledger[1]] + history[-1:]
    assert refolded(connection, with_events).replace_stored() is False


@pytest.mark.parametrize("window", [1, 7, 10_000])
def test_ended_orders_leave_memory_but_keep_rows(
    connection: Connection, history, monkeypatch: pytest.MonkeyPatch, window: int
):
    monkeypatch.setattr(book_refold, "WINDOW_EVENTS", window)
    refold = Refold(connection, CHAIN)
    # In two steps, as one is taken that goes on under a lock.
    refold.take(history[:70])
    assert {order.chain_status for order in refold.book.state.orders.values()} == {"open"}
    refold.take(history[70:])
    refold.finish()
    assert refold.replace_stored() is True
    assert dump(connection) == expected_rows(history)


def test_refold_of_empty_book_sends_offers_only(connection: Connection, history):
    refolded(connection, history).replace_stored()
    published = stream(connection)
    assert {(row.channel, row.op, row.revised) for row in published} == {("orderbook", "add", True)}
    assert [row.last for row in published] == [False] * (len(published) - 1) + [True]
    assert len(published) == len(dump(connection)["offers"])


def spoil(conn: Connection) -> None:
    """An offer, an order, a provider and a rail that are not what the facts give."""
    conn.execute(update(tables.offers).values(rate=tables.offers.c.rate + 1))
    expired = select(tables.orders.c.order_id).where(tables.orders.c.status == "expired").limit(1)
    conn.execute(
        update(tables.orders)
        .where(tables.orders.c.order_id == expired.scalar_subquery())
        .values(status="active", chain_status="open", end_tx=None)
    )
    conn.execute(
        update(tables.providers)
        .where(tables.providers.c.provider == account("provider 0"))
        .values(free=tables.providers.c.free + 1)
    )
    conn.execute(update(tables.rails).where(tables.rails.c.rail == "wise").values(tier=9))
    conn.execute(delete(tables.payees))


def test_differences_are_listed_written_and_sent(connection: Connection, history):
    apply_range(connection, history)
    sound, clients = dump(connection), last_message(connection)
    spoil(connection)
    refold = refolded(connection, history)
    found = {table.name: refold.differences(table, 1) for table in BOOK_TABLES}
    assert found["providers"].changed == 1
    ((stored, fresh),) = found["providers"].first
    assert stored is not None
    assert fresh is not None
    assert (stored[0], stored[2]) == (account("provider 0"), fresh[2] + 1)
    assert (found["orders"].changed, found["rails"].changed) == (1, 1)
    assert found["offers"].changed == len(sound["offers"])
    assert (found["payees"].added, found["payees"].first[0][0]) == (len(sound["payees"]), None)
    assert (found["book"].changed, found["terms"].first) == (0, ())

    assert refold.replace_stored() is True
    assert dump(connection) == sound
    published = stream(connection, after=clients)
    assert [row.channel for row in published] == ["orderbook"] * len(sound["offers"]) + ["intent"]
    assert published[-1].entry["status"] == "expired"
    assert {(row.ledger, row.revised) for row in published} == {(history[-1][0].height, True)}


def test_rows_without_facts_are_deleted(connection: Connection, history):
    apply_range(connection, history[:60])
    now = dump(connection)
    apply_range(connection, history[60:])
    refold = refolded(connection, history[:60])
    assert refold.differences(tables.orders, 1).removed > 0
    refold.replace_stored()
    assert dump(connection) == now


def test_repaired_book_has_a_new_writer(engine: Engine, history: list[Ledger]):
    with engine.begin() as conn:
        apply_range(conn, history)
    with engine.begin() as conn:
        conn.execute(delete(tables.payees))
        before = written_by(conn)
    with engine.begin() as conn:
        refolded(conn, history).replace_stored()
        assert written_by(conn) != before
    with engine.begin() as conn:
        before = written_by(conn)
        refolded(conn, history).replace_stored()
        assert written_by(conn) == before


def test_book_without_facts_is_emptied(connection: Connection, history):
    apply_range(connection, history)
    assert refolded(connection, []).replace_stored() is True
    assert all(rows == [] for rows in dump(connection).values())


def test_client_has_the_right_book_after_repair(connection: Connection, history):
    before = last_message(connection)
    # A range was lost, and with it some events of some providers; later it was found again.
    apply_range(connection, history[:40])
    apply_range(connection, history[50:])
    refolded(connection, history).replace_stored()
    client = Client()
    for row in stream(connection, after=before):
        client.hear_one(row.channel, row.op, row.entry)
    client.check(history)


def test_leftover_scratch_tables_are_recreated(connection: Connection, history):
    Refold(connection, CHAIN).take(history[:5])
    refold = refolded(connection, history)
    assert refold.replace_stored() is True
    assert dump(connection) == expected_rows(history)
    refold.drop()
    left = inspect(connection).get_temp_table_names()
    assert left == []


def test_indexer_role_can_refold(indexer_engine: Engine, history: list[Ledger]):
    with indexer_engine.begin() as conn:
        refold = refolded(conn, history)
        assert refold.replace_stored() is True
        refold.drop()


# Alarms


def standing(conn: Connection) -> Sequence[tuple[str, str]]:
    return [(alarm.kind, alarm.subject) for alarm in open_alarms(conn)]


def test_stored_alarms_become_those_of_the_fold(connection: Connection, history):
    lost = [(ledger, [] if n == 70 else events) for n, (ledger, events) in enumerate(history)]
    assert history[70][1]
    for alarm in apply_range(connection, lost):
        raise_alarm(connection, CHAIN, alarm.kind, alarm.subject, alarm.detail)
    raise_alarm(connection, CHAIN, "undecodable", "100/ab/1", "of another kind")
    assert len(standing(connection)) > 1
    refolded(connection, history).replace_stored()
    assert standing(connection) == [("undecodable", "100/ab/1")]
    refolded(connection, lost).replace_stored()
    assert standing(connection) == [("undecodable", "100/ab/1")], "cleared is not raised again"


def test_missing_alarm_is_raised(connection: Connection, history):
    lost = [(ledger, [] if n == 70 else events) for n, (ledger, events) in enumerate(history)]
    refold = refolded(connection, lost)
    reconcile_alarms(connection, CHAIN, refold.book.alarms.values(), refold.book.state.books)
    assert {*standing(connection)} == {*refold.book.alarms}


def test_insertion_into_empty_table_has_no_join(connection: Connection, history):
    refold = refolded(connection, history)
    statement = book_refold._Pair(tables.orders, CHAIN).insertion()
    compiled = str(statement.compile(dialect=connection.dialect))
    plan = connection.execute(text(f"EXPLAIN {compiled}")).scalars()
    assert "Join" not in "\n".join(plan)
    refold.drop()
