"""The entry for a WSGI server (`gunicorn api.wsgi:app`): reads settings and builds the app.

Each worker process imports this for itself, so no connection and no thread crosses a fork.
"""

import time

from werkzeug.middleware.proxy_fix import ProxyFix

from api.actions.sources import LimitedEvmSource, LimitedStellarSource
from api.app import create_app
from api.auth.accounts import LimitedAccounts
from api.auth.identity import identity_from_settings
from api.auth.sep10 import sep10_from_settings
from api.auth.stellar_toml import read_statement
from api.auth.tokens import tokens_from_settings
from api.browser_headers import BrowserPolicy
from api.certificates import watch_certificate
from api.deps import Deps, read_snapshot
from api.health.readiness import READINESS_SECONDS
from api.load_shedding import LoadShedder
from api.metrics import Exporter, Metrics
from api.notifications import NotificationListener
from api.orderbook.queries import read_book
from api.quotes.fees import LimitedFees
from api.rate_limits import RateLimiter
from api.rate_storage import PostgresRateStorage
from api.replica import Replica
from api.server import THREADS
from api.settings import load_all_settings
from api.shutdown import GracefulShutdown
from api.status.recent import STATUS_SECONDS
from api.stream.limits import StreamLimits
from api.warehouse_metrics import WarehouseMetrics
from indexer.chain_state.evm import open_evm_state
from indexer.chain_state.fees import open_fees
from indexer.chain_state.stellar import open_stellar_state
from indexer.config.settings import log_format
from indexer.config.warehouse import open_engine
from indexer.ingest.stellar_readers import open_accounts
from indexer.logs import configure_logging
from indexer.tracing import start_tracing
from warehouse_schema.engine import make_pooled_engine, warehouse_url
from warehouse_schema.identifiers import UnixSeconds


def _now() -> UnixSeconds:
    return UnixSeconds(int(time.time()))


def _book_age() -> int | None:
    """Seconds since the last folded ledger closed; None before the first."""
    with read_snapshot(_engine) as connection:
        book = read_book(connection, _settings.network.stellar.id)
    return None if book is None else book.age(_now())


configure_logging("api", log_format())
start_tracing("api")

_settings, _own = load_all_settings()
_sep10 = sep10_from_settings(_own, _settings.network.stellar.passphrase)
_has_stellar_node = bool(_settings.nodes.get(_settings.network.stellar.id))
_listener = NotificationListener(open_engine(_settings, "api", pool_size=1))
_metrics = Metrics()
_engine = (
    open_engine(_settings, "api", pool_size=THREADS)
    if _own.pooler_url is None
    else make_pooled_engine(
        warehouse_url(_own.pooler_url, "ISTHMUS_POOLER_URL"), "api", pool_size=THREADS
    )
)
_replica = (
    None
    if _own.replica_url is None
    else Replica(
        make_pooled_engine(
            warehouse_url(_own.replica_url, "ISTHMUS_REPLICA_URL"),
            "api",
            pool_size=THREADS,
            connect_seconds=2,
        ),
        _engine,
    )
)
app = create_app(
    Deps(
        engine=_engine,
        replica=_replica,
        status_seconds=STATUS_SECONDS,
        readiness_seconds=READINESS_SECONDS,
        network=_settings.network,
        clock=_now,
        listener=_listener,
        stream=StreamLimits(clients=_own.streams, clients_per_address=_own.streams_per_address),
        shutdown=GracefulShutdown(_own.shutdown_seconds),
        web=BrowserPolicy(_own.origins, _own.hsts_seconds),
        metrics=_metrics,
        limiter=RateLimiter(
            _own.rates, PostgresRateStorage(_engine), on_refusal=_metrics.rate_limited
        ),
        tokens=tokens_from_settings(_own, _now),
        identity=identity_from_settings(_own, _engine, _now),
        sep10=_sep10,
        # Without a node this raises `ConfigurationError`: SEP-10 needs one.
        accounts=(
            LimitedAccounts(open_accounts(_settings))
            if _sep10 is not None or _has_stellar_node
            else None
        ),
        statement=read_statement(_own.stellar_toml, _settings.network),
        fees=LimitedFees(open_fees(_settings)),
        evm=LimitedEvmSource(open_evm_state(_settings)),
        stellar=(
            LimitedStellarSource(open_stellar_state(_settings)) if _has_stellar_node else None
        ),
        webhook_key=_own.webhook_key,
        quote_seconds=_own.quote_seconds,
        transfer_seconds=_own.transfer_seconds,
    ),
)
if _own.proxies:
    # Only behind proxies: clients can send these headers, too.
    app.wsgi_app = LoadShedder(  # type: ignore[method-assign]
        ProxyFix(app.wsgi_app, x_for=_own.proxies), _metrics.shed
    )
if _own.metrics is not None:
    # In front of everything that reads a proxy's headers.
    app.wsgi_app = Exporter(  # type: ignore[method-assign]
        app.wsgi_app,
        _metrics,
        WarehouseMetrics(
            _engine,
            _settings.network,
            _book_age,
            home=_settings.home,
            backup_file=_own.backup_file,
            certificate=watch_certificate(_own.url),
        ),
        folder=_own.metrics_folder,
        port=_own.metrics.rpartition(":")[2],
    )
_listener.start()
