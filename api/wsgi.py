"""The entry for a WSGI server (`gunicorn api.wsgi:app`), and the one reader of the world.

Each worker process imports this for itself, so no connection and no thread crosses a fork.
"""

import logging
import time

from werkzeug.middleware.proxy_fix import ProxyFix

from api.actions.stellar_source import StellarSource
from api.app import create_app
from api.auth.accounts import Accounts, LimitedAccounts
from api.auth.identity import identity_from_settings
from api.auth.sep10 import sep10_from_settings
from api.auth.stellar_toml import read_statement
from api.auth.tokens import tokens_from_settings
from api.deps import Deps, accounts_of, evm_of, fees_of, reading, stellar_of
from api.metrics import Exporter, Metrics, WarehouseMetrics
from api.notifications import NotificationListener
from api.orderbook.queries import read_book
from api.rate_storage import Postgres
from api.rates import Limiter
from api.settings import OFF, load_api_settings
from api.stream.limits import StreamLimits
from api.web import Web
from indexer.config.settings import load_settings
from indexer.config.warehouse import open_engine
from warehouse_schema.identifiers import UnixSeconds

THREADS = 8
"""Requests that one worker serves at a time; each may hold one connection."""


def _now() -> UnixSeconds:
    return UnixSeconds(int(time.time()))


def _book_age() -> int | None:
    """Seconds since the last folded ledger closed; None before the first."""
    with reading(_engine) as connection:
        found = read_book(connection, _settings.network.stellar.id)
    return None if found is None else max(0, _now() - found[1].close_time)


def _accounts() -> Accounts | None:
    """Who may sign for whom, and be paid what; a node is needed only where somebody signs in."""
    is_read = _sep10 is not None or _settings.nodes.get(_settings.network.stellar.id)
    return LimitedAccounts(accounts_of(_settings)) if is_read else None


def _stellar() -> StellarSource | None:
    """What is to be signed on Stellar is made where there is a node of it."""
    return stellar_of(_settings) if _settings.nodes.get(_settings.network.stellar.id) else None


logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
# At INFO it names the URL of each request, and with it whom we look up.
logging.getLogger("httpx").setLevel(logging.WARNING)

_settings = load_settings()
_own = load_api_settings()
_sep10 = sep10_from_settings(_own, _settings.network.stellar.passphrase)
_changes = NotificationListener(open_engine(_settings, "api", pool_size=1))
_metrics = Metrics()
_engine = open_engine(_settings, "api", pool_size=THREADS)
app = create_app(
    Deps(
        engine=_engine,
        network=_settings.network,
        clock=_now,
        changes=_changes,
        stream=StreamLimits(clients=_own.streams, clients_per_address=_own.streams_per_address),
        web=Web(_own.origins, _own.hsts_seconds),
        metrics=_metrics,
        limiter=Limiter(_own.rates, Postgres(_engine), on_refusal=_metrics.rate_limited),
        tokens=tokens_from_settings(_own, _now),
        identity=identity_from_settings(_own, _engine, _now),
        sep10=_sep10,
        accounts=_accounts(),
        statement=read_statement(_own.stellar_toml, _settings.network),
        fees=fees_of(_settings),
        evm=evm_of(_settings),
        stellar=_stellar(),
        webhook_key=_own.webhook_key,
        quote_seconds=_own.quote_seconds,
        transfer_seconds=_own.transfer_seconds,
    ),
)
if _own.proxies:
    # Not for every app: a header that anyone can send would say where a request comes from.
    app.wsgi_app = ProxyFix(app.wsgi_app, x_for=_own.proxies)  # type: ignore[method-assign]
if _own.metrics != OFF:
    # In front of everything that reads a proxy's headers.
    app.wsgi_app = Exporter(  # type: ignore[method-assign]
        app.wsgi_app,
        _metrics,
        WarehouseMetrics(_engine, _settings.network, _book_age),
        folder=_own.metrics_folder,
        port=_own.metrics.rpartition(":")[2],
    )
_changes.start()
