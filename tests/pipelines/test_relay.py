"""The relay's code location: it loads without keys, reports what is missing, and is supervised."""

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from os import getpid
from pathlib import Path
from socket import gethostname
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import Engine, text

from pipelines import relay
from pipelines.failures import STOPPED_TAG
from pipelines.long_run import LongRunConfig
from pipelines.relay import RELAY_JOB, STEP, TRANSACTIONS, RelayWarehouse
from pipelines.reports import add_reports
from relay.account import TurnReport
from relay.leases import account_session
from relay.nonces import AccountId
from relay.status import AccountHealth, set_health
from tests.factories.relay import OPERATOR, signed
from warehouse_schema import locks
from warehouse_schema.identifiers import ChainId, Wei
from warehouse_schema.leases import RELAY_LEASES, LeaseName, record_standby

EVM = ChainId("eip155:31337")
ACCOUNT = AccountId(EVM, OPERATOR)
KEY = "ISTHMUS_RELAY_KEY_EIP155_31337_FILE"
WELL = AccountHealth(
    duty="deliver",
    reason=None,
    balance=Wei(10**18),
    spent_today=Wei(0),
    open=0,
    budget=Wei(10**17),
    floor=Wei(10**16),
)


def warehouse_of(engine: Engine) -> RelayWarehouse:
    class Given(RelayWarehouse):
        @contextmanager
        def engine(self) -> Iterator[Engine]:
            yield engine

        kept_engine = engine

    return Given()


def execute(job: str, instance: dg.DagsterInstance, engine: Engine, **options: Any):
    given = {**(relay.definitions().resources or {}), "warehouse": warehouse_of(engine)}
    whole = relay.definitions()
    definitions = dg.Definitions(
        assets=whole.assets, asset_checks=whole.asset_checks, jobs=whole.jobs, resources=given
    )
    return definitions.resolve_job_def(job).execute_in_process(
        instance=instance, raise_on_error=False, **options
    )


def send(instance: dg.DagsterInstance, engine: Engine):
    config = dg.RunConfig(ops={STEP: LongRunConfig(minutes=1)})
    return execute(RELAY_JOB, instance, engine, run_config=config)


def check(instance: dg.DagsterInstance, engine: Engine) -> tuple[bool, str]:
    [result] = execute(relay.CHECK_JOB, instance, engine).get_asset_check_evaluations()
    found = result.metadata.get("found")
    return result.passed, "" if found is None else str(found.value)


@pytest.mark.usefixtures("long_leases")
def test_check_names_the_relay_and_its_standbys(instance, relay_engine):
    account = AccountId(ChainId("eip155:31337"), "0xabc")
    with account_session(relay_engine, account), relay_engine.connect() as conn:
        with conn.begin():
            name = LeaseName(locks.RELAY, str(account))
            record_standby(conn, RELAY_LEASES, name, "other", 7)
        [result] = execute(relay.CHECK_JOB, instance, relay_engine).get_asset_check_evaluations()
    processes = str(result.metadata["processes"].value)
    assert processes.startswith(f"relay {account}: {gethostname()}:{getpid()} since ")
    assert ", standby other:7 since " in processes


def test_location_loads_with_running_sensor_and_schedule():
    repository = relay.definitions().get_repository_def()
    assert {job.name for job in repository.get_all_jobs()} >= {"relay", "check_relay"}
    [sensor], [schedule] = repository.sensor_defs, repository.schedule_defs
    assert sensor.default_status == dg.DefaultSensorStatus.RUNNING
    assert schedule.default_status == dg.DefaultScheduleStatus.RUNNING


def test_missing_key_is_a_permanent_error(
    instance: dg.DagsterInstance, relay_engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv(KEY, raising=False)
    result = send(instance, relay_engine)
    assert not result.success
    [run] = instance.get_runs()
    assert run.tags[STOPPED_TAG].startswith("ConfigurationError")


def test_run_takes_turns_until_sigterm(
    instance: dg.DagsterInstance,
    relay_engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    (tmp_path / "key").write_text("5f" * 32)
    monkeypatch.setenv(KEY, str(tmp_path / "key"))

    def turns(engine, settings, accounts, *, should_stop, on_turn):
        assert engine is relay_engine
        assert [each.chain.id for each in accounts] == [EVM]
        on_turn(EVM, TurnReport())
        on_turn(EVM, TurnReport(opened=1, sent=1, refused=["deliver 0x1: no trustline"]))
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
        while not should_stop():
            threading.Event().wait(0.01)

    monkeypatch.setattr(relay, "run_relay", turns)
    result = send(instance, relay_engine)
    assert result.success
    first = instance.get_latest_materialization_event(TRANSACTIONS)
    assert first is not None
    [seen] = instance.fetch_observations(TRANSACTIONS, limit=10).records
    figures = seen.asset_observation.metadata
    assert (figures["opened"].value, figures["refused"].value) == (1, "deliver 0x1: no trustline")


def test_turn_reports_are_summed():
    both = add_reports(TurnReport(opened=1, refused=["a"]), TurnReport(opened=2, confirmed=1))
    assert both == TurnReport(opened=3, confirmed=1, refused=["a"])
    assert add_reports(both, TurnReport(refused=["b"])).refused == ["b"]


def test_check_lists_problems_for_operator(
    instance: dg.DagsterInstance, relay_engine: Engine, engine: Engine
):
    passed, found = check(instance, relay_engine)
    assert not passed
    assert found.startswith("- no relay account has ever reported: is a key configured")
    with relay_engine.begin() as conn:
        set_health(conn, ACCOUNT, WELL)
    assert check(instance, relay_engine) == (True, "")
    with engine.begin() as conn:
        signed(conn, EVM, "deliver", "a transfer", "0x" + "a" * 64)
        conn.execute(text("UPDATE relay.slots SET opened_at = now() - interval '2 hours'"))
        conn.execute(text("UPDATE relay.health SET seen_at = now() - interval '3 minutes'"))
    passed, found = check(instance, relay_engine)
    assert not passed
    assert re.search(r"silent for 18\d s", found)
    assert re.search(r"deliver of a transfer under number 0 waits for 72\d\d s", found)
    with relay_engine.begin() as conn:
        set_health(
            conn,
            ACCOUNT,
            replace(WELL, reason="3 wei on the account", problem="balance", balance=Wei(3), open=1),
        )
    assert f"{EVM} {OPERATOR}: 3 wei on the account" in check(instance, relay_engine)[1]


def test_sensor_keeps_one_run_going(instance: dg.DagsterInstance, relay_engine: Engine):
    [sensor] = relay.definitions().sensors or ()

    def look() -> Any:
        with dg.build_sensor_context(
            instance=instance, resources={"warehouse": warehouse_of(relay_engine)}
        ) as context:
            return sensor(context)

    assert isinstance(look(), dg.RunRequest)
    instance.create_run_for_job(relay.definitions().resolve_job_def(RELAY_JOB))
    assert look().skip_message == "NOT_STARTED: no turn has been taken yet"
