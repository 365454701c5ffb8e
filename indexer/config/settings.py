"""What every process is set to, read once from the environment. (The api has more: `api.settings`.)

| variable | meaning |
|---|---|
| `ISTHMUS_NETWORK` | `devnet` (default), `testnet` or `mainnet` |
| `ISTHMUS_HOME` | folder of local state, default `.isthmus` in the working directory |
| `DATABASE_URL` | a Postgres ≥ 14 of your own; unset: the embedded one, on the devnet alone |
| `ISTHMUS_RPC_<CHAIN>` | node URLs of a chain, comma-separated, `http(s)` and `ws(s)` |
| `ISTHMUS_START_<CHAIN>` | first block or ledger that is read, in place of the network file's |
| `ISTHMUS_LOG_PROOF_<CHAIN>` | how an EVM chain's logs are proven, in place of the network file's |
| `ISTHMUS_DEPOSIT_OPERATOR_<CHAIN>` | account of the relay that moves deposits on, `0x…` |
| `ISTHMUS_EXPORT` | folder of the Parquet files, default `export` under `ISTHMUS_HOME` |
| `ISTHMUS_LAKE_<CHAIN>` | SEP-54 data lake of the Stellar chain: folder, `https://` or `s3://` |
| `ISTHMUS_IRIS_URL` | on the local chains alone: what attests in the place of Circle's service |
| `ISTHMUS_DEVNET_PASSPHRASE` | on the local chains alone: `standalone` (default) or `testnet` |
| `ISTHMUS_EXECUTOR` | who runs jobs of many steps in Dagster, `dagster_k8s:k8s_job_executor` |

`<CHAIN>` is the chain id in capitals with `_`: `ISTHMUS_RPC_EIP155_1`,
`ISTHMUS_RPC_STELLAR_PUBNET`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from indexer.addresses import evm_address
from indexer.config.networks import (
    NETWORKS,
    Chain,
    EvmChain,
    Network,
    StellarChain,
    load_network,
    parse_log_proof,
)
from indexer.config.networks.variables import log_proof_variable as log_proof_variable
from indexer.config.networks.variables import rpc_variable as rpc_variable
from indexer.config.networks.variables import variable_suffix as variable_suffix
from indexer.errors import ConfigurationError
from warehouse_schema.identifiers import ChainId, Height

C = TypeVar("C", EvmChain, StellarChain)

SIGNING_NETWORK_VARIABLE = "ISTHMUS_DEVNET_PASSPHRASE"
_PASSPHRASE_FILES = {"standalone": "devnet", "testnet": "testnet"}
"""Choice → network file whose passphrase it is."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One frozen view of the environment."""

    network: Network
    home: Path
    database_url: str | None
    """None: the embedded Postgres under `home`."""
    nodes: Mapping[ChainId, tuple[str, ...]]
    """Node URLs by chain; a chain without any is not followed."""
    lakes: Mapping[ChainId, str] = field(default_factory=dict)
    """Data lake by Stellar chain; without one a retention gap stops the chain."""
    executor: str | None = None
    """Name of the Dagster executor of jobs with many steps; None: processes of this machine."""
    export: Path | None = None
    """Folder of the Parquet files; None: under `home`."""

    @property
    def export_folder(self) -> Path:
        """Where days are exported to."""
        return self.home / "export" if self.export is None else self.export

    @property
    def followed(self) -> tuple[Chain, ...]:
        """Chains that have a node."""
        return tuple(chain for chain in self.network.chains if self.nodes.get(chain.id))


def load_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings. Raises `ConfigurationError` that names the variable."""
    env = os.environ if environment is None else environment
    name = env.get("ISTHMUS_NETWORK", "devnet")
    if name not in NETWORKS:
        raise ConfigurationError(f"ISTHMUS_NETWORK is {name!r}; it must be one of {NETWORKS}")
    network = _with_starts(env, _load_network(env, name))
    network = _with_service(env, _with_operators(env, _with_log_proofs(env, network)))
    _refuse_strangers(env, network)
    nodes = {chain.id: _nodes(env, chain) for chain in network.chains}
    for chain in network.chains:
        if nodes[chain.id] and chain.start_height is None:
            raise ConfigurationError(
                f"{chain.id} has a node and no start: set {start_variable(chain.id)} to the first "
                "block to read, such as its head of now"
            )
    lake = env.get(lake_variable(network.stellar.id))
    return Settings(
        network=network,
        home=Path(env.get("ISTHMUS_HOME") or ".isthmus").absolute(),
        database_url=env.get("DATABASE_URL") or None,
        nodes=nodes,
        lakes={} if not lake else {network.stellar.id: lake},
        export=Path(exports).absolute() if (exports := env.get("ISTHMUS_EXPORT")) else None,
        executor=env.get("ISTHMUS_EXECUTOR") or None,
    )


def devnet_passphrase(environment: Mapping[str, str] | None = None) -> str:
    """The network passphrase of the local Stellar chain: its own, or the public test network's.

    Wallets sign for public networks alone. Raises `ConfigurationError`.
    """
    env = os.environ if environment is None else environment
    choice = env.get(SIGNING_NETWORK_VARIABLE) or "standalone"
    if choice not in _PASSPHRASE_FILES:
        known = " or ".join(_PASSPHRASE_FILES)
        raise ConfigurationError(f"{SIGNING_NETWORK_VARIABLE} is {choice!r}; it must be {known}")
    return load_network(_PASSPHRASE_FILES[choice]).stellar.passphrase


def _load_network(env: Mapping[str, str], name: str) -> Network:
    if name == "devnet":
        return load_network(name, passphrase=devnet_passphrase(env))
    if env.get(SIGNING_NETWORK_VARIABLE):
        raise ConfigurationError(
            f"{SIGNING_NETWORK_VARIABLE} is for the local chains: leave it out"
        )
    return load_network(name)


def lake_variable(chain: ChainId) -> str:
    """Name of the variable that holds a chain's data lake."""
    return f"ISTHMUS_LAKE_{variable_suffix(chain)}"


def start_variable(chain: ChainId) -> str:
    """Name of the variable that says where reading a chain starts."""
    return f"ISTHMUS_START_{variable_suffix(chain)}"


def operator_variable(chain: ChainId) -> str:
    """Name of the variable that says who moves deposits on."""
    return f"ISTHMUS_DEPOSIT_OPERATOR_{variable_suffix(chain)}"


def _with_starts(env: Mapping[str, str], network: Network) -> Network:
    def started(chain: C) -> C:
        text = env.get(start_variable(chain.id))
        if text is None:
            return chain
        if not text.isdecimal():
            raise ConfigurationError(
                f"{start_variable(chain.id)} is {text!r}; it must be a block or ledger number"
            )
        return replace(chain, start_height=Height(int(text)))

    return replace(
        network,
        stellar=started(network.stellar),
        evm=tuple(started(chain) for chain in network.evm),
    )


def _with_log_proofs(env: Mapping[str, str], network: Network) -> Network:
    def proven(chain: EvmChain) -> EvmChain:
        variable = log_proof_variable(chain.id)
        text = env.get(variable)
        if not text:
            return chain
        try:
            return replace(chain, log_proof=parse_log_proof(text))
        except ValueError as error:
            raise ConfigurationError(f"{variable}: {error}") from error

    return replace(network, evm=tuple(proven(chain) for chain in network.evm))


def _with_operators(env: Mapping[str, str], network: Network) -> Network:
    """Where there is no factory nobody could move a deposit on: that is a mistake, too."""

    def operated(chain: EvmChain) -> EvmChain:
        variable = operator_variable(chain.id)
        text = env.get(variable)
        if not text:
            return chain
        if chain.deposit_factory is None:
            raise ConfigurationError(
                f"{variable}: {chain.id} has no deposit_factory, so no deposit addresses"
            )
        try:
            return replace(chain, deposit_operator=evm_address(text))
        except ValueError as error:
            raise ConfigurationError(f"{variable} is no address: {error}") from error

    return replace(network, evm=tuple(operated(chain) for chain in network.evm))


def _with_service(env: Mapping[str, str], network: Network) -> Network:
    """On the local chains and nowhere else: real money goes by Circle's own word."""
    url = env.get("ISTHMUS_IRIS_URL")
    if not url:
        return network
    parts = urlsplit(url)
    if network.name != "devnet":
        raise ConfigurationError("ISTHMUS_IRIS_URL is for the local chains: leave it out")
    if parts.scheme != "http" or parts.hostname != "127.0.0.1" or parts.path.strip("/"):
        raise ConfigurationError("ISTHMUS_IRIS_URL must be like http://127.0.0.1:8200")
    return replace(network, iris=url)


def _refuse_strangers(env: Mapping[str, str], network: Network) -> None:
    """A variable of a chain that the network does not have is a mistake, not a wish."""
    of_evm = (operator_variable, log_proof_variable)
    per_chain = (rpc_variable, start_variable, lake_variable, *of_evm)
    known = {variable(chain.id) for chain in network.chains for variable in per_chain}
    known -= {variable(network.stellar.id) for variable in of_evm}
    prefixes = tuple(variable(ChainId("")) for variable in per_chain)
    for variable in sorted(env):
        if variable.startswith(prefixes) and variable not in known:
            raise ConfigurationError(f"{variable}: network {network.name} has no such chain")


def _nodes(env: Mapping[str, str], chain: Chain) -> tuple[str, ...]:
    variable = rpc_variable(chain.id)
    if variable not in env:
        return chain.rpc
    urls = tuple(url.strip() for url in env[variable].split(",") if url.strip())
    for url in urls:
        if not url.startswith(("http://", "https://", "ws://", "wss://")):
            # The URL may hold a key, so it is not repeated.
            raise ConfigurationError(f"{variable}: a URL must be http(s):// or ws(s)://")
    return urls
