"""The commands of docs/operations/backup.md, against a real Postgres and pgBackRest.

A relay delivers before and after the backup; the warehouse goes back to a time between two of its
deliveries. Figures go to standard output as one JSON line; `ISTHMUS_RESTORE_ROWS` adds generated
raw facts.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from devnet.evm import EvmDevnet
from indexer.config.settings import rpc_variable, variable_suffix
from relay.account import TurnReport
from tests.relay.conftest import AMOUNT, RELAYER, Message, Stand, node, open_stand
from tests.system.bench.raw_facts import INSERT
from tests.system.restore.conftest import PAGE, ROOT, Cluster, blocks
from warehouse_schema.engine import make_engine
from warehouse_schema.migrate import migrate

__all__ = ["node"]
ROWS = int(os.environ.get("ISTHMUS_RESTORE_ROWS", 10_000))


@contextmanager
def measured(figures: dict[str, float], name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    figures[name] = round(time.monotonic() - began, 1)


def deliver(stand: Stand) -> Message:
    """A message that is delivered and final."""
    message, relay = stand.add_message(), stand.relay()
    for _ in range(3):
        stand.turns(relay)
        stand.ingest()
    assert stand.received(message) == AMOUNT
    return message


def reconcile(stand: Stand, cluster: Cluster) -> subprocess.CompletedProcess[str]:
    """The page's last block, in the relay's environment."""
    [command] = blocks("sh", "Order after a restore")
    program, *arguments = command.split()
    assert program == "isthmus"
    code = "import sys; from indexer.cli.main import main; sys.exit(main())"
    key = cluster.folder / "relay-key"
    key.touch(mode=0o600)
    key.write_text(RELAYER.key.hex())
    env = {
        "PATH": os.environ["PATH"],
        "DATABASE_URL": cluster.url,
        "ISTHMUS_NETWORK": "devnet",
        rpc_variable(stand.chain.id): stand.url,
        f"ISTHMUS_RELAY_KEY_{variable_suffix(stand.chain.id)}_FILE": str(key),
    }
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )


def size_mb(folder: Path) -> float:
    return round(sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 2**20, 1)


def test_restore_to_a_time_and_to_the_end_pays_nothing_twice(
    cluster: Cluster, node: tuple[EvmDevnet, str], capsys: pytest.CaptureFixture[str]
):
    figures: dict[str, float] = {"rows": ROWS}
    url = make_url(cluster.url)
    migrate(url)
    engine = make_engine(url)
    with open_stand(Stand, node, url, engine) as stand:
        with stand.engine.begin() as conn:
            query = INSERT.format(table="facts.evm_logs")
            conn.exec_driver_sql(query, (0, ROWS - 1))
        first = deliver(stand)
        with measured(figures, "backup_s"):
            cluster.sh(blocks("sh", "Backups")[0])
        figures["data_mb"] = size_mb(cluster.data / "base")
        figures["backup_mb"] = size_mb(cluster.folder / "repository" / "backup")
        second = deliver(stand)
        with stand.engine.connect() as conn:
            # pgBackRest compares whole seconds: the time has to be in a later one than the backup.
            conn.execute(text("SELECT pg_sleep(2)"))
            moment = conn.scalar(text("SELECT clock_timestamp()::text"))
        third = deliver(stand)
        with stand.engine.begin() as conn:
            conn.execute(text("DELETE FROM relay.attempts"))
            conn.execute(text("DELETE FROM relay.slots"))
            # A segment is archived when the next one begins.
            conn.execute(text("SELECT pg_switch_wal()"))
        for each in (stand.engine, stand.relay_engine):
            each.dispose()
        to_the_end, to_a_time = blocks("sh", "Restore")
        with measured(figures, "restore_to_time_s"):
            cluster.sh(to_a_time, {"TIME": str(moment)})
        stand.ingested.clear()
        stand.engine.dispose()
        slots = [stand.slots_of(each) for each in (first, second, third)]
        assert slots == [[(0, "confirmed")], [(1, "confirmed")], []]
        refused = reconcile(stand, cluster)
        assert (refused.returncode, "let the follower" in refused.stdout) == (1, True)
        stand.ingest()
        with measured(figures, "relay_reconcile_s"):
            done = reconcile(stand, cluster)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "number 2 is confirmed: deliver" in done.stdout
        fourth = deliver(stand)
        assert stand.slots_of(fourth) == [(3, "confirmed")]
        assert stand.turns(stand.relay()) == TurnReport()
        with stand.engine.connect() as conn:
            conn.execute(text("SELECT pg_switch_wal()"))
        for each in (stand.engine, stand.relay_engine):
            each.dispose()
        with measured(figures, "restore_to_end_s"):
            cluster.sh(to_the_end)
        assert stand.slots_of(fourth) == [(3, "confirmed")]
        assert [stand.received(each) for each in (first, second, third, fourth)] == [AMOUNT] * 4
    engine.dispose()
    with capsys.disabled():
        sys.stdout.write(f"\n{json.dumps({'name': PAGE.stem, **figures})}\n")
