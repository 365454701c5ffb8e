"""Every setting, read once from the environment. Nothing else reads it.

| variable | meaning |
|---|---|
| `ISTHMUS_NETWORK` | `devnet` (default), `testnet` or `mainnet` |
| `ISTHMUS_HOME` | folder of local state, default `.isthmus` in the working directory |
| `DATABASE_URL` | a Postgres ≥ 14 of your own; unset means the embedded one |
| `ISTHMUS_RPC_<CHAIN>` | node URLs of a chain, comma-separated, `http(s)` and `ws(s)` |
| `ISTHMUS_LAKE_<CHAIN>` | a SEP-54 data lake of the Stellar chain: a folder, `https://` or `s3://` |

`<CHAIN>` is the chain id in capitals with `_`: `ISTHMUS_RPC_EIP155_1`,
`ISTHMUS_RPC_STELLAR_PUBNET`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from indexer.errors import ConfigurationError
from indexer.networks import NETWORKS, Chain, Network, load_network
from warehouse_schema.identifiers import ChainId


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
    network = load_network(name)
    return Settings(
        network=network,
        home=Path(env.get("ISTHMUS_HOME", ".isthmus")).absolute(),
        database_url=env.get("DATABASE_URL") or None,
        nodes={chain.id: _nodes(env, chain) for chain in network.chains},
        lakes={
            network.stellar.id: lake
            for lake in (env.get(lake_variable(network.stellar.id)),)
            if lake
        },
    )


def rpc_variable(chain: ChainId) -> str:
    """Name of the variable that holds a chain's node URLs."""
    return f"ISTHMUS_RPC_{_in_capitals(chain)}"


def lake_variable(chain: ChainId) -> str:
    """Name of the variable that holds a chain's data lake."""
    return f"ISTHMUS_LAKE_{_in_capitals(chain)}"


def _in_capitals(chain: ChainId) -> str:
    return chain.upper().replace(":", "_").replace("-", "_")


def _nodes(env: Mapping[str, str], chain: Chain) -> tuple[str, ...]:
    variable = rpc_variable(chain.id)
    if variable not in env:
        return chain.rpc
    urls = tuple(url.strip() for url in env[variable].split(",") if url.strip())
    for url in urls:
        if not url.startswith(("http://", "https://", "ws://", "wss://")):
            raise ConfigurationError(f"{variable}: {url!r} is not an http(s) or ws(s) URL")
    return urls
