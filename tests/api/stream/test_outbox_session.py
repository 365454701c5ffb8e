"""The outbox's session: one round trip a read, and sessions that are lost."""

import psycopg
import pytest
from sqlalchemy import text

from api.deps import read_snapshot
from api.stream import outbox
from api.stream.outbox_session import OutboxSession
from tests.factories.book import CHAIN

_SESSIONS = text(
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
    " AND query LIKE '%LATERAL%' AND pid <> pg_backend_pid()"
)


@pytest.fixture
def session(api_engine):
    opened = OutboxSession(api_engine, CHAIN)
    yield opened
    opened.close()


@pytest.fixture
def since(stand, api_engine):
    with read_snapshot(api_engine) as connection:
        return outbox.read_book_snapshot(connection, CHAIN).at


def test_session_stays_open_and_takes_none_of_the_pool(session, stand, since, engine, api_engine):
    before = api_engine.pool.checkedout()
    for _ in range(3):
        ledger = stand.move()
        assert session.read_since(since).at.ledger == ledger
    with engine.connect() as connection:
        assert len(connection.scalars(_SESSIONS).all()) == 1
    assert api_engine.pool.checkedout() == before


def test_read_after_a_lost_session_opens_another(session, stand, since, engine):
    session.read_since(since)
    with engine.begin() as connection:
        (pid,) = connection.scalars(_SESSIONS).all()
        connection.execute(text("SELECT pg_terminate_backend(:pid, 20000)"), {"pid": pid})
    ledger = stand.move()
    assert session.read_since(since).at.ledger == ledger


def test_timeout_of_a_statement_is_not_tried_again(session, stand, since, engine):
    session.read_since(since)
    session._session.execute("SET statement_timeout = 100")
    with engine.begin() as connection:
        connection.execute(text("LOCK TABLE projections.stream_events"))
        with pytest.raises(psycopg.errors.QueryCanceled):
            session.read_since(since)
    session._session.execute("RESET statement_timeout")
    assert session.read_since(since).at == since
