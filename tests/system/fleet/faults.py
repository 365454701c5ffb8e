"""Part `faults`: each part of the fleet fails once while customers use it.

Followers, attester, relay and webhook sender run in pairs on local chains; customers move money
through the API, sockets follow the book, and requests come at a steady rate. A row for each fault
says what clients saw and how long it took; at the end everything is compared with the chains.
"""

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Engine, text

from tests.system.chaos.chains import CHAINS, EVM, STELLAR
from tests.system.chaos.transfers.crew import Spec
from tests.system.fleet.book_moves import BookMoves
from tests.system.fleet.clients import following, requesting, result_of
from tests.system.fleet.customers import Customers
from tests.system.fleet.fault_list import FAULTS, Fault, Scene
from tests.system.fleet.fleet import Fleet, Plan, running
from tests.system.fleet.hosts import Host
from tests.system.fleet.outside import Outside, outside_world
from tests.system.fleet.postgres import read_write_url
from tests.system.fleet.programs import FleetFailed, wait_for
from tests.system.fleet.sequence import check_sequences
from tests.system.fleet.service import service_specs
from tests.system.fleet.starts import Starts
from tests.system.fleet.timeline import longest_pause, message_pause, of_requests, of_sockets
from tests.system.fleet.watch import Watch
from warehouse_schema.engine import make_engine, warehouse_url

_PROVIDERS = 10
_MOVE_SECONDS = 0.5
_QUOTES = 6_000
_SETTLED_SECONDS = 3.0
_SETTLE_TIMEOUT = 90.0
_STREAMED = text("""
    SELECT entry ->> 'provider', ledger FROM projections.stream_events
     WHERE channel = 'orderbook' ORDER BY id
""")
_MISSING = text("""
    SELECT count(*) FROM unnest(CAST(:ids AS text[])) AS a(id)
     WHERE NOT EXISTS (SELECT FROM intake.transfers AS t WHERE t.id = a.id OR t.quote = a.id)
""")


@dataclass(frozen=True)
class FaultSizes:
    """Of a run. Rates are per second."""

    follow: int = 500
    """Sockets."""
    gets: float = 20.0
    posts: float = 5.0
    transfers: int = 60
    """At most; one starts every `apart` seconds."""
    apart: float = 4.0
    processes: int = 2
    """API processes of a machine."""
    seed: int = 1
    only: str = ""
    """Faults whose part or kind contains one of these, with commas between."""

    def wants(self, name: str) -> bool:
        """Whether a fault is to be planted."""
        return any(each in name for each in self.only.split(","))


@dataclass(frozen=True)
class Window:
    """A fault, and when it was planted, mended and over."""

    fault: Fault
    began: float
    mended: float
    ended: float
    leases: Mapping[tuple[int, str], float | None]
    """Leases of the processes that it hit: when another process took each."""


def run_faults(sizes: FaultSizes) -> list[dict[str, Any]]:
    """A row for each fault, and one with what was compared at the end."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="isthmus-fleet-outside-"))
        stack.callback(shutil.rmtree, folder)
        outside = stack.enter_context(outside_world(folder, sizes.seed))
        fleet = stack.enter_context(running(_plan(outside, sizes)))
        run = _Run(outside, fleet, sizes)
        run.prepare()
        windows = run.play()
        return [*(run.row(each) for each in windows), run.verdict()]


def _plan(outside: Outside, sizes: FaultSizes) -> Plan:
    def specs(host: Host, databases: Mapping[str, str], url: str, folder: Path) -> Sequence[Spec]:
        tokens = Starts(url).variables
        return [*service_specs(outside, host, databases, url, folder, tokens, sizes.processes)]

    return Plan(sizes.follow, specs, outside.ports)


class _Run:
    """One run, from its preparation to the verdict."""

    def __init__(self, outside: Outside, fleet: Fleet, sizes: FaultSizes) -> None:
        self._outside, self._fleet, self._sizes = outside, fleet, sizes
        self._customers = Customers(outside, fleet.url, sizes.transfers, sizes.seed)
        names = [f"fleet provider {n}" for n in range(_PROVIDERS)]
        self._moves = BookMoves(outside.ledgers, names)
        servers = [fleet.primary, fleet.standby]
        self._watch = Watch(read_write_url(servers))
        self._owner: Engine = make_engine(warehouse_url(read_write_url(servers)))
        self._requests: dict[str, Any] = {}
        self._sockets: dict[str, Any] = {}

    def prepare(self) -> None:
        """Everything runs, and both followers are at their heads."""
        _say("opening accounts")
        self._customers.open_accounts()
        self._moves.open()
        self._customers.note_supply()
        self._starts = Starts(self._fleet.url).insert(self._owner, _QUOTES)
        for machine in self._fleet.machines:
            machine.start()
        self._fleet.await_api()
        self._watch.start()
        head = self._outside.chains.stellar.latest.sequence
        wait_for("followers are at their heads", lambda: self._watch.height(STELLAR) >= head)
        block = self._outside.chains.evm.block_number()
        wait_for("followers are at their heads", lambda: self._watch.height(EVM) >= block)
        _say(f"everything runs; load {os.getloadavg()[0]:.1f}")

    def play(self) -> list[Window]:
        """All faults, under load."""
        over = threading.Event()
        sizes, fleet = self._sizes, self._fleet
        with ExitStack() as stack, ThreadPoolExecutor(4) as pool:
            stack.callback(self._watch.stop)
            sockets = stack.enter_context(following(fleet, sizes.follow, self._moves.addresses))
            requests = stack.enter_context(
                requesting(fleet, sizes.gets, sizes.posts, self._starts, again=True)
            )
            calm = threading.Event()
            restarting = threading.Event()
            beside: list[Future[None]] = [
                pool.submit(self._moves.go_on, calm, _MOVE_SECONDS),
                *(pool.submit(each.restart_ended, restarting) for each in fleet.machines),
            ]
            paying = pool.submit(self._customers.run, over, sizes.apart)
            try:
                time.sleep(_SETTLED_SECONDS)
                windows = [self._plant(each) for each in FAULTS if sizes.wants(each.name)]
                over.set()
                _say("no more faults; waiting for the transfers under way")
                paying.result()
            finally:
                over.set()
                calm.set()
                restarting.set()
            for each in beside:
                each.result()
            self._requests = result_of(requests)
            time.sleep(_SETTLED_SECONDS)
            self._sockets = result_of(sockets)
        return windows

    def _plant(self, fault: Fault) -> Window:
        scene = Scene(self._fleet, self._watch, self._sizes.seed)
        held = self._watch.holders()
        began = time.monotonic()
        with fault.plant(scene):
            time.sleep(max(0.0, fault.seconds - (time.monotonic() - began)))
        mended = time.monotonic()
        settled = self._settle(mended)
        taken = {
            lease: self._watch.taken_after(lease, began)
            for lease, pid in held.items()
            if pid in scene.victims
        }
        window = Window(fault, began, mended, time.monotonic(), taken)
        _say(
            f"{fault.part}: {fault.what}: {'settled' if settled else 'NOT settled'} after"
            f" {window.ended - began:.1f} s; load {os.getloadavg()[0]:.1f}"
        )
        return window

    def _settle(self, mended: float) -> bool:
        """Wait until everything serves again; whether it does."""

        def serves() -> bool:
            moved = all(
                (moves := self._watch.moves(chain)) and moves[-1] > mended for chain in CHAINS
            )
            return moved and self._fleet.is_healthy()

        try:
            wait_for("everything serves again", serves, _SETTLE_TIMEOUT)
        except FleetFailed:
            return False
        time.sleep(_SETTLED_SECONDS)
        return serves()

    def row(self, window: Window) -> dict[str, Any]:
        """What was seen of a fault."""
        since, until = window.began, window.ended
        taken = [round(at - since, 2) for at in window.leases.values() if at is not None]
        reads, writes = (
            of_requests(self._requests[kind], since, until) for kind in ("reads", "writes")
        )
        return {
            "name": "fleet_fault",
            "part": window.fault.part,
            "what": window.fault.what,
            "lasted_s": round(window.mended - since, 1),
            "reads": reads,
            "writes": writes,
            "sockets": of_sockets(self._sockets, since, until),
            "no_message_s": message_pause(self._sockets, since, until),
            **{
                f"no_{chain.partition(':')[0]}_block_s": round(
                    longest_pause(self._watch.moves(chain), since, until), 2
                )
                for chain in CHAINS
            },
            "leases_lost": len(window.leases),
            "leases_taken": len(taken),
            "leases_taken_s": max(taken, default=None),
        }

    def verdict(self) -> dict[str, Any]:
        """What is compared at the end."""
        self._customers.judge()
        result = self._customers.result
        with self._owner.connect() as conn:
            committed: dict[str, list[int]] = {}
            for provider, ledger in conn.execute(_STREAMED):
                committed.setdefault(provider, []).append(ledger)
            ids = [*self._requests["acknowledged"], *self._customers.acknowledged]
            missing = conn.scalar(_MISSING, {"ids": ids})
        self._owner.dispose()
        sequence = check_sequences(committed, self._sockets)
        return {
            "name": "fleet_faults",
            "acknowledged": len(ids),
            "acknowledged_lost": missing,
            "transfers": result.transfers,
            "completed": result.completed,
            "lost": result.lost,
            "double": result.double,
            "stuck": result.stuck,
            "findings": [*result.findings, *self._unexpected_ends()],
            "deliveries": sequence.deliveries,
            "deliveries_lost": sequence.lost,
            "twice": sequence.twice,
            "out_of_order": sequence.out_of_order,
            "gaps": self._sockets["gaps"],
            "refused": self._sockets["refused"],
            "offers_differ": self._offers_that_differ(),
            "load": round(os.getloadavg()[0], 1),
        }

    def _unexpected_ends(self) -> list[str]:
        return [
            f"{machine.host.name}: {each}"
            for machine in self._fleet.machines
            for process in machine.processes.values()
            for each in process.ended
        ]

    def _offers_that_differ(self) -> list[str]:
        """Offers of the API that are not the last ones on the chain."""
        with httpx.Client(base_url=self._fleet.url, trust_env=False, timeout=30.0) as http:
            offers = http.get("/api/v1/orderbook").raise_for_status().json()
        shown = {each["provider"]: each["rate"] for each in offers}
        return [
            f"{provider}: {shown.get(provider)} instead of {rate}"
            for provider, rate in self._moves.rates.items()
            if shown.get(provider) is None or round(float(shown[provider]) * 10**7) != rate
        ]


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
