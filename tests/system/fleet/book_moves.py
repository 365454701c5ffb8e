"""Providers on the Stellar chain who change their offers, one after the other."""

import threading
import time
from dataclasses import dataclass, field

from devnet.expectations import UNIT, Terms, TermsKey
from devnet.order_book import OrderBook
from devnet.stellar.accounts import keypair
from tests.system.chaos.transfers.world import Ledgers

_KEY = TermsKey("onramp", "venmo", "USD")


@dataclass
class BookMoves:
    """Offers of so many providers."""

    ledgers: Ledgers
    providers: list[str]
    rates: dict[str, int] = field(default_factory=dict)
    """Provider's address → the last rate that is on the chain."""

    @property
    def addresses(self) -> list[str]:
        """Of the providers."""
        return [keypair(name).public_key for name in self.providers]

    def open(self) -> None:
        """Fund the providers and publish their first offers."""
        book = OrderBook(self.ledgers)
        for name in self.providers:
            provider = self.ledgers.open_account(name, usdc=2_000 * UNIT)
            book.deposit(provider, 1_000 * UNIT)
            book.set_payee(provider, _KEY.rail, f"@{name}", publish=True)
            self._set(book, name, UNIT)

    def go_on(self, over: threading.Event, seconds_apart: float) -> None:
        """Change an offer on that beat, until `over`."""
        book = OrderBook(self.ledgers)
        number = 0
        while not over.is_set():
            began = time.monotonic()
            number += 1
            self._set(book, self.providers[number % len(self.providers)], UNIT + number)
            over.wait(max(0.0, seconds_apart - (time.monotonic() - began)))

    def _set(self, book: OrderBook, name: str, rate: int) -> None:
        provider = keypair(name)
        book.set_terms(provider, [(_KEY, Terms(rate, UNIT, 100 * UNIT))])
        self.rates[provider.public_key] = rate
