"""The relay's own settings, read once from the environment by its process alone.

What every process shares (network, database, nodes) is in `indexer.config.settings`.

| variable | meaning |
|---|---|
| `ISTHMUS_RELAY_KEY_<CHAIN>` | the key that signs there: 64 hex digits; on Stellar a seed `S…` |
| `ISTHMUS_RELAY_KMS_<CHAIN>` | in its place `module:name`, which makes a key of a chain's id |
| `ISTHMUS_RELAY_BUDGET_<CHAIN>` | most that it may spend a UTC day, default 0.05 ether or 50 XLM |
| `ISTHMUS_RELAY_FLOOR_<CHAIN>` | less than this on it is an alarm, default 0.005 ether or 5 XLM |
| `ISTHMUS_RELAY_SPONSOR_<CHAIN>` | on Stellar, the key that pays for trustlines; and with |
| `…_SPONSOR_KMS_…`, `…_SPONSOR_BUDGET_…`, `…_SPONSOR_FLOOR_…` | as the three above |
| `ISTHMUS_RELAY_SPONSOR_MIN_DEPOSIT_<CHAIN>` | least deposit to sponsor for, 10^-7 of the asset |
| `ISTHMUS_RELAY_SPONSOR_PAYER_BUDGET_<CHAIN>` | stroops a UTC day for one paying address |
| `ISTHMUS_WEBHOOK_KEY` | a seed `S…` that signs webhooks and nothing else; or `…_FILE` |
| `ISTHMUS_WEBHOOK_KMS` | in its place `module:name`, which makes the key of nothing |

`<CHAIN>` is the chain id in capitals with `_`: `ISTHMUS_RELAY_KEY_EIP155_1`. Amounts are wei or
stroops. A key is the variable itself, or the file that the same name with `_FILE` says. On Stellar
it may be several seeds with commas between: channels, of which each has one transaction under way.
A chain without a key is not relayed to. One key may serve several EVM chains; no key sends and
sponsors.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from importlib import import_module
from typing import TypeAlias, cast

from indexer.config.networks import Chain, EvmChain, StellarChain
from indexer.config.secrets import secret
from indexer.config.settings import Settings, rpc_variable, variable_suffix
from indexer.errors import ConfigurationError
from relay.jobs.onboardings import SponsorBounds
from relay.keys import (
    EvmKey,
    LocalEvmKey,
    LocalStellarKey,
    StellarKey,
    evm_address,
    stellar_address,
)
from relay.limits import SpendLimits
from relay.webhooks.post import is_public
from relay.webhooks.run import WebhookSender
from warehouse_schema.identifiers import BaseUnits, ChainId

EVM_LIMITS = SpendLimits(budget=5 * 10**16, floor=5 * 10**15)
STELLAR_LIMITS = SpendLimits(budget=50 * 10**7, floor=5 * 10**7)
SPONSOR_BOUNDS = SponsorBounds(min_deposit=BaseUnits(5 * 10**7), payer_budget=5 * 10**7)
_PREFIX = "ISTHMUS_RELAY_"
_MIN_DEPOSIT, _PAYER_BUDGET = "SPONSOR_MIN_DEPOSIT", "SPONSOR_PAYER_BUDGET"


@dataclass(frozen=True, slots=True)
class _Names:
    """What the variables of a duty are called, without prefix and chain."""

    key: str
    kms: str
    budget: str
    floor: str


_SENDER = _Names("KEY", "KMS", "BUDGET", "FLOOR")
_SPONSOR = _Names("SPONSOR", "SPONSOR_KMS", "SPONSOR_BUDGET", "SPONSOR_FLOOR")


@dataclass(frozen=True, slots=True)
class EvmAccount:
    """An account that sends on an EVM chain."""

    chain: EvmChain
    key: EvmKey = field(repr=False)
    limits: SpendLimits = EVM_LIMITS


@dataclass(frozen=True, slots=True)
class StellarAccount:
    """An account that sends on Stellar."""

    chain: StellarChain
    key: StellarKey = field(repr=False)
    limits: SpendLimits = STELLAR_LIMITS


@dataclass(frozen=True, slots=True)
class SponsorAccount:
    """An account that sponsors trustlines on Stellar."""

    chain: StellarChain
    key: StellarKey = field(repr=False)
    limits: SpendLimits = STELLAR_LIMITS
    bounds: SponsorBounds = SPONSOR_BOUNDS


RelayAccount: TypeAlias = EvmAccount | StellarAccount | SponsorAccount

WEBHOOK_KEY = "ISTHMUS_WEBHOOK_KEY"
WEBHOOK_KMS = "ISTHMUS_WEBHOOK_KMS"


def load_relay_settings(
    settings: Settings, environment: Mapping[str, str] | None = None
) -> tuple[RelayAccount, ...]:
    """The accounts that have a key. Raises `ConfigurationError` that names the variable."""
    env = os.environ if environment is None else environment
    _refuse_strangers(env, settings)
    found: list[RelayAccount] = []
    stellar = settings.network.stellar
    for key in _stellar_keys(env, _SENDER, stellar.id):
        limits = _limits(env, _SENDER, stellar.id, STELLAR_LIMITS)
        found.append(StellarAccount(stellar, key, limits))
    for key in _stellar_keys(env, _SPONSOR, stellar.id):
        limits = _limits(env, _SPONSOR, stellar.id, STELLAR_LIMITS)
        found.append(SponsorAccount(stellar, key, limits, _sponsor_bounds(env, stellar.id)))
    _refuse_two_duties(found)
    for chain in settings.network.evm:
        signer = _evm_key(env, chain.id)
        if signer is not None:
            found.append(EvmAccount(chain, signer, _limits(env, _SENDER, chain.id, EVM_LIMITS)))
    for each in found:
        _require_node(settings, each.chain.id)
    return tuple(found)


def load_webhook_poster(
    settings: Settings, environment: Mapping[str, str] | None = None
) -> WebhookSender | None:
    """Who posts to webhooks; None without a key.

    On the local chains alone it may be to this machine. Raises `ConfigurationError`, also for a
    seed that signs transactions: what is posted is signed as others word it.
    """
    env = os.environ if environment is None else environment
    key = _webhook_key(env)
    if key is None:
        return None
    stellar = settings.network.stellar.id
    others = [*_stellar_keys(env, _SENDER, stellar), *_stellar_keys(env, _SPONSOR, stellar)]
    if key.public_key in [each.public_key for each in others]:
        raise ConfigurationError(
            f"the key of webhooks ({WEBHOOK_KEY}) signs transactions as well: make one of its own"
        )
    if settings.network.name == "devnet":
        return WebhookSender(key, admits=lambda address: address.is_loopback or is_public(address))
    return WebhookSender(key)


def need_webhook_poster(settings: Settings) -> WebhookSender:
    """Who posts to webhooks. Raises `ConfigurationError`, also without a key."""
    poster = load_webhook_poster(settings)
    if poster is None:
        raise ConfigurationError(
            f"neither {WEBHOOK_KEY} nor {WEBHOOK_KMS} is set: nothing is posted to webhooks"
        )
    return poster


def _webhook_key(env: Mapping[str, str]) -> StellarKey | None:
    text = _text_of(env, WEBHOOK_KEY, WEBHOOK_KMS)
    if env.get(WEBHOOK_KMS):
        return cast(StellarKey, _maker(WEBHOOK_KMS, env[WEBHOOK_KMS])())
    return None if text is None else LocalStellarKey.from_text(text, WEBHOOK_KEY)


def address_of(account: RelayAccount) -> str:
    """Who signs."""
    if isinstance(account, EvmAccount):
        return evm_address(account.key)
    return stellar_address(account.key)


def relay_variable(what: str, chain: ChainId) -> str:
    """Name of a chain's variable: `KEY`, `KMS`, `BUDGET`, `FLOOR`, or `SPONSOR…`."""
    return f"{_PREFIX}{what}_{variable_suffix(chain)}"


def _evm_key(env: Mapping[str, str], chain: ChainId) -> EvmKey | None:
    text, made = _key_text(env, _SENDER, chain), _made(env, _SENDER, chain)
    if made is not None:
        return cast(EvmKey, made)
    return None if text is None else LocalEvmKey.from_text(text, relay_variable("KEY", chain))


def _stellar_keys(env: Mapping[str, str], names: _Names, chain: ChainId) -> Sequence[StellarKey]:
    text, made = _key_text(env, names, chain), _made(env, names, chain)
    if made is not None:
        return [cast(StellarKey, made)]
    seeds = [] if text is None else text.split(",")
    variable = relay_variable(names.key, chain)
    keys = [LocalStellarKey.from_text(seed.strip(), variable) for seed in seeds]
    if len({stellar_address(key) for key in keys}) != len(keys):
        raise ConfigurationError(f"{variable} names one seed twice")
    return keys


def _refuse_two_duties(accounts: Sequence[RelayAccount]) -> None:
    """An owner's transaction that no ledger takes must keep no delivery waiting."""
    addresses = [address_of(each) for each in accounts]
    twice = next((each for each in addresses if addresses.count(each) > 1), None)
    if twice is not None:
        raise ConfigurationError(f"{twice} is to send and to sponsor: use a key for each")


def _key_text(env: Mapping[str, str], names: _Names, chain: ChainId) -> str | None:
    return _text_of(env, relay_variable(names.key, chain), relay_variable(names.kms, chain))


def _text_of(env: Mapping[str, str], variable: str, service: str) -> str | None:
    text = secret(env, variable)
    if text is not None and env.get(service):
        raise ConfigurationError(f"{variable} and {service} are both set; which one holds?")
    return text


def _made(env: Mapping[str, str], names: _Names, chain: ChainId) -> object | None:
    """The key that a service's own code makes for a chain."""
    variable = relay_variable(names.kms, chain)
    return _maker(variable, env[variable])(chain) if env.get(variable) else None


def _require_node(settings: Settings, chain: ChainId) -> None:
    if not settings.nodes.get(chain):
        raise ConfigurationError(f"{chain} has a key and no node: set {rpc_variable(chain)}")


def _limits(
    env: Mapping[str, str], names: _Names, chain: ChainId, usual: SpendLimits
) -> SpendLimits:
    return SpendLimits(
        _amount(env, names.budget, chain, usual.budget),
        _amount(env, names.floor, chain, usual.floor),
    )


def _sponsor_bounds(env: Mapping[str, str], chain: ChainId) -> SponsorBounds:
    usual = SPONSOR_BOUNDS
    return SponsorBounds(
        BaseUnits(_amount(env, _MIN_DEPOSIT, chain, usual.min_deposit)),
        _amount(env, _PAYER_BUDGET, chain, usual.payer_budget),
    )


def _maker(variable: str, named: str) -> Callable[..., object]:
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
    known = {variable for chain in settings.network.chains for variable in _known(chain, _SENDER)}
    stellar = settings.network.stellar
    known |= {*_known(stellar, _SPONSOR)}
    known |= {relay_variable(kind, stellar.id) for kind in (_MIN_DEPOSIT, _PAYER_BUDGET)}
    prefixes = tuple(
        f"{_PREFIX}{kind}_" for names in (_SENDER, _SPONSOR) for kind in astuple(names)
    )
    for variable in sorted(env):
        if variable.startswith(prefixes) and variable not in known:
            raise ConfigurationError(
                f"{variable}: nothing of that name on network {settings.network.name}"
            )


def _known(chain: Chain, names: _Names) -> Iterator[str]:
    yield from (relay_variable(kind, chain.id) for kind in astuple(names))
    yield f"{relay_variable(names.key, chain.id)}_FILE"
