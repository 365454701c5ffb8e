"""How fast history is read from a data lake on one core: ledgers with nothing of ours, and with.

The lake is a folder of recorded pubnet ledgers, over and over: their headers are rewritten so that
they follow one another, and everything behind the headers is as it was recorded. The process is
pinned to one core, threads that fetch and decompress included. Watched are a thousand accounts.
"""

import itertools
import os
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from stellar_sdk import StrKey, scval, xdr

from indexer.chains.stellar.lake import LakeReader
from indexer.chains.stellar.lake_store import LakeStore
from indexer.chains.stellar.xdr.ledgers import Ledger
from indexer.config.networks import StellarChain
from indexer.ingest.ranges import MAX_BLOCKS
from tests.factories.sdk_ledgers import header_entry, parse_meta, read_ledger, verify_ledger
from tests.factories.stellar_events import account
from tests.factories.stellar_lake import batch_of, compressed, name_of, recorded_raws, write_lake
from tests.factories.stellar_recorded import PUBNET
from tests.system.bench.site import print_line
from warehouse_schema.identifiers import Height

RECORDED = (51000294, 53312000, 63092988, 63092990)
"""Ledgers of protocols 20 to 26, 0.4 to 1.5 MB."""
MISSES = 600
HITS = 120
WATCHED = 1000
FIRST = 60_000_000
PARTITION = 64_000


@dataclass(frozen=True)
class Reading:
    """What reading a lake cost, in seconds."""

    ledgers: int
    hits: int
    events: int
    wall: float
    cpu: float


def measure_miss() -> dict[str, Any]:
    """Ledgers a second when nothing of ours is inside."""
    reading = _read(PUBNET, [account(str(number)) for number in range(WATCHED)], MISSES)
    if reading.hits:
        raise AssertionError(f"{reading.hits} of {reading.ledgers} ledgers had a needle in them")
    return _figures(reading)


def measure_hit() -> dict[str, Any]:
    """Ledgers a second when each is decoded and proven, and how that compares with the SDK."""
    began = time.process_time()
    ledgers = [parse_meta(recorded_raws()[height]) for height in RECORDED]
    parsing = time.process_time() - began
    whole = [_by_sdk(meta) for meta in ledgers]
    deciding = time.process_time() - began
    chain, watched = _ours(whole)
    reading = _read(chain, watched, HITS)
    if reading.hits != reading.ledgers or not reading.events:
        raise AssertionError(f"only {reading.hits} of {reading.ledgers} ledgers were decoded")
    each = reading.cpu / reading.ledgers
    return {
        **_figures(reading),
        "times_as_fast_as_the_sdk_parses": round(parsing / len(RECORDED) / each, 1),
        "times_as_fast_as_the_sdk_reads_and_proves": round(deciding / len(RECORDED) / each, 1),
    }


def _by_sdk(meta: xdr.LedgerCloseMeta) -> Ledger:
    verify_ledger(meta, PUBNET.passphrase)
    return read_ledger(meta, PUBNET.id)


def _ours(ledgers: Sequence[Ledger]) -> tuple[StellarChain, list[str]]:
    """A network and watched accounts with events in the ledgers that have any.

    A ledger without events is a hit as well: it names a transaction whose hash is a contract's id.
    """
    names = ("cctp_forwarder", "oft", "escrow", "rail_terms")
    emitters = {
        name: ledger.events[0].contract
        if ledger.events
        else StrKey.encode_contract(bytes.fromhex(ledger.transactions[0].hash))
        for name, ledger in zip(names, ledgers, strict=True)
    }
    topics = (
        xdr.SCVal.from_xdr_bytes(event.topics[1])
        for ledger in ledgers
        for event in ledger.events
        if event.contract == PUBNET.usdc_contract
    )
    found = list(dict.fromkeys(scval.from_address(topic).address for topic in topics))[:10]
    others = [account(str(number)) for number in range(WATCHED - len(found))]
    return replace(PUBNET, **emitters), [*found, *others]  # type: ignore[arg-type]


def _read(chain: StellarChain, watched: Sequence[str], count: int) -> Reading:
    with tempfile.TemporaryDirectory(prefix="isthmus-lake-") as folder, _one_core():
        print_line(f"writing {count} ledgers")
        store = LakeStore(_lake(Path(folder), count))
        reader = LakeReader(chain, store)
        # Skippers are compiled and names looked up by the first ledgers.
        reader.read(Height(FIRST), Height(FIRST + len(RECORDED)), watched)
        before = replace(reader.counts)
        began, used = time.monotonic(), time.process_time()
        events = 0
        for first in range(FIRST, FIRST + count, MAX_BLOCKS):
            last = min(first + MAX_BLOCKS, FIRST + count) - 1
            events += len(reader.read(Height(first), Height(last), watched).events)
        wall, cpu = time.monotonic() - began, time.process_time() - used
        reader.close()
        ledgers, hits = reader.counts.ledgers - before.ledgers, reader.counts.hits - before.hits
        return Reading(ledgers, hits, events, wall, cpu)


def _figures(reading: Reading) -> dict[str, Any]:
    return {
        "ledgers_per_s": round(reading.ledgers / reading.wall, 1),
        "ledgers_per_cpu_s": round(reading.ledgers / reading.cpu, 1),
        "hit_share": round(reading.hits / reading.ledgers, 3),
        "ledgers": reading.ledgers,
        "events": reading.events,
        "mean_ledger_bytes": sum(len(recorded_raws()[h]) for h in RECORDED) // len(RECORDED),
        "watched_accounts": WATCHED,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "cores": 1,
    }


@contextmanager
def _one_core() -> Iterator[None]:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _lake(folder: Path, count: int) -> str:
    url = write_lake(folder, [], per_partition=PARTITION, passphrase=PUBNET.passphrase)
    parent = bytes(32)
    for height, recorded in zip(range(FIRST, FIRST + count), itertools.cycle(RECORDED)):
        raw, parent = _following(recorded_raws()[recorded], height, parent)
        path = folder / name_of(height, height, 1, PARTITION)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(compressed(batch_of([raw], height)))
    return url


def _following(raw: bytes, height: int, parent: bytes) -> tuple[bytes, bytes]:
    """A ledger with the header of another place in the chain, and that header's hash."""
    entry = header_entry(raw)
    old = entry.to_xdr_bytes()
    entry.header.ledger_seq = xdr.Uint32(height)
    entry.header.previous_ledger_hash = xdr.Hash(parent)
    entry.hash = xdr.Hash(sha256(entry.header.to_xdr_bytes()).digest())
    return raw.replace(old, entry.to_xdr_bytes(), 1), entry.hash.hash
