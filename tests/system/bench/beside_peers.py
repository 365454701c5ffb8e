"""Isthmus beside other indexers of EVM chains: Subsquid and Ponder, each in a run of its own.

Both read the same chain from the same anvil and write to the same Postgres (fsync on), each to a
new database; they take turns, and which begins a round changes. The rows of both must have the
number and the sum of the events that were mined, or the run fails.

- `backfill`: 100,800 ERC-20 transfers in 400 blocks, one transaction a block. From exec of the
  process to the commit of the last row, which a poll every 20 ms sees: one every 5 ms took a tenth
  of a core from an indexer that uses both. Isthmus runs as `isthmus backfill`; Subsquid as
  `node lib/main.js`, which is what `sqd process` does; Ponder as `ponder start`. `cpu_s` is of the
  process until it has stopped, `postgres_cpu_s` of the server.
- `catch_up`: the same transfers by the live path, which goes on behind them: `isthmus follow`, and
  the peers without a last block.
- `beside_subsquid_with_projections`: both of these with 100,800 OFT sends of 5,000 senders. Isthmus
  stores each and folds its movement, the last of which ends a run. Subsquid stores each and adds it
  to the balance of its sender, read and written once a batch as its documentation advises.
- `head`: from the call of `evm_mine` for a block of five transfers until a poll every 2 ms sees the
  last of them. All three have the node's WebSocket. Each round starts a new process, and
  blocks of a warm-up are not counted. The next block is mined when the last is stored.

`peers/` has their configurations: no rate limit (Ponder has one for each URL, and is given the node
many times), Ponder's cache of RPC answers off as its documentation says for Anvil, and a finality
of 0 for Subsquid's backfill. Their packages are those of the lock files, installed under
`.cache/peers` at the first run.

`foreign_share` is what other processes had of all cores during the rounds, and `load_average` that
at the start. Ratios are the peer's time by that of Isthmus.

Not compared: Subsquid stores the decoded transfer alone. Ponder stores raw logs, blocks and
transactions too. Isthmus stores raw logs, asks for the events of all its contracts, proves the logs
of head blocks by their receipts, checks that blocks join, and folds movements and transfers; its
database has the warehouse's tables before the clock starts, as Subsquid's has its table. Ponder
makes its tables within the time.
"""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from tests.system.bench.indexers import (
    EVENTS,
    Indexer,
    isthmus_indexer,
    isthmus_movements,
    ponder_indexer,
    subsquid_balances,
    subsquid_indexer,
)
from tests.system.bench.log_chain import OFT_SENDS, TRANSFERS, Emitter
from tests.system.bench.npm_project import NotInstalled, install
from tests.system.bench.peer_runs import (
    BLOCKS,
    HEAD_BLOCKS,
    Rounds,
    open_bench,
)
from tests.system.bench.processor import ForeignLoad
from tests.system.bench.site import percentile

ROUNDS = 3
_PEERS = Path(__file__).parent / "peers"
_SUBSQUID = "@subsquid/evm-processor"


@dataclass(frozen=True)
class _Comparison:
    """A peer beside Isthmus, and what both read."""

    peer: str
    """Folder of its configuration in `peers/`."""
    package: str
    emitter: Emitter
    ours: Callable[[Path], Indexer]
    theirs: Callable[[Path], Indexer]
    is_followed: bool
    """Whether both are measured at the head too."""


def measure_subsquid() -> dict[str, Any]:
    """Isthmus and Subsquid in turns."""
    return _measure(
        _Comparison("subsquid", _SUBSQUID, TRANSFERS, isthmus_indexer, subsquid_indexer, True)
    )


def measure_projections() -> dict[str, Any]:
    """Isthmus with movements and Subsquid with balances in turns."""
    return _measure(
        _Comparison("subsquid", _SUBSQUID, OFT_SENDS, isthmus_movements, subsquid_balances, False)
    )


def measure_ponder() -> dict[str, Any]:
    """Isthmus and Ponder in turns."""
    return _measure(
        _Comparison("ponder", "ponder", TRANSFERS, isthmus_indexer, ponder_indexer, True)
    )


def _measure(compared: _Comparison) -> dict[str, Any]:
    try:
        folder = install(_PEERS / compared.peer)
    except NotInstalled as reason:
        return {"skipped": str(reason)}
    with open_bench(compared.emitter) as bench:
        pair = (compared.ours(bench.folder), compared.theirs(folder))
        found = {each.name: Rounds() for each in pair}
        load = ForeignLoad([os.getpid(), bench.postmaster])
        for number in range(ROUNDS):
            for indexer in pair if number % 2 == 0 else pair[::-1]:
                bench.backfill(indexer, found[indexer.name])
                bench.catch_up(indexer, found[indexer.name])
                if compared.is_followed:
                    bench.follow(indexer, found[indexer.name])
        foreign = load.share()
    return {
        "peer": f"{compared.package} {_version(folder, compared.package)}",
        "node_js": subprocess.check_output(["node", "--version"], text=True).strip(),
        "events": BLOCKS * EVENTS,
        **_history(*pair, found),
        **(_head(*pair, found) if compared.is_followed else {}),
        "rounds": ROUNDS,
        "load_average": round(load.average, 1),
        "foreign_share": round(foreign, 3),
    }


def _history(ours: Indexer, theirs: Indexer, found: Mapping[str, Rounds]) -> dict[str, Any]:
    mine, peers = found[ours.name], found[theirs.name]
    return {
        "backfill": {name: rounds.backfill() for name, rounds in found.items()},
        "backfill_ratio": _ratio(peers.seconds, mine.seconds),
        "catch_up": {name: rounds.catch_up() for name, rounds in found.items()},
        "catch_up_ratio": _ratio(peers.catch_up_seconds, mine.catch_up_seconds),
    }


def _head(ours: Indexer, theirs: Indexer, found: Mapping[str, Rounds]) -> dict[str, Any]:
    mine, peers = found[ours.name], found[theirs.name]
    return {
        "head": {name: rounds.head() for name, rounds in found.items()},
        "head_p50_ratio": round(percentile(peers.delays, 0.5) / percentile(mine.delays, 0.5), 2),
        "head_blocks": ROUNDS * HEAD_BLOCKS,
    }


def _ratio(theirs: Sequence[float], ours: Sequence[float]) -> float:
    """Of the rounds, the median."""
    return round(median(peer / mine for peer, mine in zip(theirs, ours, strict=True)), 2)


def _version(folder: Path, package: str) -> str:
    manifest = folder / "node_modules" / package / "package.json"
    return str(orjson.loads(manifest.read_bytes())["version"])
