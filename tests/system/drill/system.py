"""The service on local chains, each process bare and with metrics, behind nodes that can fail."""

import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine

from devnet import circle, services
from devnet.customers import Purse, open_accounts
from devnet.databases import fresh_databases
from devnet.keys import RELAY, SPONSOR, make_keys, make_relay_keys
from devnet.local_http import HOST
from devnet.stellar.accounts import keypair
from devnet.stellar.client import DevnetClient
from devnet.supervisor import Child, ChildSpec, PostgresService, Supervisor, free_port
from devnet.webhook_receiver import Receiver, make_certificate, receiving
from devnet.world import Pace, World, start_world
from indexer.config.metrics import follower_metrics
from indexer.config.networks import load_network
from indexer.config.settings import Settings
from indexer.config.warehouse import database_url, embedded_postgres
from indexer.facts.cursors import Cursor, read_cursor
from tests.system.chaos.stellar_faults import FaultyStellarNode
from tests.system.drill.certificates import TlsSite
from tests.system.faults.proxy import FaultyHttp
from warehouse_schema.identifiers import ChainId

LEDGER_SECONDS = 1.0
CLOCK_BEHIND = 5
"""Seconds of the ledgers' times behind the clock."""
DISK_BYTES = 8 * 1024 * 1024
PROVIDER = "drill provider"
"""Devnet identity with USDC on Stellar."""
_POLL_SECONDS = 0.25


class DrillFailed(Exception):
    """A drill did not go as it must."""


def wait_until(condition: Callable[[], bool], about: str, *, seconds: float = 60.0) -> None:
    """Return once the condition holds. Raises `DrillFailed` after so long."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise DrillFailed(f"{about}: not within {seconds:g} s")
        time.sleep(_POLL_SECONDS)


class Ledgers(threading.Thread):
    """Closes a ledger each second while `is_closing`."""

    def __init__(self, client: DevnetClient) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._over = threading.Event()
        self.is_closing = True
        self._last = client.close_time() * 1000

    def run(self) -> None:
        """Until `stop`."""
        while not self._over.wait(LEDGER_SECONDS):
            if not self.is_closing:
                continue
            now = int((time.time() - CLOCK_BEHIND) * 1000)
            self._last = max(self._last + 1000, now)
            self._client.close_ledger(close_time_ms=self._last)

    def stop(self) -> None:
        """End it."""
        self._over.set()
        self.join()


@dataclass
class System:
    """Everything that runs, and its handles."""

    folder: Path
    disk: Path
    """`ISTHMUS_HOME`: a small disk of its own."""
    supervisor: Supervisor
    postgres: PostgresService
    settings: Settings
    world: World
    first_empty_block: int
    """Height from which on the EVM chain has no contract of ours."""
    evm_nodes: tuple[FaultyHttp, FaultyHttp]
    stellar_node: FaultyStellarNode
    ledgers: Ledgers
    attestations: circle.Attestations
    circle_port: int
    receiver: Receiver
    site: TlsSite
    owner: Engine
    """The warehouse, as its owner."""
    ports: services.Ports
    variables: dict[str, str]
    backup_file: Path
    targets: dict[str, str] = field(default_factory=dict)
    """Job → address of metrics."""
    specs: dict[str, ChildSpec] = field(default_factory=dict)
    children: dict[str, Child] = field(default_factory=dict)
    doors: ExitStack = field(default_factory=ExitStack)
    circle_doors: ExitStack = field(default_factory=ExitStack)

    @property
    def evm(self) -> ChainId:
        """CAIP-2 id of the EVM chain."""
        return self.settings.network.evm[0].id

    @property
    def stellar(self) -> ChainId:
        """CAIP-2 id of the Stellar chain."""
        return self.settings.network.stellar.id

    def start(self, name: str, **changes: str) -> None:
        """Start a process, or start it again, with changes of its environment."""
        if name in self.children:
            self.children[name].stop()
        spec = self.specs[name]
        spec = replace(spec, environment={**spec.environment, **changes})
        child = self.supervisor.child(spec)
        self.children[name] = child
        self.supervisor.start(child)

    def install(self, name: str, command: Sequence[str]) -> None:
        """Change what a process runs, from its next start on."""
        self.specs[name] = replace(self.specs[name], command=command)

    def configure(self, **changes: str) -> None:
        """Change the configuration of all processes, from their next start on."""
        self.variables |= changes
        for name, spec in self.specs.items():
            self.specs[name] = replace(spec, environment={**spec.environment, **changes})

    def cursor(self, chain: ChainId) -> Cursor:
        """How far a chain is ingested. Raises `DrillFailed` before its first range."""
        with self.owner.connect() as conn:
            found = read_cursor(conn, chain)
        if found is None:
            raise DrillFailed(f"{chain} has no cursor")
        return found

    def kill(self, name: str) -> None:
        """End a process for good, as a fault does."""
        self.children[name].stop()

    def stop(self) -> None:
        """End every process of the service."""
        for child in self.children.values():
            child.ask_to_stop()
        for child in self.children.values():
            child.stop()

    def followers(self) -> list[str]:
        """Names of the followers' processes."""
        return [self.follower(chain.id) for chain in self.settings.network.chains]

    def follower(self, chain: ChainId) -> str:
        """Name of a chain's follower."""
        return services.follower(chain, {}).name

    def start_circle(self) -> None:
        """The attestation service at its port."""
        served = circle.serving(self.circle_port, self.attestations)
        self.circle_doors.enter_context(served)


@contextmanager
def running_system() -> Iterator[System]:
    """All of it, gone afterwards. Needs root for its small disk."""
    # Run as root, Postgres is user `nobody`, who must be able to enter the folder.
    folder = Path(tempfile.mkdtemp(prefix="isthmus-drill-"))
    folder.chmod(0o755)
    settings = services.demo_settings(Settings(load_network("devnet"), folder, None, {}))
    with ExitStack() as doors:
        doors.callback(shutil.rmtree, folder)
        disk = doors.enter_context(_small_disk(folder / "disk"))
        supervisor = doors.enter_context(Supervisor(settings.home, _ignore))
        postgres = PostgresService(embedded_postgres(settings))
        supervisor.start(postgres)
        fresh_databases(settings)
        pace = Pace(block_seconds=1.0, ledger_seconds=None, ledger_clock="fixed")
        world = doors.enter_context(start_world(supervisor, evm_port=0, stellar_port=0, pace=pace))
        evm_nodes = (FaultyHttp(world.evm_url), FaultyHttp(world.evm_url))
        for node in evm_nodes:
            doors.callback(node.close)
        stellar_node = FaultyStellarNode(world.stellar_url, seed=0)
        doors.callback(stellar_node.close)
        client = doors.enter_context(DevnetClient(world.stellar_url))
        client.close_ledger(close_time_ms=int(time.time() - 60) * 1000)
        for name in (RELAY, SPONSOR):
            client.fund(keypair(name).public_key)
            client.close_ledger()
        ledgers = Ledgers(client)
        ledgers.start()
        doors.callback(ledgers.stop)
        # Friendbot would close ledgers of its own.
        open_accounts({PROVIDER: Purse({"usdc": 100 * 10**7}, {})}, world.stellar, world.evm)
        attestations = doors.enter_context(circle.reading(world.evm_url, world.stellar_url))
        certificate = make_certificate(folder / "keys")
        receiver = doors.enter_context(receiving(certificate))
        site = doors.enter_context(TlsSite.serving(folder / "tls"))
        circle_port = free_port()
        settings = services.with_world(settings, world, f"http://{HOST}:{circle_port}")
        nodes = {
            settings.network.evm[0].id: tuple(node.url for node in evm_nodes),
            settings.network.stellar.id: (stellar_node.url,),
        }
        settings = replace(settings, nodes=nodes)
        # Postgres is restarted meanwhile.
        owner = create_engine(database_url(settings), pool_pre_ping=True)
        doors.callback(owner.dispose)
        backup_file = folder / "backup.info"
        backup_file.touch()
        url_file = folder / "database-url"
        url_file.write_text(database_url(settings).render_as_string(hide_password=False))
        variables = {
            **services.environment(settings),
            "ISTHMUS_HOME": str(disk),
            "DATABASE_URL_FILE": str(url_file),
        }
        system = System(
            folder=folder,
            disk=disk,
            supervisor=supervisor,
            postgres=postgres,
            settings=settings,
            world=world,
            first_empty_block=int(world.evm.rpc("eth_blockNumber"), 16) + 1,
            evm_nodes=evm_nodes,
            stellar_node=stellar_node,
            ledgers=ledgers,
            attestations=attestations,
            circle_port=circle_port,
            receiver=receiver,
            site=site,
            owner=owner,
            ports=services.Ports(free_port(), page=0, code=0),
            variables=variables,
            backup_file=backup_file,
            doors=doors,
        )
        doors.callback(system.circle_doors.close)
        system.start_circle()
        # Before the nodes that they ask.
        doors.callback(system.stop)
        _start_processes(system, certificate)
        yield system


def _start_processes(system: System, certificate: Path) -> None:
    keys = system.folder / "keys"
    relay = make_relay_keys(keys, system.settings.network)
    api = make_keys(keys, f"http://{HOST}:{system.ports.api}")
    api |= {"ISTHMUS_URL": system.site.url, "ISTHMUS_BACKUP_FILE": str(system.backup_file)}
    webhooks = {name: text for name, text in relay.items() if "WEBHOOK" in name}
    webhooks["SSL_CERT_FILE"] = str(certificate)

    def variables(job: str, name: str, **own: str) -> Mapping[str, str]:
        system.targets[job] = f"{HOST}:{free_port()}"
        return {**system.variables, name: system.targets[job], **own}

    for chain in system.settings.network.chains:
        job = f"isthmus-{chain.id.partition(':')[0]}"
        name = follower_metrics(chain.id)
        _add(system, services.follower(chain.id, variables(job, name)))
    _add(system, services.attester(variables("isthmus-attest", "ISTHMUS_METRICS_ATTEST")))
    _add(system, services.keeper(variables("isthmus-transfers", "ISTHMUS_METRICS_TRANSFERS")))
    _add(system, services.relay(variables("isthmus-relay", "ISTHMUS_METRICS_RELAY", **relay)))
    sender = variables("isthmus-webhooks", "ISTHMUS_METRICS_WEBHOOKS", **webhooks)
    _add(system, _webhook_sender(sender))
    exporter = variables("isthmus-api", "ISTHMUS_METRICS", **api)
    _add(system, services.api(system.ports, exporter, workers=1))


def _add(system: System, spec: ChildSpec) -> None:
    system.specs[spec.name] = spec
    system.start(spec.name)


def _webhook_sender(variables: Mapping[str, str]) -> ChildSpec:
    return ChildSpec(
        name="webhooks",
        command=services.isthmus("webhooks"),
        ready=lambda: True,
        environment=variables,
        directory=services.PROJECT,
    )


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own, which a few megabytes fill."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "isthmus-drill", str(folder)]
    subprocess.run(command, check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _ignore(_: Any) -> None:
    return
