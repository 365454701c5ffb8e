"""What tests ask servers, and of the processes that servers are."""

import os
from pathlib import Path

import psycopg
import pytest

from warehouse_schema.embedded import Server

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="about what root does differently")
NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


def ask(server: Server, statement: str) -> str:
    with psycopg.connect(server.url("postgres", "postgresql")) as connection:
        row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return str(row[0])


def make_acknowledged_row(server: Server, number: int) -> None:
    with psycopg.connect(server.url("postgres", "postgresql")) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (number int)")
        connection.execute("INSERT INTO kept VALUES (%s)", (number,))


def postmaster_pid(home: Path) -> int:
    return int((home / "data" / "postmaster.pid").read_text().splitlines()[0])


def children_of(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # It ended while we looked.
        if int(after_name[1]) == parent:
            found.append(int(entry.name))
    return found
