"""The relay's own settings, read once from the environment by its process alone.

What every process shares (network, database, nodes) is in `indexer.settings`.

| variable | meaning |
|---|---|
| `ISTHMUS_RELAY_KEY_<CHAIN>` | the key that signs on an EVM chain, 64 hex digits; or `…_FILE` |
| `ISTHMUS_RELAY_KMS_<CHAIN>` | in its place `module:name`, which makes a key of a chain's id |
| `ISTHMUS_RELAY_BUDGET_<CHAIN>` | most that it may spend in a UTC day, wei, default 0.05 ether |
| `ISTHMUS_RELAY_FLOOR_<CHAIN>` | less than this on it is an alarm, wei, default 0.005 ether |

`<CHAIN>` is the chain id in capitals with `_`: `ISTHMUS_RELAY_KEY_EIP155_1`. A chain without a key
is not relayed to. One key may serve several chains.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import cast

from indexer.errors import ConfigurationError
from indexer.networks import EvmChain
from indexer.relay.evm import Limits
from indexer.relay.keys import EvmKey, LocalEvmKey
from indexer.secrets import secret
from indexer.settings import Settings, in_capitals, rpc_variable
from warehouse_schema.identifiers import ChainId

BUDGET = 5 * 10**16
FLOOR = 5 * 10**15
_PREFIX = "ISTHMUS_RELAY_"


@dataclass(frozen=True, slots=True)
class EvmRelaySettings:
    """A chain that is relayed to."""

    chain: EvmChain
    key: EvmKey = field(repr=False)
    limits: Limits


def load_relay_settings(
    settings: Settings, environment: Mapping[str, str] | None = None
) -> tuple[EvmRelaySettings, ...]:
    """The chains that have a key. Raises `ConfigurationError` that names the variable."""
    env = os.environ if environment is None else environment
    _refuse_strangers(env, settings)
    found = []
    for chain in settings.network.evm:
        key = _evm_key(env, chain.id)
        if key is None:
            continue
        if not settings.nodes.get(chain.id):
            raise ConfigurationError(
                f"{relay_variable('KEY', chain.id)} is set, and {chain.id} has no node: "
                f"set {rpc_variable(chain.id)}"
            )
        limits = Limits(_wei(env, "BUDGET", chain.id, BUDGET), _wei(env, "FLOOR", chain.id, FLOOR))
        found.append(EvmRelaySettings(chain, key, limits))
    return tuple(found)


def relay_variable(what: str, chain: ChainId) -> str:
    """Name of a chain's variable: `KEY`, `KMS`, `BUDGET` or `FLOOR`."""
    return f"{_PREFIX}{what}_{in_capitals(chain)}"


def _evm_key(env: Mapping[str, str], chain: ChainId) -> EvmKey | None:
    variable, service = relay_variable("KEY", chain), relay_variable("KMS", chain)
    text = secret(env, variable)
    if env.get(service):
        if text is not None:
            raise ConfigurationError(f"{variable} and {service} are both set; which one holds?")
        return cast(EvmKey, _maker(service, env[service])(chain))
    return None if text is None else LocalEvmKey.from_text(text, variable)


def _maker(variable: str, named: str) -> Callable[[ChainId], object]:
    module, _, name = named.partition(":")
    try:
        maker: object = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(
            f"{variable} is {named!r}; it must be module:name, and importable: {error}"
        ) from error
    if not callable(maker):
        raise ConfigurationError(f"{variable}: {named} cannot be called")
    return maker


def _wei(env: Mapping[str, str], what: str, chain: ChainId, usual: int) -> int:
    variable = relay_variable(what, chain)
    text = env.get(variable)
    if not text:
        return usual
    if not text.isdecimal():
        raise ConfigurationError(f"{variable} is {text!r}; it must be a whole number of wei")
    return int(text)


def _refuse_strangers(env: Mapping[str, str], settings: Settings) -> None:
    """A variable of a chain that the network does not have is a mistake, not a wish."""
    known = {
        relay_variable(what, chain.id) + ending
        for what, endings in (("KEY", ("", "_FILE")), ("KMS", ("",)))
        for chain in settings.network.evm
        for ending in endings
    }
    known |= {relay_variable(w, c.id) for w in ("BUDGET", "FLOOR") for c in settings.network.evm}
    for variable in sorted(env):
        if variable.startswith(_PREFIX) and variable not in known:
            raise ConfigurationError(
                f"{variable}: nothing of that name on network {settings.network.name}"
            )
