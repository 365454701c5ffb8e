"""Part `load`: thousands of sockets on two API machines while the book moves and requests come.

Each commit changes the offer of one of 100 providers, and each socket follows one of them: a commit
is a message to a hundredth of the sockets. The clock starts as COMMIT is sent, in this process, and
stops when the clients' process reads the message.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, func

from indexer.config.networks import load_network
from tests.factories.book import account
from tests.factories.projections import insert_cursor, insert_sender
from tests.system.bench.processor import family_seconds, processor_seconds
from tests.system.bench.site import milliseconds, percentile
from tests.system.chaos.transfers.crew import Spec
from tests.system.fleet.clients import following, requesting, result_of
from tests.system.fleet.fleet import Fleet, Plan, api_spec, running
from tests.system.fleet.hosts import Host
from tests.system.fleet.market import Market
from tests.system.fleet.postgres import do_not_wait_for_standby
from tests.system.fleet.sequence import SequenceResult, check_sequences
from tests.system.fleet.starts import Starts
from warehouse_schema.engine import make_engine

WARM_UP_SECONDS = 3.0
_WARM_UP_RATE = 20.0
_SETTLE_SECONDS = 5.0
"""For messages that are on their way when the last commit is done."""


@dataclass(frozen=True)
class Sizes:
    """Of a run. Rates are per second."""

    sockets: int = 10_000
    providers: int = 100
    commits: float = 200.0
    reads: float = 500.0
    writes: float = 50.0
    seconds: float = 60.0
    workers: int = 4
    """API processes of a machine."""
    synchronous: int = 1
    """0: commits do not wait for the standby."""


def measure(sizes: Sizes) -> dict[str, Any]:
    """One run; the figures."""
    with running(_plan(sizes)) as fleet:
        if not sizes.synchronous:
            do_not_wait_for_standby(fleet.primary)
        owner = make_engine(fleet.primary.url)
        indexer = make_engine(fleet.primary.url, role="indexer")
        market = Market(indexer, [f"provider {n}" for n in range(sizes.providers)])
        market.open()
        number = round(sizes.writes * (sizes.seconds + WARM_UP_SECONDS)) + 100
        starts = _prepare(owner, fleet, number)
        for each in fleet.machines:
            each.start()
        fleet.await_api()
        with _sockets(fleet, sizes) as sockets, _requests(fleet, sizes, starts) as requests:
            market.change_for(_WARM_UP_RATE, WARM_UP_SECONDS)
            first = market.model.height
            before, began = _Cpu.read(fleet, sockets, requests), time.monotonic()
            took = market.change_for(sizes.commits, sizes.seconds)
            used = _Cpu.read(fleet, sockets, requests).minus(before)
            answered = result_of(requests)
            time.sleep(_SETTLE_SECONDS)
            report = result_of(sockets)
        owner.dispose()
        indexer.dispose()
        sequence = check_sequences(market.ledgers_by_provider(), report)
        delays = _delays(market, report, first)
        return {
            "name": "fleet_load",
            "sockets": sizes.sockets,
            "commits_per_s": round((market.model.height - first) / took, 1),
            "p50_ms": milliseconds(percentile(delays, 0.50)),
            "p99_ms": milliseconds(percentile(delays, 0.99)),
            "max_ms": milliseconds(max(delays)),
            "deliveries_per_s": round(len(delays) / took),
            **_of_sequence(sequence, report),
            **_of_requests("reads", answered, began, took),
            **_of_requests("writes", answered, began, took),
            "asked_per_s": [sizes.commits, sizes.reads, sizes.writes],
            "seconds": round(took, 1),
            "waits_for_standby": bool(sizes.synchronous),
            "cores": used.cores(took),
            "us_per_delivery": used.per_delivery(len(delays)),
            "api_processes": sizes.workers * len(fleet.machines),
            "haproxy_processes": len(fleet.balancers),
            "load": round(os.getloadavg()[0], 1),
        }


def _plan(sizes: Sizes) -> Plan:
    def specs(host: Host, databases: Mapping[str, str], url: str, folder: Path) -> Sequence[Spec]:
        common = {
            "ISTHMUS_NETWORK": "devnet",
            "ISTHMUS_HOME": str(folder),
            "DATABASE_URL": databases["DATABASE_URL"],
            "ISTHMUS_STREAMS": str(sizes.sockets),
            "ISTHMUS_STREAMS_PER_ADDRESS": str(sizes.sockets),
            **{f"ISTHMUS_LIMIT_{what}": "off" for what in ("READS", "SIGN_IN", "OWNER")},
        }
        own = Starts(url).variables(folder / "keys")
        return [
            api_spec(host, sizes.workers, {**common, **databases, **own}),
            Spec("keeper", ("transfers",), common),
        ]

    return Plan(sizes.sockets, specs)


def _prepare(owner: Engine, fleet: Fleet, number: int) -> list[tuple[str, str]]:
    with owner.begin() as conn:
        for chain in load_network("devnet").chains:
            # Neither follower nor relay runs: their reports are dated an hour ahead.
            later = func.now() + timedelta(hours=1)
            insert_cursor(conn, chain.id, idle_seconds=-3_600, relayed=False, reported_at=later)
            insert_sender(conn, chain.id, silent_seconds=-3_600)
    return Starts(fleet.url).insert(owner, number)


@contextmanager
def _sockets(fleet: Fleet, sizes: Sizes) -> Iterator["subprocess.Popen[str]"]:
    providers = [str(account(f"provider {n}")) for n in range(sizes.providers)]
    began = time.monotonic()
    with following(fleet, sizes.sockets, providers) as process:
        _say(f"{sizes.sockets} sockets are open after {time.monotonic() - began:.1f} s")
        yield process


def _requests(
    fleet: Fleet, sizes: Sizes, starts: Sequence[tuple[str, str]]
) -> AbstractContextManager["subprocess.Popen[str]"]:
    return requesting(fleet, sizes.reads, sizes.writes, starts, again=False)


@dataclass(frozen=True)
class _Cpu:
    """Processor seconds by part."""

    seconds: Mapping[str, float]

    @classmethod
    def read(cls, fleet: Fleet, *clients: "subprocess.Popen[str]") -> "_Cpu":
        sockets, requests = (processor_seconds(each.pid) for each in clients)
        machine = Path("/proc/stat").read_text().splitlines()[0].split()
        return cls(
            {
                "api": sum(each.cpu_seconds("api") for each in fleet.machines),
                "pgbouncer": sum(
                    processor_seconds(each.programs["pgbouncer"].pid) for each in fleet.machines
                ),
                "publishers": sum(each.cpu_seconds("keeper") for each in fleet.machines),
                "haproxy": sum(processor_seconds(each.pid) for each in fleet.balancers),
                "primary": family_seconds(fleet.primary.program.pid),
                "standby": family_seconds(fleet.standby.program.pid),
                "writer": time.process_time(),
                "socket_clients": sockets,
                "request_clients": requests,
                # Of the machine: all but idle and waiting for the disk.
                "machine": sum(int(machine[n]) for n in (1, 2, 3, 6, 7)) / os.sysconf("SC_CLK_TCK"),
            }
        )

    def minus(self, before: "_Cpu") -> "_Cpu":
        return _Cpu({name: each - before.seconds[name] for name, each in self.seconds.items()})

    def cores(self, seconds: float) -> dict[str, float]:
        return {name: round(each / seconds, 2) for name, each in self.seconds.items()}

    def per_delivery(self, deliveries: int) -> dict[str, float]:
        """Microseconds, with all that the same processes did beside."""
        parts = ("api", "haproxy", "socket_clients")
        return {name: round(self.seconds[name] / deliveries * 1e6, 1) for name in parts}


def _delays(market: Market, report: Mapping[str, Any], first: int) -> list[float]:
    return [
        at - market.committed[ledger][1]
        for clients in report["received"].values()
        for received in clients
        for ledger, at in received
        if ledger >= first
    ]


def _of_sequence(sequence: SequenceResult, report: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "lost": sequence.lost,
        "twice": sequence.twice,
        "out_of_order": sequence.out_of_order,
        "gaps": report["gaps"],
        "reconnected": len(report["away"]),
    }


def _of_requests(
    name: str, answered: Mapping[str, Any], began: float, took: float
) -> dict[str, Any]:
    found = answered[name]
    counted = [seconds for due, seconds in found["answers"] if began <= due <= began + took]
    errors = [reason for _, reason in found["errors"]]
    return {
        f"{name}_per_s": round(len(counted) / took, 1),
        f"{name}_p99_ms": milliseconds(percentile(counted, 0.99)) if counted else None,
        f"{name}_errors": {reason: errors.count(reason) for reason in sorted({*errors})},
    }


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
