"""The stored book: rows and messages are equal for any ranges."""

import dataclasses
import inspect
import random
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, select, text
from sqlalchemy.exc import OperationalError

from indexer.chains.events import Event
from indexer.orderbook.offers import (
    OfferRow,
    PayeeRow,
    RailRow,
    TermsRow,
    offer_entry,
    offer_from_entry,
)
from indexer.orderbook.orders import OrderRow, order_entry, order_from_entry
from indexer.orderbook.providers import ProviderRow
from indexer.orderbook.state import BookAlarm, BookConfig, BookEvent, LedgerClose
from indexer.orderbook.store import apply_ledgers, load_state, rows_of
from tests.factories.book import (
    CHAIN,
    PROVIDER,
    account,
    ledger_close,
    make_deposit,
    make_order_cancel,
    make_order_fulfill,
    make_order_open,
    seen_in,
    usdc,
    word,
)
from tests.factories.book_history import Ledger, RandomHistory, rebuild
from tests.factories.book_walk import dump, refolded
from tests.factories.contract_model import ContractModel
from warehouse_schema import projections as tables
from warehouse_schema.identifiers import ChainId, UnixSeconds


def random_history(seed: int, ledgers: int) -> list[Ledger]:
    story = RandomHistory(seed)
    return [story.ledger() for _ in range(ledgers)]


def flat(history: Sequence[Ledger]) -> tuple[list[LedgerClose], list[Event]]:
    return [ledger for ledger, _ in history], [e for _, events in history for e in events]


def apply(conn: Connection, history: Sequence[Ledger]) -> list[BookAlarm]:
    return apply_ledgers(conn, *flat(history))


def stream(conn: Connection) -> list[Any]:
    stored = tables.stream_events.c
    query = select(stored.ledger, stored.channel, stored.op, stored.entry, stored.last)
    return [tuple(row) for row in conn.execute(query.order_by(stored.id))]


def test_load_reads_only_affected_rows(connection: Connection):
    model = ContractModel()
    names = [account(f"provider {n}") for n in range(4)]
    model.rail_set("venmo")
    model.rail_set("wise")
    orders = []
    for n, name in enumerate(names):
        model.deposit(name, usdc(100))
        model.terms_set(name, "venmo" if n < 2 else "wise", direction="offramp")
        rail = "venmo" if n < 2 else "wise"
        orders.append(model.open(name, usdc(20), rail=rail, direction="offramp"))
    opened, _ = model.ledger, apply(connection, [model.close()])

    model.deposit(names[3], usdc(1))
    ledger, events = model.close()
    state = load_state(connection, CHAIN, events, ledger.close_time)
    assert set(state.books) == {names[3]}
    assert state.orders == {}

    state = load_state(connection, CHAIN, [], UnixSeconds(opened.close_time + 601))
    assert set(state.orders) == set(orders)
    assert set(state.books) == set(names)
    assert load_state(connection, CHAIN, [], UnixSeconds(opened.close_time + 600)).orders == {}

    model.rail_set("venmo", enabled=False)
    ledger, events = model.close()
    assert set(load_state(connection, CHAIN, events, ledger.close_time).books) == set(names[:2])
    model.paused_set(opens=True)
    ledger, events = model.close()
    assert set(load_state(connection, CHAIN, events, ledger.close_time).books) == set(names)


def test_empty_ledgers_move_the_clock(connection: Connection):
    apply(connection, [(ledger_close(5, 1_000), [])])
    apply(connection, [(ledger_close(6, 1_005), []), (ledger_close(7, 1_010), [])])
    row = connection.execute(select(tables.book)).one()
    assert (row.chain, row.as_of_ledger, row.as_of) == (CHAIN, 7, 1_010)
    assert (row.token, row.opens_paused, row.offer_count) == (None, False, 0)


def test_no_ledgers_change_nothing(connection: Connection):
    assert apply_ledgers(connection, [], []) == []
    assert connection.execute(select(tables.book)).all() == []


def test_ledger_is_not_folded_twice(connection: Connection):
    history = random_history(1, 3)
    apply(connection, history)
    with pytest.raises(ValueError, match="folded already"):
        apply(connection, history[-1:])


def test_event_outside_the_ledgers_is_refused(connection: Connection):
    with pytest.raises(ValueError, match="not among the ledgers"):
        apply_ledgers(connection, [ledger_close(2, 1_005)], [make_deposit()])


def test_events_are_applied_by_position(connection: Connection):
    history = random_history(4, 40)
    ledgers, events = flat(history)
    random.Random(0).shuffle(events)
    assert apply_ledgers(connection, ledgers, events) == []
    assert dump(connection) == rows_of(rebuild(history).state)


def test_alarms_are_returned_and_stale_provider_stored(connection: Connection):
    ledger = ledger_close()
    unknown = make_order_cancel(seen=make_deposit().seen, pseq=1)
    (first, *_) = apply_ledgers(connection, [ledger], [unknown])
    assert (first.kind, first.subject) == ("balance_mismatch", PROVIDER)
    stale = connection.scalar(select(tables.providers.c.stale))
    assert stale == f"balance_mismatch: {first.detail}"


def test_late_fulfilment_is_stored_as_on_chain(connection: Connection):
    opening: list[BookEvent] = [make_deposit(), make_order_open()]
    apply(connection, [(ledger_close(1, 1_000), opening), (ledger_close(2, 1_601), [])])
    seen = seen_in(ledger_close(3, 1_602))
    apply(connection, [(ledger_close(3, 1_602), [make_order_fulfill(seen=seen)])])
    row = connection.execute(select(tables.orders)).one()
    assert (row.status, row.chain_status, row.end_tx) == ("expired", "fulfilled", seen.tx_hash)
    assert (row.nullifier, row.released, row.net) == (word("nullifier"), usdc(40), usdc("39.8"))


def opening_at(height: int) -> Ledger:
    """A ledger that sends one message: an order that stays open for long."""
    ledger = ledger_close(height)
    order = make_order_open(seen=seen_in(ledger), expires_at=UnixSeconds(10**9))
    return ledger, [make_deposit(seen=seen_in(ledger, 0)), order]


def test_messages_are_kept_for_a_day_of_ledgers(connection: Connection):
    def heights() -> list[int]:
        return [row[0] for row in stream(connection)]

    apply(connection, [opening_at(200)])
    elsewhere = dataclasses.replace(ledger_close(), chain=ChainId("stellar:other"))
    other = make_order_open(
        order_id=word("other"), provider=account("other"), expires_at=UnixSeconds(10**9)
    )
    apply_ledgers(connection, [elsewhere], [other])
    assert heights() == [200, 1]

    apply(connection, [(ledger_close(20_200, 2_000), [])])
    assert heights() == [200, 1], "it is just young enough"
    apply(connection, [(ledger_close(20_201, 2_000), []), (ledger_close(20_299, 2_000), [])])
    assert heights() == [200, 1], "nobody looks between two round numbers"
    apply(connection, [(ledger_close(20_300, 2_000), [])])
    assert heights() == [1], "another chain's messages are not this chain's to drop"


def test_range_across_a_pruning_height_prunes(connection: Connection):
    apply(connection, [opening_at(150)])
    ledgers = [ledger_close(height, 2_000) for height in range(20_199, 20_203)]
    apply(connection, [(ledger, []) for ledger in ledgers])
    assert stream(connection) == []


def test_old_messages_are_found_by_index(connection: Connection):
    connection.execute(text("SET LOCAL enable_seqscan = off"))
    plan = connection.execute(
        text("EXPLAIN DELETE FROM projections.stream_events WHERE chain = 'c' AND ledger < 7")
    ).scalars()
    assert "ix_stream_events_chain_ledger" in "\n".join(plan)


def test_statement_count_is_independent_of_range(connection: Connection):
    history = random_history(6, 260)
    apply(connection, history[:60])
    counts = []
    for part in (history[60:80], history[80:260]):
        seen: list[str] = []

        def note(conn, cursor, statement, *rest, seen=seen):
            seen.append(statement)

        event.listen(connection, "before_cursor_execute", note)
        apply(connection, part)
        event.remove(connection, "before_cursor_execute", note)
        counts.append(len(seen))
    assert max(counts) <= 24
    # A short range may leave some tables alone, and may hold no round number at which to prune.
    assert abs(counts[0] - counts[1]) <= 7


def test_orders_are_found_by_index(connection: Connection):
    connection.execute(text("SET LOCAL enable_seqscan = off"))
    plan = connection.execute(
        text(
            "EXPLAIN SELECT * FROM projections.orders WHERE order_id = ANY(ARRAY['0x1','0x2'])"
            " OR (status = 'active' AND expires_at < 1000)"
        )
    ).scalars()
    lines = "\n".join(plan)
    assert "ix_orders_unexpired" in lines
    assert "Seq Scan" not in lines


# Messages


def test_published_message_is_read_back(connection: Connection):
    apply(connection, random_history(9, 120))
    rows = connection.execute(select(tables.stream_events).order_by(tables.stream_events.c.id))
    kinds = set()
    for row in rows:
        kinds.add((row.channel, row.op))
        if row.channel == "orderbook":
            assert offer_entry(offer_from_entry(row.entry)) == row.entry
        else:
            assert order_entry(order_from_entry(row.entry)) == row.entry
    assert len(kinds) == 4
    offers = [OfferRow(**row._mapping) for row in connection.execute(select(tables.offers))]
    assert offers
    assert [offer_from_entry(offer_entry(offer)) for offer in offers] == offers
    orders = [OrderRow(**row._mapping) for row in connection.execute(select(tables.orders))]
    assert [order_from_entry(order_entry(order)) for order in orders] == orders


# Committing


def test_messages_of_second_writer_wait_for_first_commit(engine: Engine):
    ours = [ledger_close()], [make_deposit(), make_order_open()]
    elsewhere = dataclasses.replace(ledger_close(), chain=ChainId("stellar:other"))
    other = account("another")
    theirs = [
        make_deposit(provider=other),
        make_order_open(provider=other, order_id=word("other")),
    ]
    with engine.connect() as first, engine.connect() as second:
        apply_ledgers(first, *ours)
        second.execute(text("SET lock_timeout = '200ms'"))
        second.commit()
        with pytest.raises(OperationalError, match="lock timeout"):
            apply_ledgers(second, [elsewhere], theirs)
        second.rollback()
        first.commit()
        apply_ledgers(second, [elsewhere], theirs)
        second.commit()
        assert [entry["order_id"] for *_, entry, _ in stream(second)] == [
            word("order"),
            word("other"),
        ]


def test_indexer_role_can_write_the_book(indexer_engine: Engine):
    history = random_history(2, 50)
    with indexer_engine.begin() as conn:
        apply(conn, history[:30])
    with indexer_engine.begin() as conn:
        apply(conn, history[30:])
    with indexer_engine.begin() as conn:
        assert refolded(conn, history).replace_stored() is False


def test_rollback_leaves_the_book_unchanged(indexer_engine: Engine):
    history = random_history(2, 50)
    with indexer_engine.begin() as conn:
        apply(conn, history[:30])
        before = (dump(conn), stream(conn))
    with indexer_engine.connect() as conn:
        apply(conn, history[30:])
        conn.rollback()
    with indexer_engine.begin() as conn:
        assert (dump(conn), stream(conn)) == before
        apply(conn, history[30:])
        assert dump(conn) == rows_of(rebuild(history).state)


@pytest.mark.parametrize(
    ("row_type", "table"),
    [
        (ProviderRow, tables.providers),
        (OrderRow, tables.orders),
        (OfferRow, tables.offers),
        (TermsRow, tables.terms),
        (PayeeRow, tables.payees),
        (RailRow, tables.rails),
    ],
    ids=lambda item: getattr(item, "__name__", ""),
)
def test_row_fields_equal_table_columns(row_type: Any, table: Any):
    assert [*inspect.signature(row_type).parameters] == [column.name for column in table.columns]


def test_config_fields_equal_book_columns():
    columns = [column.name for column in tables.book.columns][3:-3]
    assert [field.name for field in dataclasses.fields(BookConfig)] == columns
