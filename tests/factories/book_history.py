"""Random histories of the order book: what a sound contract could have emitted, by a seed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from indexer.orderbook.fold import BookRebuild
from indexer.orderbook.state import BookEvent, LedgerClose
from tests.factories.book import account, usdc, word
from tests.factories.contract_model import ContractModel, Refused
from warehouse_schema.identifiers import Bytes32, StellarAddress

Ledger = tuple[LedgerClose, list[BookEvent]]

RAILS = ("revolut", "venmo", "wise")
CURRENCIES = ("EUR", "USD")
RATES = (usdc("1.02"), usdc("1.03"))
LIMITS = ((usdc(10), usdc(50)), (usdc(5), usdc(500)), (1, usdc(20)))
HANDLES = (None, "@ann", "ænn@example.org", "\u202eann", "x" * 257)
MANY_CURRENCIES = tuple(f"{letter}UR" for letter in "ABCDEFGHIJKLMNOP")


def rebuild(history: Sequence[tuple[LedgerClose, Sequence[BookEvent]]]) -> BookRebuild:
    """A fold of all history in memory."""
    rebuilt = BookRebuild()
    for ledger, events in history:
        rebuilt.take(ledger, events)
    rebuilt.publish()
    return rebuilt


@dataclass
class RandomHistory:
    """A stream of ledgers that a sound contract could have closed; the same for the same seed."""

    seed: int
    providers: int = 4
    model: ContractModel = field(default_factory=lambda: ContractModel(ttl=90))
    crowded: bool = False
    """Whether the first provider has terms for more offers than are listed."""
    names: Sequence[StellarAddress] = ()
    takers: Sequence[StellarAddress] = tuple(account(f"taker {n}") for n in range(6))

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.names = self.names or [account(f"provider {n}") for n in range(self.providers)]
        currencies = (*CURRENCIES, *MANY_CURRENCIES) if self.crowded else CURRENCIES
        self.model.config_set()
        for rail in RAILS:
            self.model.rail_set(rail, currencies=currencies)
        for name in self.names:
            self._deposit(name)
            for _ in range(4):
                self._terms_set(name)
                self._payee_set(name)
        if self.crowded:
            self._crowd(self.names[0])

    def _crowd(self, provider: StellarAddress) -> None:
        for currency in MANY_CURRENCIES:
            for rail in RAILS:
                for direction in ("onramp", "offramp"):
                    rate = self.random.randint(1, 3) * usdc("0.5")
                    self.model.terms_set(provider, rail, currency, direction, rate=rate)

    def ledger(self, most_acts: int = 4) -> Ledger:
        """The next ledger; about one in six is empty, and many close right at an expiry."""
        for _ in range(self.random.choice([0, *range(most_acts + 1)])):
            self._act()
        return self.model.close(self._gap())

    def ledgers(self, count: int) -> list[Ledger]:
        """The next ledgers."""
        return [self.ledger() for _ in range(count)]

    def _gap(self) -> int:
        waiting = [
            order.opening.expires_at - self.model.now
            for order in self.model.orders.values()
            if order.state == "open"
        ]
        boundaries = sorted(gap + late for gap in waiting for late in (0, 1) if gap + late > 0)
        if boundaries and self.random.random() < 0.2:
            return self.random.choice(boundaries[:4])
        return self.random.randint(1, 12)

    def _act(self) -> None:
        if (self.model.opens_paused or self.model.all_paused) and self.random.random() < 0.3:
            self.model.paused_set(opens=False)
        act = self.random.choices(list(ACTS), weights=list(ACTS.values()))[0]
        try:
            getattr(self, act)(self.random.choice(self.names))
        except Refused:
            return

    def _deposit(self, provider: StellarAddress) -> None:
        self.model.deposit(provider, self.random.randint(1, 400) * usdc("0.5"))

    def _withdraw(self, provider: StellarAddress) -> None:
        left = self.model.accounts[provider].free - self.random.choice((0, usdc("0.5")))
        drained = self.random.random() < 0.3
        self.model.withdraw(
            provider, left if drained else self.random.randint(1, 100) * usdc("0.5")
        )

    def _terms_set(self, provider: StellarAddress) -> None:
        low, high = self.random.choice(LIMITS)
        rate = self.random.choice(RATES)
        self.model.terms_set(provider, *self._terms_key(), rate=rate, low=low, high=high)

    def _terms_del(self, provider: StellarAddress) -> None:
        self.model.terms_del(provider, *self._terms_key())

    def _terms_key(self) -> tuple[str, str, str]:
        pick = self.random.choice
        return pick(RAILS), pick(CURRENCIES), pick(("onramp", "offramp"))

    def _payee_set(self, provider: StellarAddress) -> None:
        rail = self.random.choice(RAILS)
        handle = self.random.choice(HANDLES)
        wrong = word("another") if self.random.random() < 0.2 else None
        registered = self.random.random() < 0.85
        self.model.payee_set(provider, rail, registered=registered, handle=handle, payee_hash=wrong)

    def _provider_set(self, provider: StellarAddress) -> None:
        self.model.provider_set(provider, self.random.random() < 0.2)

    def _rail_set(self, provider: StellarAddress) -> None:
        self.model.rail_set(
            self.random.choice(RAILS),
            enabled=self.random.random() < 0.8,
            tier=self.random.choice((2, 2, 3)),
            fee_bps=self.random.choice((50, 50, 30)),
            currencies=self.random.choice((CURRENCIES, CURRENCIES, ("USD",))),
        )

    def _paused_set(self, provider: StellarAddress) -> None:
        self.model.paused_set(self.random.random() < 0.6, everything=self.random.random() < 0.3)

    def _config_set(self, provider: StellarAddress) -> None:
        self.model.config_set()

    def _open(self, provider: StellarAddress) -> None:
        rows = [key for key in self.model.terms if key[0] == provider]
        if not rows:
            raise Refused("no terms")
        _, direction, rail, currency = self.random.choice(rows)
        prune = tuple(self._orders(provider, expired=True)) if self.random.random() < 0.3 else ()
        self.model.open(
            provider,
            self.random.randint(10, 110) * usdc("0.5") + self.random.randint(0, 9),
            taker=self.random.choice(self.takers),
            direction=direction,
            rail=rail,
            currency=currency,
            prune=prune,
        )

    def _fulfil(self, provider: StellarAddress) -> None:
        order = self._some_order(provider, expired=False)
        amount = self.model.orders[order].opening.amount
        if self.random.random() < 0.3:
            self.model.fulfil(order, claim="manual")
        else:
            partly = self.random.random() < 0.3
            self.model.fulfil(order, self.random.randint(1, amount) if partly else amount)

    def _cancel(self, provider: StellarAddress) -> None:
        by = self.random.choice(("taker", "provider", "admin"))
        self.model.cancel(self._some_order(provider, expired=False), by)

    def _expire(self, provider: StellarAddress) -> None:
        self.model.expire(self._some_order(provider, expired=True))

    def _some_order(self, provider: StellarAddress, *, expired: bool) -> Bytes32:
        orders = self._orders(provider, expired=expired)
        if not orders:
            raise Refused("no such order")
        return self.random.choice(orders)

    def _orders(self, provider: StellarAddress, *, expired: bool) -> list[Bytes32]:
        return [
            order_id
            for order_id, order in self.model.orders.items()
            if order.opening.provider == provider
            and order.state == "open"
            and (self.model.now > order.opening.expires_at) == expired
        ][:10]


ACTS = {
    "_open": 40,
    "_fulfil": 18,
    "_cancel": 8,
    "_expire": 6,
    "_deposit": 10,
    "_withdraw": 6,
    "_terms_set": 10,
    "_terms_del": 2,
    "_payee_set": 6,
    "_provider_set": 2,
    "_rail_set": 2,
    "_paused_set": 1,
    "_config_set": 1,
}
