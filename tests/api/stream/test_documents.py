"""The clients of docs/stream.md run unchanged under load and kills."""

import itertools
import json
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.engine import URL
from websockets.exceptions import ConnectionClosedError

from api.auth.tokens import Tokens
from devnet.keys import in_files
from indexer.transfers.store import refold_transfers
from tests.factories.api_server import ROOT, TIMEOUT, Server, serving
from tests.factories.projections import address, insert_book
from tests.factories.started import NETWORK, insert_transfer
from tests.factories.streaming import Book, identity
from tests.factories.tokens import ACCOUNT, private_key, private_pem
from tests.factories.tokens import URL as ISSUER
from warehouse_schema.identifiers import UnixSeconds

PAGE = (ROOT / "docs" / "stream.md").read_text()


def code(language: str, name: str) -> str:
    """The one block of a language on the page that defines this function."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (block,) = (each for each in blocks if f" {name}(" in each)
    return block


class Follower:
    """What a documented client was told."""

    def __init__(self) -> None:
        self.books: dict[int, Book] = {}
        self._changed = threading.Condition()

    def take(self, ledger: int, entries: list[dict[str, Any]]) -> None:
        with self._changed:
            book = {identity(entry): entry for entry in entries}
            assert len(book) == len(entries)
            self.books[ledger] = book
            self._changed.notify_all()

    def wait_for(self, ledger: int) -> None:
        with self._changed:
            received = self._changed.wait_for(lambda: max(self.books, default=0) >= ledger, TIMEOUT)
        assert received, f"{ledger} was not told, only {sorted(self.books)}"


_PYTHON = """
import sys
for ledger, book in follow(sys.argv[1]):
    print(json.dumps([ledger, list(book.values())]), flush=True)
"""

_NODE = """
follow(process.argv[1], (ledger, book) =>
  console.log(JSON.stringify([ledger, [...book.values()]])));
"""

CLIENTS = {
    "python": (sys.executable, "-c", code("python", "follow") + _PYTHON),
    # In Node, whose WebSocket is that of browsers; before Node 22 it had to be asked for it.
    "browsers": ("node", "--experimental-websocket", "-e", code("js", "follow") + _NODE),
}


@contextmanager
def running(client: tuple[str, ...], server: Server, follower: Follower) -> Iterator[None]:
    """In a process of its own, because a client follows for ever."""
    process = subprocess.Popen(
        [*client, server.stream_url],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            follower.take(*json.loads(line))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_documented_client_keeps_an_exact_book(client: str, stand, serve):
    server, follower = serve(), Follower()
    with running(CLIENTS[client], server, follower):
        follower.wait_for(stand.market.ledger)
        for kill in (False, True, True):
            if kill:
                server.kill_workers()
            for _ in range(15):
                stand.move()
            follower.wait_for(changed_last(stand))
    received = {ledger: stand.shown[ledger] for ledger in follower.books if ledger in stand.shown}
    assert follower.books == received
    # It was away while its process was dead, but no ledger before or after is left out.
    assert len(received) > 20


def changed_last(stand) -> int:
    """The last ledger that changed the book for sure: one with another book than before."""
    known = sorted(stand.shown)
    pairs = itertools.pairwise(known)
    return max(after for before, after in pairs if stand.shown[before] != stand.shown[after])


def test_documented_client_follows_its_transfers(
    database: URL, engine: Engine, indexer_engine: Engine, tmp_path: Path
) -> None:
    tokens = Tokens(private_key("ours"), issuer=ISSUER, clock=lambda: UnixSeconds(int(time())))
    settings = {
        "ISTHMUS_NETWORK": "testnet",
        "ISTHMUS_URL": ISSUER,
        **in_files(tmp_path / "keys", {"ISTHMUS_TOKEN_KEY": private_pem(private_key("ours"))}),
    }
    with engine.begin() as conn:
        insert_book(conn)
        mine, theirs = insert_transfer(conn), insert_transfer(conn, owner=address(7))
    named: dict[str, Any] = {}
    exec(code("python", "follow_mine"), named)
    with serving(database, tmp_path, workers=1, settings=settings) as server:
        token = tokens.issue(ACCOUNT, jti=secrets.token_hex(32))
        received = named["follow_mine"](server.stream_url, token)
        assert next(received) == (0, None)
        with indexer_engine.begin() as conn:
            refold_transfers(conn, NETWORK, [mine, theirs])
        number, transfer = next(received)
        received.close()
        assert (number, transfer["id"], transfer["stage"]) == (1, mine, "AWAITING_SIGNATURE")
        with pytest.raises(ConnectionClosedError, match="token refused"):
            next(named["follow_mine"](server.stream_url, "x"))
