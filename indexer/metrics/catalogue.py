"""Every metric of the product as data. docs/metrics.md is written from it (`make catalogue`).

Label values are few and ours: chains of the network file, places in `ISTHMUS_RPC_<CHAIN>`, accounts
of the relay, names of states. No client can add one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

MetricKind: TypeAlias = Literal["counter", "gauge", "histogram"]

LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Buckets of a histogram of seconds."""


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric. A counter's name ends with `_total`."""

    name: str
    kind: MetricKind
    unit: str
    labels: tuple[str, ...]
    help: str
    normal: str
    """What an operator sees when all is well."""


def _specs(*rows: tuple[str, MetricKind, str, str, str, str]) -> tuple[MetricSpec, ...]:
    return tuple(
        MetricSpec(f"isthmus_{name}", kind, unit, tuple(labels.split()), about, normal)
        for name, kind, unit, labels, about, normal in rows
    )


LOOP_SECONDS = MetricSpec(
    "isthmus_loop_seconds_total",
    "counter",
    "seconds",
    ("loop", "chain", "reason"),
    "Time of a loop by what it waits for. The reasons of a loop add up to its whole time.",
    "at the head mostly `idle`; `node` or `postgres` near 1 s/s: that is the bottleneck",
)
NODE_REQUESTS = MetricSpec(
    "isthmus_node_requests_total",
    "counter",
    "requests",
    ("chain", "node", "outcome"),
    "HTTP requests to a node; `outcome` is `answered` or `failed`. `node` is its place in "
    "`ISTHMUS_RPC_<CHAIN>`, from 0.",
    "`failed` is rare",
)
NODE_SECONDS = MetricSpec(
    "isthmus_node_request_seconds",
    "histogram",
    "seconds",
    ("chain", "node"),
    "Duration of an HTTP request to a node.",
    "p95 below 1 s",
)
NODE_FAILURES = MetricSpec(
    "isthmus_node_failures_total",
    "counter",
    "failures",
    ("chain", "node", "error"),
    "Answers of a node that were not used, by type of error (`indexer/errors.py`).",
    "some `NodeBehind` and `ReorgDuringRead` at the head; `WrongChain` and `InconsistentAnswer` "
    "never",
)
INGESTED_BLOCKS = MetricSpec(
    "isthmus_ingested_blocks_total",
    "counter",
    "blocks",
    ("chain",),
    "Blocks or ledgers that the follower committed.",
    "grows at the chain's pace",
)
INGESTED_EVENTS = MetricSpec(
    "isthmus_ingested_events_total",
    "counter",
    "events",
    ("chain",),
    "Events that the follower committed.",
    "follows the market",
)
REORGS = MetricSpec(
    "isthmus_reorgs_total",
    "counter",
    "reorgs",
    ("chain",),
    "Rewinds after a reorganisation.",
    "a few a day on EVM chains, none on Stellar",
)
SERVICE_REQUESTS = MetricSpec(
    "isthmus_service_requests_total",
    "counter",
    "requests",
    ("service", "outcome"),
    "Requests to the services `iris` and `lz_scan`; `outcome` is `answered`, `unanswered` or "
    "`locked_out`.",
    "`answered` while transfers wait",
)
KEEPER_TRANSFERS = MetricSpec(
    "isthmus_keeper_transfers_total",
    "counter",
    "transfers",
    ("outcome",),
    "Transfers that the keeper `moved` or let go as `expired`.",
    "follows the market",
)
RELAY_TRANSACTIONS = MetricSpec(
    "isthmus_relay_transactions_total",
    "counter",
    "transactions",
    ("chain", "event"),
    "Steps of the relay: a slot `opened`, an attempt `sent` or `replaced`, a job `refused`.",
    "`refused` stays flat",
)
RELAY_SLOTS_CLOSED = MetricSpec(
    "isthmus_relay_slots_closed_total",
    "counter",
    "slots",
    ("chain", "outcome"),
    "Nonce slots by outcome (docs/glossary.md).",
    "`confirmed`; `nonce_taken` never",
)
WEBHOOK_POSTS = MetricSpec(
    "isthmus_webhook_posts_total",
    "counter",
    "attempts",
    ("outcome",),
    "Attempts to post an event: `delivered` or `failed`; `given_up` counts events.",
    "`failed` is the receivers' concern; `delivered` follows the market",
)
LEASES = MetricSpec(
    "isthmus_leases",
    "gauge",
    "processes",
    ("lease", "name", "state"),
    "1 while the process has a lease (`active`) or waits for it (`standby`). `name` is the chain, "
    "with the account for `relay`.",
    "of each follower, relay, attester and webhook sender one process is `active`, and as many "
    "`standby` as were started besides",
)

PROCESS = (
    *(LOOP_SECONDS, NODE_REQUESTS, NODE_SECONDS, NODE_FAILURES),
    *(INGESTED_BLOCKS, INGESTED_EVENTS, REORGS, SERVICE_REQUESTS, KEEPER_TRANSFERS),
    *(RELAY_TRANSACTIONS, RELAY_SLOTS_CLOSED, WEBHOOK_POSTS, LEASES),
)
"""Counted by the process that does the work."""

API = _specs(
    (
        "requests_total",
        *("counter", "requests", "route method status"),
        "Requests. A route is its template.",
        "no `5xx`",
    ),
    (
        "request_seconds",
        *("histogram", "seconds", "route"),
        "Time from a request's first hook to the headers of its answer.",
        "p95 below 0.25 s",
    ),
    (
        "streams_open",
        *("gauge", "streams", ""),
        "Open streams.",
        "below `ISTHMUS_STREAMS` times the workers",
    ),
    ("stream_frames_total", "counter", "messages", "", "Messages sent to streams.", "follows use"),
    (
        "streams_closed_total",
        *("counter", "streams", "code"),
        "Closed streams, by close code.",
        "1000, 1001 and 1006; 1013 is a slow reader",
    ),
    (
        "rate_limited_total",
        *("counter", "requests", "budget"),
        "Requests refused with 429.",
        "near none",
    ),
    (
        "requests_shed_total",
        *("counter", "requests", "reason"),
        "Requests dropped under overload.",
        "none",
    ),
    (
        "logins_total",
        *("counter", "attempts", "kind result"),
        "Attempts to log in by SEP-10.",
        "mostly `ok`",
    ),
    (
        "replica_reads_total",
        *("counter", "reads", "outcome"),
        "Reads that a replica may answer, where one is configured: `replica` did, or the primary "
        "because the replica was `behind` the client's position, `stale` or `unavailable`, or the "
        "client sent `no_position`.",
        "mostly `replica` and `no_position`",
    ),
)
"""Counted by the API's workers."""

WAREHOUSE = _specs(
    ("warehouse_up", "gauge", "0 or 1", "", "Whether the database answers the API.", "1"),
    (
        "chain_height",
        "gauge",
        "height",
        "chain",
        "Last block or ledger that is committed.",
        "grows",
    ),
    ("chain_head_height", "gauge", "height", "chain", "Head that the node named.", "grows"),
    (
        "chain_head_age_seconds",
        *("gauge", "seconds", "chain"),
        "Age of the head that the node named, by the database's clock.",
        "within a few block times",
    ),
    (
        "ingestion_lag_seconds",
        *("gauge", "seconds", "chain"),
        "Lag of a chain's ingestion behind its head.",
        "0 to a few block times",
    ),
    (
        "ingestion_idle_seconds",
        *("gauge", "seconds", "chain"),
        "Time since a chain's cursor moved.",
        "below three block times",
    ),
    (
        "follower_silent_seconds",
        *("gauge", "seconds", "chain"),
        "Time since the follower's last report.",
        "below 4 s",
    ),
    (
        "chain_well",
        *("gauge", "0 or 1", "chain"),
        "1 if a chain's ingestion is healthy, as in routes and `/readyz`, else 0.",
        "1",
    ),
    (
        "chain_unwell",
        *("gauge", "0 or 1", "chain reason"),
        "1 for the reason why a chain is unhealthy (`indexer/facts/health.py`), else 0.",
        "0",
    ),
    (
        "protocol_ahead",
        *("gauge", "version", "chain"),
        "Protocol that a chain's node supports and its follower does not; 0: none.",
        "0",
    ),
    ("open_alarms", "gauge", "alarms", "chain kind", "Open alarms (`isthmus status`).", "none"),
    (
        "quarantined_ledgers",
        *("gauge", "ledgers", "chain"),
        "Ledgers that could not be decoded.",
        "0",
    ),
    (
        "orderbook_age_seconds",
        *("gauge", "seconds", ""),
        "Time since the last folded ledger closed.",
        "below 15 s",
    ),
    (
        "transfers",
        *("gauge", "transfers", "stage"),
        "Transfers that are not over, by stage.",
        "follows the market",
    ),
    (
        "transfer_oldest_seconds",
        *("gauge", "seconds", "stage"),
        "Longest time that a transfer is in a stage.",
        "minutes; `AWAITING_SIGNATURE` up to its expiry",
    ),
    (
        "messages_polled",
        *("gauge", "messages", "service"),
        "Messages that the attester asks a service about.",
        "follows the market",
    ),
    (
        "relay_account_problem",
        *("gauge", "0 or 1", "chain account problem"),
        "1 for the problem why a relay account cannot send: `halted`, `unrecorded`, `balance`, "
        "`budget`, `node`; `draining` while an operator replaces it.",
        "0",
    ),
    (
        "relay_account_silent_seconds",
        *("gauge", "seconds", "chain account"),
        "Time since the account's last report.",
        "below 15 s",
    ),
    (
        "relay_account_balance",
        *("gauge", "wei or stroops", "chain account"),
        "Native balance; missing when no node answered.",
        "above the floor",
    ),
    (
        "relay_account_floor",
        *("gauge", "wei or stroops", "chain account"),
        "Balance below which there is an alert.",
        "constant",
    ),
    (
        "relay_account_spent",
        *("gauge", "wei or stroops", "chain account"),
        "Spent in this UTC day; an open slot counts with its maximum cost.",
        "below half of the budget",
    ),
    (
        "relay_account_budget",
        *("gauge", "wei or stroops", "chain account"),
        "Most that may be spent in a UTC day.",
        "constant",
    ),
    (
        "relay_open_slots",
        *("gauge", "slots", "chain account"),
        "Slots that may still take effect.",
        "a few; back to 0 between transfers",
    ),
    (
        "relay_slot_oldest_seconds",
        *("gauge", "seconds", "chain"),
        "Age of the oldest open slot; 0: none.",
        "up to the chain's finality",
    ),
    (
        "webhook_sender_silent_seconds",
        *("gauge", "seconds", ""),
        "Time since a webhook sender reported; missing before the first.",
        "below 15 s",
    ),
    (
        "webhook_oldest_due_seconds",
        *("gauge", "seconds", ""),
        "How long the oldest event waits that may be posted now; 0: none.",
        "below 5 s",
    ),
    (
        "webhooks_unwell",
        *("gauge", "webhooks", "state"),
        "Webhooks whose last attempt was not taken: `failing`, or `stopped` for good.",
        "a few; receivers fail",
    ),
    (
        "reconciliation_age_seconds",
        *("gauge", "seconds", ""),
        "Time since the last reconciliation; missing before the first.",
        "below 1800 s",
    ),
    (
        "reconciliation_findings",
        *("gauge", "findings", "check"),
        "Findings of the last reconciliation.",
        "0",
    ),
    (
        "clock_skew_seconds",
        *("gauge", "seconds", ""),
        "Clock of the API's machine minus the database's.",
        "within 1 s of 0",
    ),
    ("database_bytes", "gauge", "bytes", "", "Size of the database.", "grows with the chains"),
    (
        "replication_lag_bytes",
        *("gauge", "bytes", "slot"),
        "WAL that a replica has not confirmed, by replication slot.",
        "below 64 MiB",
    ),
    (
        "synchronous_standbys",
        *("gauge", "standbys", ""),
        "Connected standbys that commits wait for; missing without `synchronous_standby_names`, "
        "unless `DATABASE_URL` names several hosts.",
        "1; at 0 commits wait, or there is one copy of them",
    ),
    (
        "wal_archive_age_seconds",
        *("gauge", "seconds", ""),
        "Time since WAL was last archived; missing where Postgres archives none.",
        "below `archive_timeout`",
    ),
    (
        "backup_age_seconds",
        *("gauge", "seconds", ""),
        "Age of the file that each backup renews; missing without `ISTHMUS_BACKUP_FILE`.",
        "below a day",
    ),
    (
        "disk_free_ratio",
        *("gauge", "0 to 1", ""),
        "Free part of the disk that holds `ISTHMUS_HOME`.",
        "above 0.2",
    ),
    (
        "certificate_seconds_left",
        *("gauge", "seconds", ""),
        "Time until the certificate at `ISTHMUS_URL` ends; missing without https.",
        "above 21 days",
    ),
)
"""Read from the warehouse by the API's exporter at each scrape."""

SECTIONS: Mapping[str, tuple[str, tuple[MetricSpec, ...]]] = {
    "Loops": (
        "Counted by followers, attester, keeper, relay and webhook sender, at `ISTHMUS_METRICS_…`.",
        PROCESS,
    ),
    "API": ("Counted by the API's workers, at `ISTHMUS_METRICS`.", API),
    "Warehouse": (
        "Read at each scrape by the API, at `ISTHMUS_METRICS`: one exporter for all processes.",
        WAREHOUSE,
    ),
}
CATALOGUE: Mapping[str, MetricSpec] = {
    spec.name: spec for _, specs in SECTIONS.values() for spec in specs
}
"""All metrics by name."""
