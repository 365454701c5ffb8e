"""The relay's own settings, its keys among them, read by its process alone.

docs/settings.md lists them. Amounts are wei or stroops. A chain without a key is not relayed to.
One key may serve several EVM chains; no key both sends and sponsors.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from indexer.config.networks import EvmChain, Network, StellarChain
from indexer.config.settings import (
    Settings,
    WrongSettings,
    chain_problems,
    has_node,
    load_settings,
    network_of,
    problems_of,
    read_both,
    read_variables,
    rpc_variable,
    variable_suffix,
)
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
from relay.signing.services import SigningSettings, load_evm_keys, load_stellar_keys
from relay.webhooks.post import is_public
from relay.webhooks.run import WebhookSender
from warehouse_schema.configuration import is_given, load_configuration
from warehouse_schema.identifiers import BaseUnits, ChainId, Stroops, Wei
from warehouse_schema.variables import Count, Variables, variable

EVM_LIMITS = SpendLimits(budget=Wei(5 * 10**16), floor=Wei(5 * 10**15))
STELLAR_LIMITS = SpendLimits(budget=Stroops(50 * 10**7), floor=Stroops(5 * 10**7))
SPONSOR_BOUNDS = SponsorBounds(BaseUnits(5 * 10**7), payer_budget=Stroops(5 * 10**7))
WEBHOOK_KEY = "ISTHMUS_WEBHOOK_KEY"
WEBHOOK_KMS = "ISTHMUS_WEBHOOK_KMS"
_PREFIX = "ISTHMUS_RELAY_"
_SENDER, _SPONSOR = "KEY", "SPONSOR"
_KMS = {_SENDER: "KMS", _SPONSOR: "SPONSOR_KMS"}
"""Kind of key → what the variable of its key service is called, without prefix and chain."""


class RelayVariables(Variables):
    """Keys, budgets and floors by chain."""

    key: dict[str, str] = variable(
        "ISTHMUS_RELAY_KEY_<CHAIN>",
        "relay.chains.<CHAIN>.key",
        "key that signs there: 64 hex digits, on Stellar a seed `S…`; several with commas between "
        "are accounts that share the work, on Stellar with one transaction under way each",
        secret=True,
    )
    kms: dict[str, str] = variable(
        "ISTHMUS_RELAY_KMS_<CHAIN>",
        "relay.chains.<CHAIN>.kms",
        "key service in its place, or as well: `aws-kms:…`, `gcp-kms:…`, `vault:…`, `pkcs11:…`, or "
        "`module:name`: a callable that returns the key of a chain id; several with commas between",
    )
    budget: dict[str, Count] = variable(
        "ISTHMUS_RELAY_BUDGET_<CHAIN>",
        "relay.chains.<CHAIN>.budget",
        "most that an account may spend a UTC day, in wei or stroops; unset: 0.05 ether or 50 XLM",
    )
    floor: dict[str, Count] = variable(
        "ISTHMUS_RELAY_FLOOR_<CHAIN>",
        "relay.chains.<CHAIN>.floor",
        "balance below which there is an alarm, in wei or stroops; unset: 0.005 ether or 5 XLM",
    )
    drain: dict[str, str] = variable(
        "ISTHMUS_RELAY_DRAIN_<CHAIN>",
        "relay.chains.<CHAIN>.drain",
        "addresses of accounts there, sponsors too, that are being replaced: they finish what only "
        "they can do, and take no new work; several with commas between",
    )
    sponsor: dict[str, str] = variable(
        "ISTHMUS_RELAY_SPONSOR_<CHAIN>",
        "relay.sponsor.<CHAIN>.key",
        "seed `S…` that pays for trustlines, or several with commas between",
        secret=True,
        chains="stellar",
    )
    sponsor_kms: dict[str, str] = variable(
        "ISTHMUS_RELAY_SPONSOR_KMS_<CHAIN>",
        "relay.sponsor.<CHAIN>.kms",
        "key service in its place, or as well",
        chains="stellar",
    )
    sponsor_budget: dict[str, Count] = variable(
        "ISTHMUS_RELAY_SPONSOR_BUDGET_<CHAIN>",
        "relay.sponsor.<CHAIN>.budget",
        "most that a sponsor may spend a UTC day, in stroops; unset: 50 XLM",
        chains="stellar",
    )
    sponsor_floor: dict[str, Count] = variable(
        "ISTHMUS_RELAY_SPONSOR_FLOOR_<CHAIN>",
        "relay.sponsor.<CHAIN>.floor",
        "balance of a sponsor below which there is an alarm, in stroops; unset: 5 XLM",
        chains="stellar",
    )
    sponsor_min_deposit: dict[str, Count] = variable(
        "ISTHMUS_RELAY_SPONSOR_MIN_DEPOSIT_<CHAIN>",
        "relay.sponsor.<CHAIN>.min_deposit",
        "least deposit that a trustline is sponsored for, in 10^-7 of the asset; unset: 5 USD",
        chains="stellar",
    )
    sponsor_payer_budget: dict[str, Count] = variable(
        "ISTHMUS_RELAY_SPONSOR_PAYER_BUDGET_<CHAIN>",
        "relay.sponsor.<CHAIN>.payer_budget",
        "most that is spent a UTC day for one paying address, in stroops; unset: 5 XLM",
        chains="stellar",
    )
    webhook_key: str | None = variable(
        WEBHOOK_KEY,
        "webhooks.key",
        "seed `S…` that signs webhooks and nothing else; with several, commas between, each signs",
        secret=True,
    )
    webhook_kms: str | None = variable(
        WEBHOOK_KMS,
        "webhooks.kms",
        "key service in its place, or as well: as for the relay; a callable gets no argument",
    )
    pkcs11_module: Path | None = variable(
        "ISTHMUS_PKCS11_MODULE",
        "signing.pkcs11_module",
        "PKCS#11 library of an HSM, such as `/usr/lib/softhsm/libsofthsm2.so`",
    )
    pkcs11_pin: str | None = variable(
        "ISTHMUS_PKCS11_PIN",
        "signing.pkcs11_pin",
        "PIN of the HSM's user that may sign",
        secret=True,
    )
    vault_token_file: Path | None = variable(
        "ISTHMUS_VAULT_TOKEN_FILE",
        "signing.vault_token_file",
        "file of Vault's token, as Vault Agent writes it, read at each signature; unset: Vault's "
        "own `VAULT_TOKEN` or `~/.vault-token`",
    )

    @property
    def signing(self) -> SigningSettings:
        """Settings of key services."""
        return SigningSettings(self.pkcs11_module, self.pkcs11_pin, self.vault_token_file)


@dataclass(frozen=True, slots=True)
class EvmAccount:
    """An account that sends on an EVM chain."""

    chain: EvmChain
    key: EvmKey = field(repr=False)
    limits: SpendLimits = EVM_LIMITS
    is_draining: bool = False


@dataclass(frozen=True, slots=True)
class StellarAccount:
    """An account that sends on Stellar."""

    chain: StellarChain
    key: StellarKey = field(repr=False)
    limits: SpendLimits = STELLAR_LIMITS
    is_draining: bool = False


@dataclass(frozen=True, slots=True)
class SponsorAccount:
    """An account that sponsors trustlines on Stellar."""

    chain: StellarChain
    key: StellarKey = field(repr=False)
    limits: SpendLimits = STELLAR_LIMITS
    bounds: SponsorBounds = SPONSOR_BOUNDS
    is_draining: bool = False


RelayAccount: TypeAlias = EvmAccount | StellarAccount | SponsorAccount


def load_relay() -> tuple[Settings, tuple[RelayAccount, ...]]:
    """Settings of the relay's process, and the accounts that have a key; each chain needs a node.

    Raises one `ConfigurationError` with all problems.
    """
    environment = load_configuration()
    settings, accounts = read_both(
        lambda: load_settings(environment),
        lambda: load_accounts(network_of(environment), environment),
    )
    _require_nodes(settings, [each.chain.id for each in accounts])
    return settings, accounts


def check_relay_variables(environment: Mapping[str, str] | None = None) -> None:
    """Check the variables of the relay's process, without loading a key or calling a key service.

    Raises one `ConfigurationError` with all problems.
    """
    env = load_configuration() if environment is None else environment

    def check_chains() -> None:
        network, kinds = network_of(env), (*_KMS, *_KMS.values())
        problems = chain_problems(RelayVariables, env, network)
        for chain in network.chains:
            names = [f"{_PREFIX}{kind}_{variable_suffix(chain.id)}" for kind in kinds]
            if any(is_given(env, name) for name in names) and not has_node(env, chain):
                problems.append(_needs_node(chain.id))
        if problems:
            raise WrongSettings(problems)

    read_both(
        lambda: read_both(lambda: load_settings(env), lambda: read_variables(RelayVariables, env)),
        check_chains,
    )


def _require_nodes(settings: Settings, chains: Iterable[ChainId]) -> None:
    without = [chain for chain in dict.fromkeys(chains) if not settings.nodes.get(chain)]
    if without:
        raise WrongSettings([_needs_node(chain) for chain in without])


def _needs_node(chain: ChainId) -> str:
    return f"{chain} has a key and no node: set {rpc_variable(chain)}"


def load_webhooks() -> tuple[Settings, WebhookSender]:
    """What the process of webhooks reads. Raises one `ConfigurationError` with all problems."""
    return read_both(load_settings, lambda: need_webhook_poster(network_of(load_configuration())))


def need_webhook_poster(network: Network) -> WebhookSender:
    """The sender of webhooks. Raises `ConfigurationError`, also without a key."""
    poster = load_webhook_poster(network)
    if poster is None:
        raise ConfigurationError(
            f"neither {WEBHOOK_KEY}_FILE nor {WEBHOOK_KMS} is set: nothing is posted to webhooks"
        )
    return poster


def load_webhook_poster(
    network: Network, environment: Mapping[str, str] | None = None
) -> WebhookSender | None:
    """The sender of webhooks; None without a key.

    Reads webhook and Stellar variables: the process of webhooks has no EVM key. On the local chains
    alone it may send to this machine. Raises `ConfigurationError`, also for a seed that signs
    transactions: the receiver chooses part of what is signed.
    """
    env = load_configuration() if environment is None else environment
    stellar = network.stellar.id
    suffixes = (variable_suffix(stellar), f"{variable_suffix(stellar)}_FILE")
    values = read_variables(
        RelayVariables,
        {
            name: text
            for name, text in env.items()
            if not name.startswith(_PREFIX) or name.endswith(suffixes)
        },
    )
    keys = _read_stellar_keys(
        (f"{WEBHOOK_KEY}_FILE", values.webhook_key),
        (WEBHOOK_KMS, values.webhook_kms),
        values.signing,
    )
    if not keys:
        return None
    others = [*_stellar_keys(values, _SENDER, stellar), *_stellar_keys(values, _SPONSOR, stellar)]
    if {each.public_key for each in keys} & {each.public_key for each in others}:
        raise ConfigurationError(
            f"the key of webhooks ({WEBHOOK_KEY}_FILE) signs transactions as well: make one of "
            "its own"
        )
    if network.name == "devnet":
        return WebhookSender(
            keys[0],
            admits=lambda address: address.is_loopback or is_public(address),
            more_keys=tuple(keys[1:]),
        )
    return WebhookSender(keys[0], more_keys=tuple(keys[1:]))


def address_of(account: RelayAccount) -> str:
    """The address that an account's key signs for."""
    if isinstance(account, EvmAccount):
        return evm_address(account.key)
    return stellar_address(account.key)


def load_accounts(network: Network, environment: Mapping[str, str]) -> tuple[RelayAccount, ...]:
    """The accounts that have a key. Raises one `ConfigurationError` with all problems."""
    values = read_variables(RelayVariables, environment)
    problems = chain_problems(RelayVariables, environment, network)

    @contextmanager
    def collected() -> Iterator[None]:
        try:
            yield
        except ConfigurationError as error:
            problems.extend(problems_of(error))

    found: list[RelayAccount] = []
    stellar, name = network.stellar, variable_suffix(network.stellar.id)
    with collected():
        limits = SpendLimits(
            Stroops(values.budget.get(name, STELLAR_LIMITS.budget)),
            Stroops(values.floor.get(name, STELLAR_LIMITS.floor)),
        )
        keys = _stellar_keys(values, _SENDER, stellar.id)
        found += [StellarAccount(stellar, key, limits) for key in keys]
    with collected():
        limits = SpendLimits(
            Stroops(values.sponsor_budget.get(name, STELLAR_LIMITS.budget)),
            Stroops(values.sponsor_floor.get(name, STELLAR_LIMITS.floor)),
        )
        bounds = SponsorBounds(
            BaseUnits(values.sponsor_min_deposit.get(name, SPONSOR_BOUNDS.min_deposit)),
            Stroops(values.sponsor_payer_budget.get(name, SPONSOR_BOUNDS.payer_budget)),
        )
        keys = _stellar_keys(values, _SPONSOR, stellar.id)
        found += [SponsorAccount(stellar, key, limits, bounds) for key in keys]
    # An owner's transaction that no ledger takes must keep no delivery waiting.
    addresses = [address_of(each) for each in found]
    problems += [
        f"{address} is to send and to sponsor: use a key for each"
        for address in dict.fromkeys(addresses)
        if addresses.count(address) > 1
    ]
    for chain in network.evm:
        name = variable_suffix(chain.id)
        with collected():
            limits = SpendLimits(
                Wei(values.budget.get(name, EVM_LIMITS.budget)),
                Wei(values.floor.get(name, EVM_LIMITS.floor)),
            )
            found += [EvmAccount(chain, key, limits) for key in _evm_keys(values, chain.id)]
    if problems:
        raise WrongSettings(problems)
    return _with_draining(values, found)


def _with_draining(
    values: RelayVariables, accounts: Sequence[RelayAccount]
) -> tuple[RelayAccount, ...]:
    """Mark the accounts that are replaced. Raises one `ConfigurationError` with all problems."""
    problems, found = [], list(accounts)
    for name, text in values.drain.items():
        variable_name = f"{_PREFIX}DRAIN_{name}"
        own = [n for n, each in enumerate(found) if variable_suffix(each.chain.id) == name]
        for address in (each.strip() for each in text.split(",")):
            named = [n for n in own if address_of(found[n]).lower() == address.lower()]
            if not named:
                problems.append(f"{variable_name}: no key there is that of {address}")
            for number in named:
                found[number] = replace(found[number], is_draining=True)
        active = {type(found[n]) for n in own if not found[n].is_draining}
        problems += [
            f"{variable_name} leaves no {kind.__name__} for new work: add its successor first"
            for kind in sorted({type(found[n]) for n in own} - active, key=str)
        ]
    if problems:
        raise WrongSettings(problems)
    return tuple(found)


def _evm_keys(values: RelayVariables, chain: ChainId) -> Sequence[EvmKey]:
    """Keys in files, then those of key services: both together while one replaces the other."""
    name = variable_suffix(chain)
    variable_name, service_name = f"{_PREFIX}KEY_{name}_FILE", f"{_PREFIX}KMS_{name}"
    texts = values.key[name].split(",") if name in values.key else []
    keys: list[EvmKey] = [LocalEvmKey.from_text(text.strip(), variable_name) for text in texts]
    if name in values.kms:
        keys += load_evm_keys(service_name, values.kms[name], values.signing, chain)
    _require_different(keys, variable_name, service_name)
    return keys


def _stellar_keys(values: RelayVariables, kind: str, chain: ChainId) -> Sequence[StellarKey]:
    name = variable_suffix(chain)
    texts, services = (
        (values.key, values.kms) if kind == _SENDER else (values.sponsor, values.sponsor_kms)
    )
    return _read_stellar_keys(
        (f"{_PREFIX}{kind}_{name}_FILE", texts.get(name)),
        (f"{_PREFIX}{_KMS[kind]}_{name}", services.get(name)),
        values.signing,
        chain,
    )


def _read_stellar_keys(
    local: tuple[str, str | None],
    service: tuple[str, str | None],
    signing: SigningSettings,
    *arguments: object,
) -> Sequence[StellarKey]:
    """Keys by name and text of two variables; `arguments` are those of `module:name`."""
    (variable_name, text), (service_name, names) = local, service
    seeds = [] if text is None else text.split(",")
    keys: list[StellarKey] = [
        LocalStellarKey.from_text(seed.strip(), variable_name) for seed in seeds
    ]
    if names is not None:
        keys += load_stellar_keys(service_name, names, signing, *arguments)
    _require_different(keys, variable_name, service_name)
    return keys


def _require_different(keys: Sequence[EvmKey | StellarKey], *names: str) -> None:
    if len({key.public_key for key in keys}) != len(keys):
        raise ConfigurationError(f"{' and '.join(names)} name one key twice")
