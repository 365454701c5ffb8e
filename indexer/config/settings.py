"""Settings that every process reads: network, database, nodes. docs/settings.md lists them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, TypeVar, get_args
from urllib.parse import urlsplit

from pydantic import BeforeValidator

from indexer.addresses import evm_address
from indexer.config.metrics import MetricsVariables, metrics_addresses
from indexer.config.networks import (
    Chain,
    EvmChain,
    LogProof,
    Network,
    load_network,
    parse_log_proof,
)
from indexer.config.networks import confirmations_variable as confirmations_variable
from indexer.config.networks import log_proof_variable as log_proof_variable
from indexer.config.networks import operator_variable as operator_variable
from indexer.config.networks import rpc_variable as rpc_variable
from indexer.config.networks import start_variable as start_variable
from indexer.config.networks import variable_suffix as variable_suffix
from indexer.config.node_urls import node_urls
from indexer.errors import ConfigurationError
from indexer.logs import LogFormat
from warehouse_schema.configuration import Configuration, is_given, load_configuration
from warehouse_schema.configuration import child_environment as child_environment
from warehouse_schema.identifiers import ChainId, EvmAddress, Height
from warehouse_schema.known_variables import CHAIN
from warehouse_schema.location import WarehouseVariables
from warehouse_schema.variables import (
    Count,
    SettingsError,
    Variables,
    is_chain_variable,
    option_of,
    variable,
    within,
)

V = TypeVar("V", bound=Variables)
A = TypeVar("A")
B = TypeVar("B")

SIGNING_NETWORK_VARIABLE = "ISTHMUS_DEVNET_PASSPHRASE"
LOG_FORMAT_VARIABLE = "ISTHMUS_LOG_FORMAT"
CODE_SERVER_PORT = 4000
RELAY_SERVER_PORT = 4100
_PASSPHRASE_FILES = {"standalone": "devnet", "testnet": "testnet"}
"""Choice → network file whose passphrase it is."""


class WrongSettings(ConfigurationError):
    """All that is wrong with the settings of a start; `problems` has a sentence for each."""

    def __init__(self, problems: list[str]) -> None:
        error = SettingsError(problems)
        self.problems = error.problems
        super().__init__(str(error))


def _passphrase_choice(text: str) -> str:
    if text not in _PASSPHRASE_FILES:
        raise ValueError(f"must be {' or '.join(_PASSPHRASE_FILES)}")
    return text


def _operator(text: str) -> EvmAddress:
    try:
        return evm_address(text)
    except ValueError as error:
        raise ValueError(f"must be an address 0x…: {error}") from None


def _log_format(text: str) -> str:
    if text not in get_args(LogFormat):
        raise ValueError("must be text or json")
    return text


def _lake(text: str) -> str:
    return text if "://" in text else str(Path(text).absolute())


def _local_iris(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme != "http" or parts.hostname != "127.0.0.1" or parts.path.strip("/"):
        raise ValueError("must be like http://127.0.0.1:8200")
    return text


class SharedVariables(MetricsVariables):
    """Network, nodes and local state; needs no database."""

    rpc: dict[str, Annotated[tuple[str, ...], BeforeValidator(node_urls)]] = variable(
        "ISTHMUS_RPC_<CHAIN>",
        "chains.<CHAIN>.rpc",
        "node URLs of a chain, `http(s)` and `ws(s)`; a chain without one is not followed",
        has_file=True,
        hidden=True,
        keep_empty=True,
    )
    start: dict[str, Count] = variable(
        "ISTHMUS_START_<CHAIN>",
        "chains.<CHAIN>.start",
        "first block or ledger that is read; replaces the network file's",
    )
    log_proof: dict[str, Annotated[LogProof, BeforeValidator(parse_log_proof)]] = variable(
        "ISTHMUS_LOG_PROOF_<CHAIN>",
        "chains.<CHAIN>.log_proof",
        "what proves an EVM chain's logs: `receipts`, `header`, `operators` or `none`; replaces "
        "the network file's",
        chains="evm",
    )
    confirmations: dict[str, Count] = variable(
        "ISTHMUS_CONFIRMATIONS_<CHAIN>",
        "chains.<CHAIN>.confirmations",
        "blocks on top before a block is finalized; at least the network file's. Raised after a "
        "reorg deeper than that (docs/operations.md, A reorg below finality)",
        chains="evm",
    )
    operator: dict[str, Annotated[EvmAddress, BeforeValidator(_operator)]] = variable(
        "ISTHMUS_DEPOSIT_OPERATOR_<CHAIN>",
        "chains.<CHAIN>.deposit_operator",
        "the relay's account that moves deposits on, `0x…`; unset: no deposit addresses",
        chains="evm",
    )
    export: Path | None = variable(
        "ISTHMUS_EXPORT",
        "export",
        "folder of the Parquet files; unset: `export` under `ISTHMUS_HOME`",
    )
    # A folder is relative to the file's: its key is a path.
    lake: dict[str, Annotated[str | Path, BeforeValidator(_lake)]] = variable(
        "ISTHMUS_LAKE_<CHAIN>",
        "chains.<CHAIN>.lake",
        "SEP-54 data lake of the Stellar chain: a folder, `https://…` or `s3://…`; it has what "
        "nodes no longer keep",
        chains="stellar",
    )
    iris: Annotated[str | None, BeforeValidator(_local_iris)] = variable(
        "ISTHMUS_IRIS_URL",
        "devnet.iris_url",
        "devnet only: attestation service in the place of Circle's, such as "
        "`http://127.0.0.1:8200`",
    )
    passphrase: Annotated[str, BeforeValidator(_passphrase_choice)] = variable(
        SIGNING_NETWORK_VARIABLE,
        "devnet.passphrase",
        "devnet only: passphrase of the local Stellar chain, `standalone` or `testnet`; wallets "
        "sign for public networks alone",
        "standalone",
    )
    log_format: Annotated[LogFormat, BeforeValidator(_log_format)] = variable(
        LOG_FORMAT_VARIABLE,
        "log_format",
        "lines of the log: `text`, or `json` with one object per line "
        "(docs/operations/logs-and-traces.md)",
        "text",
    )
    executor: str = variable(
        "ISTHMUS_EXECUTOR",
        "dagster.executor",
        "where steps of backfills, daily figures and exports run (pipelines/README.md): "
        "`in_process`: processes of this machine; `celery`; `kubernetes`; or `module:name`, an "
        "executor of an installed library",
        "in_process",
    )
    broker_url: str | None = variable(
        "ISTHMUS_BROKER_URL",
        "dagster.broker_url",
        "RabbitMQ for `celery`, `amqp://USER:PASSWORD@HOST:PORT/VHOST` or `amqps://…`",
        has_file=True,
        hidden=True,
    )
    kubernetes_config: Path | None = variable(
        "ISTHMUS_KUBERNETES_CONFIG",
        "dagster.kubernetes_config",
        "YAML file with the configuration of `dagster_k8s.k8s_job_executor` for `kubernetes`; the "
        "chart writes it",
    )
    dagster_url: str | None = variable(
        "ISTHMUS_DAGSTER_URL",
        "dagster.url",
        "Dagster's own database, `postgresql://…`; unset: `isthmus_dagster` on the warehouse's "
        "server. Created unless it is there",
        has_file=True,
        hidden=True,
    )
    code_server_host: str = variable(
        "ISTHMUS_CODE_SERVER_HOST",
        "dagster.code_server_host",
        "where Dagster's page and daemon find the code server",
        "127.0.0.1",
    )
    code_server_port: Annotated[int, within(1, 65_535)] = variable(
        "ISTHMUS_CODE_SERVER_PORT",
        "dagster.code_server_port",
        "port of Dagster's code server",
        CODE_SERVER_PORT,
    )
    relay_server_host: str = variable(
        "ISTHMUS_RELAY_SERVER_HOST",
        "dagster.relay_server_host",
        "where Dagster's page and daemon find the relay's code server",
        "127.0.0.1",
    )
    relay_server_port: Annotated[int, within(1, 65_535)] = variable(
        "ISTHMUS_RELAY_SERVER_PORT",
        "dagster.relay_server_port",
        "port of the relay's code server; where page and daemon know no key of the relay, they "
        "look for that server if its host or its port is set",
        RELAY_SERVER_PORT,
    )

    @classmethod
    def contradictions(cls, given: Mapping[str, str]) -> Iterator[str]:
        """Variables of the local chains on another network: real money goes by Circle's word."""
        yield from super().contradictions(given)
        if given.get("ISTHMUS_NETWORK", "devnet") != "devnet":
            for name in (SIGNING_NETWORK_VARIABLE, "ISTHMUS_IRIS_URL"):
                if name in given:
                    yield f"{name} is for the local chains: leave it out"


class DatabaseVariables(SharedVariables, WarehouseVariables):
    """The same for a process that needs the database."""


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
    executor: str = "in_process"
    """Where steps of backfills, daily figures and exports run: `pipelines.executors`."""
    broker_url: str | None = None
    """RabbitMQ of the Celery executor."""
    kubernetes_config: Path | None = None
    """File with the configuration of the Kubernetes executor."""
    export: Path | None = None
    """Folder of the Parquet files; None: under `home`."""
    metrics: Mapping[str, str] = field(default_factory=dict)
    """Address where a process serves `/metrics`, by the name of its variable."""

    @property
    def export_folder(self) -> Path:
        """Where days are exported to."""
        return self.home / "export" if self.export is None else self.export

    @property
    def followed(self) -> tuple[Chain, ...]:
        """Chains that have a node."""
        return tuple(chain for chain in self.network.chains if self.nodes.get(chain.id))


def log_format(environment: Mapping[str, str] | None = None) -> LogFormat:
    """Format of log lines, for errors of the settings too: a wrong one is `text` here.

    `load_settings` names it, with everything else that is wrong.
    """
    given = load_configuration(environment)
    return "json" if given.get(LOG_FORMAT_VARIABLE) == "json" else "text"


def load_settings(
    environment: Mapping[str, str] | None = None, *, needs_database: bool = True
) -> Settings:
    """Read the settings. Raises `WrongSettings` that names every variable that is wrong.

    Without `needs_database`, `DATABASE_URL` may be unset on every network.
    """
    env = load_configuration() if environment is None else environment
    values = read_variables(DatabaseVariables if needs_database else SharedVariables, env)
    file = _network_file(values)
    network = _with_choices(file, values)
    nodes = {
        chain.id: values.rpc.get(variable_suffix(chain.id), chain.rpc) for chain in network.chains
    }
    problems = chain_problems(SharedVariables, env, file)
    if problems:
        raise WrongSettings(problems)
    lake = values.lake.get(variable_suffix(network.stellar.id))
    return Settings(
        network=network,
        home=values.home.absolute(),
        database_url=values.database_url,
        nodes=nodes,
        lakes={} if lake is None else {network.stellar.id: str(lake)},
        export=None if values.export is None else values.export.absolute(),
        executor=values.executor,
        broker_url=values.broker_url,
        kubernetes_config=values.kubernetes_config,
        metrics=metrics_addresses(values, network),
    )


def read_variables(model: type[V], environment: Mapping[str, str]) -> V:
    """A process's variables. Raises `WrongSettings`."""
    try:
        return model.read(environment)
    except SettingsError as error:
        problems = list(error.problems)
    if not isinstance(environment, Configuration) or environment.is_readable:
        with suppress(ConfigurationError):  # A wrong network is one of the problems already.
            problems += chain_problems(model, environment, network_of(environment))
    raise WrongSettings(problems)


def read_both(first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    """What two readers return. Raises one `WrongSettings` with the problems of both."""
    try:
        one = first()
    except ConfigurationError as error:
        problems = problems_of(error)
        try:
            second()
        except ConfigurationError as other:
            problems += problems_of(other)
        raise WrongSettings(problems) from None
    return one, second()


def problems_of(error: ConfigurationError) -> list[str]:
    """The sentences of an error."""
    return list(error.problems) if isinstance(error, WrongSettings) else [str(error)]


def chain_problems(
    model: type[Variables], environment: Mapping[str, str], network: Network
) -> list[str]:
    """Sentences about `<CHAIN>` variables that do not fit the network's file or each other."""
    problems = _unmet_needs(environment, network) if issubclass(model, SharedVariables) else []
    for name, about in model.names():
        prefix, is_per_chain, suffix = name.partition(CHAIN)
        if not is_per_chain:
            continue
        kind = option_of(about, "chains")
        chains = {"all": network.chains, "evm": network.evm, "stellar": (network.stellar,)}
        known = [f"{prefix}{variable_suffix(chain.id)}{suffix}" for chain in chains[str(kind)]]
        problems += [
            f"{each}: network {network.name} has no such chain; there is {', '.join(known)}"
            for each in sorted(environment)
            if each not in known and is_chain_variable(name, each)
        ]
    return problems


def has_node(environment: Mapping[str, str], chain: Chain) -> bool:
    """Whether a chain has a node, by names of variables: no file is read."""
    name = rpc_variable(chain.id)
    return is_given(environment, name) or (name not in environment and bool(chain.rpc))


def _unmet_needs(environment: Mapping[str, str], network: Network) -> list[str]:
    """A sentence for each chain that lacks what its variables need, or has less than it needs."""
    without_factory = [
        f"{operator_variable(chain.id)}: {chain.id} has no deposit_factory, so no deposit addresses"
        for chain in network.evm
        if chain.deposit_factory is None and is_given(environment, operator_variable(chain.id))
    ]
    without_start = [
        f"{chain.id} has a node and no start: set {start_variable(chain.id)} to the first block to "
        "read, such as its head of now"
        for chain in network.chains
        if chain.start_height is None
        and has_node(environment, chain)
        and not is_given(environment, start_variable(chain.id))
    ]
    too_few = [
        f"{name} is {given}; it must be at least {chain.confirmations}, as in the network file: "
        "with fewer, a block would count as final that a reorg may still remove"
        for chain in network.evm
        for name in (confirmations_variable(chain.id),)
        if (given := environment.get(name, "")).isdecimal() and int(given) < chain.confirmations
    ]
    return without_factory + without_start + too_few


def network_of(environment: Mapping[str, str]) -> Network:
    """The network alone, whatever else is wrong. Raises `ConfigurationError` when that is."""
    names = ("ISTHMUS_NETWORK", SIGNING_NETWORK_VARIABLE)
    named = {name: environment[name] for name in names if name in environment}
    try:
        return _network_file(SharedVariables.read(named))
    except SettingsError as error:
        raise WrongSettings(list(error.problems)) from None


def devnet_passphrase() -> str:
    """The network passphrase of the local Stellar chain: its own, or the public test network's.

    Wallets sign for public networks alone. Raises `ConfigurationError`.
    """
    choice = load_configuration().get(SIGNING_NETWORK_VARIABLE, "")
    return network_of({SIGNING_NETWORK_VARIABLE: choice}).stellar.passphrase


def _network_file(values: SharedVariables) -> Network:
    if values.network_name != "devnet":
        return load_network(values.network_name)
    passphrase = load_network(_PASSPHRASE_FILES[values.passphrase]).stellar.passphrase
    return load_network("devnet", passphrase=passphrase)


def _with_choices(network: Network, values: SharedVariables) -> Network:
    """The network file with what the operator says in its place."""

    def start(chain: Chain) -> Height | None:
        given = values.start.get(variable_suffix(chain.id))
        return chain.start_height if given is None else Height(given)

    def chosen_evm(chain: EvmChain) -> EvmChain:
        name = variable_suffix(chain.id)
        return replace(
            chain,
            start_height=start(chain),
            confirmations=values.confirmations.get(name, chain.confirmations),
            log_proof=values.log_proof.get(name, chain.log_proof),
            deposit_operator=values.operator.get(name),
        )

    return replace(
        network,
        stellar=replace(network.stellar, start_height=start(network.stellar)),
        evm=tuple(chosen_evm(chain) for chain in network.evm),
        iris=values.iris or network.iris,
    )
