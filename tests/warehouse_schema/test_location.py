"""Server that `migrate` and `embedded` use, from the environment."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from devnet.services import isthmus
from indexer.cli.main import main
from warehouse_schema.embedded import Server
from warehouse_schema.engine import make_engine, warehouse_url
from warehouse_schema.location import NEEDS_DATABASE, WarehouseVariables, embedded_folder
from warehouse_schema.migrate import current_revision, head_revision


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name == "DATABASE_URL" or name.startswith("ISTHMUS_"):
            monkeypatch.delenv(name)


def test_embedded_folder_is_under_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert embedded_folder() == Path(".isthmus/postgres").absolute()
    monkeypatch.setenv("ISTHMUS_HOME", str(tmp_path))
    assert embedded_folder() == tmp_path / "postgres"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"DATABASE_URL": "postgresql://x/y", "ISTHMUS_NETWORK": "mainnet"}, "postgresql://x/y"),
        ({"DATABASE_URL": ""}, None),
        ({}, None),
    ],
)
def test_database_url_is_used(environment: Mapping[str, str], expected: str | None):
    assert WarehouseVariables.read(environment).database_url == expected


@pytest.mark.parametrize("network", ["testnet", "mainnet"])
def test_unset_database_of_a_real_network_is_an_error(
    network: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("ISTHMUS_NETWORK", network)
    assert main(["migrate"]) == 2
    assert NEEDS_DATABASE in capsys.readouterr().err


def test_migrate_uses_database_url(
    postgres: Server, server_engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    url = postgres.url("isthmus_of_the_variable")
    monkeypatch.setenv("DATABASE_URL", url)
    monkeypatch.setenv("ISTHMUS_NETWORK", "mainnet")
    assert main(["migrate"]) == 0
    engine = make_engine(warehouse_url(url))
    with engine.connect() as conn:
        assert current_revision(conn) == head_revision()
    engine.dispose()
    with server_engine.connect() as conn:
        conn.execute(text("DROP DATABASE isthmus_of_the_variable WITH (FORCE)"))


def test_embedded_uses_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("ISTHMUS_HOME", str(tmp_path / "nothing"))
    assert main(["database", "status"]) == 3
    assert capsys.readouterr().out == "not running\n"


@pytest.mark.parametrize(
    "arguments", [("migrate",), ("status",), ("relay", "status"), ("webhooks",), ("api",)]
)
@pytest.mark.parametrize(
    ("settings", "named"),
    [
        pytest.param({"ISTHMUS_NETWORK": "mainnet"}, "DATABASE_URL", id="no_database"),
        pytest.param(
            {"ISTHMUS_NETWORK": "mainnet", "DATABASE_URL": "mysql://x/y"},
            "DATABASE_URL",
            id="another_database",
        ),
    ],
)
def test_settings_error_is_one_sentence(
    arguments: tuple[str, ...],
    settings: Mapping[str, str],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    for name, value in {**settings, "ISTHMUS_HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    assert main(arguments) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if named in line]
    assert len(line) < 400


def test_process_ends_with_a_settings_error_without_traceback(tmp_path: Path):
    environment = {"PYTHONPATH": str(Path.cwd()), "ISTHMUS_HOME": str(tmp_path)}
    ended = subprocess.run(
        isthmus("api"),
        env={**environment, "ISTHMUS_NETWORK": "mainnet"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert "DATABASE_URL" in ended.stderr.splitlines()[-1]
