"""The suite's guards and its Postgres.

No test reaches beyond this machine: sockets go to loopback addresses and Unix sockets alone.
Every test meets a real Postgres: `connection` for what ends in a rollback, `engine` (and the same
database under a room's role) for what commits.
"""

import dataclasses
import gc
import ipaddress
import json
import socket
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from sqlalchemy import Connection, Engine, NullPool, create_engine, text
from sqlalchemy.engine import URL, make_url
from xdist.scheduler import LoadFileScheduling

from indexer.chains.http import service
from tests.memory import server_folder
from warehouse_schema.embedded import EmbeddedPostgres, Server
from warehouse_schema.engine import make_engine
from warehouse_schema.migrate import migrate

# How long an example takes says how busy the machine is.
settings.register_profile("isthmus", deadline=None)
settings.load_profile("isthmus")

GOLDEN = Path(__file__).parent / "golden"
TEMPLATE = "isthmus_template"

# The network.


@pytest.fixture(autouse=True)
def _no_lock_outs() -> Iterator[None]:
    """A port may be that of a service that locked out an earlier test."""
    yield
    service._LIMITS.clear()


class NetworkForbidden(RuntimeError):
    """A test tried to reach beyond this machine."""


def _refuse_unless_local(host: object) -> None:
    if host in ("localhost", "", None) or _is_loopback(str(host)):
        return
    raise NetworkForbidden(
        f"a test tried to reach {host}; only loopback addresses and Unix sockets are open. "
        "Use a stand-in, or a server started by a fixture."
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _local_connect(name: str) -> Callable[..., Any]:
    real = getattr(socket.socket, name)

    def connect(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            _refuse_unless_local(address[0])
        return real(self, address)

    return connect


def _local_lookup() -> Callable[..., Any]:
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, *rest: Any, **options: Any) -> Any:
        _refuse_unless_local(host.decode() if isinstance(host, bytes) else host)
        return real(host, *rest, **options)

    return getaddrinfo


_GUARD = pytest.MonkeyPatch()


def pytest_configure() -> None:
    """Close the network before the first test module is imported."""
    _GUARD.setattr(socket.socket, "connect", _local_connect("connect"))
    _GUARD.setattr(socket.socket, "connect_ex", _local_connect("connect_ex"))
    _GUARD.setattr(socket, "getaddrinfo", _local_lookup())


def pytest_collection_finish() -> None:
    """What was collected stays to the end: the collector need not look at it each time."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Give pytest's own process its network back."""
    _GUARD.undo()


# Postgres: one server a worker, one migrated template, a clone for each test that commits.


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A running embedded server that does without fsync."""
    with (
        server_folder("tests") as folder,
        EmbeddedPostgres(folder / "data", durable=False) as server,
    ):
        yield server


@pytest.fixture(scope="session")
def server_engine(postgres: Server) -> Iterator[Engine]:
    """Creates and drops databases."""
    engine = create_engine(
        make_url(postgres.url("postgres")), poolclass=NullPool, isolation_level="AUTOCOMMIT"
    )
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def migrated(postgres: Server) -> str:
    """Name of a migrated database that nobody connects to: the template of the others."""
    migrate(make_url(postgres.url(TEMPLATE)))
    return TEMPLATE


@pytest.fixture(scope="session")
def clone(postgres: Server, server_engine: Engine, migrated: str) -> Callable[[], URL]:
    """Call it for the URL of a fresh migrated database."""
    numbers = count(1)

    def make() -> URL:
        name = f"isthmus_clone_{next(numbers)}"
        with server_engine.connect() as connection:
            # Postgres' own default writes each page to its log as well: twice the time.
            connection.execute(
                text(f"CREATE DATABASE {name} TEMPLATE {migrated} STRATEGY FILE_COPY")
            )
        return make_url(postgres.url(name))

    return make


@pytest.fixture
def database(clone: Callable[[], URL], server_engine: Engine) -> Iterator[URL]:
    """URL of a migrated database of this test's own; dropped afterwards, sessions and all."""
    url = clone()
    yield url
    with server_engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {url.database} WITH (FORCE)"))


@pytest.fixture
def engine(database: URL) -> Iterator[Engine]:
    """The owner's engine on a migrated database of this test's own."""
    engine = make_engine(database)
    yield engine
    engine.dispose()


@pytest.fixture
def indexer_engine(database: URL) -> Iterator[Engine]:
    """The database of `engine`, under the indexer's role."""
    engine = make_engine(database, role="indexer")
    yield engine
    engine.dispose()


@pytest.fixture
def relay_engine(database: URL) -> Iterator[Engine]:
    """The database of `engine`, under the relay's role."""
    engine = make_engine(database, role="relay")
    yield engine
    engine.dispose()


@pytest.fixture
def api_engine(database: URL) -> Iterator[Engine]:
    """The database of `engine`, under the api's role."""
    engine = make_engine(database, role="api")
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def shared_engine(clone: Callable[[], URL]) -> Iterator[Engine]:
    """The owner's engine on the one database that `connection` rolls back to empty."""
    engine = make_engine(clone())
    yield engine
    engine.dispose()


@pytest.fixture
def connection(shared_engine: Engine) -> Iterator[Connection]:
    """A connection as the owner, inside a transaction that ends in a rollback."""
    with shared_engine.connect() as connection:
        transaction = connection.begin()
        yield connection
        assert transaction.is_active, "the test committed; what commits needs the `engine` fixture"
        transaction.rollback()


@pytest.fixture
def long_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases of ten minutes, for tests in which none may expire on a busy machine."""
    monkeypatch.setattr("warehouse_schema.leases.EXPIRE_SECONDS", 600.0)
    monkeypatch.setattr("warehouse_schema.leases._GONE_SECONDS", 600.0)


# Order, and what runs side by side.

_WHOLE_SYSTEMS = ("tests/system/e2e", "tests/system/test_chaos.py")
"""Files whose longest tests start a dozen processes, for minutes.

Others start processes too, but for seconds. The second has its quick tests last, so that no file
waits for a long one: xdist gives a worker its next file when two tests of this one are left.
"""


class OneWholeSystemAtATime(LoadFileScheduling):
    """Files go to one worker whole, and all those of whole systems to the same worker.

    Two of them side by side would take processor time from each other until a limit ends one.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "whole systems" if file.startswith(_WHOLE_SYSTEMS) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """In place of the scheduler that `--dist` names."""
    return OneWholeSystemAtATime(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole systems first: the worker that has them must not end last."""
    items.sort(key=lambda item: not item.nodeid.startswith(_WHOLE_SYSTEMS))


# Options, and golden files.


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden`, `--pgbouncer`."""
    parser.addoption(
        "--pgbouncer",
        action="store_true",
        help="the API of tests/api reaches its database through a real PgBouncer",
    )
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write what the code gives to tests/golden instead of comparing; read the diff after",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, Any], None]:
    """`golden(path, value)`: `value` equals the JSON in `tests/golden/<path>`.

    Dataclasses become objects with their type's name under "type", bytes become 0x hex.
    """
    update = request.config.getoption("--update-golden")

    def check(path: str, value: Any) -> None:
        file = GOLDEN / path
        given = json.dumps(_plain(value), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        if update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(given)
        assert file.exists(), f"tests/golden/{path} is not there; write it with --update-golden"
        assert json.loads(given) == json.loads(file.read_text())

    return check


def _plain(value: Any) -> Any:
    """`value` in JSON's terms. Raises `TypeError` on what has no one way to be written."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, bytes):
        return "0x" + value.hex()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    raise TypeError(f"golden files cannot hold a {type(value).__name__}")
