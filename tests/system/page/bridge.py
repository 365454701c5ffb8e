"""The whole service on local chains, with its pages: what customers play transfers on."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
from sqlalchemy.engine import URL
from stellar_sdk import Keypair, TransactionEnvelope

from devnet import circle, services
from devnet.customers import ASSETS, Customer, Purse, customer, open_accounts
from devnet.keys import RELAY, SPONSOR, make_keys, make_relay_keys
from devnet.stellar.accounts import keypair
from devnet.supervisor import Supervisor, free_port
from devnet.transfers import await_routes
from devnet.world import Pace, World, start_world
from indexer.config.settings import load_settings

BEAT_SECONDS = 1.0
"""Of ledgers and blocks: a chain without new ones counts as unwell after a minute."""


@dataclass(frozen=True)
class Bridge:
    """What runs."""

    url: str
    world: World
    wait: Callable[[float], None]
    """Waits that many seconds and checks the processes."""
    relay: int
    """Process group of the relay."""

    def open(self, **purses: Purse) -> None:
        """Fund these customers on both chains."""
        open_accounts(purses, self.world.stellar, self.world.evm)

    def customer(self, name: str) -> Customer:
        """A client of the API for that customer's keys. Close it."""
        return customer(name, self.url)

    def token(self, key: Keypair) -> str:
        """A new token of that account."""
        challenge = self.get(f"/auth?account={key.public_key}").json()
        envelope = TransactionEnvelope.from_xdr(
            challenge["transaction"], challenge["network_passphrase"]
        )
        envelope.sign(key)
        answer = httpx.post(f"{self.url}/auth", json={"transaction": envelope.to_xdr()})
        return str(answer.raise_for_status().json()["token"])

    @contextmanager
    def frozen_relay(self) -> Iterator[None]:
        """The relay does nothing until the block ends. A minute later routes are unavailable."""
        os.killpg(self.relay, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(self.relay, signal.SIGCONT)

    def on_evm(self, address: str) -> int:
        """USDC held there, base units."""
        return self.world.evm.balance_of(self.world.evm.addresses.usdc, address)

    def on_stellar(self, account: str) -> int:
        """USDC held there, base units."""
        return self.world.stellar.balance(account, ASSETS["usdc"])

    def get(self, path: str) -> httpx.Response:
        """A public answer of the API."""
        return httpx.get(f"{self.url}{path}", timeout=60.0)


@contextmanager
def running_bridge(database: URL, folder: Path) -> Iterator[Bridge]:
    """All of it on a migrated database, until the block ends; its logs are in the folder."""
    with ExitStack() as doors:
        supervisor = doors.enter_context(Supervisor(folder, lambda _line: None))
        pace = Pace(block_seconds=BEAT_SECONDS, ledger_seconds=BEAT_SECONDS)
        world = doors.enter_context(start_world(supervisor, evm_port=0, stellar_port=0, pace=pace))
        attestations = doors.enter_context(circle.reading(world.evm_url, world.stellar_url))
        iris = doors.enter_context(circle.serving(0, attestations))
        url = database.render_as_string(hide_password=False)
        settings = services.with_world(load_settings({}), world, iris)
        settings = replace(settings, home=folder, database_url=url)
        for name in (RELAY, SPONSOR):
            world.stellar.fund(keypair(name).public_key)
        ports = services.Ports(api=free_port(0), page=0, code=0)
        variables = {**services.environment(settings), "DATABASE_URL": url}
        relay_keys = make_relay_keys(folder / "keys", settings.network)
        *_, relay, _ = supervisor.run_together(
            *(services.follower(chain.id, variables) for chain in settings.network.chains),
            services.attester(variables),
            services.keeper(variables),
            services.relay({**variables, **relay_keys}),
            services.api(ports, _with_api_keys(variables, folder, ports), workers=1),
        )
        running = Bridge(ports.api_url, world, supervisor.wait, relay.pid)
        people = doors.enter_context(_closing(running.customer("zoe")))
        await_routes(people.api, lambda: supervisor.wait(0.2))
        yield running


def _with_api_keys(
    variables: Mapping[str, str], folder: Path, ports: services.Ports
) -> dict[str, str]:
    return {**variables, **make_keys(folder / "keys", ports.api_url)}


@contextmanager
def _closing(someone: Customer) -> Iterator[Customer]:
    try:
        yield someone
    finally:
        someone.close()
