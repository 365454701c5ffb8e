"""HTTP client of the identity provider.

Requests two fixed URLs below the configured one, with timeouts, a size limit and no redirects:

| response | meaning |
| - | - |
| a user | its embedded Stellar wallets, maybe none |
| `404` for a user | unknown user: its tokens are invalid |
| `401`, `403` | our credentials are wrong: unavailable, and an error in the log |
| `429`, `5xx`, a timeout, an invalid body | unavailable |

Backs off after a failure, longer if `Retry-After` says so. At most `MAX_CONCURRENT_REQUESTS`
threads wait for it, so that requests without a provider's token are still served.
"""

import base64
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from api.errors import IdentityUnavailable
from indexer.addresses import stellar_account
from indexer.chains.http.client import HttpEndpoint, HttpResponse, host_of
from indexer.errors import NodeUnavailable
from warehouse_schema.identifiers import StellarAddress

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 2.5
MAX_CONCURRENT_REQUESTS = 4
BACKOFF_SECONDS = 5.0
MAX_BACKOFF_SECONDS = 60.0
_MAX_BYTES = 256 * 1024
_LAST = float("inf")

EMBEDDED = {
    "type": "wallet",
    "chain_type": "stellar",
    "wallet_client_type": "privy",
    "connector_type": "embedded",
}
"""Members of a linked account that counts. External wallets, smart wallets, accounts at other apps
and wallets of other chains do not."""


@dataclass(frozen=True, slots=True)
class Wallet:
    """An embedded Stellar wallet of a user."""

    address: StellarAddress
    imported: bool
    """Its key has existed outside the provider."""


class _LinkedWallet(BaseModel):
    address: str
    wallet_index: int | None = None
    first_verified_at: int | None = None
    imported: bool = False


class _User(BaseModel):
    id: str
    linked_accounts: list[dict[str, Any]]


class IdentityProviderApi:
    """`timer` is a monotonic clock in seconds; `timeout` covers the whole response."""

    def __init__(
        self,
        url: str,
        app_id: str,
        app_secret: str,
        *,
        timeout: float = TIMEOUT_SECONDS,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._app_id = app_id
        self._where = f"identity provider at {host_of(url)}"
        credentials = f"{app_id}:{app_secret}".encode()
        self._headers = {
            "Authorization": f"Basic {base64.b64encode(credentials).decode()}",
            "privy-app-id": app_id,
        }
        self._timeout = timeout
        self._timer = timer
        self._slots = threading.BoundedSemaphore(MAX_CONCURRENT_REQUESTS)
        self._retry_at = 0.0

    def key_set(self) -> bytes:
        """The JWKS. Raises `IdentityUnavailable`."""
        response = self._get(f"/v1/apps/{quote(self._app_id, safe='')}/jwks.json")
        if response.status != 200:
            raise self._unavailable(f"the key set is a {response.status}")
        return response.content

    def wallets(self, subject: str) -> tuple[Wallet, ...] | None:
        """A user's embedded Stellar wallets, the preferred first; None for an unknown user.

        Raises `IdentityUnavailable`.
        """
        with self._slot():
            response = self._get_user(subject)
        if response.status == 404:
            return None
        if response.status != 200:
            if response.status in (401, 403):
                logger.error("%s refuses our credentials", self._where)
            seconds = response.retry_after
            self._back_off(BACKOFF_SECONDS if seconds is None else seconds)
            raise self._unavailable(f"a user is a {response.status}")
        try:
            user = _User.model_validate_json(response.content)
            wallets = [
                _LinkedWallet.model_validate(account)
                for account in user.linked_accounts
                if EMBEDDED.items() <= account.items()
            ]
        except ValidationError:
            self._back_off(BACKOFF_SECONDS)
            # Not as the cause: it quotes personal data.
            raise self._unavailable("a user is invalid") from None
        if user.id != subject:
            self._back_off(BACKOFF_SECONDS)
            raise self._unavailable("a user is another one")
        return _sort_wallets(wallets)

    def _get_user(self, subject: str) -> HttpResponse:
        """With one retry after a `5xx` or a timeout."""
        path = f"/v1/users/{quote(subject, safe='')}"
        try:
            response = self._get(path)
            if response.status < 500:
                return response
        except IdentityUnavailable:
            logger.info("%s: retry", self._where)
        try:
            return self._get(path)
        except IdentityUnavailable:
            self._back_off(BACKOFF_SECONDS)
            raise

    def _get(self, path: str) -> HttpResponse:
        # A new connection: a user is looked up every ten minutes, and a pooled connection that has
        # died since would fail the request.
        http = HttpEndpoint(
            self._url,
            timeout=self._timeout,
            seconds=self._timeout,
            max_bytes=_MAX_BYTES,
            headers=self._headers,
        )
        try:
            with closing(http):
                return http.send("GET", path, where=self._where)
        except NodeUnavailable as error:
            raise self._unavailable(type(error).__name__) from error

    @contextmanager
    def _slot(self) -> Iterator[None]:
        if self._timer() < self._retry_at:
            raise IdentityUnavailable
        if not self._slots.acquire(timeout=self._timeout):
            raise self._unavailable("too many wait for it")
        try:
            # It may have failed for another thread meanwhile.
            if self._timer() < self._retry_at:
                raise IdentityUnavailable
            yield
        finally:
            self._slots.release()

    def _back_off(self, seconds: float) -> None:
        self._retry_at = self._timer() + min(seconds, MAX_BACKOFF_SECONDS)

    def _unavailable(self, reason: str) -> IdentityUnavailable:
        logger.warning("%s: %s", self._where, reason)
        return IdentityUnavailable()


def _sort_wallets(linked: list[_LinkedWallet]) -> tuple[Wallet, ...]:
    """The user's first wallet first; without invalid addresses."""
    linked.sort(
        key=lambda wallet: (
            _LAST if wallet.wallet_index is None else wallet.wallet_index,
            _LAST if wallet.first_verified_at is None else wallet.first_verified_at,
            wallet.address,
        )
    )
    wallets = []
    for each in linked:
        try:
            wallets.append(Wallet(stellar_account(each.address), each.imported))
        except ValueError:
            continue
    return tuple(wallets)
