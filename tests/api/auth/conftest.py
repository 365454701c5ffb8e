"""Who signs in and out: an app with tokens of ours, on a database whose lists are emptied."""

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, delete

from tests.factories.app import make_app
from tests.factories.identity import World, identity_world
from tests.factories.tokens import make_tokens
from warehouse_schema import access


@pytest.fixture
def access_rows(owner: Engine) -> Iterator[Connection]:
    """Where a test reads and puts rows of `access`; all are deleted afterwards."""
    with owner.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection
        for table in (access.used_challenges, access.subjects, access.revoked_tokens):
            connection.execute(delete(table))


@pytest.fixture
def signed_in(reader: Engine, access_rows: Connection) -> FlaskClient:
    """Calls an app that knows our tokens; a test brings its own."""
    return make_app(reader, tokens=make_tokens()).test_client()


@pytest.fixture
def world(reader: Engine, access_rows: Connection) -> Iterator[World]:
    """An identity provider, and the service beside it."""
    with identity_world(reader) as world:
        yield world
