"""Fixtures and guards of conftest.py."""

import dataclasses
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from tests import conftest
from tests.conftest import NetworkForbidden

SHAPES: list[tuple[socket.AddressFamily, tuple[Any, ...]]] = [
    (socket.AF_INET, ("192.0.2.1", 443)),
    (socket.AF_INET, ("example.org", 443)),
    (socket.AF_INET6, ("2001:db8::1", 443, 0, 0)),
]


@pytest.mark.parametrize(("family", "address"), SHAPES)
def test_tests_cannot_reach_the_network(
    family: socket.AddressFamily, address: tuple[Any, ...]
) -> None:
    with socket.socket(family) as sock:
        with pytest.raises(NetworkForbidden, match=address[0]):
            sock.connect(address)
        with pytest.raises(NetworkForbidden, match=address[0]):
            sock.connect_ex(address)


def test_tests_cannot_resolve_host_names() -> None:
    with pytest.raises(NetworkForbidden, match=r"example\.org"):
        socket.getaddrinfo("example.org", 443)


def test_loopback_is_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = ("localhost", server.getsockname()[1])
        with socket.create_connection(address) as client:
            assert client.getpeername() == server.getsockname()


def test_each_engine_has_its_own_database(engine: Engine, shared_engine: Engine) -> None:
    assert engine.url.database != shared_engine.url.database


def test_uncommitted_writes_are_invisible_to_others(
    connection: Connection, shared_engine: Engine
) -> None:
    connection.execute(
        text("INSERT INTO intake.watched_addresses VALUES ('eip155:1', :address, 'a test')"),
        {"address": "0x" + "00" * 20},
    )
    with shared_engine.connect() as other:
        assert other.scalar(text("SELECT count(*) FROM intake.watched_addresses")) == 0


def test_engines_connect_as_their_roles(
    engine: Engine, indexer_engine: Engine, api_engine: Engine
) -> None:
    def role(engine: Engine) -> str:
        with engine.connect() as connection:
            return str(connection.scalar(text("SELECT current_user")))

    assert [role(engine), role(indexer_engine), role(api_engine)] == [
        "isthmus",
        "isthmus_indexer",
        "isthmus_api",
    ]


@dataclasses.dataclass(frozen=True)
class Sample:
    amount: int
    data: bytes


def test_golden_file_is_compared_by_value(
    golden: Callable[[str, Any], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(conftest, "GOLDEN", tmp_path)
    (tmp_path / "sample.json").write_text('[{"amount": 7, "data": "0x01", "type": "Sample"}]')
    golden("sample.json", (Sample(7, b"\x01"),))
    with pytest.raises(AssertionError):
        golden("sample.json", (Sample(8, b"\x01"),))
    with pytest.raises(AssertionError, match="--update-golden"):
        golden("missing.json", ())


def test_golden_file_holds_no_float(golden: Callable[[str, Any], None]) -> None:
    with pytest.raises(TypeError, match="float"):
        golden("sample.json", 0.1)
