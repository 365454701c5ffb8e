"""Session settings of database engines, and accepted URLs."""

import pytest
from sqlalchemy import URL, Engine, text

from warehouse_schema.engine import ROLES, Role, make_engine, warehouse_url


@pytest.fixture(scope="module")
def server_url(server_engine: Engine, migrated: str) -> URL:
    """The test server over TCP, with the roles' roles: keepalives mean nothing on a socket file."""
    return server_engine.url


def setting(engine: Engine, name: str) -> str:
    with engine.connect() as connection:
        return str(connection.execute(text(f"SHOW {name}")).scalar_one())


@pytest.mark.parametrize("role", [*ROLES, None])
def test_api_and_analyst_have_a_statement_timeout(server_url: URL, role: Role | None) -> None:
    engine = make_engine(server_url, role=role, pool_size=1)
    limit = {"api": "5s", "analyst": "5min"}.get(str(role), "0")
    assert setting(engine, "statement_timeout") == limit
    engine.dispose()


def test_keepalives_detect_a_lost_peer_within_a_minute(server_url: URL) -> None:
    engine = make_engine(server_url, role="indexer", pool_size=1)
    with engine.connect() as connection:
        here = connection.connection.driver_connection.info.get_parameters()
        names = ("idle", "interval", "count")
        there = [connection.scalar(text(f"SHOW tcp_keepalives_{name}")) for name in names]
        gives_up = connection.scalar(text("SHOW tcp_user_timeout"))
    engine.dispose()
    assert [here[f"keepalives_{name}"] for name in names] == ["10", "5", "3"]
    assert here["tcp_user_timeout"] == "20000"
    assert (there, gives_up) == (["10", "5", "3"], "20000")


@pytest.mark.parametrize("text", ["postgresql://u:p@h/d", "postgres://u:p@h/d"])
def test_postgres_url_gets_our_driver(text: str) -> None:
    url = warehouse_url(text)
    assert url.render_as_string(hide_password=False) == "postgresql+psycopg://u:p@h/d"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SECRET",
        "u:SECRET@h/d",
        "postgresql//u:SECRET@h/d",
        "postgresql://u:x@h:SECRET/d",
        "mysql://u:SECRET@h/d",
    ],
)
def test_other_url_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match=r"^DATABASE_URL ") as refused:
        warehouse_url(text)
    assert "SECRET" not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
