"""The devnet's scenario: providers, takers, orders of every status, transfers both ways.

The story is fixed; a seed decides amounts, rates and pauses, so the same seed gives the same
amounts and ids every time. The order book's story is set in the past hour: its ledgers close at
times of our choosing, so that orders can expire without anyone waiting, and the last one closes
now. Transfers follow in real time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from stellar_sdk import Keypair
from stellar_sdk.memo import Memo
from stellar_sdk.operation import Operation

from devnet.bridges import DUST, EVM, Bridges
from devnet.evm import dev_account
from devnet.evm_node import DevnetError
from devnet.expectations import UNIT, Deeds, Direction, Rail, Terms, TermsKey, decimal
from devnet.order_book import OrderBook
from devnet.stellar.accounts import RELAYER, USDC, keypair
from devnet.stellar.client import DevnetClient, Outcome
from devnet.stellar.genesis import BOND_BPS, ORDER_TTL, RAILS
from devnet.verify import ExpectedMovement, Story
from devnet.world import World

Log = Callable[[str], None]

STORY_SECONDS = 55 * 60
"""Begin of the order book's story, before now."""
RECENT_SECONDS = 150
"""Begin of its last chapter, before now: its orders must still be active for minutes."""

EVM_UNIT = 10**6
LARGEST_ORDER = 60 * UNIT

PIX = Rail(tier=1, fee_bps=25, currencies=("BRL",))


class PacedClient(DevnetClient):
    """A client that closes a ledger for each of its transactions, at times its holder decides.

    For a stand-in that closes ledgers on demand only. `next_close` leads from the last close time
    to the next, in milliseconds.
    """

    def __init__(self, url: str, next_close: Callable[[int], int]) -> None:
        super().__init__(url)
        self.next_close = next_close

    def send(
        self,
        source: Keypair,
        operations: Sequence[Operation],
        *,
        signers: Sequence[Keypair] = (),
        memo: Memo | None = None,
    ) -> str:
        """Queue a transaction and close the ledger that takes it."""
        tx_hash = super().send(source, operations, signers=signers, memo=memo)
        self.close_next_ledger(self.next_close)
        return tx_hash


def real_time(last: int) -> int:
    """Close time of a ledger that closes now, in milliseconds."""
    return max(last + 1, time.time_ns() // 1_000_000)


class TooSlow(DevnetError):
    """The story's ledgers would close in the future."""


@dataclass(frozen=True)
class Deal:
    """An order that was opened, and what it was for."""

    order_id: str
    key: TermsKey
    provider: str
    taker: str
    amount: int
    opened_at: int


class BookStory:
    """Plays the order book's part, and keeps the books of what must come of it."""

    def __init__(self, client: PacedClient, chance: random.Random, log: Log) -> None:
        self._client = client
        self._book = OrderBook(client)
        self._chance = chance
        self._log = log
        self.deeds = Deeds(order_ttl=ORDER_TTL, bond_bps=BOND_BPS)
        self._left: list[Deal] = []
        for name, tier, fee_bps, currencies in RAILS:
            self.deeds.rail(name, Rail(tier, fee_bps, currencies))

    def play(self) -> None:
        """The whole story, up to a ledger that closes now."""
        now = int(time.time())
        self._client.next_close = self._past
        self._go_to(now - STORY_SECONDS)
        self._found()
        self._publish()
        self._settle_and_cancel()
        self._let_expire()
        self._reprice()
        self._go_to(now - RECENT_SECONDS)
        self._open_recent()
        self._go_to(now)

    # The chapters

    def _found(self) -> None:
        """People with money, and providers' deposits."""
        self._book.set_rail("pix", PIX)
        self.deeds.rail("pix", PIX)
        self._log(f"rail pix: tier {PIX.tier}, {PIX.fee_bps} bps, BRL")
        for provider in ("ana", "ben", "chloe", "davi", "elif"):
            self._client.open_account(provider, usdc=2_000 * UNIT)
            self._deposit(provider, self._whole(800, 1_500))
        for taker in ("tom", "uma", "victor"):
            self._client.open_account(taker, usdc=500 * UNIT)

    def _publish(self) -> None:
        """Payees and terms on six rails and four currencies, both directions."""
        self._payee("ana", "venmo", "@ana-pays", publish=True)
        self._payee("ana", "wise", "ana@pays.example", publish=True)
        self._payee("ben", "venmo", "@ben-quiet", publish=False)
        self._payee("ben", "zelle_citi", "ben@pays.example", publish=True)
        self._payee("chloe", "revolut", "@chloe", publish=True)
        self._payee("davi", "pix", "+5511900000000", publish=True)
        # Rails with the same terms share one offer, until one of them is repriced.
        self._terms("ana", "onramp", "USD", self._rate("1.01", "1.03"), "venmo", "wise")
        self._terms("ben", "onramp", "USD", self._rate("1.00", "1.02"), "venmo")
        self._terms("ben", "onramp", "USD", self._rate("1.02", "1.04"), "zelle_citi")
        self._terms("chloe", "onramp", "EUR", self._rate("0.93", "0.95"), "revolut")
        # No payee on this one: it can never settle, so it must never be listed.
        self._terms("chloe", "onramp", "GBP", self._rate("0.79", "0.81"), "wise")
        self._terms("chloe", "offramp", "EUR", self._rate("0.90", "0.92"), "revolut", "wise")
        self._terms("davi", "onramp", "BRL", self._rate("5.40", "5.60"), "pix")
        self._terms("davi", "offramp", "BRL", self._rate("5.20", "5.35"), "pix")
        self._terms("elif", "offramp", "USD", self._rate("0.97", "0.99"), "venmo")
        self._terms("elif", "offramp", "GBP", self._rate("0.76", "0.78"), "monzo")

    def _settle_and_cancel(self) -> None:
        """Orders that end by an act, in both directions."""
        self._prove(self._open("tom", "ana", "onramp", "venmo", "USD"))
        self._prove(self._open("uma", "ben", "onramp", "venmo", "USD"), percent=60)
        self._release("chloe", self._open("victor", "chloe", "onramp", "revolut", "EUR"))
        self._prove(self._open("tom", "elif", "offramp", "venmo", "USD"))
        self._prove(self._open("uma", "chloe", "offramp", "wise", "EUR"), percent=75)
        self._cancel("uma", self._open("uma", "davi", "onramp", "pix", "BRL"))
        self._cancel("davi", self._open("victor", "davi", "offramp", "pix", "BRL"))

    def _let_expire(self) -> None:
        """An order that only the clock ends, one that the chain prunes; a third for later."""
        forgotten = self._open("tom", "ben", "onramp", "zelle_citi", "USD")
        pruned = self._open("uma", "chloe", "onramp", "revolut", "EUR")
        self._later = self._open("victor", "davi", "offramp", "pix", "BRL")
        self._go_to(self._later.opened_at + ORDER_TTL + 1)
        self._log(f"order {_short(forgotten)} has expired by the clock; it is not pruned")
        self._book.expire(keypair(RELAYER), pruned.order_id)
        self.deeds.pruned(pruned.order_id)
        self._log(f"order {_short(pruned)} has expired and the relayer prunes it")

    def _reprice(self) -> None:
        """Terms that agreed part ways; others go; escrow is taken back."""
        self._terms("ana", "onramp", "USD", self._rate("1.04", "1.06"), "wise")
        key = TermsKey("offramp", "monzo", "GBP")
        outcome = self._book.delete_terms(keypair("elif"), key)
        self.deeds.terms_deleted(_address("elif"), key, outcome.close_time)
        self._log("elif takes back its terms on monzo")
        amount = self._whole(100, 200)
        outcome = self._book.withdraw(keypair("ben"), amount)
        self.deeds.withdraw(_address("ben"), amount, outcome.close_time)
        self._log(f"ben withdraws {decimal(amount)} USDC from escrow")

    def _open_recent(self) -> None:
        """Orders that are still active at the end."""
        self._open("tom", "ana", "onramp", "wise", "USD")
        self._open("uma", "elif", "offramp", "venmo", "USD")
        self._open("victor", "davi", "onramp", "pix", "BRL", prune=[self._later])

    def ordinary_day(self) -> None:
        """Another order, settled at once two times in three; the others are left to expire.

        A taker that runs short gets more, and a provider's expired orders are pruned by its next
        one, so that this can go on for days.
        """
        taker = self._chance.choice(("tom", "uma", "victor"))
        provider, direction, rail, currency = self._chance.choice(_DAILY)
        self._top_up(taker, provider)
        deal = self._open(
            taker, provider, direction, rail, currency, prune=self._take_expired(provider)
        )
        if self._chance.random() < 2 / 3:
            self._prove(deal)
        else:
            self._left.append(deal)

    def _top_up(self, taker: str, provider: str) -> None:
        for name in (taker, provider):
            if self._client.balance(_address(name), USDC) < LARGEST_ORDER:
                self._client.issue(_address(name), USDC, 500 * UNIT)
        if self.deeds.providers[_address(provider)].free < LARGEST_ORDER:
            self._deposit(provider, LARGEST_ORDER)

    def _take_expired(self, provider: str) -> list[Deal]:
        """The provider's expired orders that are not pruned; they are forgotten here."""
        now = self._client.close_time()
        expired = [
            deal
            for deal in self._left
            if deal.provider == provider and now > deal.opened_at + ORDER_TTL
        ]
        self._left = [deal for deal in self._left if deal not in expired]
        return expired

    # The acts

    def _deposit(self, provider: str, amount: int) -> None:
        outcome = self._book.deposit(keypair(provider), amount)
        self.deeds.deposit(_address(provider), amount, outcome.close_time)
        self._log(f"{provider} deposits {decimal(amount)} USDC to escrow")

    def _payee(self, provider: str, rail: str, handle: str, *, publish: bool) -> None:
        outcome = self._book.set_payee(keypair(provider), rail, handle, publish=publish)
        shown = handle if publish else None
        self.deeds.payee(_address(provider), rail, shown, outcome.close_time)
        self._log(f"{provider} takes fiat on {rail}, handle {shown or 'not published'}")

    def _terms(
        self, provider: str, direction: Direction, currency: str, rate: int, *rails: str
    ) -> None:
        terms = Terms(rate, low=self._whole(5, 10), high=self._whole(200, 400))
        keys = [TermsKey(direction, rail, currency) for rail in rails]
        outcome = self._book.set_terms(keypair(provider), [(key, terms) for key in keys])
        for key in keys:
            self.deeds.terms(_address(provider), key, terms, outcome.close_time)
        self._log(f"{provider} {direction} {currency} on {', '.join(rails)} at {decimal(rate)}")

    def _open(
        self,
        taker: str,
        provider: str,
        direction: Direction,
        rail: str,
        currency: str,
        *,
        prune: Sequence[Deal] = (),
    ) -> Deal:
        key = TermsKey(direction, rail, currency)
        # With seven decimals, so that rounding has something to round.
        amount = self._chance.randint(20 * UNIT, LARGEST_ORDER)
        order_id, outcome = self._book.open(
            keypair(taker),
            keypair(provider),
            key,
            amount,
            prune=[expired.order_id for expired in prune],
        )
        for expired in prune:
            self.deeds.pruned(expired.order_id)
        self.deeds.opened(
            order_id, _address(provider), _address(taker), key, amount, outcome.close_time
        )
        deal = Deal(order_id, key, provider, taker, amount, outcome.close_time)
        pruning = f", pruning {', '.join(map(_short, prune))}" if prune else ""
        self._log(
            f"{taker} opens {direction} {decimal(amount)} USDC with {provider} on {rail}:"
            f" {_short(deal)}{pruning}"
        )
        return deal

    def _prove(self, deal: Deal, percent: int = 100) -> None:
        released = deal.amount * percent // 100
        nullifier = sha256(f"payment for {deal.order_id}".encode()).digest()
        order = self.deeds.orders[deal.order_id]
        outcome = self._book.prove(
            deal.order_id,
            released=released,
            nullifier=nullifier,
            fiat_paid=order.fiat_amount * percent // 100,
            paid_at=deal.opened_at + 1,
        )
        self._note_settlement(deal, released, outcome, nullifier.hex())
        self._log(f"order {_short(deal)} settles on a proof, {percent} % released")

    def _release(self, receiver: str, deal: Deal) -> None:
        outcome = self._book.release(keypair(receiver), deal.order_id, deal.amount)
        self._note_settlement(deal, deal.amount, outcome, None)
        self._log(f"order {_short(deal)} is released by hand by {receiver}")

    def _note_settlement(
        self, deal: Deal, released: int, outcome: Outcome, nullifier: str | None
    ) -> None:
        self.deeds.fulfilled(deal.order_id, released, outcome.hash, nullifier, outcome.close_time)

    def _cancel(self, caller: str, deal: Deal) -> None:
        outcome = self._book.cancel(keypair(caller), deal.order_id)
        by_provider = caller == deal.provider
        self.deeds.cancelled(deal.order_id, by_provider=by_provider, at=outcome.close_time)
        self._log(f"order {_short(deal)} is cancelled by {caller}")

    # Time and chance

    def _past(self, last: int) -> int:
        """The next ledger's time: some seconds on, never in the future."""
        chosen = last + self._chance.randint(3, 12) * 1000
        if chosen > time.time() * 1000:
            raise TooSlow(f"the story has come to {chosen}, which has not happened yet")
        return chosen

    def _go_to(self, moment: int) -> int:
        """Close an empty ledger at that time (seconds); its sequence."""
        return self._client.close_ledger(close_time_ms=moment * 1000)

    def _whole(self, low: int, high: int) -> int:
        return self._chance.randint(low, high) * UNIT

    def _rate(self, low: str, high: str) -> int:
        """A rate between two decimals, in ten-thousandths."""
        bounds = (int(text.replace(".", "")) * 100 for text in (low, high))
        return self._chance.randint(*bounds) * UNIT // 10_000


class TransferStory:
    """Plays money between the chains: both bridges, both ways, and some that is still under way."""

    def __init__(self, world: World, client: PacedClient, chance: random.Random, log: Log) -> None:
        self._evm = world.evm
        self._client = client
        self._bridges = Bridges(world.evm, client)
        self._chance = chance
        self._log = log

    def play(self) -> tuple[ExpectedMovement, ...]:
        """The whole story; every movement as it must be shown at its end."""
        self._client.next_close = real_time
        self._alice = self._client.open_account("alice", usdc=100 * UNIT, usdt0=0)
        self._bob = self._client.open_account("bob", usdc=0, usdt0=100 * UNIT)
        self._holder, self._payee, self._relayer = dev_account(1), dev_account(2), dev_account(3)
        self._evm.faucet_usdc(self._holder.address, 100 * EVM_UNIT)
        self._evm.faucet_usdt0(self._holder.address, 100 * EVM_UNIT)
        self._log("alice and bob hold money on Stellar, two accounts on the EVM chain")
        return (*self._cctp_in(), self._cctp_out(), *self._oft_in(), self._oft_out())

    def _cctp_in(self) -> Iterator[ExpectedMovement]:
        """USDC to Stellar: standard, fast with a fee, and one that is not attested yet."""
        burned = self._bridges.burn_on_evm(self._holder, self._alice.public_key, self._six())
        yield self._logged("CCTP, standard", self._bridges.mint_on_stellar(burned))
        amount = self._six()
        fee = amount // 10_000
        burned = self._bridges.burn_on_evm(
            self._holder, self._alice.public_key, amount, max_fee=fee + 1
        )
        yield self._logged("CCTP, fast", self._bridges.mint_on_stellar(burned, fee=fee))
        burned = self._bridges.burn_on_evm(self._holder, self._bob.public_key, self._six())
        yield self._logged("CCTP, not attested yet", burned.movement)

    def _cctp_out(self) -> ExpectedMovement:
        """USDC from Stellar."""
        amount = self._six() * DUST
        burned = self._bridges.burn_on_stellar(self._alice, self._payee.address, amount)
        return self._logged("CCTP", self._bridges.mint_on_evm(burned, self._relayer))

    def _oft_in(self) -> Iterator[ExpectedMovement]:
        """USDT0 to Stellar: delivered, verified only, and still under way."""
        bob = self._bob.public_key
        sent = self._bridges.send_from_evm(self._holder, bob, self._six())
        self._bridges.verify_on_stellar(sent)
        yield self._logged("OFT", self._bridges.deliver_on_stellar(sent, bob))
        sent = self._bridges.send_from_evm(self._holder, bob, self._six())
        yield self._logged("OFT, verified", self._bridges.verify_on_stellar(sent))
        self._under_way = self._bridges.send_from_evm(self._holder, bob, self._six())
        yield self._logged("OFT, under way", self._under_way.movement)

    def let_others_pass(self) -> None:
        """Verify what is under way: no later packet can be executed before."""
        self._bridges.verify_on_stellar(self._under_way)

    def _oft_out(self) -> ExpectedMovement:
        """USDT0 from Stellar."""
        amount = self._six() * DUST
        sent = self._bridges.send_from_stellar(self._bob, self._payee.address, amount)
        return self._logged("OFT", self._bridges.deliver_on_evm(sent))

    def _six(self) -> int:
        """An amount between 5 and 20 units of 6 decimals."""
        return self._chance.randint(5 * EVM_UNIT, 20 * EVM_UNIT)

    def _logged(self, what: str, movement: ExpectedMovement) -> ExpectedMovement:
        sent = movement.amount_in * (DUST if movement.source_chain == EVM else 1)
        self._log(
            f"{what}: {decimal(sent)} from {movement.source_chain}"
            f" to {movement.dest_chain}, {movement.stage}"
        )
        return movement


class Scenario:
    """The whole story of one seed on one world."""

    def __init__(self, world: World, seed: int, log: Log) -> None:
        self.chance = random.Random(seed)
        self.client = PacedClient(world.stellar_url, real_time)
        self._world = world
        self.book = BookStory(self.client, self.chance, log)
        self._transfers = TransferStory(world, self.client, self.chance, log)

    def play(self) -> Story:
        """Everything, once; what must be visible at the end."""
        self.book.play()
        movements = self._transfers.play()
        now = self.client.close_time()
        ledger = self.client.server.get_latest_ledger().sequence
        return Story(
            book=self.book.deeds.expected(ledger, now),
            movements=movements,
            evm_height=self._world.evm.block_number(),
        )

    def let_others_pass(self) -> None:
        """Once the story is verified: complete what it left under way."""
        self._transfers.let_others_pass()

    def close_ledger(self) -> None:
        """A ledger with nothing in it, now."""
        self.client.close_next_ledger(real_time)


_DAILY: tuple[tuple[str, Direction, str, str], ...] = (
    ("ana", "onramp", "venmo", "USD"),
    ("ben", "onramp", "zelle_citi", "USD"),
    ("chloe", "onramp", "revolut", "EUR"),
    ("chloe", "offramp", "wise", "EUR"),
    ("davi", "offramp", "pix", "BRL"),
    ("elif", "offramp", "venmo", "USD"),
)


def _address(name: str) -> str:
    return keypair(name).public_key


def _short(deal: Deal) -> str:
    return deal.order_id[:8]
