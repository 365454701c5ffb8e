"""deploy/prometheus under promtool and amtool: each fault's figures fire its own alert alone."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.dashboards import DASHBOARDS, expressions
from tests.architecture.imports import ROOT

FOLDER = ROOT / "deploy" / "prometheus"
RULES = FOLDER / "rules.yaml"

WELL = {
    'up{job="isthmus-api",instance="api"}': "1x80",
    "isthmus_warehouse_up": "1x80",
    'isthmus_chain_well{chain="evm"}': "1x80",
    'isthmus_chain_unwell{chain="evm",reason="LATE"}': "0x80",
    'isthmus_chain_head_age_seconds{chain="evm"}': "12x80",
    'isthmus_relay_account_problem{chain="evm",account="a",problem="balance"}': "0x80",
    'isthmus_relay_account_silent_seconds{chain="evm",account="a"}': "2x80",
    'isthmus_node_failures_total{chain="evm",node="0",error="NodeBehind"}': "0+1x80",
    'isthmus_node_failures_total{chain="evm",node="0",error="ReorgDuringRead"}': "0+1x80",
    'isthmus_service_requests_total{service="iris",outcome="answered"}': "0+1x80",
    'isthmus_requests_total{route="/",status="200"}': "0+50x80",
    'isthmus_request_seconds_bucket{le="0.1"}': "0+50x80",
    'isthmus_request_seconds_bucket{le="+Inf"}': "0+50x80",
    "isthmus_certificate_seconds_left": "5000000x80",
    "isthmus_backup_age_seconds": "3600x80",
    "isthmus_synchronous_standbys": "1x80",
    "isthmus_disk_free_ratio": "0.5x80",
    "isthmus_clock_skew_seconds": "-0.2x80",
}
"""Series of a system that is well, one sample each five seconds."""

SLOW = {
    'isthmus_request_seconds_bucket{le="0.1"}': "0+1x80",
    'isthmus_request_seconds_bucket{le="5"}': "0+50x80",
}


def unwell(reason: str) -> dict[str, str]:
    return {
        'isthmus_chain_well{chain="evm"}': "0x80",
        f'isthmus_chain_unwell{{chain="evm",reason="{reason}"}}': "1x80",
    }


def alarm(kind: str) -> dict[str, str]:
    return {f'isthmus_open_alarms{{chain="evm",kind="{kind}"}}': "1x80"}


def account(problem: str) -> dict[str, str]:
    labels = f'chain="evm",account="a",problem="{problem}"'
    return {f"isthmus_relay_account_problem{{{labels}}}": "1x80"}


HELD = unwell("ON_HOLD")
HEAD_AGE = 'isthmus_chain_head_age_seconds{chain="evm"}'
LYING = 'isthmus_node_failures_total{chain="evm",node="1",error="WrongChain"}'
ANSWERED = 'isthmus_service_requests_total{service="iris",outcome="answered"}'
UNANSWERED = 'isthmus_service_requests_total{service="iris",outcome="unanswered"}'
LOCKED_OUT = 'isthmus_service_requests_total{service="iris",outcome="locked_out"}'
FAULTS: Mapping[str, Mapping[str, str | None]] = {
    "FollowerDead": {**unwell("NOT_FOLLOWED"), HEAD_AGE: "300x80"},
    "NodeFailing": {**unwell("NODE_FAILING"), **account("node")},
    "NodeLying": {LYING: "_x76 1x4"},
    "NodeBehind": {HEAD_AGE: "300x80"},
    "ChainHalted": {**unwell("STOPPED"), HEAD_AGE: "300x80"},
    "ChainLate": unwell("LATE"),
    "DeepReorg": {**HELD, **alarm("DeepReorg")},
    "ChainOnHold": {**HELD, **alarm("WrongChain")},
    "SequenceGap": alarm("sequence_gap"),
    "LedgersInQuarantine": {
        **alarm("quarantined"),
        'isthmus_quarantined_ledgers{chain="evm"}': "1x80",
    },
    "ProtocolAhead": {
        **alarm("protocol_ahead"),
        'isthmus_protocol_ahead{chain="evm"}': "31x80",
    },
    "OpenAlarm": alarm("undecodable"),
    "ReconciliationFinding": {'isthmus_reconciliation_findings{check="c"}': "1x80"},
    "ReconciliationOld": {"isthmus_reconciliation_age_seconds": "3700x80"},
    "AttestationServiceSilent": {ANSWERED: "10x80", UNANSWERED: "0+1x80"},
    "AttestationServiceLockedOut": {LOCKED_OUT: "0x60 1x20"},
    "RelayAccountEmpty": account("balance"),
    "RelayBudgetSpent": account("budget"),
    "RelayAccountHalted": account("halted"),
    "RelayNotReconciled": account("unrecorded"),
    "RelayNodesFailing": account("node"),
    "RelaySilent": {'isthmus_relay_account_silent_seconds{chain="evm",account="a"}': "130x80"},
    "RelaySlotStuck": {'isthmus_relay_slot_oldest_seconds{chain="evm"}': "3700x80"},
    "WebhookReceiverFailing": {'isthmus_webhooks_unwell{state="failing"}': "1x80"},
    "WebhookSenderSilent": {"isthmus_webhook_sender_silent_seconds": "90x80"},
    "WebhooksLate": {"isthmus_webhook_oldest_due_seconds": "400x80"},
    "DatabaseDown": {"isthmus_warehouse_up": "0x80"},
    "DiskNearlyFull": {"isthmus_disk_free_ratio": "0.05x80"},
    "NoSynchronousStandby": {"isthmus_synchronous_standbys": "0x80"},
    "ReplicaBehind": {'isthmus_replication_lag_bytes{slot="s"}': "300000000x80"},
    "BackupTooOld": {"isthmus_backup_age_seconds": "100000x80"},
    "WalArchiveStuck": {"isthmus_wal_archive_age_seconds": "1000x80"},
    "ClockSkew": {"isthmus_clock_skew_seconds": "-7x80"},
    "CertificateEnding": {"isthmus_certificate_seconds_left": "1000000x80"},
    "ProcessDown": {'up{job="isthmus-relay",instance="relay"}': "0x80"},
    "ExporterMissing": {"isthmus_warehouse_up": None},
    "ApiErrors": {'isthmus_requests_total{route="/",status="500"}': "0+5x80"},
    "ApiSlow": SLOW,
    "ApiShedding": {'isthmus_requests_shed_total{reason="waited"}': "0+1x80"},
}
"""Alert → series that differ when its fault is there; None: missing."""


def run(*command: str | Path) -> str:
    """Output of a tool of Debian's packages prometheus and prometheus-alertmanager."""
    if shutil.which(str(command[0])) is None:
        pytest.fail(f"{command[0]} is missing: apt-get install prometheus prometheus-alertmanager")
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def firing(series: Mapping[str, str | None], expected: list[str]) -> dict[str, Any]:
    """A test of promtool: which alerts fire after 400 seconds of these series."""
    inputs = {**WELL, **series}
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in expected]
    return {
        "name": expected[0] if expected else "well",
        "interval": "5s",
        "input_series": [
            {"series": name, "values": values} for name, values in inputs.items() if values
        ],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": "395s",
                "exp_samples": samples,
            }
        ],
    }


def test_each_fault_fires_its_own_alert_alone(tmp_path: Path) -> None:
    tests = [firing({}, []), *(firing(series, [name]) for name, series in FAULTS.items())]
    given = {"rule_files": [str(RULES)], "evaluation_interval": "5s", "tests": tests}
    file = tmp_path / "rules_test.yaml"
    file.write_text(yaml.safe_dump(given))
    run("promtool", "test", "rules", file)


def test_every_alert_has_a_fault() -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    assert {rule["alert"] for group in groups for rule in group["rules"]} == set(FAULTS)


def test_examples_are_valid() -> None:
    run("promtool", "check", "config", FOLDER / "prometheus.yaml")
    run("amtool", "check-config", FOLDER / "alertmanager.yaml")


def test_expressions_of_dashboards_parse(tmp_path: Path) -> None:
    asked = [expression for each in DASHBOARDS for expression in expressions(each)]
    # `$__rate_interval` is Grafana's.
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "1m")}
        for number, expression in enumerate(asked)
    ]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    assert f"{len(asked)} rules found" in run("promtool", "check", "rules", file)
