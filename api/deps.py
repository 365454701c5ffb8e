"""The app's dependencies as one value, and how views get at it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from flask import Flask, current_app
from sqlalchemy import Connection, Engine

from api.auth.identity import IdentityProvider
from api.auth.sep10 import Sep10
from api.auth.tokens import Tokens
from api.browser_headers import BrowserPolicy
from api.errors import ChainUnavailable, Unavailable
from api.metrics import Metrics
from api.notifications import NotificationListener
from api.ports import Accounts, EvmSource, FeeSource, StellarSource
from api.rate_limits import RateBudgets, RateLimiter
from api.replica import Replica
from api.settings import QUOTE_SECONDS, TRANSFER_SECONDS
from api.shutdown import GracefulShutdown
from api.stream.limits import StreamLimits
from indexer.config.networks import Network
from warehouse_schema.identifiers import UnixSeconds

_KEY = "isthmus"


@dataclass(frozen=True, slots=True)
class Deps:
    """Everything a view reaches beyond its request. A feature whose dependency is None is off."""

    engine: Engine
    """The warehouse's primary, under the api's role."""
    network: Network
    clock: Callable[[], UnixSeconds]
    """Wall clock: for expiries and ages, never for what a ledger decides."""
    replica: Replica | None = None
    """A replica that some reads may use (`api.reads`)."""
    listener: NotificationListener | None = None
    """Reports commits; without it every answer reads the warehouse."""
    stream: StreamLimits = field(default_factory=StreamLimits)
    shutdown: GracefulShutdown = field(default_factory=GracefulShutdown)
    web: BrowserPolicy = field(default_factory=BrowserPolicy)
    metrics: Metrics = field(default_factory=Metrics)
    limiter: RateLimiter = field(default_factory=lambda: RateLimiter(RateBudgets()))
    """By default without limits."""
    tokens: Tokens | None = None
    """Issues and verifies our own tokens."""
    identity: IdentityProvider | None = None
    """Verifies the identity provider's tokens."""
    sep10: Sep10 | None = None
    """Makes and reads SEP-10 challenges."""
    accounts: Accounts | None = None
    statement: Mapping[str, Any] = field(default_factory=dict)
    """The operator's entries in stellar.toml."""
    fees: FeeSource | None = None
    evm: EvmSource | None = None
    stellar: StellarSource | None = None
    webhook_key: str | None = None
    """Public key of the webhook sender."""
    status_seconds: float = 0.0
    """How long an answer of `/v1/status` is served; 0: each request reads."""
    readiness_seconds: float = 0.0
    """How long an answer of `/readyz/process` is served; 0: each request reads."""
    quote_seconds: int = QUOTE_SECONDS
    """Lifetime of a quote."""
    transfer_seconds: int = TRANSFER_SECONDS
    """How long a transfer waits for its owner's transactions."""


def register_deps(app: Flask, deps: Deps) -> None:
    """Give an app its dependencies."""
    app.extensions[_KEY] = deps


def deps_of(app: Flask) -> Deps:
    """The dependencies of an app, outside of a request."""
    found: Deps = app.extensions[_KEY]
    return found


def shutdown_of(app: object) -> GracefulShutdown | None:
    """The shutdown of an app; None if it is none of ours."""
    found: Deps | None = app.extensions.get(_KEY) if isinstance(app, Flask) else None
    return None if found is None else found.shutdown


def deps() -> Deps:
    """The dependencies of the app that serves this request."""
    found: Deps = current_app.extensions[_KEY]
    return found


def require_accounts() -> Accounts:
    """The source of accounts. Raises `Unavailable` without one."""
    accounts = deps().accounts
    if accounts is None:
        raise Unavailable("this process reads no accounts", code="LEDGER_UNAVAILABLE")
    return accounts


def require_evm() -> EvmSource:
    """The source of EVM chains. Raises `ChainUnavailable` without one."""
    source = deps().evm
    if source is None:
        raise ChainUnavailable("this process reads no EVM chain")
    return source


def snapshot() -> AbstractContextManager[Connection]:
    """`read_snapshot` of the app's warehouse."""
    return read_snapshot(deps().engine)


@contextmanager
def read_snapshot(engine: Engine) -> Iterator[Connection]:
    """A read-only REPEATABLE READ transaction: one answer, header and body, uses one of these."""
    with engine.connect() as connection:
        snapshot = connection.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        with snapshot.begin():
            yield snapshot
