"""Figures that each scrape reads: from the warehouse, from Postgres, and of this machine."""

import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import (
    Connection,
    Engine,
    Float,
    cast,
    exists,
    func,
    literal_column,
    not_,
    select,
    text,
)
from sqlalchemy.exc import SQLAlchemyError

from api.certificates import CertificateWatch
from api.deps import read_snapshot
from indexer.analytics.reconciliation import ReconciliationCheck
from indexer.config.networks import Network
from indexer.facts.health import REASON_TEXTS
from indexer.metrics.catalogue import CATALOGUE
from indexer.policy.relay_accounts import AccountProblem
from indexer.service_status.fold import ChainState, chain_states
from indexer.transfers import state_machine
from warehouse_schema.engine import hosts_of
from warehouse_schema.facts import alarms, cursors, message_polls
from warehouse_schema.intake import webhook_removals, webhooks
from warehouse_schema.projections import reconciliation, transfer_events, transfer_states
from warehouse_schema.queries import any_of, seconds_since
from warehouse_schema.relay import health, slots, webhook_senders, webhook_states

_OPEN_STAGES = [stage for stage in state_machine.STAGES if not state_machine.is_terminal(stage)]

# A slot of a logical replica confirms by `confirmed_flush_lsn`; a physical one by `restart_lsn`.
_REPLICATION = text("""
    SELECT slot_name, pg_wal_lsn_diff(
               pg_current_wal_lsn(), coalesce(confirmed_flush_lsn, restart_lsn)) AS behind
      FROM pg_replication_slots
     WHERE restart_lsn IS NOT NULL AND NOT pg_is_in_recovery()
""")
# `sync_state` is shown to members of pg_monitor alone, the application's name to everybody.
_SYNCHRONOUS = text("""
    SELECT current_setting('synchronous_standby_names') AS names,
           count(*) FILTER (WHERE coalesce(
               sync_state IN ('sync', 'quorum'),
               application_name <> ''
               AND strpos(current_setting('synchronous_standby_names'), application_name) > 0
           )) AS connected
      FROM pg_stat_replication
""")
_ARCHIVE_AGE = text("""
    SELECT extract(epoch FROM clock_timestamp() - coalesce(last_archived_time, stats_reset))
      FROM pg_stat_archiver
     WHERE current_setting('archive_mode') <> 'off'
""")


class _Figures:
    """Samples of one scrape, by metric of the catalogue."""

    def __init__(self) -> None:
        self._families: dict[str, GaugeMetricFamily] = {}

    def add(self, name: str, value: float | None, *labels: str) -> None:
        """A sample; None is none. `labels` are in the catalogue's order."""
        spec = CATALOGUE[f"isthmus_{name}"]
        if spec.name not in self._families:
            self._families[spec.name] = GaugeMetricFamily(spec.name, spec.help, labels=spec.labels)
        if value is not None:
            self._families[spec.name].add_metric(labels, float(value))

    def families(self) -> Iterator[Metric]:
        """All of them."""
        yield from self._families.values()


@dataclass(frozen=True, eq=False)
class WarehouseMetrics(Collector):
    """Exporter of everything that stands in the warehouse."""

    engine: Engine
    network: Network
    book_age: Callable[[], int | None]
    """Seconds since the last folded ledger closed."""
    home: Path | None = None
    """Folder whose disk is watched."""
    backup_file: Path | None = None
    """File that each backup renews."""
    certificate: CertificateWatch | None = None
    clock: Callable[[], float] = field(default=time.time)

    def describe(self) -> Iterator[Metric]:
        """Nothing: registering must not read."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Without the database, only `isthmus_warehouse_up` and figures of this machine."""
        figures = _Figures()
        self._add_machine(figures)
        stored = _Figures()
        try:
            with read_snapshot(self.engine) as conn:
                self._add_chains(stored, conn)
                _add_transfers(stored, conn)
                _add_relay(stored, conn)
                _add_webhooks(stored, conn)
                _add_reconciliation(stored, conn)
                self._add_postgres(stored, conn)
            stored.add("orderbook_age_seconds", self.book_age())
        except SQLAlchemyError:
            figures.add("warehouse_up", 0)
            yield from figures.families()
            return
        figures.add("warehouse_up", 1)
        yield from figures.families()
        yield from stored.families()

    def _add_machine(self, figures: _Figures) -> None:
        if self.home is not None and self.home.exists():
            disk = shutil.disk_usage(self.home)
            figures.add("disk_free_ratio", disk.free / disk.total)
        if self.backup_file is not None:
            # A missing backup is as old as can be.
            renewed = self.backup_file.stat().st_mtime if self.backup_file.exists() else 0.0
            figures.add("backup_age_seconds", self.clock() - renewed)
        if self.certificate is not None:
            figures.add("certificate_seconds_left", self.certificate.seconds_left())

    def _add_chains(self, figures: _Figures, conn: Connection) -> None:
        for state in chain_states(conn, self.network):
            _add_chain(figures, state)
        now = func.extract("epoch", func.clock_timestamp())
        age = cast(func.greatest(0, now - cursors.c.head_time), Float)
        for row in conn.execute(select(cursors.c.chain, age.label("age"))):
            figures.add("chain_head_age_seconds", row.age, row.chain)
        open_alarms = (
            select(alarms.c.chain, alarms.c.kind, func.count().label("number"))
            .where(alarms.c.cleared_at.is_(None))
            .group_by(alarms.c.chain, alarms.c.kind)
        )
        for row in conn.execute(open_alarms):
            figures.add("open_alarms", row.number, row.chain, row.kind)
        polls = select(message_polls.c.service, func.count().label("number")).group_by("service")
        for row in conn.execute(polls):
            figures.add("messages_polled", row.number, row.service)

    def _add_postgres(self, figures: _Figures, conn: Connection) -> None:
        before = self.clock()
        stored = conn.scalar(select(cast(func.extract("epoch", func.clock_timestamp()), Float)))
        # The database's clock was read half way.
        skew = (before + self.clock()) / 2 - (stored or 0.0)
        figures.add("clock_skew_seconds", skew)
        size = select(func.pg_database_size(func.current_database()))
        figures.add("database_bytes", conn.scalar(size))
        for row in conn.execute(_REPLICATION):
            figures.add("replication_lag_bytes", row.behind, row.slot_name)
        synchronous = conn.execute(_SYNCHRONOUS).one()
        if synchronous.names or len(hosts_of(conn.engine.url)) > 1:
            figures.add("synchronous_standbys", synchronous.connected)
        figures.add("wal_archive_age_seconds", conn.scalar(_ARCHIVE_AGE))


def _add_chain(figures: _Figures, state: ChainState) -> None:
    status, found = state.status, state.health
    chain = status.chain
    figures.add("chain_height", status.height, chain)
    figures.add("chain_head_height", status.head_height, chain)
    figures.add("ingestion_lag_seconds", status.lag_seconds, chain)
    figures.add("ingestion_idle_seconds", status.idle_seconds, chain)
    figures.add("follower_silent_seconds", status.silent_seconds, chain)
    figures.add("chain_well", found.is_well, chain)
    for reason in REASON_TEXTS:
        figures.add("chain_unwell", found.reason == reason, chain, reason)
    figures.add("protocol_ahead", status.protocol_ahead or 0, chain)
    figures.add("quarantined_ledgers", status.quarantined, chain)


def _add_transfers(figures: _Figures, conn: Connection) -> None:
    states = transfer_states.c
    since = cast(func.extract("epoch", func.clock_timestamp()) - func.min(states.since), Float)
    query = (
        select(states.stage, func.count().label("number"), since.label("oldest"))
        .where(states.stage == any_of(_OPEN_STAGES))
        .group_by(states.stage)
    )
    rows = {row.stage: row for row in conn.execute(query)}
    for stage in _OPEN_STAGES:
        row = rows.get(stage)
        figures.add("transfers", row.number if row else 0, stage)
        figures.add("transfer_oldest_seconds", (row.oldest or 0.0) if row else 0.0, stage)


def _add_relay(figures: _Figures, conn: Connection) -> None:
    for row in conn.execute(select(*health.c, seconds_since(health.c.seen_at).label("silent"))):
        which = (row.chain, row.account)
        for problem in get_args(AccountProblem):
            figures.add("relay_account_problem", row.problem == problem, *which, problem)
        figures.add("relay_account_silent_seconds", row.silent, *which)
        figures.add("relay_account_balance", row.balance, *which)
        figures.add("relay_account_floor", row.floor, *which)
        figures.add("relay_account_spent", row.spent_today, *which)
        figures.add("relay_account_budget", row.budget, *which)
        figures.add("relay_open_slots", row.open, *which)
    oldest = (
        select(health.c.chain, seconds_since(func.min(slots.c.opened_at)).label("age"))
        .select_from(health)
        .outerjoin(slots, (slots.c.chain == health.c.chain) & slots.c.outcome.is_(None))
        .group_by(health.c.chain)
    )
    for row in conn.execute(oldest):
        figures.add("relay_slot_oldest_seconds", row.age or 0.0, row.chain)


def _add_webhooks(figures: _Figures, conn: Connection) -> None:
    silent = select(seconds_since(func.max(webhook_senders.c.seen_at)))
    figures.add("webhook_sender_silent_seconds", conn.scalar(silent))
    states = webhook_states.c
    removed = exists().where(webhook_removals.c.webhook == webhooks.c.id)
    live = webhooks.outerjoin(webhook_states, states.webhook == webhooks.c.id)
    event = (
        select(transfer_events.c.told_at)
        .where(
            transfer_events.c.owner == webhooks.c.owner,
            transfer_events.c.number > func.coalesce(states.position, webhooks.c.after),
        )
        .order_by(transfer_events.c.number)
        .limit(1)
        .lateral("event")
    )
    since = func.greatest(event.c.told_at, states.written_at, webhooks.c.created_at)
    due_at = func.coalesce(states.next_at, since)
    oldest = (
        select(seconds_since(func.min(due_at)))
        .select_from(live.join(event, literal_column("true")))
        .where(not_(removed), states.stopped.is_(None))
    )
    figures.add("webhook_oldest_due_seconds", max(0.0, conn.scalar(oldest) or 0.0))
    is_stopped = states.stopped.is_not(None)
    unwell = (
        select(
            func.count().filter(states.failures > 0, not_(is_stopped)).label("failing"),
            func.count().filter(is_stopped).label("stopped"),
        )
        .select_from(live)
        .where(not_(removed))
    )
    row = conn.execute(unwell).one()
    figures.add("webhooks_unwell", row.failing, "failing")
    figures.add("webhooks_unwell", row.stopped, "stopped")


def _add_reconciliation(figures: _Figures, conn: Connection) -> None:
    query = select(reconciliation.c.findings, seconds_since(reconciliation.c.at).label("age"))
    row = conn.execute(query).one_or_none()
    if row is None:
        return
    figures.add("reconciliation_age_seconds", row.age)
    for check in get_args(ReconciliationCheck):
        number = sum(finding["check"] == check for finding in row.findings)
        figures.add("reconciliation_findings", number, check)
