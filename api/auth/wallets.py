"""The Stellar account of a user of the identity provider: asked for, remembered, bound.

| what the provider says | what holds, and for how long in this process |
| - | - |
| wallets | the bound one, 10 minutes |
| wallets without the bound one | `403 WALLET_CHANGED`, 20 s, and an error in the log |
| no Stellar wallet | `403 NO_STELLAR_WALLET`, 20 s: one made just now soon appears |
| no such user | the token is invalid, `401`, 20 s |
| nothing | the account it confirmed within a day, 30 s; else `503` |

One request a user asks at a time; those that come meanwhile get what it learns.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from api.auth.bindings import Bindings
from api.auth.claims import BadToken
from api.auth.provider import IdentityProviderApi
from api.errors import ApiError, IdentityUnavailable, NoStellarWallet, WalletChanged
from warehouse_schema.identifiers import StellarAddress

logger = logging.getLogger(__name__)

GOOD_SECONDS = 600.0
STALE_SECONDS = 30.0
REFUSED_SECONDS = 20.0
MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class _Known:
    """What is remembered of a user: an account, or what to refuse it with."""

    account: StellarAddress | None
    refusal: Callable[[], ApiError]
    until: float

    def told(self) -> StellarAddress:
        if self.account is None:
            raise self.refusal()
        return self.account


class Wallets:
    """Accounts by subject. `timer` counts seconds and never goes back."""

    def __init__(
        self,
        provider: IdentityProviderApi,
        bindings: Bindings,
        *,
        timer: Callable[[], float] = time.monotonic,
        most: int = MOST_REMEMBERED,
    ) -> None:
        self._provider = provider
        self._bindings = bindings
        self._timer = timer
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._asking: dict[str, tuple[threading.Lock, int]] = {}

    def account_of(self, subject: str) -> StellarAddress:
        """Raises `BadToken`, `NoStellarWallet`, `WalletChanged` or `IdentityUnavailable`."""
        known = self._remembered(subject)
        if known is None:
            with self._alone(subject):
                known = self._remembered(subject) or self._remember(subject, self._ask(subject))
        return known.told()

    def _ask(self, subject: str) -> _Known:
        try:
            wallets = self._provider.wallets(subject)
        except IdentityUnavailable:
            account = self._bindings.confirmed_lately(subject)
            if account is None:
                raise
            return self._for(STALE_SECONDS, account)
        if not wallets:
            self._bindings.take_back(subject)
            return self._refused(_unknown if wallets is None else NoStellarWallet)
        account = self._bindings.settle(subject, wallets)
        if account is None:
            logger.error("user %s has lost the wallet that it is bound to", subject)
            return self._refused(WalletChanged)
        return self._for(GOOD_SECONDS, account)

    def _for(self, seconds: float, account: StellarAddress) -> _Known:
        return _Known(account, IdentityUnavailable, self._timer() + seconds)

    def _refused(self, refusal: Callable[[], ApiError]) -> _Known:
        return _Known(None, refusal, self._timer() + REFUSED_SECONDS)

    def _remembered(self, subject: str) -> _Known | None:
        with self._lock:
            known = self._known.get(subject)
            return None if known is None or known.until <= self._timer() else known

    def _remember(self, subject: str, known: _Known) -> _Known:
        with self._lock:
            self._known[subject] = known
            self._known.move_to_end(subject)
            if len(self._known) > self._most:
                self._known.popitem(last=False)
        return known

    @contextmanager
    def _alone(self, subject: str) -> Iterator[None]:
        with self._lock:
            lock, others = self._asking.get(subject, (threading.Lock(), 0))
            self._asking[subject] = (lock, others + 1)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, others = self._asking.pop(subject)
                if others > 1:
                    self._asking[subject] = (lock, others - 1)


def _unknown() -> ApiError:
    return BadToken("the provider knows no such user")
