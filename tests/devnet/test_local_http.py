"""Environment of the demo's processes: no proxy for local calls, URLs of all nodes."""

import json
from collections.abc import Callable, Iterator

import pytest

from devnet import services, world
from devnet.evm_node import JsonRpc
from devnet.local_http import HOST, local_client
from devnet.local_server import Handler, Server, answering
from devnet.stellar.client import DevnetClient
from devnet.supervisor import free_port
from tests.factories.stellar_process import StellarProcess


class Healthy(Handler):
    """Says to every question that all is well."""

    def do_GET(self) -> None:
        response = {"jsonrpc": "2.0", "id": 1, "result": {"status": "healthy"}}
        self.body()
        self.answer(200, json.dumps(response).encode())

    def do_POST(self) -> None:
        self.do_GET()


@pytest.fixture
def url() -> Iterator[str]:
    with answering(Server((HOST, 0), Healthy)) as url:
        yield url


def by_the_sdk(url: str) -> str:
    with DevnetClient(url) as client:
        return str(client._http.get(url).json()["result"]["status"])


def by_the_evm_client(url: str) -> str:
    with JsonRpc(url) as rpc:
        return str(rpc("anything")["status"])


def by_a_client(url: str) -> str:
    with local_client(url, timeout=5.0) as http:
        return str(http.get("/path").json()["result"]["status"])


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (by_a_client, "healthy"),
        (by_the_evm_client, "healthy"),
        (by_the_sdk, "healthy"),
        (lambda url: StellarProcess(child=None, url=url).rpc("getHealth")["status"], "healthy"),  # type: ignore[arg-type]
        (services._answers, True),
        (world._serves_stellar, True),
    ],
    ids=["client", "evm", "sdk", "process", "services", "world"],
)
def test_local_processes_are_called_without_proxy(
    url: str, ask: Callable[[str], object], answer: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = f"http://{HOST}:{free_port()}"
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, nobody)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert ask(url) == answer


def test_api_gets_the_url_of_every_node() -> None:
    variables = {
        "ISTHMUS_NETWORK": "devnet",
        "ISTHMUS_RPC_EIP155_31337": "https://node.example/key",
        "ISTHMUS_RPC_STELLAR_DEVNET": "https://stellar.example/key",
    }
    ports = services.Ports(api=1, page=2, code=3)
    assert services.api(ports, variables).environment == variables
    assert services.follower("eip155:31337", variables).environment == variables
