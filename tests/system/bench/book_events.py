"""A market of many providers, as decoded events in the warehouse: what a rebuild has to read.

A seeded machine writes the rows as `COPY` takes them, without an object an event. It keeps the
contracts' rules, so that a fold of its events raises no alarm.
"""

import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from sqlalchemy import Column, Connection, Engine, Table, text

from indexer.config.networks import StellarChain
from indexer.facts.rows import EVENT_MAPPINGS, copy_in
from indexer.market import escrow_events, rail_terms_events
from tests.factories.book import account, contract
from tests.system.bench.site import print_line
from warehouse_schema.facts import blocks

SEED = 20_261_121
PROVIDERS = 2_000
TAKERS = 5_000
OPEN_ORDERS = 20_000
"""About as many are open at any time."""
LEDGER_SECONDS = 5
ORDER_TTL = 86_400
MOST_IN_A_LEDGER = 7
UNIT = 10**7
RAILS = ("revolut", "venmo", "wise", "zelle_citi")
TIER, FEE_BPS = 2, 50
BATCH = 20_000
"""Events between two looks at whether a table's rows are to be copied."""

Lines = dict[Table, list[str]]


@dataclass
class _Provider:
    address: str
    payee: str
    terms: list[tuple[str, str, str]]
    """Rail, currency, direction."""
    rates: list[int]
    free: int = 0
    locked: int = 0
    pseq: int = 0
    tseq: int = 0


@dataclass
class _Order:
    provider: _Provider
    taker: str
    order_id: str
    onramp: bool
    amount: int
    fiat: int
    expires_at: int


@dataclass
class BookMachine:
    """Writes events of a chain from its first ledger on."""

    chain: StellarChain
    height: int = 1
    now: int = 1_700_000_000
    events: int = 0
    lines: Lines = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self.random = random.Random(SEED)
        self.takers = [account(f"taker {number}") for number in range(TAKERS)]
        self.providers = [self._provider(number) for number in range(PROVIDERS)]
        self.open: list[_Order] = []
        self._parent = "0" * 64

    def _provider(self, number: int) -> _Provider:
        currencies = self.random.sample(("USD", "EUR", "GBP", "ARS"), 2)
        terms = [
            (rail, currencies[place % 2], ("onramp", "offramp")[number % 5 == place])
            for place, rail in enumerate(self.random.sample(RAILS, 3))
        ]
        payee = "0x" + sha256(f"payee {number}".encode()).hexdigest()
        return _Provider(account(f"provider {number}"), payee, terms, [UNIT] * len(terms))

    def grow(self, events: int) -> Iterator[Lines]:
        """Rows of so many more events, about `BATCH` at a time."""
        until, told = self.events + events, self.events
        while self.events < until:
            self._ledger(min(until - self.events, self.random.randint(1, MOST_IN_A_LEDGER)))
            if self.events - told >= BATCH or self.events == until:
                told = self.events
                yield self.lines
                self.lines = defaultdict(list)

    # A ledger

    def _ledger(self, events: int) -> None:
        self.height += 1
        self.now += LEDGER_SECONDS
        self._hash = sha256(f"ledger {self.height}".encode()).hexdigest()
        self._position = 0
        self.lines[blocks].append(
            f"{self.chain.id}\t{self.height}\t{self._hash}\t{self._parent}\t{self.now}\t{events}\n"
        )
        self._parent = self._hash
        for _ in range(events):
            self._act()

    def _emit(self, kind: type, *fields: object) -> None:
        self.events += 1
        self._position += 1
        tx_hash = sha256(b"%d" % self.events).hexdigest()
        seen = f"{self.chain.id}\t{self.height}\t{self._hash}\t{tx_hash}\t{self._position}"
        rest = "\t".join(map(str, fields))
        self.lines[EVENT_MAPPINGS[kind].table].append(f"{seen}\t{self.now}\t{rest}\n")

    def _act(self) -> None:
        if self.events < len(RAILS) + 1:
            self._begin()
            return
        chance, provider = self.random.random(), self._somebody()
        if provider.tseq < 2 * len(provider.terms):
            self._introduce(provider)
        elif chance < 0.15 or provider.free < 1_000 * UNIT:
            self._deposit(provider)
        elif chance < 0.2:
            self._withdraw(provider)
        elif chance < 0.33:
            self._terms_set(provider, self.random.randrange(len(provider.terms)))
        elif self.random.random() * 2 * OPEN_ORDERS < len(self.open):
            self._end()
        else:
            self._open(provider)

    def _somebody(self) -> _Provider:
        """Some are busier than others."""
        return self.providers[int(len(self.providers) * self.random.random() ** 2)]

    # Events

    def _begin(self) -> None:
        if self.events == 0:
            addresses = (contract("usdc"), contract("terms"), account("admin"), account("fees"))
            self._emit(escrow_events.EscrowConfigSet, *addresses, ORDER_TTL, 10_000, 1_000_000)
            return
        fields = ("t", TIER, FEE_BPS, contract("verifier"), "{ARS,EUR,GBP,USD}")
        self._emit(rail_terms_events.RailSet, RAILS[self.events - 1], *fields)

    def _introduce(self, provider: _Provider) -> None:
        place, is_payee = divmod(provider.tseq, 2)
        if not is_payee:
            self._terms_set(provider, place)
            return
        provider.tseq += 1
        rail = provider.terms[place][0]
        registered = (provider.address, rail, "t", provider.payee, r"\N", provider.tseq)
        self._emit(rail_terms_events.PayeeSet, *registered)

    def _terms_set(self, provider: _Provider, place: int) -> None:
        provider.tseq += 1
        provider.rates[place] = rate = UNIT + self.random.randint(-500_000, 500_000)
        rail, currency, direction = provider.terms[place]
        named = (provider.address, rail, currency, direction)
        self._emit(rail_terms_events.TermsSet, *named, rate, UNIT, 500 * UNIT, provider.tseq)

    def _deposit(self, provider: _Provider) -> None:
        amount = self.random.randint(500, 5_000) * UNIT
        self._emit(
            escrow_events.EscrowDeposit,
            *(provider.address, amount, provider.address),
            *self._after(provider, amount, 0),
        )

    def _withdraw(self, provider: _Provider) -> None:
        amount = provider.free // 4
        self._emit(
            escrow_events.EscrowWithdraw,
            *(provider.address, amount, provider.address),
            *self._after(provider, -amount, 0),
        )

    def _after(self, provider: _Provider, free: int, locked: int) -> tuple[int, int, int]:
        provider.free += free
        provider.locked += locked
        provider.pseq += 1
        return provider.free, provider.locked, provider.pseq

    def _open(self, provider: _Provider) -> None:
        place = self.random.randrange(len(provider.terms))
        rail, currency, direction = provider.terms[place]
        onramp, rate = direction == "onramp", provider.rates[place]
        amount = self.random.randint(UNIT, 500 * UNIT)
        fiat = -(-amount * rate // UNIT) if onramp else amount * rate // UNIT
        order_id = "0x" + sha256(b"order %d" % self.events).hexdigest()
        order = _Order(
            provider,
            self.takers[self.events % TAKERS],
            order_id,
            onramp,
            amount,
            fiat,
            self.now + ORDER_TTL,
        )
        self.open.append(order)
        self._emit(
            escrow_events.OrderOpen,
            *(provider.address, order.taker, order_id, direction, rail, currency),
            *(amount, rate, fiat, amount, 0 if onramp else amount, provider.payee),
            *(order.expires_at, TIER, FEE_BPS),
            *self._after(provider, -amount, amount),
        )

    def _end(self) -> None:
        place = self.random.randrange(len(self.open))
        self.open[place], self.open[-1] = self.open[-1], self.open[place]
        order = self.open.pop()
        if self.now > order.expires_at:
            self._unlock(escrow_events.OrderExpire, order, order.taker)
        elif self.random.random() < 0.2:
            self._unlock(escrow_events.OrderCancel, order, "taker" if order.onramp else "provider")
        else:
            self._fulfil(order)

    def _unlock(self, kind: type, order: _Order, by: str) -> None:
        self._emit(
            kind,
            *(order.provider.address, order.taker, order.order_id, by, order.amount),
            0 if order.onramp else order.amount,
            *self._after(order.provider, order.amount, -order.amount),
        )

    def _fulfil(self, order: _Order) -> None:
        fee = order.amount * FEE_BPS // 10_000
        net = order.amount - fee
        freed = 0 if order.onramp else order.amount + net
        nullifier = "0x" + sha256(b"nullifier %d" % self.events).hexdigest()
        recipient = order.taker if order.onramp else order.provider.address
        self._emit(
            escrow_events.OrderFulfill,
            *(order.provider.address, order.taker, order.order_id, "proof", nullifier),
            *(order.amount, fee, net, recipient, order.amount, freed, 0, order.fiat, self.now - 60),
            *self._after(order.provider, freed, -order.amount),
        )


_BLOCK_COLUMNS = ("chain", "height", "hash", "parent_hash", "time", "events")


def store(engine: Engine, machine: BookMachine, events: int) -> None:
    """Copy so many more events of the machine into the facts."""
    began, first = time.monotonic(), machine.events
    with engine.begin() as conn:
        for lines in machine.grow(events):
            for table, rows in lines.items():
                _copy(conn, table, rows)
            if machine.events // 500_000 > (machine.events - BATCH) // 500_000:
                rate = (machine.events - first) / (time.monotonic() - began)
                print_line(f"{machine.events:,} events, {rate:,.0f}/s")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.execute(text("ANALYZE"))
    seconds = time.monotonic() - began
    print_line(
        f"{events:,} events of {machine.height:,} ledgers made and copied in {seconds:.0f} s"
    )


def _copy(conn: Connection, table: Table, rows: Sequence[str]) -> None:
    with copy_in(conn, table, _columns(table)) as copy:
        copy.write("".join(rows))


def _columns(table: Table) -> list[str]:
    if table is blocks:
        return list(_BLOCK_COLUMNS)
    columns: list[Column] = next(
        shelf.columns for shelf in EVENT_MAPPINGS.values() if shelf.table is table
    )
    return [column.name for column in columns]
