"""Writes deploy/grafana/*.json from the tables below.

python -m tests.architecture.dashboards
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests.architecture.imports import ROOT

FOLDER = ROOT / "deploy" / "grafana"
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT = 12, 8
"""Two panels a row of Grafana's 24 columns."""


class Panel(NamedTuple):
    """A graph: title, what normal is, unit of Grafana, legend, expressions."""

    title: str
    about: str
    unit: str
    legend: str
    expressions: tuple[str, ...]


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({metric}[$__rate_interval]))"


def _p95(metric: str, by: str) -> str:
    rate = f"rate({metric}_bucket[$__rate_interval])"
    return f"histogram_quantile(0.95, sum by (le, {by}) ({rate}))"


INGESTION = (
    Panel("Health", "1: well", "short", "{{chain}}", ("isthmus_chain_well",)),
    Panel(
        "Why a chain is unwell",
        "Empty",
        "short",
        "{{chain}} {{reason}}",
        ("isthmus_chain_unwell == 1",),
    ),
    Panel("Lag", "A few block times", "s", "{{chain}}", ("isthmus_ingestion_lag_seconds",)),
    Panel(
        "Age of the head",
        "A few block times",
        "s",
        "{{chain}}",
        ("isthmus_chain_head_age_seconds",),
    ),
    Panel(
        "Blocks behind",
        "0 to a few",
        "short",
        "{{chain}}",
        ("isthmus_chain_head_height - isthmus_chain_height",),
    ),
    Panel(
        "Events",
        "Follows the market",
        "cps",
        "{{chain}}",
        (_rate("isthmus_ingested_events_total", "chain"),),
    ),
    Panel(
        "Where followers spend their time",
        "Mostly idle at the head; near 1: the bottleneck",
        "percentunit",
        "{{chain}} {{reason}}",
        (_rate('isthmus_loop_seconds_total{loop="follower"}', "chain, reason"),),
    ),
    Panel(
        "Requests to nodes",
        "`failed` is rare",
        "reqps",
        "{{chain}} {{node}} {{outcome}}",
        (_rate("isthmus_node_requests_total", "chain, node, outcome"),),
    ),
    Panel(
        "p95 of nodes",
        "Below 1 s",
        "s",
        "{{chain}} {{node}}",
        (_p95("isthmus_node_request_seconds", "chain, node"),),
    ),
    Panel(
        "Refused answers of nodes",
        "Some NodeBehind",
        "cps",
        "{{chain}} {{node}} {{error}}",
        (_rate("isthmus_node_failures_total", "chain, node, error"),),
    ),
    Panel(
        "Reorgs in a day",
        "A few on EVM chains",
        "short",
        "{{chain}}",
        ("sum by (chain) (increase(isthmus_reorgs_total[1d]))",),
    ),
    Panel("Open alarms", "None", "short", "{{chain}} {{kind}}", ("isthmus_open_alarms",)),
    Panel("Quarantined ledgers", "0", "short", "{{chain}}", ("isthmus_quarantined_ledgers",)),
    Panel(
        "Database",
        "Grows slowly",
        "bytes",
        "{{__name__}} {{slot}}",
        ("isthmus_database_bytes", "isthmus_replication_lag_bytes"),
    ),
    Panel(
        "Age of backup and archive",
        "A day; minutes",
        "s",
        "{{__name__}}",
        ("isthmus_backup_age_seconds", "isthmus_wal_archive_age_seconds"),
    ),
    Panel("Free disk", "Above 20 %", "percentunit", "free", ("isthmus_disk_free_ratio",)),
)
TRANSFERS = (
    Panel("Transfers by stage", "Follows the market", "short", "{{stage}}", ("isthmus_transfers",)),
    Panel(
        "Oldest in a stage", "Minutes", "s", "{{stage}}", ("isthmus_transfer_oldest_seconds > 0",)
    ),
    Panel(
        "Services",
        "`answered` while transfers wait",
        "reqps",
        "{{service}} {{outcome}}",
        (_rate("isthmus_service_requests_total", "service, outcome"),),
    ),
    Panel(
        "Where loops spend their time",
        "Mostly idle",
        "percentunit",
        "{{loop}} {{chain}} {{reason}}",
        (_rate('isthmus_loop_seconds_total{loop!="follower"}', "loop, chain, reason"),),
    ),
    Panel(
        "Problems of relay accounts",
        "Empty",
        "short",
        "{{chain}} {{account}} {{problem}}",
        ("isthmus_relay_account_problem == 1",),
    ),
    Panel(
        "Balance over floor",
        "Above 1",
        "short",
        "{{chain}} {{account}}",
        ("isthmus_relay_account_balance / isthmus_relay_account_floor",),
    ),
    Panel(
        "Budget used",
        "Below 50 %",
        "percentunit",
        "{{chain}} {{account}}",
        ("isthmus_relay_account_spent / isthmus_relay_account_budget",),
    ),
    Panel(
        "Open slots", "Back to 0", "short", "{{chain}} {{account}}", ("isthmus_relay_open_slots",)
    ),
    Panel("Oldest open slot", "Finality", "s", "{{chain}}", ("isthmus_relay_slot_oldest_seconds",)),
    Panel(
        "Closed slots",
        "`confirmed`",
        "cps",
        "{{chain}} {{outcome}}",
        (_rate("isthmus_relay_slots_closed_total", "chain, outcome"),),
    ),
    Panel(
        "Steps of the relay",
        "`refused` stays flat",
        "cps",
        "{{chain}} {{event}}",
        (_rate("isthmus_relay_transactions_total", "chain, event"),),
    ),
    Panel(
        "Webhook posts",
        "`failed` is the receivers'",
        "cps",
        "{{outcome}}",
        (_rate("isthmus_webhook_posts_total", "outcome"),),
    ),
    Panel("Oldest due webhook", "Below 5 s", "s", "due", ("isthmus_webhook_oldest_due_seconds",)),
    Panel(
        "Reconciliation findings", "0", "short", "{{check}}", ("isthmus_reconciliation_findings",)
    ),
)
API = (
    Panel(
        "Requests", "No 5xx", "reqps", "{{status}}", (_rate("isthmus_requests_total", "status"),)
    ),
    Panel(
        "p95 by route",
        "Below 0.25 s",
        "s",
        "{{route}}",
        (_p95("isthmus_request_seconds", "route"),),
    ),
    Panel(
        "Requests by route",
        "Follows use",
        "reqps",
        "{{route}}",
        (_rate("isthmus_requests_total", "route"),),
    ),
    Panel("Open streams", "Below the limit", "short", "streams", ("isthmus_streams_open",)),
    Panel(
        "Closed streams",
        "1013 is a slow reader",
        "cps",
        "{{code}}",
        (_rate("isthmus_streams_closed_total", "code"),),
    ),
    Panel(
        "Refused and dropped",
        "Near none",
        "reqps",
        "{{budget}}{{reason}}",
        (
            _rate("isthmus_rate_limited_total", "budget"),
            _rate("isthmus_requests_shed_total", "reason"),
        ),
    ),
    Panel("Logins", "Mostly ok", "cps", "{{result}}", (_rate("isthmus_logins_total", "result"),)),
    Panel("Age of the order book", "Below 15 s", "s", "age", ("isthmus_orderbook_age_seconds",)),
    Panel("Clock skew", "Within 1 s", "s", "skew", ("isthmus_clock_skew_seconds",)),
    Panel("Certificate", "Above 21 days", "s", "left", ("isthmus_certificate_seconds_left",)),
)


def _dashboard(uid: str, title: str, panels: Sequence[Panel]) -> dict[str, Any]:
    return {
        "uid": uid,
        "title": title,
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "tags": ["isthmus"],
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, 2)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": f"Normal: {panel.about}",
        "datasource": _DATASOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": _DATASOURCE,
                "expr": expression,
                "legendFormat": panel.legend,
            }
            for place, expression in enumerate(panel.expressions)
        ],
    }


DASHBOARDS = (
    _dashboard("isthmus-ingestion", "Isthmus: ingestion", INGESTION),
    _dashboard("isthmus-transfers", "Isthmus: transfers and relay", TRANSFERS),
    _dashboard("isthmus-api", "Isthmus: API", API),
)


def expressions(dashboard: dict[str, Any]) -> Iterator[str]:
    """PromQL of all panels."""
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])


if __name__ == "__main__":
    for each in DASHBOARDS:
        (FOLDER / f"{each['uid']}.json").write_text(f"{json.dumps(each, indent=2)}\n")
