"""The gap repair sensor: it starts a job per gap and backs off if the gap remains."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import Engine

from indexer.chains.stellar.lake import LakeReader
from indexer.chains.stellar.lake_store import LakeStore
from indexer.config.settings import Settings
from indexer.ingest.rebuild import differences
from pipelines.defs.repair import REPAIR_GAPS, SENSOR, gap_repair, next_repair
from tests.factories.forgetful import Forgetful
from tests.factories.quarantine import alarms, drained, history, network
from tests.factories.stellar_lake import write_lake
from tests.pipelines.factories import QuietChain, nodes_of, warehouse_of

LOST = history().deposits[1]
FOUND = f"{history().deposits[0]}-{history().deposits[2]}"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LakeReader]:
    reader = LakeReader(network().stellar, LakeStore(write_lake(tmp_path, history().metas)))
    yield reader
    reader.close()


class Site:
    """The job and its sensor over a warehouse."""

    def __init__(self, settings: Settings, engine: Engine, instance: dg.DagsterInstance) -> None:
        self._definitions = gap_repair(replace(settings, network=network()))
        self._warehouse = warehouse_of(engine)
        self._instance = instance

    def evaluate(self) -> Any:
        """What the sensor says."""
        sensor = self._with(QuietChain(1)).resolve_sensor_def(SENSOR)
        with dg.build_sensor_context(
            instance=self._instance, resources={"warehouse": self._warehouse}
        ) as context:
            return sensor(context)

    def runs(self, reader: Any, gaps: str) -> bool:
        """Whether the job succeeds."""
        job = self._with(reader).resolve_job_def(REPAIR_GAPS)
        result = job.execute_in_process(
            instance=self._instance, raise_on_error=False, tags={"isthmus/gaps": gaps}
        )
        return result.success

    def ended_at(self) -> float:
        """When the last run ended, in unix seconds."""
        (record,) = self._instance.get_run_records(dg.RunsFilter(job_name=REPAIR_GAPS), limit=1)
        assert record.end_time is not None
        return record.end_time

    def _with(self, reader: Any) -> dg.Definitions:
        doors = {"warehouse": self._warehouse, "nodes": nodes_of(reader)}
        return dg.Definitions.merge(self._definitions, dg.Definitions(resources=doors))


@pytest.fixture
def site(settings: Settings, indexer_engine: Engine, instance: dg.DagsterInstance) -> Site:
    return Site(settings, indexer_engine, instance)


def test_no_gap_starts_no_job(site: Site, indexer_engine: Engine, lake: LakeReader) -> None:
    drained(indexer_engine, lake)
    assert site.evaluate() == dg.SkipReason("no provider has a gap")


def test_gap_starts_the_job_that_repairs_it(
    site: Site, indexer_engine: Engine, lake: LakeReader
) -> None:
    drained(indexer_engine, Forgetful(lake, LOST))
    request = site.evaluate()
    assert request == dg.RunRequest(tags={"isthmus/gaps": FOUND})
    assert site.runs(Forgetful(lake), FOUND)
    assert alarms(indexer_engine) == []
    assert differences(indexer_engine, network()) == []
    assert site.evaluate() == dg.SkipReason("no provider has a gap")


def test_remaining_gap_fails_and_backs_off(
    site: Site, instance: dg.DagsterInstance, indexer_engine: Engine, lake: LakeReader
) -> None:
    node = Forgetful(lake, LOST)
    drained(indexer_engine, node)
    for pause in (60, 300, 1_800):
        assert not site.runs(node, FOUND)
        due = site.ended_at() + pause
        early = next_repair(instance, FOUND, due - 1)
        assert early == dg.SkipReason(f"{FOUND} was read again in vain; next in 1 s")
        assert isinstance(next_repair(instance, FOUND, due), dg.RunRequest)


def test_backoff_of_one_gap_delays_no_other(
    site: Site, indexer_engine: Engine, lake: LakeReader
) -> None:
    node = Forgetful(lake, LOST)
    drained(indexer_engine, node)
    assert not site.runs(node, "2-3")
    assert site.evaluate() == dg.RunRequest(tags={"isthmus/gaps": FOUND})
