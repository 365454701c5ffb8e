"""Executor of backfill steps: in process, multiprocess, or as configured."""

import multiprocessing
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._serdes import serialize_value
from sqlalchemy import select, text

from indexer.config.settings import load_settings, rpc_variable, start_variable
from indexer.errors import ConfigurationError
from pipelines.defs.backfill import BACKFILL, READ_RANGE, backfills
from pipelines.defs.resources import ChainNodes, WarehouseResource
from pipelines.executors import IN_PROCESS_OR_MANY, executor_of, executor_of_exports
from tests.factories.fake_chain import ETHEREUM, FakeChain
from tests.factories.fake_evm_node import FakeEvmNode
from tests.system.replay.serving import serving
from warehouse_schema.facts import blocks, evm_logs

FIRST, LAST = 1, 60
BROKER = "amqp://isthmus:secret@broker:5672/"
CONFIG = {"chain": ETHEREUM, "first": FIRST, "last": LAST, "blocks": 30, "report_seconds": 0.001}


def the_job() -> dg.JobDefinition:
    """What a process of the run loads anew, from the environment that it was given."""
    settings = load_settings()
    doors = dg.Definitions(resources={"warehouse": WarehouseResource(), "nodes": ChainNodes()})
    return dg.Definitions.merge(backfills(settings), doors).resolve_job_def(BACKFILL)


@pytest.fixture
def node():
    """A chain of 100 blocks behind a URL."""
    settings = load_settings({"ISTHMUS_NETWORK": "mainnet"}, needs_database=False)
    network = settings.network
    (ethereum,) = (chain for chain in network.evm if chain.id == ETHEREUM)
    chain = FakeChain(replace(network, evm=(ethereum,)))
    chain.grow(LAST + ethereum.confirmations, sends=2)
    node = FakeEvmNode(chain)
    with serving(node) as url:
        yield node, url


@pytest.fixture
def installation(monkeypatch, tmp_path, database, node):
    """The environment of an installation, with Dagster's records in a folder."""
    _, url = node
    home = tmp_path / "dagster"
    home.mkdir()
    plain = database.set(drivername="postgresql").render_as_string(hide_password=False)
    for name, value in {
        "ISTHMUS_NETWORK": "mainnet",
        "ISTHMUS_HOME": str(tmp_path / "home"),
        "DATABASE_URL": plain,
        # The node's headers have no more fields than these tests read.
        "ISTHMUS_LOG_PROOF_EIP155_1": "none",
        rpc_variable(ETHEREUM): url,
        start_variable(ETHEREUM): str(LAST + 1),
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "1",
    }.items():
        monkeypatch.setenv(name, value)
    return home


def run_config(**execution):
    # A fork server is there at once for every step; a spawned process imports everything anew.
    several = {"start_method": {"forkserver": {}}, "max_concurrent": 2}
    return {
        "ops": {READ_RANGE: {"config": CONFIG}},
        "execution": {"config": execution or {"multiprocess": several}},
    }


def run_job(home: str, config) -> None:
    """For a process of its own."""
    with dg.DagsterInstance.from_config(home) as instance:
        dg.execute_job(dg.reconstructable(the_job), instance=instance, run_config=config)


def stored(engine):
    with engine.connect() as conn:
        return (
            list(conn.scalars(select(blocks.c.height).order_by(blocks.c.height))),
            len(conn.execute(select(evm_logs)).all()),
        )


@pytest.mark.timeout(400)
def test_killed_multiprocess_backfill_is_resumed(installation: Path, node, engine, monkeypatch):
    """The first run is killed once it has committed something; its processes live on and end.

    Of the other, plan, span and finish are a process each.
    """
    context = multiprocessing.get_context("spawn")
    slow = Gate(node[0], from_block=45)
    monkeypatch.setattr(node[0], "_logs", slow)
    killed = context.Process(target=run_job, args=(str(installation), run_config()))
    killed.start()
    wait_until(lambda: len(stored(engine)[0]) >= 30, "nothing was committed")
    killed.kill()
    killed.join()
    (before, _) = stored(engine)
    assert set(range(FIRST, 31)) <= set(before)
    assert len(before) < LAST
    with dg.DagsterInstance.from_config(str(installation)) as instance:
        # What the code server does when a process of its is gone.
        (first,) = instance.get_runs()
        instance.report_run_failed(first)
        slow.open = True
        wait_until(lambda: not writers(engine), "the killed run's processes go on")
        assert stored(engine)[0] == before
        result = dg.execute_job(
            dg.reconstructable(the_job), instance=instance, run_config=run_config()
        )
        assert result.success
        pids = {
            entry.dagster_event.engine_event_data.metadata["pid"].value
            for entry in instance.all_logs(
                result.run_id, of_type=dg.DagsterEventType.STEP_WORKER_STARTED
            )
        }
        observed = instance.all_logs(result.run_id, of_type=dg.DagsterEventType.ASSET_OBSERVATION)
    assert len(pids) == 3
    reports = [
        entry.dagster_event.asset_observation_data.asset_observation.metadata for entry in observed
    ]
    done: list[Any] = [one["backfilled_blocks"].value for one in reports]
    assert done == sorted(done)
    assert done[0] > len(before)
    assert stored(engine) == (list(range(FIRST, LAST + 1)), 2 * LAST)


class Gate:
    """A node's answer to what is asked of late blocks does not come before it is opened."""

    def __init__(self, node: FakeEvmNode, from_block: int) -> None:
        self._answer = node._logs
        self._from = from_block
        self.open = False

    def __call__(self, wanted):
        wait_until(
            lambda: self.open or int(wanted["toBlock"], 16) < self._from, "the gate was not opened"
        )
        return self._answer(wanted)


def writers(engine) -> int:
    """Sessions that may write a backfill's chunk, or wait to."""
    with engine.connect() as conn:
        return conn.scalar(
            text(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'isthmus-indexer'"
                " AND datname = current_database()"
            )
        )


def wait_until(holds, otherwise: str, seconds: float = 200.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.05)


# The choice


def job_of(settings) -> dg.JobDefinition:
    doors = dg.Definitions(resources={"warehouse": WarehouseResource(), "nodes": ChainNodes()})
    return dg.Definitions.merge(backfills(settings), doors).resolve_job_def(BACKFILL)


def test_default_executor_is_in_process(settings):
    assert executor_of(settings) is IN_PROCESS_OR_MANY
    without = {"ops": {READ_RANGE: {"config": {"chain": "eip155:1", "first": 0, "last": 1}}}}
    resolved = dg.validate_run_config(job_of(settings), without)
    assert resolved["execution"] == {
        "in_process_or_multiprocess": {"in_process": {"retries": {"enabled": {}}}}
    }


def test_executor_of_a_library_is_configurable():
    settings = load_settings({"ISTHMUS_EXECUTOR": "dagster:multiprocess_executor"})
    job = job_of(settings)
    assert job.executor_def is dg.multiprocess_executor
    configured = {
        "ops": {READ_RANGE: {"config": {"chain": "eip155:1", "first": 0, "last": 1}}},
        "execution": {"config": {"max_concurrent": 5}},
    }
    assert dg.validate_run_config(job, configured)


def test_celery_executor_needs_no_run_configuration(monkeypatch):
    """So that neither a run nor the job has the broker's password, which the page would show."""
    monkeypatch.setenv("ISTHMUS_DAGSTER_URL", "postgresql://owner:secret@db/dagster")
    settings = load_settings({"ISTHMUS_EXECUTOR": "celery", "ISTHMUS_BROKER_URL": BROKER})
    job = job_of(settings)
    assert (job.executor_def.name, executor_of_exports(settings).name) == ("celery", "celery")
    without = {"ops": {READ_RANGE: {"config": {"chain": "eip155:1", "first": 0, "last": 1}}}}
    assert dg.validate_run_config(job, without)
    assert "secret" not in serialize_value(job.get_job_snapshot())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("dagster_nobody:executor", "cannot be imported: No module named 'dagster_nobody'"),
        ("dagster:no_executor", "cannot be imported"),
        ("not a name", "cannot be imported"),
        ("dagster:op", "is no executor definition"),
    ],
)
def test_bad_executor_setting_is_refused(name, reason):
    settings = load_settings({"ISTHMUS_EXECUTOR": name})
    with pytest.raises(ConfigurationError, match=f"^ISTHMUS_EXECUTOR: .*{reason}"):
        executor_of(settings)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "ISTHMUS_BROKER_URL must be set"),
        ({"ISTHMUS_BROKER_URL": "redis://h"}, "must begin with amqp:// or amqps://, not redis://"),
    ],
    ids=["no broker", "redis"],
)
def test_celery_without_its_broker_is_refused(given, reason):
    settings = load_settings({"ISTHMUS_EXECUTOR": "celery", **given})
    with pytest.raises(ConfigurationError, match=reason):
        executor_of(settings)
