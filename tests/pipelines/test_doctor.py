"""The doctor's checks of Dagster's database, instance file and code servers."""

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.engine import URL

from indexer.config.settings import load_settings
from indexer.doctor.checks import CheckResult, DoctorContext
from pipelines.doctor import GROUP, check_dagster

DATABASE = "doctors_dagster"


@dataclass
class Orchestrator:
    """A configuration of Dagster, whose code server is a port that listens."""

    url: URL
    server_engine: Engine
    monkeypatch: pytest.MonkeyPatch
    listener: socket.socket

    def set(self, name: str, text: str) -> None:
        self.monkeypatch.setenv(name, text)

    def name_database(self, database: str, user: str | None = None) -> None:
        """As the one of Dagster. A user's password is its name."""
        url = self.url.set(drivername="postgresql+psycopg2", database=database)
        if user is not None:
            url = url.set(username=user, password=user)
        self.set("ISTHMUS_DAGSTER_URL", url.render_as_string(hide_password=False))

    def run(self, statement: str) -> None:
        with self.server_engine.connect() as conn:
            conn.execute(text(statement))

    def examine(self) -> list[CheckResult]:
        found = list(check_dagster(DoctorContext(load_settings())))
        assert str(self.url.password) not in repr(found)
        return found

    def faults(self) -> Mapping[str, str]:
        return {each.check: each.problem for each in self.examine() if each.is_finding}


@pytest.fixture
def orchestrator(
    database: URL, server_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Orchestrator]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Orchestrator(database, server_engine, monkeypatch, listener)
        made.run(f"CREATE DATABASE {DATABASE}")
        made.set("ISTHMUS_NETWORK", "devnet")
        made.set("DATABASE_URL", database.render_as_string(hide_password=False))
        made.set("ISTHMUS_CODE_SERVER_PORT", str(listener.getsockname()[1]))
        made.name_database(DATABASE)
        yield made
        made.run(f"DROP DATABASE {DATABASE} WITH (FORCE)")


def test_running_orchestrator_gives_no_finding(orchestrator: Orchestrator) -> None:
    found = orchestrator.examine()
    assert [each for each in found if each.is_finding] == []
    assert {each.check for each in found} == {check.id for check in GROUP.checks}


def test_database_that_is_not_there_yet_may_be_created(orchestrator: Orchestrator) -> None:
    orchestrator.name_database("doctors_next")
    [seen] = [each.seen for each in orchestrator.examine() if each.check == "dagster.database"]
    assert seen == "not there yet: the first process creates it"


def test_database_that_may_not_be_created_is_found(orchestrator: Orchestrator) -> None:
    orchestrator.run("CREATE ROLE doctors_clerk LOGIN PASSWORD 'doctors_clerk'")
    orchestrator.name_database("doctors_next", user="doctors_clerk")
    found = orchestrator.faults()
    orchestrator.run("DROP ROLE doctors_clerk")
    assert list(found) == ["dagster.database"]
    assert 'database "doctors_next" does not exist' in found["dagster.database"]


def test_warehouse_as_dagsters_database_is_found(orchestrator: Orchestrator) -> None:
    orchestrator.name_database(str(orchestrator.url.database))
    assert orchestrator.faults() == {"dagster.database": "it is the warehouse's"}


def test_database_in_local_time_is_found(orchestrator: Orchestrator) -> None:
    orchestrator.run(f"ALTER DATABASE {DATABASE} SET timezone = 'Europe/Berlin'")
    assert orchestrator.faults() == {"dagster.time_zone": "sessions are in Europe/Berlin"}


def test_address_of_another_database_is_found(orchestrator: Orchestrator) -> None:
    orchestrator.set("ISTHMUS_DAGSTER_URL", "mysql://user@127.0.0.1/dagster")
    problem = "ISTHMUS_DAGSTER_URL must be a postgresql:// URL, not mysql://"
    assert orchestrator.faults() == {"dagster.url": problem}


def test_bare_driver_beside_an_own_instance_is_found(
    orchestrator: Orchestrator, tmp_path: Path
) -> None:
    (tmp_path / "dagster.yaml").write_text("storage: {custom: {module: pipelines.storage}}\n")
    orchestrator.set("DAGSTER_HOME", str(tmp_path))
    assert orchestrator.faults() == {}
    bare = orchestrator.url.set(drivername="postgresql", database=DATABASE)
    orchestrator.set("ISTHMUS_DAGSTER_URL", bare.render_as_string(hide_password=False))
    problem = "it does not begin with postgresql+psycopg2://"
    assert orchestrator.faults() == {"dagster.url": problem}


def test_instance_without_our_storage_is_found(orchestrator: Orchestrator, tmp_path: Path) -> None:
    orchestrator.set("DAGSTER_HOME", str(tmp_path))
    assert orchestrator.faults() == {"dagster.instance": "No such file or directory"}
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    assert orchestrator.faults() == {"dagster.instance": "its storage is not pipelines.storage"}


def test_code_server_that_is_away_is_found(orchestrator: Orchestrator) -> None:
    orchestrator.listener.close()
    found = orchestrator.faults()
    assert list(found) == ["dagster.servers"]
    assert "refused" in found["dagster.servers"]


def test_definitions_that_do_not_load_are_found(orchestrator: Orchestrator) -> None:
    orchestrator.listener.close()
    orchestrator.set("ISTHMUS_EXECUTOR", "no.such.module:executor")
    found = orchestrator.faults()
    assert list(found) == ["dagster.servers", "dagster.locations"]
    assert "ISTHMUS_EXECUTOR" in found["dagster.locations"]
