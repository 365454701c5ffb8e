"""The service's own processes: bare, and as the demo runs them (Dagster's four, the API).

A demo's processes read the same settings as everywhere else, from an environment made here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from devnet.keys import relay_account
from devnet.local_http import HOST, local_client
from devnet.stellar.accounts import PASSPHRASE
from devnet.supervisor import ChildSpec, free_port, listens
from devnet.world import World
from indexer.config.networks import load_network, variable_suffix
from indexer.config.settings import Settings, operator_variable, rpc_variable
from indexer.config.warehouse import dagster_storage_url
from warehouse_schema.identifiers import Height

PROJECT = Path(__file__).resolve().parents[1]

API_PORT = 8080
PAGE_PORT = 3000
CODE_PORT = 4000
RELAY_PORT = 4100
IDENTITY_PORT = 8100
CIRCLE_PORT = 8200

PAGE_USER = "operator"
PAGE_PASSWORD = "ISTHMUS_PAGE_PASSWORD"

_PROBE_TIMEOUT_SECONDS = 60.0
_NOTHING_TO_FINISH_SECONDS = 2.0
"""For processes that a kill costs nothing: what they know is in the database."""


@dataclass(frozen=True)
class Ports:
    """Ports of the service; each was free when it was chosen."""

    api: int
    page: int
    code: int
    relay: int = 0

    @property
    def api_url(self) -> str:
        """Base URL of the API."""
        return f"http://{HOST}:{self.api}"

    @property
    def page_url(self) -> str:
        """Dagster's page."""
        return f"http://{HOST}:{self.page}"


def choose_ports() -> Ports:
    """The usual ports, or free ones where those are taken."""
    return Ports(
        api=free_port(API_PORT),
        page=free_port(PAGE_PORT),
        code=free_port(CODE_PORT),
        relay=free_port(RELAY_PORT),
    )


def demo_settings(outer: Settings) -> Settings:
    """The operator's settings, for a demo: its own folders and network, no chains yet."""
    network = load_network("devnet", passphrase=PASSPHRASE)
    return replace(outer, network=network, home=outer.home / "demo", export=None, nodes={})


def with_world(settings: Settings, world: World, iris: str | None = None) -> Settings:
    """The settings with the nodes of a running world, what attests there, and who sweeps."""
    stellar, [evm] = settings.network.stellar, settings.network.evm
    if (origin := world.origin) is not None:
        stellar = replace(stellar, start_height=Height(origin.height + 1))
        evm = replace(evm, start_height=Height(origin.height))
    nodes = {stellar.id: (world.stellar_url,), evm.id: (world.evm_url, world.evm_ws_url)}
    evm = replace(evm, deposit_operator=relay_account())
    network = replace(settings.network, iris=iris, stellar=stellar, evm=(evm,))
    return replace(settings, nodes=nodes, network=network)


def environment(settings: Settings, ports: Ports | None = None) -> dict[str, str]:
    """The variables that make a child process read these settings.

    `DATABASE_URL` is not among them: it is the operator's and passes through.
    """
    return {
        "ISTHMUS_NETWORK": settings.network.name,
        "ISTHMUS_HOME": str(settings.home),
        "ISTHMUS_EXPORT": str(settings.export_folder),
        "ISTHMUS_DAGSTER_URL": dagster_storage_url(settings),
        "PYTHONUNBUFFERED": "1",
        # Everybody here is one address. Requests are counted all the same.
        "ISTHMUS_LIMIT_READS": "1000000/second",
        "ISTHMUS_LIMIT_SIGN_IN": "1000000/second",
        "ISTHMUS_LIMIT_OWNER": "1000000/second",
        **({} if ports is None else _servers(ports)),
        **({} if (iris := settings.network.iris) is None else {"ISTHMUS_IRIS_URL": iris}),
        **{rpc_variable(chain): ",".join(urls) for chain, urls in settings.nodes.items()},
        **{
            f"ISTHMUS_START_{variable_suffix(chain.id)}": str(chain.start_height)
            for chain in settings.network.chains
        },
        **{
            operator_variable(chain.id): chain.deposit_operator
            for chain in settings.network.evm
            if chain.deposit_operator is not None
        },
    }


def _servers(ports: Ports) -> dict[str, str]:
    return {
        "ISTHMUS_CODE_SERVER_PORT": str(ports.code),
        "ISTHMUS_RELAY_SERVER_PORT": str(ports.relay),
    }


def follower(chain: str, variables: Mapping[str, str]) -> ChildSpec:
    """A follower of one chain, without the orchestrator."""
    command = isthmus("follow", chain)
    return _bare(f"follow-{chain.replace(':', '-')}", command, variables)


def attester(variables: Mapping[str, str]) -> ChildSpec:
    """The attestation poller, without the orchestrator."""
    return _bare("attest", isthmus("attest"), variables)


def keeper(variables: Mapping[str, str]) -> ChildSpec:
    """The refresh of transfers for submissions and the clock, without the orchestrator."""
    return _bare("transfers", isthmus("transfers"), variables)


def relay(variables: Mapping[str, str]) -> ChildSpec:
    """The relay without the orchestrator; `variables` name its keys."""
    return _bare("relay", isthmus("relay", "run"), variables)


def _bare(name: str, command: Sequence[str], variables: Mapping[str, str]) -> ChildSpec:
    return ChildSpec(
        name=name,
        command=command,
        ready=lambda: True,
        environment=variables,
        directory=PROJECT,
    )


def api(ports: Ports, variables: Mapping[str, str], *, workers: int = 2) -> ChildSpec:
    """The API; ready when it answers, whether or not the chains are well yet.

    It asks nodes too: who may sign for an account, and what a transfer costs.
    """
    return ChildSpec(
        name="api",
        command=isthmus("api", "--bind", f"{HOST}:{ports.api}", "--workers", str(workers)),
        ready=lambda: _answers(f"{ports.api_url}/healthz"),
        environment=variables,
        directory=PROJECT,
    )


def code_server(ports: Ports, variables: Mapping[str, str]) -> ChildSpec:
    """The process that holds Dagster's definitions and launches their runs."""
    return _code_server("dagster-code", isthmus("code-server"), ports.code, variables)


def relay_server(ports: Ports, variables: Mapping[str, str]) -> ChildSpec:
    """The process that holds the relay's definitions and launches its runs; it alone has keys."""
    command = isthmus("code-server", "--relay")
    return _code_server("dagster-relay", command, ports.relay, variables)


def _code_server(
    name: str, command: Sequence[str], port: int, variables: Mapping[str, str]
) -> ChildSpec:
    return ChildSpec(
        name=name,
        command=command,
        ready=lambda: listens(port),
        environment=variables,
        directory=PROJECT,
    )


def webserver(ports: Ports, variables: Mapping[str, str]) -> ChildSpec:
    """Dagster's page; read-only unless the variables name a file with `PAGE_PASSWORD`."""
    return ChildSpec(
        name="dagster-page",
        command=isthmus("page", "--host", HOST, "--port", str(ports.page)),
        ready=lambda: _answers(f"{ports.page_url}/server_info"),
        stop_timeout=_NOTHING_TO_FINISH_SECONDS,
        environment=variables,
        directory=PROJECT,
    )


def daemon(
    ports: Ports, variables: Mapping[str, str], page_password: str | None = None
) -> ChildSpec:
    """The daemon, which evaluates sensors and starts runs; ready when the page calls it healthy."""
    return ChildSpec(
        name="dagster-daemon",
        command=isthmus("daemon"),
        ready=lambda: _daemon_is_healthy(ports.page_url, page_password),
        stop_timeout=_NOTHING_TO_FINISH_SECONDS,
        environment=variables,
        directory=PROJECT,
    )


def isthmus(*arguments: str) -> Sequence[str]:
    """The command `isthmus`, from beside this Python."""
    return [str(Path(sys.executable).with_name("isthmus")), *arguments]


def _answers(url: str) -> bool:
    try:
        with local_client(timeout=_PROBE_TIMEOUT_SECONDS) as http:
            return http.get(url).status_code == 200
    except httpx.TransportError:
        return False


def _daemon_is_healthy(page_url: str, password: str | None) -> bool:
    login = httpx.USE_CLIENT_DEFAULT if password is None else httpx.BasicAuth(PAGE_USER, password)
    query = "{ instance { daemonHealth { allDaemonStatuses { required healthy } } } }"
    try:
        with local_client(timeout=_PROBE_TIMEOUT_SECONDS) as http:
            answer = http.post(f"{page_url}/graphql", json={"query": query}, auth=login)
    except httpx.TransportError:
        return False
    if answer.status_code != 200:
        return False
    statuses = answer.json()["data"]["instance"]["daemonHealth"]["allDaemonStatuses"]
    return all(status["healthy"] for status in statuses if status["required"])
