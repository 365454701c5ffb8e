"""Whether transfers are moving, by rows of chains, relay and reconciliation."""

from typing import Any

import pytest
from sqlalchemy import Connection, insert, text, update

from indexer.config.networks import load_network
from indexer.service_status import ServiceStatus, service_status
from indexer.service_status.fold import ServiceVerdict
from tests.factories.intake import ask
from tests.factories.projections import (
    LEDGER,
    STELLAR,
    insert_cursor,
    insert_reconciliation,
    insert_sender,
)
from tests.factories.stage_history import make_terms
from warehouse_schema import facts, projections, relay
from warehouse_schema.identifiers import ChainId

NETWORK = load_network("testnet")
SEPOLIA = ChainId("eip155:11155111")
SECRET = "https://node.example/v2/SECRET"


@pytest.fixture
def well(connection: Connection) -> Connection:
    """Both chains at their heads, a relay account on each, and a reconciliation."""
    insert_cursor(connection, STELLAR, final_height=LEDGER)
    insert_cursor(connection, SEPOLIA, final_height=LEDGER - 64)
    insert_reconciliation(connection)
    return connection


def read(conn: Connection) -> ServiceStatus:
    return service_status(conn, NETWORK)


def set_cursor(conn: Connection, chain: str, **values: Any) -> None:
    conn.execute(update(facts.cursors).where(facts.cursors.c.chain == chain).values(**values))


def set_account(conn: Connection, chain: str, **values: Any) -> None:
    conn.execute(update(relay.health).where(relay.health.c.chain == chain).values(**values))


def find(conn: Connection, *found: tuple[str, str]) -> None:
    findings = [{"check": check, "detail": detail} for check, detail in found]
    conn.execute(update(projections.reconciliation).values(findings=findings))


def test_healthy_service_is_moving(well: Connection):
    status = read(well)
    assert (status.verdict, status.sentence) == ("moving", "Transfers are moving.")
    assert (status.problems, status.warnings, status.unknown) == ((), (), ())
    assert [(each.status.chain, each.status.final_height) for each in status.chains] == [
        (STELLAR, LEDGER),
        (SEPOLIA, LEDGER - 64),
    ]


def test_lanes_are_those_of_followed_chains(well: Connection):
    lanes = {tuple(each.lane): each.available for each in read(well).lanes}
    assert lanes == {
        ("usdc-deposit", SEPOLIA, STELLAR): True,
        ("usdc-withdraw", STELLAR, SEPOLIA): True,
        ("usdc-send", STELLAR, STELLAR): True,
    }


def test_lane_without_a_relay_account_is_not_served(well: Connection):
    well.execute(relay.health.delete().where(relay.health.c.chain == SEPOLIA))
    status = read(well)
    assert [each.lane.route for each in status.lanes] == ["usdc-deposit", "usdc-send"]
    assert status.verdict == "moving"


def test_unhealthy_chain_impairs_its_lanes(well: Connection):
    set_cursor(well, SEPOLIA, held=SECRET)
    status = read(well)
    assert status.verdict == "impaired"
    assert status.sentence == f"Some transfers are not moving: {SEPOLIA} is on hold."
    assert status.operator_sentence == (
        f"Some transfers are not moving: {SEPOLIA} ON_HOLD: on hold: {SECRET}."
    )
    assert {each.lane.route: each.available for each in status.lanes} == {
        "usdc-deposit": False,
        "usdc-withdraw": False,
        "usdc-send": True,
    }


def test_no_lane_available_is_stopped(well: Connection):
    set_cursor(well, STELLAR, updated_at=text("now() - interval '47 seconds'"))
    status = read(well)
    assert status.verdict == "stopped"
    assert status.sentence == f"Transfers are not moving: {STELLAR} stands still."


def test_relay_account_that_cannot_send_is_a_problem(well: Connection):
    set_account(well, SEPOLIA, well=False, reason="balance 12 is below its floor")
    status = read(well)
    assert status.sentence == (
        f"Some transfers are not moving: the relayer of {SEPOLIA} is not available right now."
    )
    assert "balance 12 is below its floor" in status.operator_sentence
    assert {each.lane.route: each.available for each in status.lanes}["usdc-withdraw"] is False


def test_submissions_without_budget_are_a_problem(well: Connection):
    report = relay.health.c.duty == "submit"
    reason = "the day's budget is used up"
    well.execute(
        update(relay.health).where(report).values(well=False, reason=reason, problem="budget")
    )
    status = read(well)
    assert status.sentence == (
        f"Some transfers are not moving: the relayer of {STELLAR} is not available right now."
    )
    assert f"no relay account can submit on {STELLAR} (submissions: {reason})" in (
        status.operator_sentence
    )
    assert {each.lane.route: each.available for each in status.lanes} == {
        "usdc-deposit": True,
        "usdc-withdraw": False,
        "usdc-send": False,
    }
    assert not status.warnings


def test_second_healthy_account_leaves_a_warning(well: Connection):
    insert_sender(well, SEPOLIA, account="second", silent_seconds=300)
    status = read(well)
    assert status.verdict == "moving"
    [warning] = status.warnings
    assert warning.startswith(f"relay account to deliver on {SEPOLIA}, second: no report for 30")


def test_sponsor_that_cannot_pay_is_a_warning(well: Connection):
    insert_sender(well, STELLAR, account="sponsor", duty="sponsor", well=False, reason="budget")
    status = read(well)
    assert (status.verdict, len(status.warnings)) == ("moving", 1)


@pytest.mark.parametrize(
    ("found", "verdict", "sentence"),
    [
        (
            [("transfers_move_on", "transfer a1 waits")] * 2,
            "impaired",
            "Some transfers are not moving: 2 transfers take longer than allowed for.",
        ),
        (
            [("movements_hold_all_facts", "eip155:1: the facts say 7")],
            "impaired",
            "Transfers are moving, but the sums of money do not add up (1 finding).",
        ),
    ],
    ids=["late", "sums"],
)
def test_findings_impair(well: Connection, found: Any, verdict: ServiceVerdict, sentence: str):
    find(well, *found)
    status = read(well)
    assert (status.verdict, status.sentence) == (verdict, sentence)
    assert found[0][1] in status.operator_sentence


def test_old_reconciliation_impairs(connection: Connection):
    insert_cursor(connection, STELLAR)
    insert_reconciliation(connection, age_seconds=3_700)
    status = read(connection)
    assert status.sentence == (
        "Transfers are moving, but the last reconciliation is over 60 minutes old."
    )
    assert [each.kind for each in status.readiness_problems] == ["sums"]


def test_empty_warehouse_is_unknown(connection: Connection):
    status = read(connection)
    assert status.verdict == "unknown"
    assert status.sentence == (
        f"It is not known whether transfers are moving: {STELLAR} has not been ingested yet; "
        "no relay has reported yet."
    )
    assert status.reconciliation is None


def test_chains_without_a_relay_are_unknown(connection: Connection):
    insert_cursor(connection, STELLAR, relayed=False)
    assert read(connection).verdict == "unknown"


def test_open_alarm_is_a_warning(well: Connection):
    row = {"chain": STELLAR, "kind": "undecodable", "subject": "7/a/1", "detail": "odd"}
    well.execute(insert(facts.alarms).values(row))
    status = read(well)
    assert status.verdict == "moving"
    assert status.warnings == (f"{STELLAR}: 1 open alarms",)


# Times of today's transfers.

FUNDED: dict[str, str | int | None] = {
    "stage": "FUNDED",
    "at": None,
    "chain": None,
    "tx": None,
    "clock": None,
}


def deliver(conn: Connection, number: int, seconds: int | None, *, days_ago: int = 0) -> None:
    """A transfer that was paid `seconds` before its delivery; None: its stages have no time."""
    terms = make_terms(
        id=f"{number:032x}",
        source_chain=SEPOLIA,
        dest_chain=ChainId(STELLAR),
        deposit_address=None,
    )
    ask(conn, terms)
    midnight = conn.scalar(text("SELECT extract(epoch FROM date_trunc('day', now(), 'UTC'))::int8"))
    completed = int(midnight or 0) + 1_000 - 86_400 * days_ago
    times = {"AWAITING_FUNDS": 900, "FUNDED": seconds, "CONFIRMING": 1, "COMPLETED": 0}
    timeline = [
        FUNDED | {"stage": stage, "at": None if seconds is None or at is None else completed - at}
        for stage, at in times.items()
    ]
    row = {
        "transfer": terms.id,
        "stage": "COMPLETED",
        "timeline": timeline,
        "completed_at": completed,
        "extras": [],
        "keys": [],
        "source_chain": SEPOLIA,
        "inputs": 1,
    }
    conn.execute(insert(projections.transfer_states).values(row))


def test_median_is_of_todays_transfers_from_payment_to_delivery(well: Connection):
    for number, seconds in enumerate((30, 50, 400)):
        deliver(well, number, seconds)
    deliver(well, 9, 5_000, days_ago=1)
    medians = {each.lane.route: each.durations.median_today for each in read(well).lanes}
    assert medians == {"usdc-deposit": 50, "usdc-withdraw": None, "usdc-send": None}


def p90s(conn: Connection) -> dict[str, int | None]:
    return {each.lane.route: each.durations.p90 for each in read(conn).lanes}


def test_p90_is_of_the_last_30_days(well: Connection):
    # 1 to 20 minutes; the nearest-rank 90th percentile of 20 is the 18th.
    for number in range(1, 21):
        deliver(well, number, 60 * number, days_ago=number % 29)
    for number in range(21, 60):
        deliver(well, number, 9_000, days_ago=31)
    assert p90s(well) == {"usdc-deposit": 18 * 60, "usdc-withdraw": None, "usdc-send": None}


def test_p90_of_19_transfers_is_not_known(well: Connection):
    for number in range(1, 20):
        deliver(well, number, 60)
    for number in range(20, 30):
        # Without a time: it counts for nothing.
        deliver(well, number, None)
    deliver(well, 31, 60, days_ago=31)
    [deposit] = [each for each in read(well).lanes if each.lane.route == "usdc-deposit"]
    assert deposit.durations == (60, None)
    deliver(well, 32, 60, days_ago=1)
    assert p90s(well)["usdc-deposit"] == 60
