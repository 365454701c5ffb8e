"""Retention: a client that resumes from a number misses no transfer."""

from datetime import timedelta

import pytest
from sqlalchemy import Connection, Engine, func, select, update
from sqlalchemy.exc import IntegrityError

from api.stream.transfer_outbox import read_greeting
from indexer.config.networks import load_network
from indexer.ingest.retention import DeletedRows, delete_old_rows
from tests.factories.projections import address
from tests.factories.started import insert_quote
from tests.factories.tokens import ACCOUNT
from tests.factories.webhooks import begun, insert_stages
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.intake import quotes
from warehouse_schema.projections import transfer_events

OTHER = address(9)


def numbers(conn: Connection, owner: str = ACCOUNT) -> list[int]:
    columns = transfer_events.c
    query = select(columns.number).where(columns.owner == owner).order_by(columns.number)
    return list(conn.scalars(query))


def grow_old(conn: Connection, days: float, up_to: int) -> None:
    """Events up to a number were told so many days ago."""
    old = update(transfer_events).where(transfer_events.c.number <= up_to)
    conn.execute(old.values(told_at=func.now() - timedelta(days=days)))


def test_last_event_of_each_transfer_stays(indexer_engine, engine):
    with engine.begin() as conn:
        first, second, others = begun(conn), begun(conn), begun(conn, OTHER)
        for transfer in (first, first, second, first, second):
            insert_stages(conn, transfer)
        insert_stages(conn, others, "FUNDED", "CANCELLED", owner=OTHER)
        grow_old(conn, 31, 5)
    with indexer_engine.begin() as conn:
        assert delete_old_rows(conn) == DeletedRows(events=4, quotes=0)
        assert (numbers(conn), numbers(conn, OTHER)) == ([4, 5], [2])
        assert delete_old_rows(conn) == DeletedRows(0, 0)
    with engine.begin() as conn:
        insert_stages(conn, first)
        assert numbers(conn) == [4, 5, 6]


def test_recent_events_stay(engine: Engine):
    with engine.begin() as conn:
        transfer = begun(conn)
        insert_stages(conn, transfer, "FUNDED", "SUBMITTED", "COMPLETED")
        grow_old(conn, 29, 3)
        assert delete_old_rows(conn).events == 0
        grow_old(conn, 31, 1)
        assert delete_old_rows(conn).events == 1
        assert numbers(conn) == [2, 3]


@pytest.mark.parametrize("after", range(6))
def test_returning_client_gets_each_changed_transfer(engine: Engine, after: int):
    with engine.begin() as conn:
        first, second = begun(conn), begun(conn)
        told = [first, second, first, first, second]
        for transfer in told:
            insert_stages(conn, transfer)
        network, owner = load_network("testnet"), StellarAddress(ACCOUNT)
        before = read_greeting(conn, network, owner, after)
        grow_old(conn, 31, 5)
        assert delete_old_rows(conn).events == 3
        again = read_greeting(conn, network, owner, after)
        assert again == before
        assert len(again.frames) == len(set(told[after:]))


def test_only_unused_expired_quotes_are_deleted(engine: Engine, indexer_engine: Engine):
    with engine.begin() as conn:
        used = begun(conn, OTHER)
        old, lately, good = (insert_quote(conn) for _ in range(3))
        for quote, days in ((used, 31), (old, 31), (lately, 29)):
            expired = func.now() - timedelta(days=days)
            row = update(quotes).where(quotes.c.id == quote)
            made = expired - timedelta(minutes=5)
            conn.execute(row.values(created_at=made, expires_at=expired))
    with indexer_engine.begin() as conn:
        assert delete_old_rows(conn) == DeletedRows(events=0, quotes=1)
        assert set(conn.scalars(select(quotes.c.id))) == {used, lately, good}
    with indexer_engine.begin() as conn, pytest.raises(IntegrityError):
        conn.execute(quotes.delete().where(quotes.c.id == used))
