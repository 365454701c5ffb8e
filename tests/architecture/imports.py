"""Who may import whom: the rules as tables, and the reading of a module against them."""

import ast
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ROOMS: Mapping[str, tuple[str, ...]] = {
    "warehouse_schema": ("sqlalchemy", "alembic"),
    "indexer": (
        *("warehouse_schema", "sqlalchemy", "psycopg"),
        *("web3", "eth_abi", "eth_account", "eth_hash", "eth_keys", "eth_typing", "eth_utils"),
        *("stellar_sdk", "xdrlib3"),
        *("httpx", "websockets", "orjson", "zstandard", "obstore", "rlp", "trie", "polars"),
    ),
    "pipelines": ("dagster", "indexer", "warehouse_schema"),
    "api": (
        *("indexer", "warehouse_schema", "sqlalchemy"),
        *("flask", "flask_cors", "flask_sock", "wsproto", "werkzeug", "gunicorn"),
        *("limits", "prometheus_client"),
        *("jwt", "pydantic", "typing_extensions", "orjson"),
    ),
}
"""Room → what it may import beside itself and the standard library."""

ALSO: Mapping[str, tuple[str, ...]] = {
    # Creates its database before there is one to make an engine on.
    "warehouse_schema.embedded.launcher": ("psycopg",),
    # Checks the signatures that its contracts and accounts would check, and makes the demo's keys.
    # It sees what the service shows as clients do.
    "indexer.devnet": ("nacl", "cryptography", "api.client"),
    # And signs tokens as an identity provider does.
    "indexer.devnet.identity": ("jwt", "cryptography"),
    # An engine is handed on; what to ask it is the indexer's.
    # And a run's configuration is a pydantic model, as Dagster has it.
    "pipelines": ("sqlalchemy.Engine", "pydantic"),
    # Dagster's own storage, with connections that are kept.
    "pipelines.storage": ("dagster_postgres",),
    # Serves Dagster's page behind a guard.
    "pipelines.page": ("dagster_webserver", "starlette", "uvicorn"),
    # NOTIFY is the driver's; SQLAlchemy has no word for it.
    "api.changes": ("psycopg",),
    "api.auth.provider": ("httpx",),
    # SEP-10 challenges are transactions; the library checks them.
    "api.auth.sep10": ("stellar_sdk", "xdrlib3"),
    # Writes stellar.toml.
    "api.auth.stellar_toml": ("tomlkit",),
    # Keys in PEM: PyJWT checks signatures with them, and reads no key of the wrong curve as wrong.
    "api.auth": ("cryptography",),
}
"""Module → what it alone may import more, and why."""

ALONE: Mapping[str, tuple[str, ...]] = {
    # Goes to others, who have nothing else of this.
    "api.client": ("eth_hash", "httpx", "pydantic", "stellar_sdk", "websockets"),
}
"""Part → what it may import beside itself and the standard library: nothing of its room."""

_VALUES = ("indexer.errors", "indexer.addresses", "indexer.nesting")
_NETWORKS = (*_VALUES, "indexer.networks")
_DECODE = (*_NETWORKS, "indexer.events", "indexer.decode")
_CHAINS = (*_DECODE, "indexer.chains")
_FACTS = (*_CHAINS, "indexer.builds", "indexer.facts")
_LOOPS = ("indexer.stopping", "indexer.outages")
_PROJECTIONS = (*_DECODE, "indexer.facts", "indexer.projections")
_DRAIN = (*_FACTS, "indexer.projections", "indexer.proving", "indexer.drain", *_LOOPS)
_TOOLS = (
    *("indexer.settings", "indexer.readers", "indexer.warehouse"),
    *("indexer.attestations", "indexer.backfill", "indexer.following", "indexer.keeper"),
    "indexer.quarantine",
    *("indexer.revision", "indexer.analytics", "indexer.export", "indexer.day_commands"),
    *("indexer.backfill_command", "indexer.rescan_command", "indexer.revision_commands"),
    *("indexer.heal", "indexer.heal_command", "indexer.reconciliation", "indexer.retention"),
)

DOWNHILL: Mapping[str, tuple[str, ...]] = {
    "indexer.errors": (),
    "indexer.addresses": (),
    "indexer.nesting": (),
    "indexer.stopping": (),
    "indexer.outages": ("indexer.stopping",),
    "indexer.notices": (),
    "indexer.networks": _VALUES,
    "indexer.builds": (),
    "indexer.deposits": (*_NETWORKS, "indexer.routes"),
    "indexer.routes": _NETWORKS,
    "indexer.limits": ("indexer.routes",),
    "indexer.paid_failures": (),
    "indexer.secrets": ("indexer.errors",),
    "indexer.settings": _NETWORKS,
    "indexer.events": ("indexer.events",),
    "indexer.decode": _DECODE,
    "indexer.chains": _CHAINS,
    "indexer.facts": _FACTS,
    "indexer.projections": _PROJECTIONS,
    "indexer.actions": (*_DECODE, "indexer.projections"),
    "indexer.analytics": ("indexer.errors", "indexer.networks", "indexer.facts"),
    "indexer.export": ("indexer.errors", "indexer.facts", "indexer.analytics"),
    "indexer.day_commands": (
        *("indexer.analytics", "indexer.export", "indexer.facts"),
        *("indexer.settings", "indexer.warehouse"),
    ),
    "indexer.proving": (*_FACTS, "indexer.projections"),
    "indexer.drain": _DRAIN,
    "indexer.following": _DRAIN,
    "indexer.backfill": _DRAIN,
    "indexer.attestations": (*_FACTS, "indexer.projections", *_LOOPS),
    "indexer.keeper": (*_DRAIN, "indexer.notices"),
    "indexer.quarantine": (*_DRAIN, "indexer.backfill"),
    "indexer.reconciliation": _PROJECTIONS,
    "indexer.retention": (),
    "indexer.revision": (*_DRAIN, "indexer.backfill"),
    "indexer.backfill_command": (
        *("indexer.backfill", "indexer.errors", "indexer.networks", "indexer.readers"),
        *("indexer.settings", "indexer.warehouse"),
    ),
    "indexer.rescan_command": (
        *(*_DRAIN, "indexer.backfill_command", "indexer.settings", "indexer.warehouse"),
    ),
    "indexer.heal": (*_DRAIN, "indexer.backfill"),
    "indexer.heal_command": (
        *("indexer.heal", "indexer.backfill_command", "indexer.readers"),
        *("indexer.settings", "indexer.warehouse"),
    ),
    "indexer.revision_commands": ("indexer.revision", "indexer.settings", "indexer.warehouse"),
    "indexer.readers": (*_CHAINS, "indexer.settings"),
    "indexer.fees": (
        *(*_CHAINS, "indexer.actions", "indexer.routes"),
        *("indexer.settings", "indexer.stellar_state"),
    ),
    "indexer.evm_state": (*_CHAINS, "indexer.actions", "indexer.settings"),
    "indexer.stellar_state": (*_CHAINS, "indexer.actions", "indexer.settings"),
    "indexer.warehouse": ("indexer.errors", "indexer.settings"),
    "indexer.senders": (),
    "indexer.sponsorship": ("indexer.actions", "indexer.senders"),
    "indexer.relay": (
        *(*_CHAINS, "indexer.actions", "indexer.senders", "indexer.sponsorship"),
        *("indexer.notices", *_LOOPS),
        *("indexer.secrets", "indexer.settings", "indexer.warehouse"),
        # What it may do for a deposit it asks the fold, under the transfer's lock.
        *("indexer.deposits", "indexer.projections", "indexer.limits", "indexer.paid_failures"),
    ),
    "indexer.__main__": (*_DRAIN, *_TOOLS),
    "indexer.devnet": ("indexer",),
}
"""Part of the indexer → parts it may import. drain → projections → facts → decode → events."""

ONLY: Mapping[str, tuple[str, ...]] = {
    # Of the chains, the identity provider's part uses how an HTTP request gets an end.
    "indexer.chains": ("indexer", "api.deps", "api.auth.provider", "pipelines.defs.resources"),
    "indexer.readers": ("indexer", "api.deps", "pipelines.defs.resources"),
    "indexer.devnet": ("indexer.devnet",),
    # Holds keys that move money: the processes that have none cannot even name what reads them.
    "indexer.relay": ("indexer.relay", "pipelines.relay", "pipelines.webhooks"),
    "api.client": ("api.client", "indexer.devnet"),
    "dagster.EnvVar": ("pipelines.defs.resources",),
    "os.environ": (
        "indexer.settings",
        # Imports no other room, and its commands run before there is a database.
        "warehouse_schema.location",
        # Their keys are for their processes alone.
        "api.settings",
        "indexer.relay.settings",
        "pipelines.page.settings",
        # Tells its workers where to put their figures together.
        "api.__main__",
        # Hands its own environment on to the processes it starts.
        "indexer.devnet.supervisor",
    ),
    "os.environb": (),
    "os.getenv": (),
    "os.putenv": (),
}
"""Name → the modules that may use it; everybody else may not."""

TIMELESS = ("indexer.events", "indexer.decode", "indexer.projections", "indexer.actions")
CLOCKS = ("time", "datetime", "sqlalchemy.func.now", "sqlalchemy.func.clock_timestamp", "random")
"""Time is a fact: what folds facts reads no clock and throws no dice."""

FEATURES_MEET = (
    *("api.auth.owner", "api.quotes.store"),
    # Who is let in by a token, in a request's header or otherwise.
    *("api.auth.claims.Session", "api.auth.gate.Gate"),
    # Whatever is done with a transfer goes through its one door, and shows it in one shape.
    *("api.transfers.access", "api.transfers.progress", "api.transfers.shapes"),
    "api.transfers.schema",
    # The stream says what the order book shows.
    *("api.orderbook.filters", "api.orderbook.queries", "api.orderbook.shapes"),
    *("api.orderbook.schema", "api.orderbook.description"),
)
"""What one feature of the api may import of another."""


@dataclass(frozen=True)
class Use:
    """A name that a module imports or reaches through an import."""

    name: str
    line: int


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the rooms, by its dotted name."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
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
    room = module.partition(".")[0]
    alone = next((part for part in ALONE if _is_within(module, [part])), None)
    if alone is not None:
        if not _is_within(name, [alone, *sys.stdlib_module_names, *ALONE[alone]]):
            yield f"{alone} imports nothing of the project but itself"
        return
    if not _is_within(name, [room, *sys.stdlib_module_names, *ROOMS[room], *_extra(module)]):
        yield f"{room} may not import it"
    part = _part(module)
    if part is not None and _is_within(name, ["indexer"]) and not _is_downhill(part, name):
        yield f"it lies uphill of {part}"
    for guarded, users in ONLY.items():
        if _is_within(name, [guarded]) and not _is_within(module, users):
            yield f"only {' and '.join(users) or 'nobody'} may"
    if _is_within(module, TIMELESS) and _is_within(name, CLOCKS):
        yield "no clock below the api"
    if _is_other_feature(module, name) and not _is_within(name, FEATURES_MEET):
        yield f"features meet only in {' and '.join(FEATURES_MEET)}"


def _extra(module: str) -> list[str]:
    return [name for user, names in ALSO.items() if _is_within(module, [user]) for name in names]


def _part(module: str) -> str | None:
    """The part of the indexer that a module belongs to. Raises `KeyError` if the table has none."""
    parts = module.split(".")
    if parts[0] != "indexer" or len(parts) == 1:
        return None
    part = ".".join(parts[:2])
    if part not in DOWNHILL:
        raise KeyError(f"{part} has no place in DOWNHILL; give it one")
    return part


def _is_downhill(part: str, name: str) -> bool:
    """Whether a part may import a name; the bare package is no more than a way to its parts."""
    return name == "indexer" or _is_within(name, [part, *DOWNHILL[part]])


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
