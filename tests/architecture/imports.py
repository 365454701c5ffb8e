"""Who may import whom: the rules as tables, and the reading of a module against them."""

import ast
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from indexer.bridges import BRIDGE_FOLDERS

ROOT = Path(__file__).resolve().parents[2]

PACKAGES: Mapping[str, tuple[str, ...]] = {
    "warehouse_schema": ("sqlalchemy", "alembic"),
    "indexer": (
        *("warehouse_schema", "sqlalchemy", "psycopg"),
        *("web3", "eth_abi", "eth_account", "eth_hash", "eth_keys", "eth_typing", "eth_utils"),
        *("stellar_sdk", "xdrlib3"),
        *(
            "urllib3",
            "certifi",
            "websockets",
            "orjson",
            "zstandard",
            "obstore",
            "rlp",
            "trie",
            "polars",
            "duckdb",
        ),
    ),
    "relay": (
        *("indexer", "warehouse_schema", "sqlalchemy", "psycopg"),
        *(
            "eth_abi",
            "eth_account",
            "eth_hash",
            "eth_keys",
            "eth_utils",
            "rlp",
            "stellar_sdk",
            "xdrlib3",
        ),
        "orjson",
    ),
    "pipelines": ("dagster", "indexer", "relay", "warehouse_schema"),
    "api": (
        *("indexer", "warehouse_schema", "sqlalchemy"),
        *("flask", "flask_cors", "flask_sock", "wsproto", "werkzeug", "gunicorn"),
        *("limits", "prometheus_client"),
        *("jwt", "pydantic", "typing_extensions", "orjson"),
    ),
    "devnet": (
        *("indexer", "relay", "warehouse_schema", "sqlalchemy", "psycopg"),
        *("web3", "eth_abi", "eth_account", "eth_hash", "eth_keys", "eth_typing", "eth_utils"),
        *("stellar_sdk", "xdrlib3", "nacl", "cryptography", "jwt"),
        *("httpx", "websockets", "orjson", "zstandard", "rlp", "trie"),
        # Its customers use the service as clients do.
        "isthmus_client",
    ),
    # A distribution of its own, for other people's programs: nothing of the project.
    "isthmus_client": ("eth_hash", "httpx", "pydantic", "stellar_sdk", "websockets"),
}
"""Package → what it may import beside itself and the standard library."""

ALSO: Mapping[str, tuple[str, ...]] = {
    # The command `isthmus`.
    "warehouse_schema.cli": ("click",),
    "indexer.cli": ("click",),
    "indexer.metrics": ("prometheus_client",),
    "relay.cli": ("click",),
    "relay.keys_cli": ("click",),
    "pipelines.cli": ("click", "sqlalchemy.exc.OperationalError"),
    "api.cli": ("click",),
    "devnet.cli": ("click",),
    "indexer.logs": ("pythonjsonlogger",),
    # An extra: loaded where traces are exported.
    "indexer.span_exporter": ("opentelemetry",),
    # Settings are pydantic models.
    "warehouse_schema.location": ("pydantic",),
    "warehouse_schema.variables": ("pydantic", "typing_extensions"),
    "indexer.config.settings": ("pydantic",),
    "indexer.config.metrics": ("pydantic",),
    "indexer.cli.config_file": ("pydantic",),
    "indexer.cli.config_values": ("pydantic",),
    "relay.settings": ("pydantic",),
    # SQLAlchemy has no class of its own for a lock timeout.
    "warehouse_schema.leases": ("psycopg.errors.LockNotAvailable",),
    # Creates its database before there is one to make an engine on.
    "warehouse_schema.embedded.launcher": ("psycopg",),
    # An engine is handed on; what to ask it is the indexer's.
    # And a run's configuration is a pydantic model, as Dagster has it.
    "pipelines": ("sqlalchemy.Engine", "pydantic"),
    "pipelines.environment": ("sqlalchemy.engine.URL",),
    # A warehouse that restarts is waited for.
    "pipelines.failures": ("sqlalchemy.exc.OperationalError",),
    # Extras: loaded where the setting says so.
    "pipelines.executors": ("yaml",),
    "pipelines.celery_worker": ("celery", "dagster_celery", "sqlalchemy.exc.OperationalError"),
    "pipelines.kubernetes_steps": ("dagster_k8s",),
    # Asks Dagster's database.
    "pipelines.doctor": ("sqlalchemy",),
    # Asks code servers for their health.
    "pipelines.alive": ("grpc", "grpc_health"),
    "pipelines.workspace": ("grpc",),
    # Dagster's own storage, with connections that are kept.
    "pipelines.storage": ("dagster_postgres", "sqlalchemy"),
    # Serves Dagster's page behind a guard.
    "pipelines.page": ("dagster_webserver", "starlette", "uvicorn"),
    # NOTIFY is the driver's; SQLAlchemy has no word for it.
    "api.notifications": ("psycopg",),
    # Each process reads each commit's messages: through SQLAlchemy it takes several times as long.
    "api.stream.outbox": ("psycopg",),
    "api.stream.outbox_session": ("psycopg",),
    "api.stream.reading_thread": ("psycopg",),
    # SEP-10 challenges are transactions; the library checks them.
    "api.auth.sep10": ("stellar_sdk", "xdrlib3"),
    # Key services: each in its own module, so that nothing else needs its package.
    "relay.signing": ("cryptography",),
    "relay.signing.aws_kms": ("boto3", "botocore"),
    "relay.signing.gcp_kms": ("google.auth", "requests"),
    "relay.signing.vault_transit": ("hvac", "requests"),
    "relay.signing.pkcs11_token": ("pkcs11",),
    # Reads when a certificate ends.
    "api.certificates": ("cryptography",),
    # The library reads the challenge that a wallet would be given.
    "api.doctor": ("stellar_sdk",),
    # Writes stellar.toml.
    "api.auth.stellar_toml": ("tomlkit",),
    # Keys in PEM: PyJWT checks signatures with them, and reads no key of the wrong curve as wrong.
    "api.auth": ("cryptography",),
}
"""Module → what it alone may import more, and why."""

_VALUES = (
    *("indexer.errors", "indexer.addresses", "indexer.loops", "indexer.logs", "indexer.tracing"),
    "indexer.garbage",
    *("indexer.metrics.catalogue", "indexer.metrics.collectors"),
)
_CONFIG = (*_VALUES, "indexer.notifications", "indexer.publisher", "indexer.config")
_CHAINS = (*_CONFIG, "indexer.chains")
_EVENTS = (
    *(*_CONFIG, "indexer.chains.events", "indexer.chains.raw", "indexer.chains.services.messages"),
    *("indexer.chains.stellar.xdr", "indexer.chains.evm.abi", "indexer.chains.evm.abi_columns"),
    "indexer.chains.layouts",
)
"""What chains said, and how its bytes are read: no node is asked."""
_BRIDGES = (*_EVENTS, "indexer.bridges", "indexer.market")
_DECODE = (*_BRIDGES, "indexer.decode")
_FACTS = (*_DECODE, "indexer.facts")
_PROJECTIONS = (*_FACTS, "indexer.movements", "indexer.transfers", "indexer.orderbook")
_ACTIONS = (*_PROJECTIONS, "indexer.actions")
_INGEST = (*_PROJECTIONS, *_CHAINS, "indexer.ingest")
_ANALYTICS = (*_INGEST, "indexer.analytics")

DOWNHILL: Mapping[str, tuple[str, ...]] = {
    "indexer.errors": (),
    "indexer.addresses": (),
    "indexer.library_settings": (),
    "indexer.garbage": (),
    "indexer.logs": (),
    "indexer.loops": ("indexer.errors", "indexer.metrics.collectors"),
    "indexer.metrics": ("indexer.metrics",),
    # Its address is a setting.
    "indexer.metrics.server": (*_CONFIG, "indexer.metrics"),
    "indexer.tracing": ("indexer.errors", "indexer.span_exporter"),
    "indexer.span_exporter": ("indexer.tracing",),
    "indexer.notifications": (),
    "indexer.publisher": ("indexer.loops", "indexer.metrics.collectors"),
    "indexer.config": _CONFIG,
    "indexer.chains.http": (*_CONFIG, "indexer.chains.http"),
    "indexer.chains.stellar.xdr": (
        *(*_CONFIG, "indexer.chains.stellar.xdr"),
        *("indexer.chains.events", "indexer.chains.raw", "indexer.chains.layouts"),
    ),
    "indexer.chains.services": (
        *(*_CONFIG, "indexer.chains.services", "indexer.chains.http", "indexer.chains.events"),
    ),
    "indexer.chains": _CHAINS,
    **{f"indexer.bridges.{folder}": _EVENTS for folder in BRIDGE_FOLDERS},
    "indexer.market": (*_EVENTS, "indexer.market"),
    "indexer.decode": _DECODE,
    "indexer.facts": (*_FACTS, *_CHAINS),
    "indexer.movements": (*_FACTS, "indexer.movements"),
    "indexer.transfers": (*_FACTS, "indexer.movements", "indexer.transfers"),
    "indexer.orderbook": (*_FACTS, "indexer.orderbook"),
    "indexer.actions": _ACTIONS,
    "indexer.policy": (*_CONFIG, "indexer.policy", "indexer.actions"),
    "indexer.chain_state": (*_ACTIONS, *_CHAINS, "indexer.chain_state"),
    "indexer.ingest": _INGEST,
    "indexer.analytics": _ANALYTICS,
    # Whether transfers are moving: chains, relay accounts and money together.
    "indexer.service_status": (*_ANALYTICS, "indexer.policy", "indexer.service_status"),
    # Reads what every other part of the indexer knows how to read.
    "indexer.doctor": (
        *(*_ANALYTICS, *_ACTIONS, "indexer.chain_state", "indexer.doctor"),
        "indexer.service_status",
    ),
    # What a group of checks is, for every package's.
    "indexer.doctor.checks": _CONFIG,
    "indexer.cli": (
        *(*_ANALYTICS, "indexer.service_status", "indexer.library_settings"),
        *("indexer.doctor", "indexer.cli", "indexer.metrics"),
    ),
    # Lazy loading, logs and errors of commands: light, for every package's.
    "indexer.cli.base": _CONFIG,
    "relay.cli": (
        *(*_ACTIONS, *_CHAINS, "indexer.policy", "indexer.cli.base"),
        "indexer.metrics.server",
    ),
    "relay.keys_cli": (*_CONFIG, "indexer.cli.base"),
    # Asks the fold of transfers what it may do for a deposit, under the transfer's lock. Everything
    # else it reads from its own rows and from the chains.
    "relay": (*_ACTIONS, *_CHAINS, "indexer.policy"),
    "relay.doctor": (*_ACTIONS, *_CHAINS, "indexer.policy", "indexer.doctor.checks"),
}
"""Part → parts of the indexer it may import; the longest name that fits is the part.

config, chains → bridges, market → decode → facts → movements, transfers, orderbook → ingest →
analytics → cli, where → is "is imported by". Bridges do not know each other.
"""

ONLY: Mapping[str, tuple[str, ...]] = {
    # Of the chains, the identity provider's part uses how an HTTP request gets an end.
    "indexer.chains.evm": ("indexer", "relay", "devnet"),
    "indexer.chains.stellar": (
        *("indexer", "relay", "devnet", "api.ports"),
        *("api.auth.accounts", "api.auth.sep10", "api.actions.submissions"),
    ),
    "indexer.ingest.readers": ("indexer", "relay", "pipelines.defs.resources"),
    "indexer.ingest.stellar_readers": ("indexer", "relay", "api.wsgi"),
    "indexer.ingest.services": ("indexer", "pipelines.defs.resources"),
    "devnet": ("devnet",),
    # Holds keys that move money: the processes that have none cannot even name what reads them.
    "relay": ("relay", "devnet", "pipelines.relay", "pipelines.webhooks"),
    "dagster.EnvVar": ("pipelines.defs.resources",),
    "os.environ": (
        # Over what isthmus.toml says.
        "warehouse_schema.configuration",
        # Sets what libraries read.
        "indexer.library_settings",
    ),
    "os.environb": (),
    "os.getenv": (),
    "os.putenv": (),
}
"""Name → the modules that may use it; everybody else may not."""

PARENTS = ("indexer", "indexer.bridges", "indexer.chains")
"""Packages that hold parts, and at most the list of them."""

TIMELESS = (
    *("indexer.bridges", "indexer.market", "indexer.decode", "indexer.chains.stellar.xdr"),
    *("indexer.movements", "indexer.orderbook", "indexer.actions"),
    "indexer.transfers",
)
TELLS_TIME = (
    # Compares stored times with the database clock: a transfer expires though nothing happens.
    "indexer.transfers.keeper",
    # A deposit's expiry arrives as a datetime of the database.
    "indexer.bridges.deposit_address.factory",
)
CLOCKS = ("time", "datetime", "sqlalchemy.func.now", "sqlalchemy.func.clock_timestamp", "random")
"""Time is a fact: what folds facts reads no clock and throws no dice."""

FEATURES_MEET = (
    *("api.auth.owner", "api.quotes.store"),
    # Who is let in by a token, in a request's header or otherwise.
    *("api.auth.claims.AuthSession", "api.auth.authenticator.Authenticator"),
    # Whatever is done with a transfer goes through its one door, and shows it in one shape.
    *("api.transfers.access", "api.transfers.details", "api.transfers.responses"),
    "api.transfers.schema",
    # The stream says what the order book shows.
    *("api.orderbook.filters", "api.orderbook.queries", "api.orderbook.responses"),
    "api.orderbook.schema",
)
"""What one feature of the api may import of another."""


@dataclass(frozen=True)
class Use:
    """A name that a module imports or reaches through an import."""

    name: str
    line: int


def folder_of(package: str) -> Path:
    """The folder of a package."""
    return ROOT / ("clients/python" if package == "isthmus_client" else "") / package


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the roles, by its dotted name."""
    for role in PACKAGES:
        folder = folder_of(role)
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder.parent).with_suffix("").parts
            yield ".".join(part for part in parts if part != "__init__"), path


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """What a module's source does against the tables, a sentence each."""
    found = {
        f"{module}:{use.line} uses {use.name}: {reason}"
        for use in uses(module, ast.parse(source), is_package=is_package)
        for reason in _reasons(module, use.name)
    }
    return sorted(found)


def uses(module: str, tree: ast.Module, *, is_package: bool = False) -> Iterator[Use]:
    """All imports, wherever they stand, and dotted names that begin with one."""
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Use(alias.name, node.lineno)
                bound[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            origin = _origin(module, node, is_package=is_package)
            for alias in node.names:
                yield Use(f"{origin}.{alias.name}", node.lineno)
                bound[alias.asname or alias.name] = f"{origin}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = _dotted(node)
            head, _, rest = name.partition(".")
            if head in bound:
                yield Use(f"{bound[head]}.{rest}", node.lineno)


def _origin(module: str, node: ast.ImportFrom, *, is_package: bool) -> str:
    if node.level == 0:
        return str(node.module)
    parts = module.split(".")
    above = parts[: len(parts) - node.level + is_package]
    return ".".join([*above, node.module] if node.module else above)


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _reasons(module: str, name: str) -> Iterator[str]:
    role = module.partition(".")[0]
    if not _is_within(name, [role, *sys.stdlib_module_names, *PACKAGES[role], *_extra(module)]):
        yield f"{role} may not import it"
    part = _part(module)
    if part is not None and _is_within(name, ["indexer"]) and not _is_downhill(part, name):
        yield f"it lies uphill of {part}"
    for guarded, users in ONLY.items():
        if _is_within(name, [guarded]) and not _is_within(module, users):
            yield f"only {' and '.join(users) or 'nobody'} may"
    if (
        _is_within(module, TIMELESS)
        and not _is_within(module, TELLS_TIME)
        and _is_within(name, CLOCKS)
    ):
        yield "no clock below the api"
    if _is_other_feature(module, name) and not _is_within(name, FEATURES_MEET):
        yield f"features meet only in {' and '.join(FEATURES_MEET)}"


def _extra(module: str) -> list[str]:
    return [name for user, names in ALSO.items() if _is_within(module, [user]) for name in names]


def _part(module: str) -> str | None:
    """The longest entry of DOWNHILL that holds a module; None outside of the tables.

    Raises `KeyError` for a module of the indexer that no entry holds.
    """
    held = [part for part in DOWNHILL if _is_within(module, [part])]
    if held:
        return max(held, key=len)
    if _is_within(module, ["indexer"]) and module != "indexer" and module not in PARENTS:
        raise KeyError(f"{module} has no place in DOWNHILL; give it one")
    return None


def _is_downhill(part: str, name: str) -> bool:
    """Whether a part may import a name; a bare package is no more than a way to its parts."""
    return name in PARENTS or _is_within(name, [part, *DOWNHILL[part]])


def _is_other_feature(module: str, name: str) -> bool:
    own, other = _feature(module), _feature(name)
    return own is not None and other is not None and own != other


def _feature(name: str) -> str | None:
    """`orderbook` of `api.orderbook.views`; None for what lies beside the features."""
    parts = name.split(".")
    is_inside = parts[0] == "api" and len(parts) > 2 and (ROOT / "api" / parts[1]).is_dir()
    return parts[1] if is_inside else None


def _is_within(name: str, prefixes: Collection[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)
