"""Who signs in and out: an app with tokens of ours."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine
from werkzeug.serving import make_server

from indexer.chains.stellar.accounts import AccountReader
from indexer.chains.stellar.xdr.ledger_entries import account_key
from tests.factories.accounts import make_account_entry
from tests.factories.app import make_app
from tests.factories.identity import World, identity_world
from tests.factories.sep10 import NETWORK, PASSPHRASE, WALLET, make_sep10, make_sign_in_app
from tests.factories.stellar_node import FakeStellarNode, serving
from tests.factories.tokens import make_tokens
from warehouse_schema.identifiers import StellarAddress


@pytest.fixture
def signed_in(reader: Engine, rows: Connection) -> FlaskClient:
    """Calls an app that knows our tokens; a test brings its own."""
    return make_app(reader, tokens=make_tokens()).test_client()


@pytest.fixture
def world(reader: Engine, rows: Connection) -> Iterator[World]:
    """An identity provider, and the service beside it."""
    with identity_world(reader) as world:
        yield world


Serve = Callable[[str], AbstractContextManager[str]]


@pytest.fixture
def serve(reader: Engine, rows: Connection) -> Serve:
    """`serve("host")` or `serve("host:port")`: how challenges name the server; gives its home."""

    @contextmanager
    def live(kind: str) -> Iterator[str]:
        node = FakeStellarNode(latest=20, passphrase=PASSPHRASE)
        account = StellarAddress(WALLET.public_key)
        node.entries[account_key(account)] = make_account_entry(account)
        with serving(node):
            accounts = AccountReader(NETWORK.stellar, [node.url], timeout=60.0)
            # The port is known once the server listens, and the app is asked only then.
            server = make_server("127.0.0.1", 0, lambda *call: app(*call), threaded=True)
            home = f"127.0.0.1:{server.port}"
            sep10 = make_sep10(
                home_domain=home,
                web_auth_domain=home if kind == "host:port" else "127.0.0.1",
                endpoint=f"http://{home}/auth",
                other_home_domains=(f"localhost:{server.port}",),
            )
            app = make_sign_in_app(reader, accounts, sep10=sep10)
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield home
            finally:
                server.shutdown()
                thread.join()
                server.server_close()
                accounts.close()

    return live
