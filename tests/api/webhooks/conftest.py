"""An owner who registers webhooks, on a database whose rows of them are deleted afterwards."""

from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, delete

from tests.factories.app import make_app
from tests.factories.tokens import make_tokens
from tests.factories.webhooks import PUBLIC_KEY, insert_sender
from warehouse_schema import intake, relay


def make_webhook_app(engine: Engine, **others: Any) -> Any:
    return make_app(engine, tokens=make_tokens(), **({"webhook_key": PUBLIC_KEY} | others))


@pytest.fixture
def kept(rows: Connection) -> Iterator[Connection]:
    """Where webhooks are, with somebody who sends to them."""
    insert_sender(rows)
    yield rows
    for table in (
        *(relay.webhook_deliveries, relay.webhook_states, relay.webhook_senders),
        *(
            intake.webhook_secrets,
            intake.webhook_removals,
            intake.webhooks,
            intake.transfers,
            intake.quotes,
        ),
    ):
        rows.execute(delete(table))


@pytest.fixture
def owner_client(kept: Connection, reader: Engine) -> FlaskClient:
    """Calls an app that publishes that somebody's key."""
    client: FlaskClient = make_webhook_app(reader).test_client()
    return client
