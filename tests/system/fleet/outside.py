"""What the fleet reaches on this machine: both chains, attestations, owners' webhooks."""

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from devnet import circle
from devnet.keys import RELAY, SPONSOR, public_webhook_key, relay_account
from devnet.stellar.accounts import keypair
from devnet.webhook_receiver import make_certificate
from tests.system.chaos.chains import Chains, fresh_chains
from tests.system.chaos.faults import FaultyNodes
from tests.system.chaos.transfers.hooks import Hooks, hooks
from tests.system.chaos.transfers.world import Ledgers, SharedEvm, Weather, shared

RELAYS = (RELAY, "relay 2", "relay 3")
"""The relay's accounts on Stellar: each has one transaction under way."""


@dataclass(frozen=True)
class Outside:
    """Everything that no fault touches."""

    chains: Chains
    evm: SharedEvm
    ledgers: Ledgers
    iris: str
    hooks: Hooks
    certificate: Path

    @property
    def ports(self) -> list[int]:
        """Ports of this machine's loopback address that the service's processes need."""
        urls = (self.chains.evm_url, self.chains.stellar_url, self.iris, self.hooks.url)
        return [port for url in urls if (port := urlsplit(url).port) is not None]


@contextmanager
def outside_world(folder: Path, seed: int) -> Iterator[Outside]:
    """Both chains, on which time passes, and the services beside them; gone afterwards."""
    chance = random.Random(seed)
    with ExitStack() as stack:
        chains = stack.enter_context(fresh_chains(folder, chance))
        ledgers = stack.enter_context(closing(Ledgers(chains.stellar_url)))
        ledgers.close_ledger(close_time_ms=int(time.time() - 60) * 1000)
        for name in (*RELAYS, SPONSOR):
            ledgers.fund(keypair(name).public_key)
        attestations = stack.enter_context(circle.reading(chains.evm_url, chains.stellar_url))
        iris = stack.enter_context(circle.serving(0, attestations))
        certificate = make_certificate(folder / "keys")
        receivers = stack.enter_context(hooks(certificate, public_webhook_key(), chance, rate=0.0))
        receivers.heal()
        outside = Outside(chains, shared(chains.evm), ledgers, iris, receivers, certificate)
        stack.enter_context(_time_passes(outside, chance))
        yield outside


@contextmanager
def _time_passes(outside: Outside, chance: random.Random) -> Iterator[None]:
    """Blocks and ledgers, without reorganisations or faults of nodes."""
    nodes = FaultyNodes(outside.chains, chance, stopping=False)
    weather = Weather(
        outside.chains, outside.evm, outside.ledgers, nodes, chance, (), relay_account()
    )
    weather.is_calm.set()
    over = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        running: list[Future[None]] = [
            pool.submit(weather.go_on, over),
            pool.submit(weather.close_ledgers, over),
        ]
        try:
            yield
        finally:
            over.set()
            nodes.close()
    for each in running:
        each.result()
