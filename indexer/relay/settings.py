"""The relay's own settings, read once from the environment by its process alone.

What every process shares (network, database, nodes) is in `indexer.settings`.

| variable | meaning |
|---|---|
| `ISTHMUS_RELAY_KEY_<CHAIN>` | the key that signs there: 64 hex digits; on Stellar a seed `S…` |
| `ISTHMUS_RELAY_KMS_<CHAIN>` | in its place `module:name`, which makes a key of a chain's id |
| `ISTHMUS_RELAY_BUDGET_<CHAIN>` | most that it may spend a UTC day, default 0.05 ether or 50 XLM |
| `ISTHMUS_RELAY_FLOOR_<CHAIN>` | less than this on it is an alarm, default 0.005 ether or 5 XLM |

`<CHAIN>` is the chain id in capitals with `_`: `ISTHMUS_RELAY_KEY_EIP155_1`. Amounts are wei or
stroops. A key is the variable itself, or the file that the same name with `_FILE` says. On Stellar
it may be several seeds with commas between: channels, of which each has one transaction under way.
A chain without a key is not relayed to. One key may serve several EVM chains.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TypeAlias, cast

from indexer.errors import ConfigurationError
from indexer.networks import EvmChain, StellarChain
from indexer.relay.account import Limits
from indexer.relay.keys import (
    EvmKey,
    LocalEvmKey,
    LocalStellarKey,
    StellarKey,
    evm_address,
    stellar_address,
)
from indexer.secrets import secret
from indexer.settings import Settings, in_capitals, rpc_variable
from warehouse_schema.identifiers import ChainId

EVM_LIMITS = Limits(budget=5 * 10**16, floor=5 * 10**15)
STELLAR_LIMITS = Limits(budget=50 * 10**7, floor=5 * 10**7)
_PREFIX = "ISTHMUS_RELAY_"
_KINDS = ("KEY", "KMS", "BUDGET", "FLOOR")


@dataclass(frozen=True, slots=True)
class EvmAccount:
    """An account that sends on an EVM chain."""

    chain: EvmChain
    key: EvmKey = field(repr=False)
    limits: Limits = EVM_LIMITS


@dataclass(frozen=True, slots=True)
class StellarAccount:
    """An account that sends on Stellar."""

    chain: StellarChain
    key: StellarKey = field(repr=False)
    limits: Limits = STELLAR_LIMITS


RelayAccount: TypeAlias = EvmAccount | StellarAccount


def load_relay_settings(
    settings: Settings, environment: Mapping[str, str] | None = None
) -> tuple[RelayAccount, ...]:
    """The accounts that have a key. Raises `ConfigurationError` that names the variable."""
    env = os.environ if environment is None else environment
    _refuse_strangers(env, settings)
    found: list[RelayAccount] = []
    stellar = settings.network.stellar
    for seeds in _stellar_keys(env, stellar.id):
        limits = _limits(env, stellar.id, STELLAR_LIMITS)
        found.append(StellarAccount(stellar, seeds, limits))
    for chain in settings.network.evm:
        key = _evm_key(env, chain.id)
        if key is not None:
            found.append(EvmAccount(chain, key, _limits(env, chain.id, EVM_LIMITS)))
    for each in found:
        _require_node(settings, each.chain.id)
    return tuple(found)


def address_of(account: RelayAccount) -> str:
    """Who signs."""
    if isinstance(account, EvmAccount):
        return evm_address(account.key)
    return stellar_address(account.key)


def relay_variable(what: str, chain: ChainId) -> str:
    """Name of a chain's variable: `KEY`, `KMS`, `BUDGET` or `FLOOR`."""
    return f"{_PREFIX}{what}_{in_capitals(chain)}"


def _evm_key(env: Mapping[str, str], chain: ChainId) -> EvmKey | None:
    text, made = _key_text(env, chain), _made(env, chain)
    if made is not None:
        return cast(EvmKey, made)
    return None if text is None else LocalEvmKey.from_text(text, relay_variable("KEY", chain))


def _stellar_keys(env: Mapping[str, str], chain: ChainId) -> Sequence[StellarKey]:
    text, made = _key_text(env, chain), _made(env, chain)
    if made is not None:
        return [cast(StellarKey, made)]
    seeds = [] if text is None else text.split(",")
    variable = relay_variable("KEY", chain)
    keys = [LocalStellarKey.from_text(seed.strip(), variable) for seed in seeds]
    if len({stellar_address(key) for key in keys}) != len(keys):
        raise ConfigurationError(f"{variable} names one seed twice")
    return keys


def _key_text(env: Mapping[str, str], chain: ChainId) -> str | None:
    variable, service = relay_variable("KEY", chain), relay_variable("KMS", chain)
    text = secret(env, variable)
    if text is not None and env.get(service):
        raise ConfigurationError(f"{variable} and {service} are both set; which one holds?")
    return text


def _made(env: Mapping[str, str], chain: ChainId) -> object | None:
    """The key that a service's own code makes for a chain."""
    variable = relay_variable("KMS", chain)
    return _maker(variable, env[variable])(chain) if env.get(variable) else None


def _require_node(settings: Settings, chain: ChainId) -> None:
    if not settings.nodes.get(chain):
        raise ConfigurationError(f"{chain} has a key and no node: set {rpc_variable(chain)}")


def _limits(env: Mapping[str, str], chain: ChainId, usual: Limits) -> Limits:
    return Limits(
        _amount(env, "BUDGET", chain, usual.budget), _amount(env, "FLOOR", chain, usual.floor)
    )


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


def _amount(env: Mapping[str, str], what: str, chain: ChainId, usual: int) -> int:
    variable = relay_variable(what, chain)
    text = env.get(variable)
    if not text:
        return usual
    if not text.isdecimal():
        raise ConfigurationError(
            f"{variable} is {text!r}; it must be a whole number, of wei or stroops"
        )
    return int(text)


def _refuse_strangers(env: Mapping[str, str], settings: Settings) -> None:
    """A variable of a chain that the network does not have is a mistake, not a wish."""
    known = {relay_variable(kind, chain.id) for kind in _KINDS for chain in settings.network.chains}
    known |= {f"{relay_variable('KEY', chain.id)}_FILE" for chain in settings.network.chains}
    prefixes = tuple(f"{_PREFIX}{kind}_" for kind in _KINDS)
    for variable in sorted(env):
        if variable.startswith(prefixes) and variable not in known:
            raise ConfigurationError(
                f"{variable}: nothing of that name on network {settings.network.name}"
            )
