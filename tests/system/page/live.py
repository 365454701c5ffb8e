"""A market that goes on: ledgers with real events, folded into a real warehouse as a follower does.

Its ledgers close at the time of day unless told otherwise.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from sqlalchemy import Engine, text

from indexer.orderbook.store import apply_ledgers
from tests.factories.book import CHAIN, account, usdc
from tests.factories.contract_model import ContractModel
from tests.factories.projections import insert_day_done, insert_market_day
from warehouse_schema import channels
from warehouse_schema.identifiers import Bytes32, Height

RAILS = (("venmo", 2, 50), ("wise", 1, 20), ("revolut", 3, 10), ("pix", 0, 25))
"""Rail, tier, fee in basis points."""
CURRENCIES = ("BRL", "EUR", "GBP", "USD")
TAKER = account("tom")


class LiveMarket:
    """Both contracts, and the warehouse that their events go to."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.contracts = ContractModel(height=1_000, now=int(time.time()) - 3_600)
        self.contracts.config_set()
        for rail, tier, fee_bps in RAILS:
            self.contracts.rail_set(rail, tier=tier, fee_bps=fee_bps, currencies=CURRENCIES)
        self._fold()

    @property
    def height(self) -> Height:
        """The last ledger that closed."""
        return Height(self.contracts.height - 1)

    @contextmanager
    def ledger(self, *, seconds_ago: float = 0) -> Iterator[ContractModel]:
        """A ledger of that time, for acts to go into; it closes with the block."""
        self.contracts.now = max(self.contracts.now, int(time.time() - seconds_ago))
        yield self.contracts
        self._fold()

    def close(self, *, seconds_ago: float = 0) -> Height:
        """Close a ledger in which nothing happens; its number."""
        with self.ledger(seconds_ago=seconds_ago) as contracts:
            return Height(contracts.height)

    def _fold(self) -> None:
        ledger, events = self.contracts.close()
        with self._engine.begin() as connection:
            alarms = apply_ledgers(connection, [ledger], events)
            assert alarms == []
            notice = {"channel": channels.INGESTED, "payload": f"{CHAIN}:{ledger.height}"}
            connection.execute(text("SELECT pg_notify(:channel, :payload)"), notice)

    def provider(self, name: str, amount: int | str, **handles: str) -> str:
        """A provider with escrow, and a registered payee on each rail named."""
        address = account(name)
        self.contracts.deposit(address, usdc(amount))
        for rail, handle in handles.items():
            self.contracts.payee_set(address, rail, handle=handle)
        return address

    def offer(
        self,
        name: str,
        direction: str,
        currency: str,
        rate: str,
        rails: Sequence[str] = ("venmo",),
        *,
        low: int | str = 10,
        high: int | str = 500,
    ) -> None:
        """Terms on these rails; onramp ones need the payee of `provider`."""
        for rail in rails:
            self.contracts.terms_set(
                account(name),
                rail,
                currency,
                direction,
                rate=usdc(rate),
                low=usdc(low),
                high=usdc(high),
            )

    def withdraw(self, name: str, amount: int | str) -> None:
        """Escrow taken back."""
        self.contracts.withdraw(account(name), usdc(amount))

    def closed_days(self) -> None:
        """Thirty closed days up to yesterday, as the daily job writes them.

        In EUR both sides on two rails, with days on which nothing was settled; in USD one day.
        """
        yesterday = datetime.now(UTC).date() - timedelta(days=1)
        with self._engine.begin() as connection:
            insert_day_done(connection, yesterday)
            for ago in range(30):
                day, drift = yesterday - timedelta(days=ago), Decimal(ago * 7 % 11) / 1000
                for number, (direction, rail, rate) in enumerate(
                    [
                        ("onramp", "revolut", "0.941"),
                        ("onramp", "wise", "0.948"),
                        ("offramp", "revolut", "0.915"),
                    ]
                ):
                    if (ago + number) % 6 == 0:
                        continue
                    released = 25 + 10 * number + ago
                    fiat = str((Decimal(rate) + drift) * released)
                    market = {"direction": direction, "rail": rail, "currency": "EUR"}
                    insert_market_day(connection, day, released=released, fiat=fiat, **market)
            insert_market_day(connection, yesterday, rail="venmo", currency="USD")

    def order(
        self, name: str, amount: int | str, direction: str, rail: str, currency: str
    ) -> Bytes32:
        """An order with a provider, open."""
        return self.contracts.open(
            account(name),
            usdc(amount),
            taker=TAKER,
            direction=direction,
            rail=rail,
            currency=currency,
        )


def furnish(market: LiveMarket) -> None:
    """Six providers, three currencies, both directions; orders of every status."""
    began = time.time()

    def ledger(seconds_ago: float) -> AbstractContextManager[ContractModel]:
        # Adds the time spent so far, so that the distances between ledgers are exact.
        return market.ledger(seconds_ago=seconds_ago + time.time() - began)

    with ledger(3_000):
        _found(market)
    with ledger(2_000):
        market.order("ben", 45, "onramp", "venmo", "USD")
    with ledger(1_200):
        settled = market.order("ana", "120.25", "onramp", "venmo", "USD")
        left = market.order("chloe", 80, "offramp", "revolut", "EUR")
    with ledger(965) as contracts:
        contracts.fulfil(settled)
    with ledger(700) as contracts:
        contracts.cancel(left, by="provider")
    with ledger(95):
        market.order("davi", "64.5", "onramp", "pix", "BRL")
        market.order("femi", "33.3333333", "onramp", "wise", "USD")
    market.close()
    market.closed_days()


def _found(market: LiveMarket) -> None:
    market.provider("ana", "2150.5", venmo="@ana-pays", wise="ana@pays.example")
    market.provider("ben", 980, venmo="@ben", revolut="@ben-r")
    market.provider("chloe", "3400.25", revolut="@chloe", wise="chloe@pays.example")
    market.provider("davi", "1275.1234567", pix="+5511900000000")
    market.provider("elif", 640)
    market.provider("femi", 1890, wise="femi@pays.example")
    market.offer("ana", "onramp", "USD", "1.0175", ("venmo", "wise"), high=400)
    market.offer("ana", "offramp", "USD", "0.9912", ("wise",))
    market.offer("ben", "onramp", "USD", "1.021", ("venmo",), low=5)
    market.offer("ben", "onramp", "EUR", "0.9431", ("revolut",))
    market.offer("chloe", "onramp", "EUR", "0.94", ("revolut",), high=1200)
    market.offer("chloe", "onramp", "EUR", "0.94", ("wise",), high=1200)
    market.offer("chloe", "offramp", "EUR", "0.9155", ("revolut",))
    market.offer("davi", "onramp", "BRL", "5.48", ("pix",))
    market.offer("davi", "offramp", "BRL", "5.3125", ("pix",))
    market.offer("elif", "offramp", "USD", "0.9875", ("venmo",))
    market.offer("femi", "onramp", "USD", "1.0333", ("wise",), high=1500)
    market.offer("femi", "offramp", "USD", "0.9801", ("wise",), high=1500)
