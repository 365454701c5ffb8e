"""The examples of docs/client.md run unchanged against a real server."""

import re
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Connection, Engine

from isthmus_client import Isthmus
from tests.api.stream.conftest import make_stand
from tests.api.webhooks.conftest import kept, make_webhook_app
from tests.factories.api_server import serving
from tests.factories.projections import STELLAR, insert_cursor
from tests.factories.quotes import OTHER, asking
from tests.factories.sep10 import WALLET, FixedAccounts, make_rules, make_sign_in_app
from tests.factories.started import make_transfer_app
from tests.factories.tokens import ACCOUNT
from tests.factories.webhooks import PUBLIC_KEY, insert_events, insert_webhook

__all__ = ["kept"]

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "client.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SIGNS_IN = [example for example in EXAMPLES if "Login" in example]
MOVES = [example for example in EXAMPLES if "start_transfer" in example]
HOOKS = [example for example in EXAMPLES if "webhooks" in example]
SIGNS = [example for example in EXAMPLES if "submit_evm" in example]


def test_page_has_eight_examples():
    special = (len(SIGNS_IN), len(MOVES), len(SIGNS), len(HOOKS))
    assert (len(EXAMPLES), *special) == (8, 1, 1, 1, 1)


def test_examples_without_login_run(
    database, indexer_engine: Engine, api_engine: Engine, tmp_path: Path, capsys
):
    make_stand(indexer_engine, api_engine)
    with serving(database, tmp_path, workers=1) as server:
        for example in EXAMPLES:
            if example not in (*SIGNS_IN, *MOVES, *SIGNS, *HOOKS):
                exec(example, {"url": server.url})
    assert capsys.readouterr().out


def test_sign_in_example_runs(reader: Engine, monkeypatch: pytest.MonkeyPatch, capsys):
    transport = httpx.WSGITransport(make_sign_in_app(reader, FixedAccounts(make_rules())))
    real = Isthmus.__init__
    # Its server is in this process: SEP-10 is for https, which a test has no certificate for.
    monkeypatch.setattr(
        Isthmus, "__init__", lambda self, url, **rest: real(self, url, transport=transport, **rest)
    )
    world = {
        "url": "https://api.isthmus.test",
        "home_domain": "isthmus.test",
        "secret": WALLET.secret,
    }
    exec(SIGNS_IN[0], world)
    assert capsys.readouterr().out.strip() == WALLET.public_key


def test_transfer_example_runs(
    rows: Connection, reader: Engine, monkeypatch: pytest.MonkeyPatch, capsys
):
    insert_cursor(rows, STELLAR)
    transport = httpx.WSGITransport(make_transfer_app(reader))
    real = Isthmus.__init__
    monkeypatch.setattr(
        Isthmus, "__init__", lambda self, url, **rest: real(self, url, transport=transport, **rest)
    )
    world = {
        "url": "https://api.isthmus.test",
        "get_token": lambda: asking()["Authorization"].removeprefix("Bearer "),
        "chain": STELLAR,
        "account": ACCOUNT,
        "recipient": OTHER,
    }
    exec(MOVES[0], world)
    first, last = capsys.readouterr().out.splitlines()
    assert (first.split()[0], last) == ("AWAITING_SIGNATURE", "CANCELLED")


def test_webhook_example_runs(
    kept: Connection, reader: Engine, monkeypatch: pytest.MonkeyPatch, capsys
):
    transport = httpx.WSGITransport(make_webhook_app(reader))
    real = Isthmus.__init__
    monkeypatch.setattr(
        Isthmus, "__init__", lambda self, url, **rest: real(self, url, transport=transport, **rest)
    )
    world = {
        "url": "https://api.isthmus.test",
        "get_token": lambda: asking()["Authorization"].removeprefix("Bearer "),
    }
    insert_webhook(kept, "https://shop.example/hooks")
    transfer = insert_events(kept)
    exec(HOOKS[0], world)
    assert capsys.readouterr().out == f"1 {transfer} FUNDED waiting\n"
    assert world["public_key"] == PUBLIC_KEY
