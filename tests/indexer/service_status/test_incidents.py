"""Incidents from alarms: which are shown, and how they are merged."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, insert

from indexer.service_status.incidents import (
    ALARM_KINDS,
    MAX_INCIDENTS,
    PRIVATE_KINDS,
    recent_incidents,
)
from tests.factories.projections import STELLAR
from warehouse_schema.facts import alarms

ETHEREUM = "eip155:1"
OPERATIONS = Path(__file__).resolve().parents[3] / "docs" / "operations.md"


def alarm(
    conn: Connection,
    kind: str,
    began: float,
    ended: float | None = None,
    *,
    chain: str = STELLAR,
    subject: str = "7",
) -> None:
    """An alarm by hours ago."""
    row = {
        "chain": chain,
        "kind": kind,
        "subject": subject,
        "detail": "https://node.example/SECRET",
        "raised_at": func.now() - timedelta(hours=began),
        "cleared_at": None if ended is None else func.now() - timedelta(hours=ended),
    }
    conn.execute(insert(alarms).values(row))


def read(conn: Connection) -> list[tuple[str, str, float, float | None]]:
    """Chain, kind, and hours ago of begin and end."""
    now = conn.execute(func.now().select()).scalar_one()

    def hours(moment):
        return None if moment is None else round((now - moment) / timedelta(hours=1), 1)

    return [
        (each.chain, each.kind, hours(each.began_at), hours(each.ended_at))
        for each in recent_incidents(conn)
    ]


def test_open_incidents_come_first_then_the_newest(connection: Connection):
    alarm(connection, "undecodable", 50, 49)
    alarm(connection, "unproven", 20, 19)
    alarm(connection, "sequence_gap", 400)
    assert read(connection) == [
        (STELLAR, "OFFERS_HIDDEN", 400, None),
        (STELLAR, "UNPROVEN_BLOCK", 20, 19),
        (STELLAR, "EVENTS_UNREADABLE", 50, 49),
    ]


def test_alarms_within_six_hours_are_one_incident(connection: Connection):
    alarm(connection, "undecodable", 40, 30, subject="1")
    alarm(connection, "quarantined", 38, 37, subject="2")
    # Within six hours of the first alarm's end, not of the second's.
    alarm(connection, "undecodable", 25, 24.5, subject="3")
    alarm(connection, "undecodable", 18, 17, subject="4")
    alarm(connection, "undecodable", 25, 24, chain=ETHEREUM)
    assert read(connection) == [
        (STELLAR, "EVENTS_UNREADABLE", 18, 17),
        (ETHEREUM, "EVENTS_UNREADABLE", 25, 24),
        (STELLAR, "EVENTS_UNREADABLE", 40, 24.5),
    ]


def test_incident_with_one_open_alarm_is_open(connection: Connection):
    alarm(connection, "undecodable", 9, subject="1")
    alarm(connection, "undecodable", 8, 7, subject="2")
    assert read(connection) == [(STELLAR, "EVENTS_UNREADABLE", 9, None)]


@pytest.mark.parametrize(("ended", "shown"), [(24 * 29, 1), (24 * 31, 0)])
def test_incident_is_shown_for_30_days(connection: Connection, ended: int, shown: int):
    alarm(connection, "undecodable", 24 * 40, ended)
    assert len(read(connection)) == shown


def test_hold_of_any_kind_is_ingestion_stopped(connection: Connection):
    alarm(connection, "RetentionGap", 3, 2, subject=STELLAR)
    assert read(connection) == [(STELLAR, "INGESTION_STOPPED", 3, 2)]


@pytest.mark.parametrize("kind", [*sorted(PRIVATE_KINDS), "a_kind_to_come"])
def test_other_alarms_are_not_public(connection: Connection, kind: str):
    alarm(connection, kind, 3)
    assert read(connection) == []


def test_strangers_alarms_fill_a_bounded_list(connection: Connection):
    for number in range(400):
        hours = 24 * 29 - number * 1.5
        alarm(connection, "undecodable", hours, hours - 0.1, subject=str(number))
    assert len(read(connection)) == 1
    for number in range(130):
        hours = 700 - number * 5
        chain = f"eip155:{number}"
        alarm(connection, "undecodable", hours, hours - 0.1, chain=chain)
    assert len(read(connection)) == MAX_INCIDENTS


def test_documented_alarm_kinds_are_public_or_private():
    table = OPERATIONS.read_text().partition("\n## Alarms\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
    documented = {kind for cell in cells for kind in re.findall(r"`([a-z_]+)`", cell)}
    assert len(documented) > 10
    assert documented <= ALARM_KINDS.keys() | PRIVATE_KINDS
    assert not ALARM_KINDS.keys() & PRIVATE_KINDS
