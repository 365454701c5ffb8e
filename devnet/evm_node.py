"""A local EVM node: its process, its JSON-RPC and the encoding of calls to it.

Errors:

    DevnetError
    ├── AnvilFailed          the node did not start, or stopped early
    ├── RpcFailed            the node refused a call
    │   └── Reverted         the call or transaction reverts: `.name`, `.arguments`
    ├── NotMined             no receipt before the deadline
    └── WrongDeployment      the chain holds another deployment than the expected one
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Self

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError
from eth_abi.grammar import TupleType, parse
from eth_utils.crypto import keccak

from devnet.local_http import local_client
from devnet.processes import end_process

CHAIN_ID = 31337
ARTIFACTS = Path(__file__).parent / "contracts" / "artifacts"
DEPOSIT_ARTIFACTS = (
    Path(__file__).parents[1]
    / "indexer"
    / "bridges"
    / "deposit_address"
    / "contracts"
    / "artifacts"
)


class DevnetError(Exception):
    """The development network failed."""


class AnvilFailed(DevnetError):
    """The node did not start, or stopped early."""


class RpcFailed(DevnetError):
    """The node answered a call with an error."""


class Reverted(RpcFailed):
    """A call or transaction reverts.

    `name` is the revert text, or the name of a custom error; `arguments` are the custom error's.
    """

    def __init__(self, name: str, arguments: tuple[Any, ...] = ()) -> None:
        super().__init__(f"{name}{arguments}" if arguments else name)
        self.name = name
        self.arguments = arguments


class NotMined(DevnetError):
    """A transaction has no receipt, and the deadline has passed."""


class WrongDeployment(DevnetError):
    """The chain holds another deployment than the expected one."""


# Encoding


def encode_call(signature: str, *arguments: Any) -> bytes:
    """Calldata of `name(types)`, e.g. `encode_call("approve(address,uint256)", spender, 5)`."""
    return keccak(text=signature)[:4] + encode(argument_types(signature), arguments)


def event_topic(signature: str) -> bytes:
    """Topic 0 of an event, e.g. `event_topic("MessageSent(bytes)")`."""
    return keccak(text=signature)


def argument_types(signature: str) -> list[str]:
    """`["address", "uint256"]` of `approve(address,uint256)`; tuples stay whole."""
    text = signature[signature.index("(") :]
    if text == "()":
        return []
    types = parse(text)
    if not isinstance(types, TupleType):
        raise ValueError(f"not a signature: {signature}")
    return [component.to_type_str() for component in types.components]


@dataclass(frozen=True)
class Artifact:
    """A compiled contract."""

    abi: list[dict[str, Any]]
    bytecode: bytes


@cache
def artifact(name: str, folder: Path = ARTIFACTS) -> Artifact:
    """The artifact of the contract `name`; written by `make contracts`."""
    content = json.loads((folder / f"{name}.json").read_text())
    return Artifact(content["abi"], bytes.fromhex(content["bytecode"].removeprefix("0x")))


def signature_of(entry: dict[str, Any]) -> str:
    """`name(types)` of an ABI entry (function, event or error)."""
    return f"{entry['name']}({','.join(_type_of(each) for each in entry['inputs'])})"


def _type_of(parameter: dict[str, Any]) -> str:
    kind: str = parameter["type"]
    if not kind.startswith("tuple"):
        return kind
    members = ",".join(_type_of(each) for each in parameter["components"])
    return f"({members}){kind.removeprefix('tuple')}"


@cache
def _custom_errors() -> dict[bytes, str]:
    signatures = {
        signature_of(entry)
        for folder in (ARTIFACTS, DEPOSIT_ARTIFACTS)
        for path in folder.glob("*.json")
        for entry in artifact(path.stem, folder).abi
        if entry["type"] == "error"
    }
    return {keccak(text=signature)[:4]: signature for signature in signatures}


def _reverted(data: bytes) -> Reverted:
    selector, arguments = data[:4], data[4:]
    signature = _custom_errors().get(selector)
    if selector == keccak(text="Error(string)")[:4]:
        signature = "Error(string)"
    if signature is None:
        return Reverted(f"0x{data.hex()}")
    try:
        values = decode(argument_types(signature), arguments)
    except DecodingError as error:
        raise RpcFailed(f"undecodable {signature}: 0x{data.hex()}") from error
    if signature == "Error(string)":
        return Reverted(values[0])
    return Reverted(signature.partition("(")[0], tuple(values))


# The node


class JsonRpc:
    """JSON-RPC over one HTTP connection pool. Close it, or use it as a context manager."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._client = local_client(timeout=60.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    @cached_property
    def chain_id(self) -> int:
        """Asked once: a node keeps its chain id."""
        return int(self("eth_chainId"), 16)

    def __call__(self, method: str, *params: Any) -> Any:
        """The result of a call; raises Reverted, RpcFailed or httpx.TransportError."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        response = self._client.post(self.url, json=body)
        response.raise_for_status()
        answer = response.json()
        if "error" in answer:
            raise _rpc_error(method, answer["error"])
        return answer["result"]


def _rpc_error(method: str, error: dict[str, Any]) -> RpcFailed:
    data = error.get("data")
    if isinstance(data, str) and len(data) >= 10:
        return _reverted(bytes.fromhex(data.removeprefix("0x")))
    return RpcFailed(f"{method}: {error.get('message')}")


def anvil_binary() -> Path:
    """The platform's anvil under the project's node_modules; raises AnvilFailed when absent."""
    system = {"win32": "win32", "darwin": "darwin"}.get(sys.platform, "linux")
    machine = "arm64" if platform.machine().lower() in {"arm64", "aarch64"} else "amd64"
    package = Path("node_modules") / "@foundry-rs" / f"anvil-{system}-{machine}" / "bin"
    for folder in Path(__file__).resolve().parents:
        for binary in (folder / package / "anvil", folder / package / "anvil.exe"):
            if binary.is_file():
                return binary
    raise AnvilFailed(f"no {package}/anvil above {Path(__file__).parent}: run `npm ci`")


@dataclass
class AnvilProcess:
    """A local node. `start` and `stop` it, or use it as a context manager.

    `port` 0 lets the system choose. Without `block_time` (seconds) each transaction makes a block;
    with it blocks come on the beat, and `mixed_mining` adds one per transaction. With `state_file`
    the chain is written there by `stop` and read from there by the next `start`. `genesis_time` is
    Unix seconds.
    """

    log_file: Path
    port: int = 0
    state_file: Path | None = None
    block_time: float | None = None
    mixed_mining: bool = False
    chain_id: int = CHAIN_ID
    genesis_time: int | None = None
    start_timeout: float = 20.0
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    @property
    def rpc_url(self) -> str:
        """URL of JSON-RPC over HTTP; valid once started."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws_url(self) -> str:
        """URL of JSON-RPC over WebSocket; valid once started."""
        return f"ws://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> Self:
        """Returns once the node answers; raises AnvilFailed when it does not in time."""
        if self._process is not None:
            raise AnvilFailed("already started")
        with self.log_file.open("ab") as log:
            written = log.tell()
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            self.port = self._listening_port(written)
        except AnvilFailed:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends the node, which writes its state file first. Stopping twice is harmless."""
        process, self._process = self._process, None
        if process is None:
            return
        end_process(process, 30)

    def _command(self) -> list[str]:
        command = [str(anvil_binary()), "--port", str(self.port), "--chain-id", str(self.chain_id)]
        if self.state_file is not None:
            # Old states are kept so that a reorg can reach below a restart.
            command += ["--state", str(self.state_file), "--preserve-historical-states"]
        if self.block_time is not None:
            command += ["--block-time", str(self.block_time)]
        if self.mixed_mining:
            command += ["--mixed-mining"]
        if self.genesis_time is not None:
            command += ["--timestamp", str(self.genesis_time)]
        return command

    def _listening_port(self, written: int) -> int:
        """The port in the log after byte `written`: the node opens it before it writes the line."""
        process = self._process
        assert process is not None
        deadline = time.monotonic() + self.start_timeout
        while time.monotonic() < deadline:
            ended = process.poll() is not None
            output = self.log_file.read_bytes()[written:].decode(errors="replace")
            listening = re.search(r"Listening on \S+:(\d+)\s", output)
            if ended:
                raise AnvilFailed(f"anvil ended with {process.returncode}: {output[-2000:]}")
            if listening:
                return int(listening[1])
            time.sleep(0.02)
        raise AnvilFailed(f"anvil does not listen after {self.start_timeout} s")
