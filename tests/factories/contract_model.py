"""The two order-book contracts as a small machine: what `docs/orderbook.md` §1 says, and no more.

It keeps the rules that make the events sufficient (an order ends once; terms, tier and fee are
copied at opening; an onramp needs a registered payee; settling only up to the expiry and pruning
only after it; a nullifier settles one order; withdrawals come from free escrow), and emits what the
contracts would. The devnet's contracts are other code for the same rules, and a test plays both.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from indexer.market.escrow_events import (
    EscrowConfigSet,
    EscrowDeposit,
    EscrowPausedSet,
    EscrowUpgraded,
    EscrowWithdraw,
    OrderCancel,
    OrderExpire,
    OrderFulfill,
    OrderOpen,
)
from indexer.market.rail_terms_events import PayeeSet, ProviderSet, RailSet, TermsDel, TermsSet
from indexer.orderbook.state import BookEvent, LedgerClose
from tests.factories.book import (
    CHAIN,
    account,
    contract,
    payee_hash_of,
    seen_in,
    usdc,
    word,
)
from warehouse_schema.identifiers import Bytes32, Height, StellarAddress, UnixSeconds


class Refused(Exception):
    """The contract panics: no event, no change."""


@dataclass
class Account:
    """A provider in the Escrow contract."""

    free: int = 0
    locked: int = 0
    pseq: int = 0
    tseq: int = 0
    paused: bool = False


@dataclass
class Intent:
    """An order in the Escrow contract."""

    opening: OrderOpen
    state: str = "open"


@dataclass
class ContractModel:
    """Both contracts, one ledger in the making: call what transactions would, then `close`."""

    now: int = 1_000
    height: int = 10
    ttl: int = 600
    max_open: int = 1_000
    accounts: dict[StellarAddress, Account] = field(default_factory=lambda: defaultdict(Account))
    orders: dict[Bytes32, Intent] = field(default_factory=dict)
    rails: dict[str, RailSet] = field(default_factory=dict)
    terms: dict[tuple[str, str, str, str], TermsSet] = field(default_factory=dict)
    payees: dict[tuple[str, str], str] = field(default_factory=dict)
    nullifiers: set[str] = field(default_factory=set)
    opens_paused: bool = False
    all_paused: bool = False
    fees: int = 0
    paid_out: int = 0
    paid_in: int = 0
    pending: list[BookEvent] = field(default_factory=list)
    position: int = 0
    order_id_of: Callable[[StellarAddress, int], Bytes32] = lambda provider, pseq: word(
        "escrow", provider, pseq
    )
    """The id of an order by its provider and the `pseq` of its opening."""

    # Ledgers

    @property
    def ledger(self) -> LedgerClose:
        return LedgerClose(CHAIN, Height(self.height), UnixSeconds(self.now))

    def close(self, seconds: int = 1) -> tuple[LedgerClose, list[BookEvent]]:
        """The ledger with its events; the next one closes `seconds` later."""
        closed, events = self.ledger, self.pending
        self.height += 1
        self.now += seconds
        self.pending, self.position = [], 0
        return closed, events

    def at(self, now: int) -> "ContractModel":
        """Let the ledger in the making close at that time."""
        assert now >= self.now
        assert not self.pending, "the ledger already holds events of another time"
        self.now = now
        return self

    def _emit(self, event: type, **fields: Any) -> Any:
        self.position += 1
        emitted = event(seen=seen_in(self.ledger, self.position), **fields)
        self.pending.append(emitted)
        return emitted

    def _balances(self, provider: StellarAddress) -> dict[str, Any]:
        account_ = self.accounts[provider]
        account_.pseq += 1
        return {
            "provider": provider,
            "free_after": account_.free,
            "locked_after": account_.locked,
            "pseq": account_.pseq,
        }

    def _numbered(self, provider: StellarAddress) -> dict[str, Any]:
        self.accounts[provider].tseq += 1
        return {"provider": provider, "tseq": self.accounts[provider].tseq}

    # Escrow

    def config_set(self, bond_bps: int = 10_000) -> None:
        self._emit(
            EscrowConfigSet,
            token=contract("usdc"),
            rail_terms=contract("rail terms"),
            admin=account("admin"),
            fee_to=account("fees"),
            order_ttl=self.ttl,
            bond_bps=bond_bps,
            max_open=self.max_open,
        )

    def deposit(self, provider: StellarAddress, amount: int) -> None:
        if self.all_paused or amount <= 0:
            raise Refused("paused, or nothing to deposit")
        self.accounts[provider].free += amount
        self.paid_in += amount
        balances = self._balances(provider)
        self._emit(EscrowDeposit, amount=amount, from_address=provider, **balances)

    def withdraw(self, provider: StellarAddress, amount: int) -> None:
        if not 0 < amount <= self.accounts[provider].free:
            raise Refused("withdraw beyond free escrow")
        self.accounts[provider].free -= amount
        self.paid_out += amount
        balances = self._balances(provider)
        self._emit(EscrowWithdraw, amount=amount, to_address=provider, **balances)

    def open(
        self,
        provider: StellarAddress,
        amount: int,
        *,
        taker: StellarAddress | None = None,
        direction: str = "onramp",
        rail: str = "venmo",
        currency: str = "USD",
        prune: tuple[Bytes32, ...] = (),
    ) -> Bytes32:
        terms = self._terms_for_order(provider, direction, rail, currency, len(prune))
        if not terms.min <= amount <= terms.max:
            raise Refused("outside the limits")
        reclaimed = sum(self.orders[order].opening.lp_lock for order in prune)
        if self.accounts[provider].free + reclaimed < amount:
            raise Refused("not enough free escrow")
        taker = taker or account("taker")
        for order in prune:
            self.expire(order, by=taker)
        order_id = self.order_id_of(provider, self.accounts[provider].pseq + 1)
        self.accounts[provider].free -= amount
        self.accounts[provider].locked += amount
        onramp = direction == "onramp"
        self.paid_in += 0 if onramp else amount
        fiat, rest = divmod(amount * terms.rate, 10_000_000)
        opening = self._emit(
            OrderOpen,
            taker=taker,
            order_id=order_id,
            direction=direction,
            rail=rail,
            currency=currency,
            amount=amount,
            rate=terms.rate,
            fiat_amount=fiat + (onramp and rest > 0),
            lp_lock=amount,
            taker_lock=0 if onramp else amount,
            payee_hash=self.payees[provider, rail] if onramp else word("taker's payee"),
            expires_at=self.now + self.ttl,
            tier=self.rails[rail].tier,
            fee_bps=self.rails[rail].fee_bps,
            **self._balances(provider),
        )
        self.orders[order_id] = Intent(opening)
        return order_id

    def _terms_for_order(
        self, provider: StellarAddress, direction: str, rail: str, currency: str, pruned: int
    ) -> TermsSet:
        terms = self.terms.get((provider, direction, rail, currency))
        paused = self.opens_paused or self.all_paused or self.accounts[provider].paused
        if terms is None or paused:
            raise Refused("no terms, or paused")
        if not self.rails[rail].enabled or currency not in self.rails[rail].currencies:
            raise Refused("rail closed")
        if direction == "onramp" and (provider, rail) not in self.payees:
            raise Refused("no payee")
        mine = [order for order in self.orders.values() if order.opening.provider == provider]
        if sum(order.state == "open" for order in mine) - pruned >= self.max_open:
            raise Refused("too many open orders")
        return terms

    def fulfil(
        self,
        order_id: Bytes32,
        released: int | None = None,
        *,
        claim: str = "proof",
        nullifier: str | None = None,
    ) -> None:
        order = self._open_order(order_id)
        released = order.amount if released is None else released
        nullifier = None if claim == "manual" else (nullifier or word("claim", order_id))
        if self.now > order.expires_at or nullifier in self.nullifiers:
            raise Refused("too late, or claimed before")
        if self.all_paused or not 0 < released <= order.amount:
            raise Refused("paused, or release outside the order")
        if claim == "manual" and released != order.amount:
            raise Refused("by hand it is all or nothing")
        self.nullifiers |= {nullifier} if nullifier else set()
        fee = released * order.fee_bps // 10_000
        onramp = order.direction == "onramp"
        back = order.lp_lock - released if onramp else order.lp_lock + released - fee
        refund = 0 if onramp else order.amount - released
        account_ = self.accounts[order.provider]
        account_.locked -= order.lp_lock
        account_.free += back
        self.fees += fee
        self.paid_out += (released - fee if onramp else refund) + fee
        self.orders[order_id].state = "fulfilled"
        self._emit(
            OrderFulfill,
            taker=order.taker,
            order_id=order_id,
            claim=claim,
            nullifier=nullifier,
            released=released,
            fee=fee,
            net=released - fee,
            recipient=order.taker if onramp else order.provider,
            lp_unlock=order.lp_lock,
            lp_free_delta=back,
            taker_refund=refund,
            fiat_paid=None if claim == "manual" else order.fiat_amount,
            paid_at=None if claim == "manual" else self.now - 10,
            **self._balances(order.provider),
        )

    def cancel(self, order_id: Bytes32, by: str = "taker") -> None:
        order = self._open_order(order_id)
        if self.now > order.expires_at:
            raise Refused("expired")
        if by != "admin" and by != ("taker" if order.direction == "onramp" else "provider"):
            raise Refused("not yours to cancel")
        self._unlock(order, "cancelled", OrderCancel, by=by)

    def expire(self, order_id: Bytes32, by: StellarAddress | None = None) -> None:
        order = self._open_order(order_id)
        if self.now <= order.expires_at:
            raise Refused("not expired")
        self._unlock(order, "expired", OrderExpire, by=by or account("anyone"))

    def _open_order(self, order_id: Bytes32) -> OrderOpen:
        if self.orders[order_id].state != "open":
            raise Refused("finished")
        return self.orders[order_id].opening

    def _unlock(self, order: OrderOpen, state: str, event: type, by: str) -> None:
        account_ = self.accounts[order.provider]
        account_.locked -= order.lp_lock
        account_.free += order.lp_lock
        self.paid_out += order.taker_lock
        self.orders[order.order_id].state = state
        self._emit(
            event,
            taker=order.taker,
            order_id=order.order_id,
            by=by,
            lp_unlock=order.lp_lock,
            taker_refund=order.taker_lock,
            **self._balances(order.provider),
        )

    def paused_set(self, opens: bool, everything: bool = False) -> None:
        self.opens_paused, self.all_paused = opens, everything
        self._emit(EscrowPausedSet, opens=opens, all=everything)

    def upgraded(self, schema: int = 1) -> None:
        self._emit(EscrowUpgraded, wasm_hash=word("wasm"), schema=schema)

    # RailTerms

    def rail_set(
        self,
        rail: str,
        *,
        enabled: bool = True,
        tier: int = 2,
        fee_bps: int = 50,
        currencies: tuple[str, ...] = ("EUR", "USD"),
    ) -> None:
        self.rails[rail] = self._emit(
            RailSet,
            rail=rail,
            enabled=enabled,
            tier=tier,
            fee_bps=fee_bps,
            verifier=contract("verifier"),
            currencies=currencies,
        )

    def terms_set(
        self,
        provider: StellarAddress,
        rail: str = "venmo",
        currency: str = "USD",
        direction: str = "onramp",
        *,
        rate: int | None = None,
        low: int | None = None,
        high: int | None = None,
    ) -> None:
        self.terms[provider, direction, rail, currency] = self._emit(
            TermsSet,
            rail=rail,
            currency=currency,
            direction=direction,
            rate=usdc("1.02") if rate is None else rate,
            min=usdc(10) if low is None else low,
            max=usdc(50) if high is None else high,
            **self._numbered(provider),
        )

    def terms_del(
        self,
        provider: StellarAddress,
        rail: str = "venmo",
        currency: str = "USD",
        direction: str = "onramp",
    ) -> None:
        if self.terms.pop((provider, direction, rail, currency), None) is None:
            raise Refused("no terms")
        self._emit(
            TermsDel, rail=rail, currency=currency, direction=direction, **self._numbered(provider)
        )

    def payee_set(
        self,
        provider: StellarAddress,
        rail: str = "venmo",
        *,
        registered: bool = True,
        handle: str | None = None,
        payee_hash: str | None = None,
    ) -> None:
        """A handle alone is hashed as clients do it: SHA-256 over its UTF-8 bytes."""
        if payee_hash is None:
            payee_hash = payee_hash_of(handle) if handle else word("payee", provider, rail)
        if registered:
            self.payees[provider, rail] = payee_hash
        else:
            self.payees.pop((provider, rail), None)
        self._emit(
            PayeeSet,
            rail=rail,
            registered=registered,
            payee_hash=payee_hash if registered else None,
            handle=handle if registered else None,
            **self._numbered(provider),
        )

    def provider_set(self, provider: StellarAddress, paused: bool) -> None:
        self.accounts[provider].paused = paused
        self._emit(ProviderSet, paused=paused, **self._numbered(provider))

    # What must hold of the contract itself

    def custody(self) -> int:
        """USDC the escrow holds by what came in and went out."""
        return self.paid_in - self.paid_out

    def owed(self) -> int:
        """USDC the escrow owes by its own books."""
        escrow = sum(account_.free + account_.locked for account_ in self.accounts.values())
        takers = sum(o.opening.taker_lock for o in self.orders.values() if o.state == "open")
        return escrow + takers
