"""How long a chain's follower, or an account's relay, is without a writer after a fault of one.

Two processes contend for the lease (`tests.factories.takeover`). The clock runs from the fault to
the first commit of the other: of a range at 50 blocks a second, or of a turn every 20 ms. The
process with the fault recovers, or is started again, and is the standby of the next round.
"""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url

from devnet.evm_deployment import deploy
from devnet.evm_node import AnvilProcess
from devnet.world import remotes_of_evm
from indexer.addresses import evm_address
from tests.factories.takeover import (
    FAULTS,
    Contest,
    Stage,
    follower_contest,
    relay_contest,
    staged,
    takeover_seconds,
)
from tests.memory import server_folder
from tests.relay.conftest import EVM, RELAYER
from tests.system.bench.site import print_line
from warehouse_schema.embedded import EmbeddedPostgres
from warehouse_schema.engine import make_engine
from warehouse_schema.migrate import migrate

ROUNDS = 10


def measure() -> dict[str, Any]:
    """Seconds of the median and the slowest round, of each role and fault."""
    figures: dict[str, Any] = {"rounds": ROUNDS}
    with (
        server_folder("takeover") as folder,
        EmbeddedPostgres(folder / "data") as server,
        _node(folder) as node,
    ):
        account = f"{EVM.id} {evm_address(RELAYER.address)}"
        for contest in (follower_contest(), relay_contest(account, node)):
            url = make_url(server.url(contest.role))
            migrate(url)
            engine = make_engine(url)
            with staged(contest, engine, url) as stage:
                figures |= _measure(contest, stage)
            engine.dispose()
    return figures


def _measure(contest: Contest, stage: Stage) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    active, standby = stage.start_both()
    for name, fault in FAULTS.items():
        seconds = []
        for _ in range(ROUNDS):
            seconds.append(takeover_seconds(stage.observer, partial(fault, active), standby))
            print_line(f"{contest.role} {name}: {seconds[-1]:.2f} s")
            active.recover()
            if name == "kill":
                active.end()
                active = stage.start()
            stage.observer.wait_for_standby(active)
            active, standby = standby, active
        figures[f"{contest.role}_{name}_p50_s"] = round(statistics.median(seconds), 2)
        figures[f"{contest.role}_{name}_max_s"] = round(max(seconds), 2)
    return figures


@contextmanager
def _node(folder: Path) -> Iterator[str]:
    with (
        AnvilProcess(log_file=folder / "anvil.log") as anvil,
        deploy(anvil.rpc_url, remotes_of_evm()),
    ):
        yield anvil.rpc_url
