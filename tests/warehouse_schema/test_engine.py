"""Session settings of database engines, and accepted URLs."""

import pytest
from sqlalchemy import URL, Engine, text
from sqlalchemy.exc import OperationalError

from warehouse_schema import engine as engine_module
from warehouse_schema.engine import ROLES, Role, hosts_of, make_engine, warehouse_url


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


@pytest.mark.parametrize(("seconds", "asks"), [(0.0, True), (3_600.0, False)])
def test_connection_is_tried_only_after_it_was_idle(
    server_url: URL,
    server_engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    asks: bool,
) -> None:
    monkeypatch.setattr(engine_module, "IDLE_SECONDS", seconds)
    engine = make_engine(server_url, role="indexer", pool_size=1)
    try:
        backend = text("SELECT pg_backend_pid()")
        with engine.connect() as connection:
            first = connection.scalar(backend)
        with server_engine.connect() as admin:
            admin.execute(text("SELECT pg_terminate_backend(:pid, 60000)"), {"pid": first})
        with engine.connect() as connection:
            if asks:
                assert connection.scalar(backend) != first
            else:
                with pytest.raises(OperationalError):
                    connection.scalar(backend)
    finally:
        engine.dispose()


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


@pytest.mark.parametrize("role", [*ROLES, None])
def test_commits_wait_for_the_standby_whatever_the_default(
    server_url: URL, role: Role | None
) -> None:
    engine = make_engine(server_url, role=role, pool_size=1)
    assert setting(engine, "synchronous_commit") == "on"
    engine.dispose()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("postgresql://u:p@a:1,b:2/d?target_session_attrs=read-write", id="libpq"),
        pytest.param(
            "postgresql+psycopg2://u:p@/d?host=a:1&host=b:2&target_session_attrs=primary",
            id="sqlalchemy",
        ),
        pytest.param(
            "postgresql://u:p@/d?host=a,b&port=1,2&target_session_attrs=read-write", id="query"
        ),
    ],
)
def test_url_of_two_hosts_is_read_and_stays_equal(text: str) -> None:
    url = warehouse_url(text)
    assert hosts_of(url) == ["a", "b"]
    assert warehouse_url(url.render_as_string(hide_password=False)) == url


def test_host_list_without_ports_gets_the_default_port() -> None:
    url = warehouse_url("postgresql://u:p%40@a,b/d?target_session_attrs=read-write")
    assert (url.password, url.query["port"]) == ("p@", "5432,5432")


def test_two_hosts_without_read_write_are_refused() -> None:
    with pytest.raises(ValueError, match="target_session_attrs=read-write"):
        warehouse_url("postgresql://u:p@a,b/d")


def test_session_is_of_the_host_that_takes_writes(server_url: URL) -> None:
    server = f"{server_url.host}:{server_url.port}"
    user = f"{server_url.username}:{server_url.password}" if server_url.password else "postgres"
    listed = f"postgresql://{user}@127.0.0.1:1,{server}/{server_url.database}"
    engine = make_engine(warehouse_url(f"{listed}?target_session_attrs=read-write"), pool_size=1)
    with engine.connect() as connection:
        assert connection.scalar(text("SHOW transaction_read_only")) == "off"
    engine.dispose()
