"""The stream during SIGTERM, a killed worker and a Postgres restart."""

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from tests.api.stream.conftest import make_stand
from tests.factories.api_server import TIMEOUT, serving
from tests.factories.streaming import Listener
from tests.memory import server_folder
from warehouse_schema.embedded import EmbeddedPostgres
from warehouse_schema.engine import make_engine
from warehouse_schema.migrate import migrate


def test_sigterm_closes_streams_and_ends_the_server(stand, serve):
    server = serve()
    with ExitStack() as stack:
        listeners = [stack.enter_context(Listener(server.stream_url)) for _ in range(8)]
        for listener in listeners:
            listener.wait_for(stand.market.ledger)
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < TIMEOUT / 2
        for listener in listeners:
            assert listener.wait_until_closed() == (
                1001,
                f"server is stopping: resume with after={stand.market.ledger}",
            )
    assert "Traceback" not in "".join(server.log)


def test_clients_of_a_killed_worker_resume_elsewhere(stand, serve):
    server = serve(workers=1)
    with Listener(server.stream_url, "after=0") as listener:
        book = listener.wait_for(stand.market.ledger)
        server.kill_workers()
        assert listener.wait_until_closed()[0] == 1006
    known = listener.ledger
    ledger = stand.move(5)
    with Listener(server.stream_url, f"after={known}&markers=1", book=book) as listener:
        assert listener.wait_for(ledger) == stand.shown[ledger]
        assert listener.messages[0]["mode"] == "resume"


def test_cut_database_sessions_lose_no_message(stand, serve, engine):
    server = serve()
    with ExitStack() as stack:
        listeners = [
            stack.enter_context(Listener(server.stream_url, "markers=1")) for _ in range(6)
        ]
        for _ in range(4):
            with engine.begin() as connection:
                connection.execute(
                    text(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE application_name LIKE 'isthmus-api%'"
                        " AND datname = current_database()"
                    )
                )
            stand.market.move(3)
            ledger = stand.market.ledger
            for listener in listeners:
                listener.wait_for(ledger)
        book = show_patiently(stand)
        assert all(listener.book == book for listener in listeners)


def show_patiently(stand):
    """REST's own sessions were cut too."""
    deadline = time.monotonic() + TIMEOUT
    while stand.rest.get("/api/v1/orderbook").status_code != 200:
        assert time.monotonic() < deadline
    return stand.show()[1]


@pytest.fixture
def postgres_of_its_own() -> Iterator[EmbeddedPostgres]:
    """One that a test may stop, always on one port."""
    with server_folder("stream") as folder:
        server = EmbeddedPostgres(folder / "data", durable=False)
        with server:
            yield server


def test_stream_resumes_after_postgres_restart(postgres_of_its_own, tmp_path):
    url = make_url(postgres_of_its_own.url("isthmus"))
    migrate(url)
    engines = [make_engine(url, role="indexer"), make_engine(url, role="api")]
    stand = make_stand(*engines)
    with serving(url, tmp_path) as server, ExitStack() as stack:
        listeners = [
            stack.enter_context(Listener(server.stream_url, "markers=1")) for _ in range(6)
        ]
        for listener in listeners:
            listener.wait_for(stand.market.ledger)
        for _ in range(2):
            postgres_of_its_own.stop()
            with pytest.raises(OperationalError):
                stand.market.move()
            postgres_of_its_own.start()
            ledger = stand.market.move(3)
            for listener in listeners:
                listener.wait_for(ledger)
        assert all(listener.closed is None for listener in listeners)
        book = show_patiently(stand)
        assert all(listener.book == book for listener in listeners)
    for engine in engines:
        engine.dispose()
