"""The exporter of the warehouse: its metrics, and figures that alerts rest on."""

import time
from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine, func, insert, text

from api.certificates import CertificateWatch
from api.warehouse_metrics import WarehouseMetrics
from devnet.webhook_receiver import make_certificate, receiving
from indexer.config.networks import load_network
from indexer.facts.alarms import raise_alarm
from indexer.metrics.catalogue import WAREHOUSE
from tests.factories.projections import STELLAR, insert_book, insert_cursor, insert_reconciliation
from tests.factories.webhooks import insert_events, insert_sender, insert_state, insert_webhook
from warehouse_schema.facts import message_polls
from warehouse_schema.identifiers import ChainId

TESTNET = load_network("testnet")
SEPOLIA = ChainId("eip155:11155111")
POLL = {
    "service": "iris",
    "chain": SEPOLIA,
    "subject": "0x1",
    "purpose": "attestation",
    "since": 0,
    "attempts": 1,
    "due_at": 0,
}


def test_every_metric_of_the_warehouse_is_exported(engine: Engine, api_engine: Engine, tmp_path):
    with engine.begin() as conn:
        insert_book(conn)
        insert_cursor(conn, STELLAR)
        insert_cursor(conn, SEPOLIA, held="denied", relayed=False, idle_seconds=9)
        raise_alarm(conn, SEPOLIA, "DeepReorg", SEPOLIA, "denied")
        insert_reconciliation(conn, age_seconds=60)
        insert_sender(conn)
        webhook = insert_webhook(conn, created_at=func.now() - timedelta(seconds=90))
        insert_events(conn)
        insert_state(conn, webhook, 0, failures=2, next_at=func.now() - timedelta(seconds=30))
        conn.execute(insert(message_polls).values(POLL))
        conn.execute(text("UPDATE relay.health SET problem = 'budget', reason = 'x', well = false"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.execute(text("SELECT pg_create_physical_replication_slot('metrics', true)"))
    backup = tmp_path / "backup.info"
    backup.touch()
    try:
        with receiving(make_certificate(tmp_path)) as receiver:
            exporter = WarehouseMetrics(
                api_engine,
                TESTNET,
                lambda: 7,
                home=tmp_path,
                backup_file=backup,
                certificate=CertificateWatch(receiver.url),
            )
            registry = CollectorRegistry()
            registry.register(exporter)
            names = {metric.name for metric in registry.collect() if metric.samples}
    finally:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(text("SELECT pg_drop_replication_slot('metrics')"))
    # The tests' Postgres archives no WAL and has no standby.
    assert {spec.name for spec in WAREHOUSE} - names == {
        "isthmus_wal_archive_age_seconds",
        "isthmus_synchronous_standbys",
    }

    def value(name: str, **labels: str) -> float:
        found = registry.get_sample_value(f"isthmus_{name}", labels)
        assert found is not None, name
        return found

    assert value("chain_unwell", chain=SEPOLIA, reason="ON_HOLD") == 1
    assert value("chain_unwell", chain=SEPOLIA, reason="LATE") == 0
    assert value("open_alarms", chain=SEPOLIA, kind="DeepReorg") == 1
    which = {"chain": STELLAR, "account": f"relay on {STELLAR}"}
    assert value("relay_account_problem", **which, problem="budget") == 1
    assert value("relay_account_problem", **which, problem="halted") == 0
    assert value("relay_account_floor", **which) == 10**16
    assert value("webhooks_unwell", state="failing") == 1
    assert 30 <= value("webhook_oldest_due_seconds") < 90
    assert value("messages_polled", service="iris") == 1
    # For a day, of which the machine may have spent a little.
    assert 86_000 < value("certificate_seconds_left") <= 86_400
    assert abs(value("clock_skew_seconds")) < 5
    assert 0 <= value("backup_age_seconds") < 300
    assert 0 < value("disk_free_ratio") <= 1


def test_missing_backup_is_older_than_any_limit(api_engine: Engine, tmp_path):
    exporter = WarehouseMetrics(api_engine, TESTNET, lambda: None, backup_file=tmp_path / "none")
    registry = CollectorRegistry()
    registry.register(exporter)
    assert registry.get_sample_value("isthmus_backup_age_seconds") == pytest.approx(
        time.time(), abs=60
    )


def test_skewed_clock_is_measured_against_the_database(api_engine: Engine):
    exporter = WarehouseMetrics(api_engine, TESTNET, lambda: None, clock=lambda: time.time() - 40)
    registry = CollectorRegistry()
    registry.register(exporter)
    skew = registry.get_sample_value("isthmus_clock_skew_seconds")
    assert skew == pytest.approx(-40, abs=3)
