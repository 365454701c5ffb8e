"""Providers whose offers change, a ledger for each change, folded as a follower does."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Engine

from indexer.facts.cursors import notify_ingested
from indexer.orderbook.store import apply_ledgers
from tests.factories.book import CHAIN, account, usdc
from tests.factories.contract_model import ContractModel
from warehouse_schema.identifiers import Height


@dataclass
class Market:
    """A book with so many providers, one offer each."""

    engine: Engine
    """Of the indexer."""
    providers: Sequence[str]
    model: ContractModel = field(default_factory=ContractModel)
    committed: dict[int, tuple[str, float]] = field(default_factory=dict)
    """Ledger → whose offer it changed, and when its COMMIT was sent."""

    def open(self) -> None:
        """Commit the first ledger, which has all offers."""
        self.model.config_set()
        self.model.rail_set("venmo")
        for name in self.providers:
            provider = account(name)
            self.model.deposit(provider, usdc(500))
            self.model.payee_set(provider, "venmo", handle=f"@{name}")
            self.model.terms_set(provider)
        self._commit()

    def change(self, number: int) -> None:
        """Commit a ledger that changes the offer of one provider, in turns."""
        name = self.providers[number % len(self.providers)]
        # A rate that the offer never had.
        self.model.terms_set(account(name), rate=usdc(1) + self.model.height)
        ledger, sent = self._commit()
        self.committed[ledger] = str(account(name)), sent

    def change_for(self, rate: float, seconds: float) -> float:
        """Changes at a rate, or as fast as they go; seconds that they took."""
        began = time.monotonic()
        for number in range(round(rate * seconds)):
            time.sleep(max(0.0, began + number / rate - time.monotonic()))
            if time.monotonic() - began > seconds:
                break
            self.change(number)
        return time.monotonic() - began

    def ledgers_by_provider(self) -> dict[str, list[int]]:
        """Ledgers that changed each provider's offer, in order."""
        found: dict[str, list[int]] = {}
        for ledger, (provider, _) in self.committed.items():
            found.setdefault(provider, []).append(ledger)
        return found

    def _commit(self) -> tuple[int, float]:
        ledger, events = self.model.close()
        with self.engine.connect() as connection, connection.begin() as transaction:
            apply_ledgers(connection, [ledger], events)
            notify_ingested(connection, CHAIN, Height(ledger.height))
            sent = time.monotonic()
            transaction.commit()
        return ledger.height, sent
