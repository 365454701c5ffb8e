"""One migrated database with the pooled login, a pooler in front of it and a replica of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from tests.factories.machines import PooledLogin, Standby, pgbouncer, pooled_login, standby

START_SECONDS = 600
"""Timeout of a test here: several servers start in it, on a busy machine for a minute each."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of this folder more time than others."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(START_SECONDS))


@pytest.fixture(scope="session")
def pooled(api_database: URL) -> PooledLogin:
    """The login of `deploy/pooled-login.sql`."""
    return pooled_login(api_database)


@pytest.fixture(scope="session")
def login(pooled: PooledLogin) -> URL:
    """The database with that login, directly."""
    return pooled.url


@pytest.fixture(scope="session")
def pooler(pooled: PooledLogin) -> Iterator[URL]:
    """The database through PgBouncer."""
    with pgbouncer(pooled) as url:
        yield url


@pytest.fixture(scope="session")
def replica(api_database: URL, login: URL) -> Iterator[Standby]:
    """A replica of the server."""
    with standby(api_database) as running:
        running.catch_up()
        yield running
