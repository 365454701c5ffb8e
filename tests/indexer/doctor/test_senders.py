"""`isthmus doctor` on relays and webhook senders that do not run."""

import pytest
from sqlalchemy import Engine

from indexer.config.settings import load_settings
from indexer.doctor.checks import CheckResult, DoctorContext
from indexer.doctor.senders import check_senders
from tests.factories.projections import insert_sender

KEY = "ISTHMUS_RELAY_KEY_EIP155_31337_FILE"


@pytest.fixture
def _environment(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISTHMUS_NETWORK", "devnet")
    monkeypatch.setenv("DATABASE_URL", engine.url.render_as_string(hide_password=False))
    monkeypatch.setenv(KEY, "/nobody/reads/this")


def results() -> list[CheckResult]:
    return list(check_senders(DoctorContext(load_settings())))


@pytest.mark.usefixtures("_environment")
def test_configured_relay_that_never_reported_is_a_finding(engine: Engine) -> None:
    [found] = results()
    assert (found.check, found.subject) == ("senders.reports", "relay eip155:31337")
    assert "ISTHMUS_RELAY_KEY_EIP155_31337, has never reported" in found.problem
    assert "isthmus code-server --relay" in found.fix
    with engine.begin() as conn:
        insert_sender(conn, "eip155:31337")
    [found] = results()
    assert not found.is_finding


@pytest.mark.usefixtures("_environment")
def test_warehouse_that_cannot_be_read_is_said(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = engine.url.set(database="nowhere").render_as_string(hide_password=False)
    monkeypatch.setenv("DATABASE_URL", gone)
    [found] = results()
    assert found.is_finding
    assert 'database "nowhere" does not exist' in found.problem


@pytest.mark.usefixtures("_environment")
def test_warehouse_before_the_first_migration_has_no_result(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = engine.url.set(database="postgres").render_as_string(hide_password=False)
    monkeypatch.setenv("DATABASE_URL", empty)
    assert results() == []
