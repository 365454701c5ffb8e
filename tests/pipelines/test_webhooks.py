"""The webhook job in the relay's code location: key, check and stop."""

import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import Engine, text
from stellar_sdk import Keypair

from indexer.errors import ConfigurationError
from pipelines import relay, webhooks
from pipelines.long_run import LongRunConfig
from pipelines.webhooks import JOB, STEP, WEBHOOKS
from relay.webhooks.run import DeliveryCounts
from tests.factories.webhooks import (
    insert_events,
    insert_sender,
    insert_state,
    insert_webhook,
    remove_webhook,
)
from tests.pipelines.factories import warehouse_of

KEY = "ISTHMUS_WEBHOOK_KEY_FILE"
SECONDS = re.compile(r"\b4\d\d s")
SEED = Keypair.from_raw_ed25519_seed(bytes(range(32))).secret


@pytest.fixture(autouse=True)
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "webhook-key"
    file.write_text(SEED)
    monkeypatch.setenv(KEY, str(file))
    return file


def execute(job: str, instance: dg.DagsterInstance, engine: Engine, **options: Any):
    whole = webhooks.webhook_definitions()
    definitions = dg.Definitions.merge(
        whole, dg.Definitions(resources={"warehouse": warehouse_of(engine)})
    )
    return definitions.resolve_job_def(job).execute_in_process(
        instance=instance, raise_on_error=False, **options
    )


def test_webhook_job_exists_with_a_key(monkeypatch: pytest.MonkeyPatch):
    repository = relay.definitions().get_repository_def()
    assert {job.name for job in repository.get_all_jobs()} >= {"relay", JOB, "check_webhooks"}
    assert {each.name for each in repository.sensor_defs} == {"relay_sensor", f"{JOB}_sensor"}
    monkeypatch.delenv(KEY)
    names = {job.name for job in relay.definitions().get_repository_def().get_all_jobs()}
    assert JOB not in names


def test_bad_webhook_key_stops_the_load(key_file: Path):
    key_file.write_text("S123")
    with pytest.raises(ConfigurationError, match="ISTHMUS_WEBHOOK_KEY_FILE is no Stellar seed"):
        relay.definitions()


def test_run_posts_until_sigterm(
    instance: dg.DagsterInstance, relay_engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    def posting(engine, sender, *, should_stop, on_progress):
        assert engine is relay_engine
        assert sender.key.public_key == Keypair.from_secret(SEED).raw_public_key()
        on_progress(DeliveryCounts())
        on_progress(DeliveryCounts(delivered=2, failed=1))
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
        while not should_stop():
            threading.Event().wait(0.01)

    monkeypatch.setattr("pipelines.webhooks.send_webhooks", posting)
    config = dg.RunConfig(ops={STEP: LongRunConfig(minutes=1)})
    assert execute(JOB, instance, relay_engine, run_config=config).success
    assert instance.get_latest_materialization_event(WEBHOOKS) is not None
    [seen] = instance.fetch_observations(WEBHOOKS, limit=10).records
    figures = seen.asset_observation.metadata
    assert (figures["delivered"].value, figures["failed"].value) == (2, 1)


def check(instance: dg.DagsterInstance, engine: Engine) -> tuple[bool, str, int, int]:
    [result] = execute(webhooks.CHECK_JOB, instance, engine).get_asset_check_evaluations()
    recorded = result.metadata
    found = str(recorded["found"].value) if "found" in recorded else ""
    return result.passed, found, recorded["failing"].value, recorded["stopped"].value


def test_check_fails_without_a_sender_only(
    instance: dg.DagsterInstance, relay_engine: Engine, engine: Engine
):
    nobody = "- no webhook sender has ever run"
    assert check(instance, relay_engine) == (False, nobody, 0, 0)
    with engine.begin() as conn:
        insert_sender(conn)
        late, failing, stopped, removed = (insert_webhook(conn) for _ in range(4))
        insert_state(conn, failing, 0, failures=3, next_at=text("now() + interval '1 hour'"))
        insert_state(conn, stopped, 0, failures=3, stopped="gone")
        insert_state(conn, removed, 0, failures=3)
        remove_webhook(conn, removed)
        insert_events(conn)
    assert check(instance, relay_engine) == (True, "", 1, 1)
    with engine.begin() as conn:
        ago = "now() - interval '400 seconds'"
        conn.execute(text(f"UPDATE projections.transfer_events SET told_at = {ago}"))
        conn.execute(text(f"UPDATE relay.webhook_senders SET seen_at = {ago}"))
    silent = "- silent for many s: is a webhook sender running?"
    assert SECONDS.sub("many s", check(instance, relay_engine)[1]) == silent
    with engine.begin() as conn:
        conn.execute(text(f"UPDATE intake.webhooks SET created_at = {ago}"))
    passed, found, *_ = check(instance, relay_engine)
    assert not passed
    assert SECONDS.sub("many s", found).splitlines() == [
        silent,
        f"- webhook {late}: an event waits for many s",
    ]
