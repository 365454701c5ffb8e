"""`isthmus api` with a pooler and a replica: the stream, and a start with the wrong session."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
from sqlalchemy.engine import URL

from tests.api.stream.conftest import Stand
from tests.api.stream.conftest import serve as serve
from tests.api.stream.conftest import stand as stand
from tests.factories.api_server import TIMEOUT, Server
from tests.factories.machines import Standby, pgbouncer, pooled_login
from tests.factories.streaming import Listener


def text_of(url: URL) -> str:
    return url.render_as_string(hide_password=False)


def test_stream_and_order_book_through_a_pooler(
    stand: Stand, serve: Callable[..., Server], database: URL
) -> None:
    with pgbouncer(pooled_login(database)) as url:
        server = serve(settings={"ISTHMUS_POOLER_URL": text_of(url)})
        with Listener(server.stream_url, "after=0&markers=1") as listener:
            listener.wait_for(stand.market.ledger)
            for _ in range(5):
                ledger = stand.move()
                assert listener.wait_for(ledger) == stand.shown[ledger]
                # The NOTIFY of the primary came: the cache does not serve the ledger before.
                shown = httpx.get(f"{server.url}/api/v1/orderbook", timeout=TIMEOUT)
                assert int(shown.headers["X-Ledger"]) == ledger
        assert server.stop() == 0
    assert "Traceback" not in "".join(server.log)


def test_api_does_not_start_with_a_pooler_as_database_url(
    pooler: URL, login: URL, replica: Standby, tmp_path: Path
) -> None:
    from devnet.services import isthmus

    (tmp_path / "url").write_text(text_of(pooler))
    done = subprocess.run(
        [*isthmus("api"), "--bind", "127.0.0.1:0"],
        env={
            "PATH": "/usr/bin:/bin",
            "ISTHMUS_NETWORK": "devnet",
            "ISTHMUS_HOME": str(tmp_path),
            "DATABASE_URL_FILE": str(tmp_path / "url"),
            "ISTHMUS_REPLICA_URL": text_of(login),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT,
    )
    assert done.returncode == 2, done.stderr
    assert "DATABASE_URL is a pooler, and LISTEN needs a session of Postgres" in done.stderr
    assert "ISTHMUS_REPLICA_URL: it is no standby" in done.stderr
    assert str(login.password) not in done.stderr
