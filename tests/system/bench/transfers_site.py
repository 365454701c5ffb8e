"""Everything that serves transfers, each process bare, for figures about them.

Both chains and what attests, on a durable Postgres; followers, attester, keeper, relay and API.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from devnet import circle, services
from devnet.databases import fresh_databases
from devnet.keys import RELAY, SPONSOR, make_keys, make_relay_keys
from devnet.scenario import PacedClient, real_time
from devnet.services import Ports, demo_settings, environment, with_world
from devnet.stellar.accounts import keypair
from devnet.supervisor import PostgresService, Supervisor, free_port
from devnet.world import Pace, World, start_world
from indexer.config.networks import load_network
from indexer.config.settings import Settings
from indexer.config.warehouse import embedded_postgres
from tests.memory import server_folder
from tests.system.bench.site import print_line


@dataclass(frozen=True)
class TransfersSite:
    """What runs. `ledgers` closes one for each transaction that it sends."""

    supervisor: Supervisor
    settings: Settings
    world: World
    ledgers: PacedClient
    ports: Ports


@contextmanager
def transfers_site() -> Iterator[TransfersSite]:
    """All of it, gone afterwards."""
    with ExitStack() as doors:
        folder = doors.enter_context(server_folder("bench", memory=None))
        settings = demo_settings(Settings(load_network("devnet"), folder, None, {}))
        supervisor = doors.enter_context(Supervisor(settings.home, print_line))
        supervisor.start(PostgresService(embedded_postgres(settings)))
        fresh_databases(settings)
        pace = Pace(ledger_seconds=None, ledger_clock="fixed")
        world = doors.enter_context(start_world(supervisor, evm_port=0, stellar_port=0, pace=pace))
        asked = doors.enter_context(circle.reading(world.evm_url, world.stellar_url))
        settings = with_world(settings, world, doors.enter_context(circle.serving(0, asked)))
        ledgers = doors.enter_context(closing(PacedClient(world.stellar_url, real_time)))
        # Ledgers close in real time from here on; the stand-in's own begin long ago.
        ledgers.close_ledger(close_time_ms=int(time.time() - 60) * 1000)
        for name in (RELAY, SPONSOR):
            ledgers.fund(keypair(name).public_key)
        ports = Ports(free_port(), page=0, code=0)
        _start(supervisor, settings, ports)
        yield TransfersSite(supervisor, settings, world, ledgers, ports)


def _start(supervisor: Supervisor, settings: Settings, ports: Ports) -> None:
    variables = environment(settings)
    keys = settings.home / "keys"
    for chain in settings.network.chains:
        supervisor.run(services.follower(chain.id, variables))
    supervisor.run(services.attester(variables))
    supervisor.run(services.keeper(variables))
    supervisor.run(services.relay({**variables, **make_relay_keys(keys, settings.network)}))
    supervisor.run(services.api(ports, {**variables, **make_keys(keys, ports.api_url)}))
