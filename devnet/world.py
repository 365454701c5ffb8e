"""Both chains of the development network, each trusting the other's contracts.

Every address and contract id follows from public keys, so either chain can be started first and
knows where the other's contracts will be.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Self

import httpx

from devnet.evm import EvmDevnet, expected_addresses
from devnet.evm_deployment import StellarRemotes, deploy
from devnet.evm_messages import Attesters
from devnet.evm_node import CHAIN_ID, JsonRpc, RpcFailed, anvil_binary
from devnet.local_http import HOST, local_client
from devnet.stellar.client import DevnetClient
from devnet.stellar.registry import Remotes, devnet_contracts
from devnet.supervisor import ChildSpec, Supervisor, free_port

EVM_PORT = 8545
STELLAR_PORT = 8000


def remotes_of_stellar() -> Remotes:
    """The EVM side, for the genesis of the Stellar contracts."""
    at = expected_addresses()
    first, second = (_raw(address) for address in Attesters().addresses)
    return Remotes(_raw(at.token_messenger), _raw(at.usdc), _raw(at.oft), (first, second))


def remotes_of_evm() -> StellarRemotes:
    """The Stellar side, for the deployment of the EVM contracts."""
    at = devnet_contracts()
    return StellarRemotes(
        token_messenger_minter=at.raw("token_messenger_minter"),
        usdc_sac=at.raw("usdc_sac"),
        oft=at.raw("oft"),
    )


def _raw(address: str) -> bytes:
    return bytes.fromhex(address.removeprefix("0x"))


@dataclass(frozen=True)
class Pace:
    """When blocks and ledgers come.

    `block_seconds`: a block on that beat besides one for each transaction; None for the latter
    alone. `ledger_seconds`: a ledger on that beat; 0 for one for each transaction; None for ledgers
    on demand only. `ledger_clock`: "wall", or "fixed" for 5 seconds a ledger from genesis on, so
    that the caller that closes a ledger chooses its time.
    """

    block_seconds: float | None = None
    ledger_seconds: float | None = 0
    ledger_clock: str = "wall"


@dataclass(frozen=True)
class Origin:
    """Where both chains begin, as if they had a past.

    `height`: number of the first block, and of the ledger before the first. `stellar_time`: close
    time of that ledger, unix seconds. The first block's time is the machine's.
    """

    height: int
    stellar_time: int


@dataclass(frozen=True)
class World:
    """Handles on two running chains. Closing it lets go of connections; the chains live on."""

    evm: EvmDevnet
    stellar: DevnetClient
    evm_url: str
    evm_ws_url: str
    stellar_url: str
    origin: Origin | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self.evm.close()
        self.stellar.close()


def start_world(
    supervisor: Supervisor,
    *,
    evm_port: int = EVM_PORT,
    stellar_port: int = STELLAR_PORT,
    pace: Pace | None = None,
    origin: Origin | None = None,
) -> World:
    """Start both nodes, deploy, and return the handles. Without an origin the chains are new.

    A port that is taken is replaced by a free one; 0 asks for a free one. Raises `ChildFailed`.
    """
    pace = pace or Pace()
    evm_port, stellar_port = free_port(evm_port), free_port(stellar_port)
    supervisor.run(evm_node(evm_port, pace, origin))
    supervisor.run(stellar_node(stellar_port, pace, origin))
    evm_url = f"http://{HOST}:{evm_port}"
    stellar_url = f"http://{HOST}:{stellar_port}"
    return World(
        evm=deploy(evm_url, remotes_of_evm()),
        stellar=DevnetClient(stellar_url),
        evm_url=evm_url,
        evm_ws_url=f"ws://{HOST}:{evm_port}",
        stellar_url=stellar_url,
        origin=origin,
    )


def evm_node(port: int, pace: Pace, origin: Origin | None = None) -> ChildSpec:
    """An anvil node with an empty chain."""
    beat: list[str] = []
    if pace.block_seconds is not None:
        beat = ["--block-time", f"{pace.block_seconds:g}", "--mixed-mining"]
    if origin is not None:
        beat += ["--number", str(origin.height)]
    return ChildSpec(
        name="evm",
        command=[str(anvil_binary()), "--port", str(port), "--chain-id", str(CHAIN_ID), *beat],
        ready=lambda: _serves_evm(f"http://{HOST}:{port}"),
        irreplaceable="its chain is in its memory and ends with it",
    )


def stellar_node(port: int, pace: Pace, origin: Origin | None = None) -> ChildSpec:
    """The Stellar stand-in with a new chain."""
    remotes = remotes_of_stellar()
    interval = "manual" if pace.ledger_seconds is None else f"{pace.ledger_seconds:g}"
    command = [sys.executable, "-m", "devnet.stellar", "--port", str(port)]
    command += ["--interval", interval, "--clock", pace.ledger_clock]
    command += ["--token-messenger", remotes.token_messenger.hex(), "--usdc", remotes.usdc.hex()]
    command += ["--oft", remotes.oft.hex()]
    if origin is not None:
        command += ["--genesis-ledger", str(origin.height)]
        command += ["--genesis-time", str(origin.stellar_time)]
    for attester in remotes.attesters:
        command += ["--attester", attester.hex()]
    return ChildSpec(
        name="stellar",
        command=command,
        ready=lambda: _serves_stellar(f"http://{HOST}:{port}"),
        irreplaceable="its chain is in its memory and ends with it",
    )


def _serves_evm(url: str) -> bool:
    try:
        with JsonRpc(url) as rpc:
            return rpc.chain_id == CHAIN_ID
    except (httpx.TransportError, RpcFailed):
        return False


def _serves_stellar(url: str) -> bool:
    body = {"jsonrpc": "2.0", "id": 1, "method": "getHealth"}
    try:
        with local_client(timeout=60.0) as http:
            answer = http.post(url, json=body).json()
    except httpx.TransportError:
        return False
    return bool(answer.get("result", {}).get("status") == "healthy")
