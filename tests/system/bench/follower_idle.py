"""What following costs while nothing of ours happens: shares of one core, at the head.

Blocks and ledgers come once a second and hold nothing. First the chains run by themselves, then
with one bare follower at a time, then with both under the orchestrator. What a node and Postgres
take beyond the first of these is what the followers cause there. The orchestrator is measured
after its first export, which reads every day so far, and over a whole turn of the scheduled checks.
"""

import json
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from sqlalchemy import NullPool, create_engine, text

from devnet import services
from devnet.world import Pace
from indexer.config.warehouse import embedded_postgres
from tests.system.bench.processor import family_seconds, processor_seconds
from tests.system.bench.site import (
    Commits,
    Site,
    follower_pids,
    print_line,
    site,
    start_orchestrator,
)

SECONDS = 30.0
SETTLED_SECONDS = 5.0
"""Imports, first connections and catching up are not idling."""
ORCHESTRATOR_SECONDS = 120.0
"""The checks are scheduled every two minutes."""
FIRST_EXPORT = "export_figures"
"""Job that ends what the orchestrator does on new databases: facts, figures, then their export."""
TIMEOUT_SECONDS = 120.0
FIRST_EXPORT_SECONDS = 900.0

Shares = dict[str, float]


def measure() -> dict[str, Any]:
    """Shares of one core over `seconds` each; `cpu_share` is the greater bare follower's."""
    with site(Pace(block_seconds=1, ledger_seconds=1)) as running:
        alone = _shares(running, SETTLED_SECONDS, {})
        print_line(f"no follower: {alone}")
        network = running.settings.network
        bare = {
            kind: _bare(running, chain, kind, alone)
            for kind, chain in (("evm", network.evm[0].id), ("stellar", network.stellar.id))
        }
        orchestrated = _orchestrated(running)
    return {
        "cpu_share": max(shares["follower"] for shares in bare.values()),
        "orchestrated_postgres": orchestrated["postgres"],
        "orchestrated_daemon": orchestrated["daemon"],
        "bare": bare,
        "orchestrated": orchestrated,
        "block_seconds": 1,
        "seconds": {"bare": SECONDS, "orchestrated": ORCHESTRATOR_SECONDS},
        "of": "one core; a bare follower's node and postgres: what it adds to them",
    }


def _bare(running: Site, chain: str, kind: str, alone: Shares) -> Shares:
    child = running.supervisor.run(services.follower(chain, running.variables))
    _await_commits(running, [chain])
    shares = _shares(running, SETTLED_SECONDS, {"follower": child.pid})
    child.stop()
    print_line(f"{chain} followed: {shares}")
    return {
        "follower": shares["follower"],
        "node": round(shares[kind] - alone[kind], 4),
        "postgres": round(shares["postgres"] - alone["postgres"], 4),
    }


def _orchestrated(running: Site) -> Shares:
    parts = start_orchestrator(running)
    _await_commits(running, [chain.id for chain in running.settings.network.chains])
    runs = follower_pids(running.settings)
    _await_first_export(running)
    shares = _shares(
        running,
        SETTLED_SECONDS,
        {name: child.pid for name, child in parts.items()} | runs,
        ORCHESTRATOR_SECONDS,
    )
    print_line(f"orchestrated: {shares}")
    return shares


def _await_first_export(running: Site) -> None:
    ended = text("SELECT count(*) FROM runs WHERE pipeline_name = :job AND status = 'SUCCESS'")
    engine = create_engine(running.variables["ISTHMUS_DAGSTER_URL"], poolclass=NullPool)
    deadline = time.monotonic() + FIRST_EXPORT_SECONDS
    while True:
        with engine.connect() as conn:
            if conn.execute(ended, {"job": FIRST_EXPORT}).scalar_one():
                return
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {FIRST_EXPORT} ended after {FIRST_EXPORT_SECONDS} s")
        running.supervisor.wait(1)


def _shares(
    running: Site, settle: float, more: Mapping[str, int], seconds: float = SECONDS
) -> Shares:
    """What each of these, the nodes and Postgres take of a core, once things have settled."""
    running.supervisor.wait(settle)
    meters = {
        "evm": partial(processor_seconds, _pid(running, "evm")),
        "stellar": partial(processor_seconds, _pid(running, "stellar")),
        "postgres": partial(family_seconds, _postmaster(running)),
        **{name: partial(processor_seconds, pid) for name, pid in more.items()},
    }
    began = time.monotonic()
    before = {name: read() for name, read in meters.items()}
    running.supervisor.wait(seconds)
    after = {name: read() for name, read in meters.items()}
    took = time.monotonic() - began
    return {name: round((after[name] - before[name]) / took, 4) for name in meters}


def _pid(running: Site, name: str) -> int:
    entries = json.loads((running.supervisor.folder / "processes.json").read_text())
    return next(int(entry["pid"]) for entry in entries if entry["name"] == name)


def _postmaster(running: Site) -> int:
    data = embedded_postgres(running.settings).data_dir
    return int((data / "postmaster.pid").read_text().split()[0])


def _await_commits(running: Site, chains: Iterable[str]) -> None:
    """Return once each chain has a new commit."""
    watching = [Commits(running.settings, chain) for chain in chains]
    for each in watching:
        each.start()
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not all(each.seen for each in watching):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no commit on every chain after {TIMEOUT_SECONDS} s")
        running.supervisor.wait(0.1)
    for each in watching:
        each.stop()
