"""How long after a ledger closes the API shows what it changed.

The clock starts when the stand-in is asked to close a ledger in which a provider's rate changes; it
stops when the answer of `GET /api/v1/orderbook` that holds the new rate has arrived. The API is
asked on one connection, 10 ms after each answer; that pause and its own time are part of the
figure. Follower, keeper (which publishes
notifications) and API run bare, each in a process of its own.
"""

import threading
import time
from typing import Any

from devnet import services
from devnet.expectations import UNIT, Terms, TermsKey, decimal
from devnet.local_http import local_client
from devnet.order_book import OrderBook
from devnet.scenario import PacedClient, real_time
from devnet.services import api, choose_ports, follower, keeper
from devnet.stellar.accounts import keypair
from devnet.world import Pace
from tests.system.bench.site import Site, milliseconds, percentile, print_line, site, until

CHANGES = 150
WARM_UP = 10
SECONDS_APART = 0.4
PAUSE_SECONDS = 0.01
TIMEOUT_SECONDS = 30.0
PROVIDER = "ana"
TERMS = TermsKey("onramp", "venmo", "USD")


class Watcher(threading.Thread):
    """Asks for the order book over and over, and notes when each rate was first seen."""

    def __init__(self, base_url: str) -> None:
        super().__init__(daemon=True)
        self._client = local_client(base_url, timeout=5.0)
        self._over = threading.Event()
        self.first_seen: dict[str, float] = {}
        self.asked = 0

    def run(self) -> None:
        """Ask until `stop`."""
        while not self._over.is_set():
            answer = self._client.get("/api/v1/orderbook")
            now = time.monotonic()
            self.asked += 1
            if answer.status_code == 200:
                for offer in answer.json():
                    self.first_seen.setdefault(offer["rate"], now)
            # Without a pause the asking itself would take a core from what is measured.
            time.sleep(PAUSE_SECONDS)

    def stop(self) -> None:
        """End the asking."""
        self._over.set()
        self.join()
        self._client.close()


def measure() -> dict[str, Any]:
    """p50 and p95 in milliseconds over 150 changes."""
    with site(Pace(ledger_seconds=None)) as running:
        base_url = _start(running)
        book, closings = _provider(running)
        watcher = Watcher(base_url)
        watcher.start()
        rates = [_reprice(book, n) for n in range(WARM_UP)]
        _wait_for(watcher, rates[-1])
        print_line(f"{CHANGES} changes {SECONDS_APART} s apart")
        closings.clear()
        began = time.monotonic()
        rates = []
        for n in range(CHANGES):
            until(began + n * SECONDS_APART)
            rates.append(_reprice(book, WARM_UP + n))
        _wait_for(watcher, rates[-1])
        watcher.stop()
    delays = [
        watcher.first_seen[rate] - closed for rate, closed in zip(rates, closings, strict=True)
    ]
    return {
        "p50_ms": milliseconds(percentile(delays, 0.50)),
        "p95_ms": milliseconds(percentile(delays, 0.95)),
        "max_ms": milliseconds(max(delays)),
        "changes": CHANGES,
        "requests": watcher.asked,
        "from": "devnet_closeLedger called",
        "to": "answer of GET /api/v1/orderbook with the change received",
    }


def _start(running: Site) -> str:
    ports = choose_ports()
    variables = services.environment(running.settings, ports)
    running.supervisor.run(follower(running.settings.network.stellar.id, variables))
    running.supervisor.run(keeper(variables))
    running.supervisor.run(api(ports, variables))
    return ports.api_url


def _provider(running: Site) -> tuple[OrderBook, list[float]]:
    """A provider that can be offered, and the list that each closing's start goes to."""
    closings: list[float] = []

    def next_close(last: int) -> int:
        closings.append(time.monotonic())
        return real_time(last)

    client = PacedClient(running.world.stellar_url, next_close)
    book = OrderBook(client)
    provider = client.open_account(PROVIDER, usdc=1_000 * UNIT)
    book.deposit(provider, 500 * UNIT)
    book.set_payee(provider, TERMS.rail, "@ana", publish=True)
    return book, closings


def _reprice(book: OrderBook, number: int) -> str:
    """Set a rate that nobody had before, in a ledger of its own; the rate as the API shows it."""
    rate = UNIT + number + 1
    provider = keypair(PROVIDER)
    book.set_terms(provider, [(TERMS, Terms(rate, 10 * UNIT, 100 * UNIT))])
    return decimal(rate)


def _wait_for(watcher: Watcher, rate: str) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while rate not in watcher.first_seen:
        if time.monotonic() > deadline:
            raise TimeoutError(f"rate {rate} is not shown after {TIMEOUT_SECONDS} s")
        time.sleep(0.01)
