"""The attestation polling run: reports, ends, and its sensor."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest

from indexer.config.networks import Network, load_network
from indexer.config.settings import Settings, load_settings
from indexer.errors import FollowerConflict
from indexer.ingest.attestations import PollProgress
from pipelines.definitions import definitions
from pipelines.defs.facts import attestations as room
from pipelines.defs.facts.attestations import STEP, attestations
from pipelines.defs.names import ATTESTATIONS, ATTESTATIONS_JOB
from pipelines.defs.resources import AttestationServices, WarehouseResource
from pipelines.long_run import CatchUpConfig
from pipelines.reports import add_reports, counts_metadata
from tests.pipelines.factories import warehouse_of

IRIS, SCAN = object(), object()


class FixedServices(AttestationServices):
    """Services that nobody in here asks."""

    @contextmanager
    def services(self) -> Iterator[Any]:
        yield IRIS, SCAN


@pytest.fixture
def network() -> Network:
    """A network with a service."""
    return replace(load_network("devnet"), iris="http://127.0.0.1:1")


@pytest.fixture
def ask(network, instance, indexer_engine):
    """Call it to run the job once."""

    def run(**config: Any) -> dg.ExecuteInProcessResult:
        given = attestations(network, ())
        job = dg.Definitions(
            assets=given.assets,
            jobs=given.jobs,
            resources={"warehouse": warehouse_of(indexer_engine), "services": FixedServices()},
        ).resolve_job_def(ATTESTATIONS_JOB)
        return job.execute_in_process(
            instance=instance,
            raise_on_error=False,
            run_config=dg.RunConfig(ops={STEP: CatchUpConfig(**config)}),
        )

    return run


def figures(result: dg.ExecuteInProcessResult) -> list[dict[str, object]]:
    return [
        {k: v.value for k, v in e.step_materialization_data.materialization.metadata.items()}
        for e in result.all_events
        if e.is_step_materialization
    ]


def polling(monkeypatch, *rounds: PollProgress, then: Callable[[], None] = lambda: None):
    """Let the indexer's loop report these rounds, and stop when it is told to."""

    def poll(engine, network, iris, *, scan, should_stop, on_progress):
        assert (iris, scan) == (IRIS, SCAN)
        for progress in rounds:
            assert not should_stop()
            on_progress(progress)
        then()
        assert should_stop()

    monkeypatch.setattr(room, "poll_attestations", poll)


def test_first_answers_are_reported_then_sums(ask, monkeypatch):
    polling(
        monkeypatch,
        PollProgress(polled=2, attested=1),
        PollProgress(polled=3, unverified=1, locked_out=300.0),
        PollProgress(unanswered=4),
        then=lambda: os.kill(os.getpid(), signal.SIGTERM),
    )
    result = ask(minutes=5, report_seconds=1_000)
    assert result.success
    none = {"polled": 0, "attested": 0, "unverified": 0, "unanswered": 0, "locked_out": 0.0}
    assert figures(result) == [
        none | {"polled": 2, "attested": 1},
        none | {"polled": 3, "unverified": 1, "unanswered": 4},
        none,
    ]


def test_locked_out_is_the_latest_value():
    out = PollProgress(locked_out=299.5)
    assert counts_metadata(add_reports(PollProgress(polled=1), out))["locked_out"] == 299.5
    assert counts_metadata(add_reports(out, PollProgress()))["locked_out"] == 0.0


def test_zero_minutes_polls_what_is_due_and_ends(ask, monkeypatch):
    rounds = [PollProgress(polled=20), PollProgress(polled=5), PollProgress()]
    monkeypatch.setattr(room, "poll_once", lambda *_, **__: rounds.pop(0))
    result = ask(report_seconds=0.000_001)
    assert result.success
    assert rounds == []
    assert [one["polled"] for one in figures(result)] == [20, 5, 0]


def test_second_poller_fails_with_the_reason(ask, monkeypatch):
    def conflict(*_, **__):
        raise FollowerConflict("another process asks")

    monkeypatch.setattr(room, "poll_attestations", conflict)
    (failed,) = [e for e in ask(minutes=5).all_events if e.is_step_failure]
    metadata = failed.step_failure_data.user_failure_data.metadata
    assert metadata["reason"].value == "another process asks"


def test_sensor_keeps_one_run_going(network, instance, indexer_engine):
    (sensor,) = attestations(network, ()).sensors or ()

    def look() -> dg.RunRequest | dg.SkipReason:
        with dg.build_sensor_context(
            instance=instance, resources={"warehouse": warehouse_of(indexer_engine)}
        ) as context:
            step = sensor(context)
        assert isinstance(step, dg.RunRequest | dg.SkipReason)
        return step

    assert isinstance(look(), dg.RunRequest)
    run = instance.create_run_for_job(_job(network))
    waits = look()
    assert isinstance(waits, dg.SkipReason)
    assert waits.skip_message == "NOT_STARTED: no service has answered yet"
    instance.report_runless_asset_event(dg.AssetMaterialization(ATTESTATIONS))
    again = look()
    assert isinstance(again, dg.SkipReason)
    assert "last report" in (again.skip_message or "")
    instance.report_run_canceled(run)
    assert isinstance(look(), dg.RunRequest)


def _job(network: Network) -> dg.JobDefinition:
    resources = dg.Definitions(resources={"warehouse": WarehouseResource()})
    return dg.Definitions.merge(attestations(network, ()), resources).resolve_job_def(
        ATTESTATIONS_JOB
    )


def test_job_has_own_pool_and_config(network):
    job = _job(network)
    (node,) = job.nodes
    assert node.definition.pools == {"attestations"}
    assert job.run_config is not None
    config = {"minutes": 360.0, "report_seconds": 10.0}
    assert job.run_config["ops"] == {STEP: {"config": config}}


def settings_of(name: str) -> Settings:
    return load_settings({"ISTHMUS_NETWORK": name}, needs_database=False)


def test_network_without_a_service_has_no_attestations():
    repository = definitions(settings_of("devnet")).get_repository_def()
    assert not repository.has_job(ATTESTATIONS_JOB)
    assert ATTESTATIONS not in repository.asset_graph.get_all_asset_keys()


@pytest.mark.parametrize("name", ["testnet", "mainnet"])
def test_network_with_a_service_has_attestations(name):
    repository = definitions(settings_of(name)).get_repository_def()
    assert repository.has_job(ATTESTATIONS_JOB)
    assert repository.has_sensor_def(f"{ATTESTATIONS_JOB}_sensor")
    movements = repository.asset_graph.get(dg.AssetKey(["projections", "movements"]))
    assert ATTESTATIONS in movements.parent_keys


def test_resource_opens_both_named_services(monkeypatch):
    monkeypatch.setattr("pipelines.defs.resources.load_settings", lambda: settings_of("mainnet"))
    with AttestationServices().services() as (iris, scan):
        assert iris is not None
        assert scan is not None
    monkeypatch.setattr("pipelines.defs.resources.load_settings", lambda: settings_of("testnet"))
    with AttestationServices().services() as (iris, scan):
        assert iris is not None
        assert scan is None
