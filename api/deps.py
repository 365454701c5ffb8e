"""What the app needs from the world, as one value, and how views get at it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from flask import Flask, current_app
from sqlalchemy import Connection, Engine

from api.actions.evm_source import EvmSource, LimitedEvmSource
from api.actions.stellar_source import LimitedStellarSource, StellarSource
from api.auth.accounts import Accounts
from api.auth.identity import IdentityProvider
from api.auth.sep10 import Sep10
from api.auth.tokens import Tokens
from api.errors import Unavailable
from api.metrics import Metrics
from api.notifications import NotificationListener
from api.quotes.fees import FeeSource, LimitedFees
from api.rates import Limiter, Rates
from api.stream.limits import StreamLimits
from api.web import Web
from indexer.chain_state.evm import open_evm_state
from indexer.chain_state.fees import open_fees
from indexer.chain_state.stellar import open_stellar_state
from indexer.config.networks import Network
from indexer.config.settings import Settings
from indexer.ingest.readers import open_accounts
from warehouse_schema.identifiers import UnixSeconds

_KEY = "isthmus"
QUOTE_SECONDS = 300
TRANSFER_SECONDS = 1_800


@dataclass(frozen=True, slots=True)
class Deps:
    """Everything a view reaches beyond its request."""

    engine: Engine
    """The warehouse, under the api's role."""
    network: Network
    clock: Callable[[], UnixSeconds]
    """The time of day: for what is said about time, never for what a ledger decides."""
    changes: NotificationListener | None = None
    """Tells what commits; None: nothing is told, and every answer is read anew."""
    stream: StreamLimits = field(default_factory=StreamLimits)
    web: Web = field(default_factory=Web)
    """Which pages may use the API."""
    metrics: Metrics = field(default_factory=Metrics)
    """Counts, for operators."""
    limiter: Limiter = field(default_factory=lambda: Limiter(Rates()))
    """Counts requests; by default there is no limit."""
    tokens: Tokens | None = None
    """Issues and verifies our own tokens; None: there are none, and none is good."""
    identity: IdentityProvider | None = None
    """Verifies the identity provider's tokens; None: none is good."""
    sep10: Sep10 | None = None
    """Makes and reads challenges; None: nobody signs in with an account."""
    accounts: Accounts | None = None
    """Where it is read who may sign for an account, and what it can be paid."""
    statement: Mapping[str, Any] = field(default_factory=dict)
    """What the operator says of itself in stellar.toml."""
    fees: FeeSource | None = None
    """Where it is read what others charge; None: what depends on it is priced by nobody."""
    evm: EvmSource | None = None
    """Where EVM chains are read for who signs there; None: nobody is shown anything to sign."""
    stellar: StellarSource | None = None
    """Where the ledger is asked for who signs there; None: as above."""
    webhook_key: str | None = None
    """Public key of who sends to webhooks; None: nobody does."""
    quote_seconds: int = QUOTE_SECONDS
    """How long a quote is good for."""
    transfer_seconds: int = TRANSFER_SECONDS
    """How long a transfer waits for what its owner has to do."""


def hold(app: Flask, deps: Deps) -> None:
    """Give an app its dependencies."""
    app.extensions[_KEY] = deps


def deps() -> Deps:
    """The dependencies of the app that serves this request."""
    held: Deps = current_app.extensions[_KEY]
    return held


def held_accounts() -> Accounts:
    """Where accounts are read. Raises `Unavailable` where they are not."""
    accounts = deps().accounts
    if accounts is None:
        raise Unavailable("this process reads no accounts", code="LEDGER_UNAVAILABLE")
    return accounts


def snapshot() -> AbstractContextManager[Connection]:
    """`reading` of the app's warehouse."""
    return reading(deps().engine)


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A read-only transaction that sees one state of the warehouse, whatever commits meanwhile.

    What one answer says, header and body, is read through one of these.
    """
    with engine.connect() as connection:
        reading = connection.execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        )
        with reading.begin():
            yield reading


def accounts_of(settings: Settings) -> Accounts:
    """The Stellar accounts of the network. Raises `ConfigurationError` without a node."""
    return open_accounts(settings)


def fees_of(settings: Settings) -> FeeSource:
    """The fees of the network."""
    return LimitedFees(open_fees(settings))


def evm_of(settings: Settings) -> EvmSource:
    """The EVM chains of the network that have nodes."""
    return LimitedEvmSource(open_evm_state(settings))


def stellar_of(settings: Settings) -> StellarSource:
    """The network's Stellar chain. Raises `ConfigurationError` without a node."""
    return LimitedStellarSource(open_stellar_state(settings))
