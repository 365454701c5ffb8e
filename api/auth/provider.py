"""The identity provider over HTTP: the one part that asks it anything.

It is asked at two fixed URLs below the configured one, with time-outs, no redirects and an end to
the size of an answer. What its answers mean:

| | |
| - | - |
| a user | the wallets that count, maybe none |
| `404` for a user | there is no such user: its tokens are invalid |
| `401`, `403` | our credentials are wrong: unavailable, and an error in the log |
| `429`, `5xx`, a time-out, anything that makes no sense | unavailable |

After a failure it is left alone for a while, longer if it says so, and never do more than
`MOST_AT_ONCE` requests wait for it: who needs no provider must not wait for one.
"""

import base64
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from api.errors import IdentityUnavailable
from indexer.addresses import stellar_account
from indexer.chains.http.client import host_of, new_client, retry_after, send_request
from indexer.errors import NodeUnavailable
from warehouse_schema.identifiers import StellarAddress

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS = 2.5
MAX_CONCURRENT_REQUESTS = 4
PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 60.0
_MOST_BYTES = 256 * 1024
_LAST = float("inf")

EMBEDDED = {
    "type": "wallet",
    "chain_type": "stellar",
    "wallet_client_type": "privy",
    "connector_type": "embedded",
}
"""What a linked account must say of itself to count. External wallets, smart wallets, accounts at
other apps and wallets of other chains do not."""


@dataclass(frozen=True, slots=True)
class ProviderAccess:
    """Where the provider is, and who we are to it."""

    url: str
    app_id: str
    app_secret: str = field(repr=False)


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
    """Asks the identity provider. `timer` counts seconds and never goes back; an answer is whole
    after `timeout` seconds, or there is none."""

    def __init__(
        self,
        access: ProviderAccess,
        *,
        timeout: float = TIMEOUT_SECONDS,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = access
        self._where = f"identity provider at {host_of(access.url)}"
        credentials = f"{access.app_id}:{access.app_secret}".encode()
        self._headers = {
            "Authorization": f"Basic {base64.b64encode(credentials).decode()}",
            "privy-app-id": access.app_id,
        }
        self._timeout = timeout
        self._timer = timer
        self._places = threading.BoundedSemaphore(MAX_CONCURRENT_REQUESTS)
        self._left_alone_until = 0.0

    def key_set(self) -> bytes:
        """The JWKS. Raises `IdentityUnavailable`."""
        response = self._get(f"/v1/apps/{quote(self._access.app_id, safe='')}/jwks.json")
        if response.status_code != 200:
            raise self._unavailable(f"the key set is a {response.status_code}")
        return response.content

    def wallets(self, subject: str) -> tuple[Wallet, ...] | None:
        """A user's wallets that count, best first; None: there is no such user.

        Raises `IdentityUnavailable`.
        """
        with self._place():
            response = self._user(subject)
        if response.status_code == 404:
            return None
        if response.status_code == 200:
            return self._read(subject, response.content)
        if response.status_code in (401, 403):
            logger.error("%s refuses our credentials", self._where)
        raise self._failed(f"a user is a {response.status_code}", retry_after(response))

    def _user(self, subject: str) -> httpx.Response:
        """Ask, and once more when that may have been bad luck."""
        path = f"/v1/users/{quote(subject, safe='')}"
        try:
            response = self._get(path)
            if response.status_code < 500:
                return response
        except IdentityUnavailable:
            logger.info("%s is asked once more", self._where)
        try:
            return self._get(path)
        except IdentityUnavailable:
            self._leave_alone(PAUSE_SECONDS)
            raise

    def _read(self, subject: str, body: bytes) -> tuple[Wallet, ...]:
        try:
            user = _User.model_validate_json(body)
            found = [
                _LinkedWallet.model_validate(account)
                for account in user.linked_accounts
                if EMBEDDED.items() <= account.items()
            ]
        except ValidationError:
            # Not as the cause: it quotes what it could not read, and that is about a person.
            raise self._failed("a user makes no sense") from None
        if user.id != subject:
            raise self._failed("a user is another one")
        return chosen(found)

    def _get(self, path: str) -> httpx.Response:
        try:
            # A connection of its own: a user is looked up every ten minutes, and a kept connection
            # that has died since would be found out only by asking.
            with new_client(timeout=self._timeout, headers=self._headers) as http:
                return send_request(
                    http,
                    "GET",
                    self._access.url + path,
                    seconds=self._timeout,
                    max_bytes=_MOST_BYTES,
                    where=self._where,
                )
        except NodeUnavailable as error:
            raise self._unavailable(type(error).__name__) from error

    @contextmanager
    def _place(self) -> Iterator[None]:
        self._refuse_while_left_alone()
        if not self._places.acquire(timeout=self._timeout):
            raise self._unavailable("too many wait for it")
        try:
            # It may have failed for those who were asked meanwhile.
            self._refuse_while_left_alone()
            yield
        finally:
            self._places.release()

    def _refuse_while_left_alone(self) -> None:
        if self._timer() < self._left_alone_until:
            raise IdentityUnavailable

    def _failed(self, reason: str, seconds: float | None = None) -> IdentityUnavailable:
        self._leave_alone(PAUSE_SECONDS if seconds is None else seconds)
        return self._unavailable(reason)

    def _leave_alone(self, seconds: float) -> None:
        self._left_alone_until = self._timer() + min(seconds, LONGEST_PAUSE_SECONDS)

    def _unavailable(self, reason: str) -> IdentityUnavailable:
        logger.warning("%s: %s", self._where, reason)
        return IdentityUnavailable()


def chosen(wallets: list[_LinkedWallet]) -> tuple[Wallet, ...]:
    """Those with an address that is an account's, the user's first one first."""
    in_order = sorted(
        wallets,
        key=lambda wallet: (
            _LAST if wallet.wallet_index is None else wallet.wallet_index,
            _LAST if wallet.first_verified_at is None else wallet.first_verified_at,
            wallet.address,
        ),
    )
    return tuple(
        Wallet(StellarAddress(wallet.address), wallet.imported)
        for wallet in in_order
        if _is_account(wallet.address)
    )


def _is_account(address: str) -> bool:
    try:
        stellar_account(address)
    except ValueError:
        return False
    return True
