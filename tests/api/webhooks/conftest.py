"""An owner who registers webhooks."""

from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine

from tests.factories.app import make_app
from tests.factories.tokens import make_tokens
from tests.factories.webhooks import PUBLIC_KEY, insert_sender


def make_webhook_app(engine: Engine, **others: Any) -> Any:
    return make_app(engine, tokens=make_tokens(), **({"webhook_key": PUBLIC_KEY} | others))


@pytest.fixture
def kept(rows: Connection) -> Connection:
    """Where webhooks are, with somebody who sends to them."""
    insert_sender(rows)
    return rows


@pytest.fixture
def owner_client(kept: Connection, reader: Engine) -> FlaskClient:
    """Calls an app that publishes that somebody's key."""
    client: FlaskClient = make_webhook_app(reader).test_client()
    return client
