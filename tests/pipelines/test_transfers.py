"""The transfer keeper's run: reports, ends, and its sensor."""

import os
import signal
import threading
import time
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import Engine, select

from indexer.config.networks import Network, load_network
from indexer.transfers.keeper import KeeperProgress
from pipelines.defs.names import TRANSFER_STATES, TRANSFERS_JOB
from pipelines.defs.projections.transfers import STEP, transfers
from pipelines.long_run import CatchUpConfig
from pipelines.reports import add_reports
from tests.factories.intake import ask as ask_for
from tests.factories.intake import cancel, moment
from tests.factories.projections import insert_cursor
from tests.factories.stage_history import DIRECT, START
from tests.factories.transfers import NETWORK
from tests.pipelines.factories import warehouse_of
from warehouse_schema import projections


@pytest.fixture
def keep(instance: dg.DagsterInstance, indexer_engine: Engine):
    """Call it to run the job once."""

    def run(**config: Any) -> dg.ExecuteInProcessResult:
        return _job(NETWORK, indexer_engine).execute_in_process(
            instance=instance,
            raise_on_error=False,
            run_config=dg.RunConfig(ops={STEP: CatchUpConfig(**config)}),
        )

    return run


def _job(network: Network, engine: Engine) -> dg.JobDefinition:
    given = dg.Definitions(resources={"warehouse": warehouse_of(engine)})
    return dg.Definitions.merge(transfers(network, ()), given).resolve_job_def(TRANSFERS_JOB)


def figures(result: dg.ExecuteInProcessResult) -> list[dict[str, object]]:
    return [
        {k: v.value for k, v in e.step_materialization_data.materialization.metadata.items()}
        for e in result.all_events
        if e.is_step_materialization
    ]


def stage_of(engine: Engine) -> str | None:
    with engine.connect() as conn:
        return conn.scalar(select(projections.transfer_states.c.stage))


def test_zero_minutes_expires_due_transfers_and_ends(keep, engine: Engine):
    with engine.begin() as conn:
        ask_for(conn, DIRECT)
        insert_cursor(conn, DIRECT.source_chain)
    result = keep()
    assert result.success
    assert figures(result)[0] == {"moved": 1, "expired": 1}
    assert stage_of(engine) == "EXPIRED"


def test_run_updates_transfers_until_sigterm(keep, engine: Engine):
    with engine.begin() as conn:
        ask_for(conn, DIRECT, expires_at=moment(4_000_000_000))

    def call_off_then_stop() -> None:
        wait_for(engine, "AWAITING_SIGNATURE")
        with engine.begin() as conn:
            cancel(conn, DIRECT, START + 60)
        wait_for(engine, "CANCELLED")
        os.kill(os.getpid(), signal.SIGTERM)

    client = threading.Thread(target=call_off_then_stop)
    client.start()
    result = keep(minutes=5, report_seconds=1_000)
    client.join(20)
    assert result.success
    assert figures(result) == [
        {"moved": 1, "expired": 0},
        {"moved": 1, "expired": 0},
        {"moved": 0, "expired": 0},
    ]


def wait_for(engine: Engine, stage: str) -> None:
    deadline = time.monotonic() + 20
    while stage_of(engine) != stage:
        assert time.monotonic() < deadline, f"it never became {stage}"
        time.sleep(0.02)


def test_keeper_reports_are_summed():
    assert add_reports(KeeperProgress(2, 1), KeeperProgress(3, 0)) == KeeperProgress(5, 1)


def test_sensor_keeps_one_run_going(instance: dg.DagsterInstance, indexer_engine: Engine):
    (sensor,) = transfers(NETWORK, ()).sensors or ()

    def look() -> Any:
        with dg.build_sensor_context(
            instance=instance, resources={"warehouse": warehouse_of(indexer_engine)}
        ) as context:
            return sensor(context)

    assert isinstance(look(), dg.RunRequest)
    run = instance.create_run_for_job(_job(load_network("devnet"), indexer_engine))
    assert look().skip_message == "NOT_STARTED: no transfer has been looked at yet"
    instance.report_runless_asset_event(dg.AssetMaterialization(TRANSFER_STATES))
    assert "last report" in look().skip_message
    instance.report_run_canceled(run)
    assert isinstance(look(), dg.RunRequest)
