"""The check `all_is_well`: evaluated without a run, by the function of `/v1/status`."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import Connection, Engine, delete, func, insert, update

from indexer.cli.main import main
from indexer.config.networks import load_network
from indexer.config.settings import load_settings
from pipelines.definitions import definitions
from pipelines.defs.names import ALL_IS_WELL, SERVICE
from pipelines.defs.service_status import REPEAT_SECONDS, service_checks
from tests.factories.app import make_app
from tests.factories.projections import STELLAR, insert_cursor, insert_reconciliation
from tests.pipelines.factories import warehouse_of
from warehouse_schema.facts import alarms, cursors
from warehouse_schema.relay import health

NETWORK = load_network("testnet")
CHECK = dg.AssetCheckKey(SERVICE, ALL_IS_WELL)
KINDS = ("chains_are_read", "relay_can_send", "transfers_are_in_time", "money_adds_up")


@pytest.fixture
def tick(instance: dg.DagsterInstance, indexer_engine: Engine) -> Callable[..., object]:
    """Evaluates the sensor with a cursor."""
    merged = dg.Definitions.merge(
        service_checks(NETWORK),
        dg.Definitions(resources={"warehouse": warehouse_of(indexer_engine)}),
    )
    sensor = merged.resolve_sensor_def("service_status_sensor")
    resources = {"warehouse": warehouse_of(indexer_engine)}

    def evaluate(cursor: str | None = None) -> object:
        with dg.build_sensor_context(instance, cursor=cursor, resources=resources) as context:
            return sensor(context)

    return evaluate


@pytest.fixture
def well(engine: Engine) -> Engine:
    with engine.begin() as conn:
        insert_cursor(conn, STELLAR)
        insert_reconciliation(conn)
    return engine


def evaluations(result: Any) -> dict[str, Any]:
    return {event.check_name: event for event in result.asset_events}


def test_healthy_service_passes_every_check_without_a_run(tick, well):
    result = tick()
    assert not result.run_requests
    found = evaluations(result)
    assert list(found) == [ALL_IS_WELL, *KINDS]
    assert all(each.passed for each in found.values())
    assert found[ALL_IS_WELL].description == "Transfers are moving."


def test_problem_fails_the_check_and_that_of_its_kind(tick, well):
    with well.begin() as conn:
        conn.execute(update(cursors).values(held="https://node.example answered 403"))
    found = evaluations(tick())
    assert {name for name, each in found.items() if not each.passed} == {
        ALL_IS_WELL,
        "chains_are_read",
    }
    overall = found[ALL_IS_WELL]
    assert overall.severity is dg.AssetCheckSeverity.ERROR
    assert "https://node.example answered 403" in overall.metadata["found"].value


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda conn: conn.execute(
                insert(alarms).values(chain=STELLAR, kind="rescan", subject="1-2", detail="odd")
            ),
            "1 open alarms",
        ),
        (lambda conn: conn.execute(delete(health)), "no relay has reported yet"),
    ],
    ids=["alarm", "unknown"],
)
def test_work_that_holds_up_no_transfer_is_a_warning(
    tick, well, change: Callable[[Connection], object], words: str
):
    with well.begin() as conn:
        change(conn)
    overall = evaluations(tick())[ALL_IS_WELL]
    assert (overall.passed, overall.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert words in overall.metadata["found"].value


def test_unchanged_result_is_recorded_once_in_five_minutes(tick, well, monkeypatch):
    monkeypatch.setattr("pipelines.defs.service_status.REPEAT_SECONDS", 10**12)
    first = tick()
    again = tick(first.cursor)
    assert isinstance(again, dg.SkipReason)
    assert again.skip_message == "Transfers are moving."
    with well.begin() as conn:
        stopped = func.now() - timedelta(seconds=47)
        conn.execute(update(cursors).values(updated_at=stopped))
    changed = tick(first.cursor)
    assert not evaluations(changed)[ALL_IS_WELL].passed
    assert REPEAT_SECONDS == 300


def test_check_cli_and_api_say_the_same(
    tick, well, indexer_engine, api_engine, monkeypatch, capsys
):
    with well.begin() as conn:
        stopped = func.now() - timedelta(seconds=47)
        conn.execute(update(cursors).values(updated_at=stopped))
    shown = make_app(api_engine).test_client().get("/v1/status").json
    assert shown["sentence"] == f"Transfers are not moving: {STELLAR} stands still."
    described = evaluations(tick())[ALL_IS_WELL].description
    monkeypatch.setenv("ISTHMUS_NETWORK", "testnet")
    monkeypatch.setenv("DATABASE_URL", "postgresql:///unused")
    monkeypatch.setattr("indexer.config.warehouse.open_engine", lambda *_, **__: indexer_engine)
    assert main(["status"]) == 1
    printed = capsys.readouterr().out.splitlines()[0]
    for sentence in (described, printed):
        assert sentence.startswith(f"Transfers are not moving: {STELLAR} STOPPED: no new block for")


def test_its_group_sorts_before_all_others():
    settings = load_settings({"ISTHMUS_NETWORK": "devnet"})
    graph = definitions(settings).get_repository_def().asset_graph
    groups = {graph.get(key).group_name for key in graph.get_all_asset_keys()}
    assert min(groups) == ALL_IS_WELL
    assert (
        min(key.to_user_string() for key in graph.get_all_asset_keys()) == SERVICE.to_user_string()
    )
