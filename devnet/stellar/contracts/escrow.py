"""Escrow, version 1: providers' balances of USDC, and the orders that lock them.

The contract holds the USDC of every provider's balance and of every open order's taker lock:
its token balance is always the sum of free, locked and taker-locked amounts. Amounts, rates and
fiat are i128 with 7 decimals, times are seconds of the ledger's close time.

On an onramp the provider sells: its USDC is locked and the taker pays fiat. On an offramp the taker
sells: its USDC is locked, and so is a bond of the provider, who pays fiat.
"""

from dataclasses import dataclass, replace
from hashlib import sha256

from stellar_sdk import Address as StellarAddress
from stellar_sdk import StrKey, scval, xdr

from devnet.stellar.contracts.rail_terms import DIRECTIONS, Offer
from devnet.stellar.host import CONSTRUCTOR, Contract, exported
from devnet.stellar.values import (
    ADDRESS,
    BYTES32,
    Address,
    Bool,
    Bytes32,
    Int128,
    ManyBytes32,
    MaybeBytes32,
    MaybeInt128,
    MaybeUint64,
    Symbol,
    Uint32,
    Uint64,
    codec_of,
    key,
    optional,
    struct,
)

VERSION = 1
UNIT = 10**7
BPS = 10_000
MAX_PRUNE = 10
"""Expired orders that one opening may clear away: their events must fit the 16 KB of a call."""

ONRAMP, OFFRAMP = DIRECTIONS
PROOF, MANUAL = "proof", "manual"
ACTIVE, FULFILLED, CANCELLED, EXPIRED = "active", "fulfilled", "cancelled", "expired"

BAD_AMOUNT = 1
INSUFFICIENT_FREE = 2
NO_TERMS = 3
PROVIDER_PAUSED = 4
RAIL_DISABLED = 5
CURRENCY_NOT_ON_RAIL = 6
NO_PAYEE = 7
OUTSIDE_LIMITS = 8
TOO_MANY_OPEN = 9
UNKNOWN_ORDER = 10
ORDER_CLOSED = 11
ORDER_EXPIRED = 12
NOT_EXPIRED = 13
NULLIFIER_USED = 14
BAD_CLAIM = 15
NOT_ALLOWED = 16
PAUSED = 17
BAD_PRUNE = 18
BAD_CONFIG = 19

_CONFIG = key("Config")
_PAUSED = key("Paused")


@dataclass(frozen=True)
class Config:
    """The contract's trusted accounts, and its limits."""

    admin: Address
    bond_bps: Uint32
    fee_to: Address
    max_open: Uint32
    order_ttl: Uint64
    rail_terms: Address
    token: Address


@dataclass(frozen=True)
class Pause:
    """`opens` stops new orders; `all` stops deposits and settlements as well, never exits."""

    all: Bool
    opens: Bool


@dataclass(frozen=True)
class Balance:
    """A provider's escrow balance, its open orders, and the number of its events."""

    free: Int128
    locked: Int128
    open_orders: Uint32
    pseq: Uint64


@dataclass(frozen=True)
class Order:
    """An order with everything that it copied when it was opened."""

    amount: Int128
    currency: Symbol
    direction: Symbol
    expires_at: Uint64
    fee_bps: Uint32
    fiat_amount: Int128
    lp_lock: Int128
    payee_hash: Bytes32
    provider: Address
    rail: Symbol
    rate: Int128
    status: Symbol
    taker: Address
    taker_lock: Int128
    tier: Uint32


def fiat_for(direction: str, amount: int, rate: int) -> int:
    """Fiat of an order: rounded up when the provider receives it, down when it pays."""
    product = amount * rate
    return -(-product // UNIT) if direction == ONRAMP else product // UNIT


def order_id(contract: str, provider: str, pseq: int) -> bytes:
    """sha256 of the contract's id, the provider's ScAddress and the opening event's `pseq`."""
    who = StellarAddress(provider).to_xdr_sc_address().to_xdr_bytes()
    return sha256(StrKey.decode_contract(contract) + who + pseq.to_bytes(8, "big")).digest()


def _balance_key(provider: str) -> xdr.SCVal:
    return key("Balance", scval.to_address(provider))


def _order_key(identifier: bytes) -> xdr.SCVal:
    return key("Order", scval.to_bytes(identifier))


def _nullifier_key(nullifier: bytes) -> xdr.SCVal:
    return key("Nullifier", scval.to_bytes(nullifier))


class Escrow(Contract):
    """Balances and orders."""

    CODE = "escrow"

    @exported(CONSTRUCTOR)
    def construct(
        self,
        token: Address,
        rail_terms: Address,
        admin: Address,
        fee_to: Address,
        order_ttl: Uint64,
        bond_bps: Uint32,
        max_open: Uint32,
    ) -> None:
        """Start with a configuration and nothing paused."""
        self.env.store(_PAUSED, struct(Pause), Pause(all=False, opens=False))
        self._put_config(Config(admin, bond_bps, fee_to, max_open, order_ttl, rail_terms, token))

    @exported("set_config")
    def set_config(
        self,
        admin: Address,
        fee_to: Address,
        order_ttl: Uint64,
        bond_bps: Uint32,
        max_open: Uint32,
    ) -> None:
        """Change what may change (admin); token and terms contract stay."""
        config = self._config()
        self.env.require_auth(config.admin)
        self._put_config(
            replace(
                config,
                admin=admin,
                fee_to=fee_to,
                order_ttl=order_ttl,
                bond_bps=bond_bps,
                max_open=max_open,
            )
        )

    @exported("set_paused")
    def set_paused(self, opens: Bool, all: Bool) -> None:  # noqa: A002 - the event's own name
        """Pause (admin). Withdrawals, cancellations and expiries are never paused."""
        self.env.require_auth(self._config().admin)
        self.env.store(_PAUSED, struct(Pause), Pause(all, opens))
        self._emit("paused_set", [], {"opens": scval.to_bool(opens), "all": scval.to_bool(all)})

    @exported("deposit")
    def deposit(self, provider: Address, amount: Int128) -> None:
        """Add to the provider's free balance."""
        self.env.require_auth(provider)
        self._refuse_if_paused()
        self._check_amount(amount)
        self._pay(provider, self.env.contract, amount)
        balance = self._change(provider, free=amount)
        data = {"amount": scval.to_int128(amount), "from": scval.to_address(provider)}
        self._emit_balance("deposit", provider, [], data, balance)

    @exported("withdraw")
    def withdraw(self, provider: Address, amount: Int128, to: Address) -> None:
        """Take from the provider's free balance, never from what orders lock."""
        self.env.require_auth(provider)
        self._check_amount(amount)
        if self._balance(provider).free < amount:
            raise self.env.fail(INSUFFICIENT_FREE, "more than the free balance")
        balance = self._change(provider, free=-amount)
        self._pay(self.env.contract, to, amount)
        data = {"amount": scval.to_int128(amount), "to": scval.to_address(to)}
        self._emit_balance("withdraw", provider, [], data, balance)

    @exported("open")
    def open_order(
        self,
        taker: Address,
        provider: Address,
        direction: Symbol,
        rail: Symbol,
        currency: Symbol,
        amount: Int128,
        payee_hash: MaybeBytes32,
        prune: ManyBytes32,
    ) -> Bytes32:
        """Open an order on a provider's terms, after clearing its expired orders in `prune`.

        `payee_hash` is where the taker wants fiat (offramp), and absent on an onramp.
        """
        self.env.require_auth(taker)
        self._refuse_if_paused(opening=True)
        self._prune(taker, provider, prune)
        offer = self._offer(provider, rail, currency, direction)
        self._check_open(provider, offer, amount)
        payee = self._payee(direction, offer, payee_hash)
        bond = amount * self._config().bond_bps // BPS
        order = Order(
            amount=amount,
            currency=currency,
            direction=direction,
            expires_at=self.env.ledger.close_time + self._config().order_ttl,
            fee_bps=offer.fee_bps,
            fiat_amount=fiat_for(direction, amount, offer.rate),
            lp_lock=amount if direction == ONRAMP else bond,
            payee_hash=payee,
            provider=provider,
            rail=rail,
            rate=offer.rate,
            status=ACTIVE,
            taker=taker,
            taker_lock=amount if direction == OFFRAMP else 0,
            tier=offer.tier,
        )
        return self._open(order)

    @exported("fulfill")
    def fulfill(
        self,
        caller: Address,
        order_id: Bytes32,
        claim: Symbol,
        nullifier: MaybeBytes32,
        released: Int128,
        fiat_paid: MaybeInt128,
        paid_at: MaybeUint64,
    ) -> None:
        """Settle on a payment claim (`proof`, by the rail's verifier) or by hand (`manual`).

        By hand the party that receives fiat releases the whole amount: the provider on an
        onramp, the taker on an offramp.
        """
        self.env.require_auth(caller)
        self._refuse_if_paused()
        order = self._active(order_id)
        if self.env.ledger.close_time > order.expires_at:
            raise self.env.fail(ORDER_EXPIRED, "the order has expired")
        if not 0 < released <= order.amount:
            raise self.env.fail(BAD_AMOUNT, "released must be positive and within the order")
        if claim == PROOF:
            self._check_proof(caller, order, order_id, nullifier)
        elif claim == MANUAL:
            self._check_manual(caller, order, nullifier, released)
        else:
            raise self.env.fail(BAD_CLAIM, f"no claim {claim}")
        self._settle(order, order_id, claim, nullifier, released, fiat_paid, paid_at)

    @exported("cancel")
    def cancel(self, caller: Address, order_id: Bytes32) -> None:
        """End an active order: the taker an onramp, the provider an offramp, the admin any."""
        self.env.require_auth(caller)
        order = self._active(order_id)
        if self.env.ledger.close_time > order.expires_at:
            raise self.env.fail(ORDER_EXPIRED, "the order has expired")
        by = self._canceller(caller, order)
        self._end(order, order_id, CANCELLED, "order_cancel", scval.to_symbol(by))

    @exported("expire")
    def expire(self, caller: Address, order_id: Bytes32) -> None:
        """End an order whose time has passed; anyone may."""
        self.env.require_auth(caller)
        order = self._active(order_id)
        if self.env.ledger.close_time <= order.expires_at:
            raise self.env.fail(NOT_EXPIRED, "the order has not expired")
        self._end(order, order_id, EXPIRED, "order_expire", scval.to_address(caller))

    @exported("balance")
    def balance(self, provider: Address) -> Balance:
        """A provider's balance; zeros when it never deposited."""
        return self._balance(provider)

    @exported("order")
    def order(self, order_id: Bytes32) -> Order:
        """An order, open or ended."""
        return self._order(order_id)

    @exported("config")
    def config(self) -> Config:
        """The configuration."""
        return self._config()

    # Storage

    def _config(self) -> Config:
        config: Config = self.env.load(_CONFIG, struct(Config))
        return config

    def _put_config(self, config: Config) -> None:
        if config.bond_bps > BPS or config.order_ttl == 0 or config.max_open == 0:
            raise self.env.fail(BAD_CONFIG, f"bad configuration {config}")
        self.env.store(_CONFIG, struct(Config), config)
        self._emit("config_set", [], _fields(config))

    def _balance(self, provider: str) -> Balance:
        known: Balance | None = self.env.load(_balance_key(provider), struct(Balance))
        return known or Balance(0, 0, 0, 0)

    def _change(
        self, provider: str, *, free: int = 0, locked: int = 0, open_orders: int = 0
    ) -> Balance:
        """Change a provider's balance and count one event."""
        old = self._balance(provider)
        new = Balance(
            old.free + free, old.locked + locked, old.open_orders + open_orders, old.pseq + 1
        )
        self.env.store(_balance_key(provider), struct(Balance), new)
        return new

    def _order(self, identifier: bytes) -> Order:
        order: Order | None = self.env.load(_order_key(identifier), struct(Order))
        if order is None:
            raise self.env.fail(UNKNOWN_ORDER, "no such order")
        return order

    def _active(self, identifier: bytes) -> Order:
        order = self._order(identifier)
        if order.status != ACTIVE:
            raise self.env.fail(ORDER_CLOSED, f"the order is {order.status}")
        return order

    def _put_order(self, identifier: bytes, order: Order) -> None:
        self.env.store(_order_key(identifier), struct(Order), order)

    # Checks

    def _refuse_if_paused(self, *, opening: bool = False) -> None:
        pause: Pause = self.env.load(_PAUSED, struct(Pause))
        if pause.all or (opening and pause.opens):
            raise self.env.fail(PAUSED, "paused")

    def _check_amount(self, amount: int) -> None:
        if amount <= 0:
            raise self.env.fail(BAD_AMOUNT, "amounts are positive")

    def _offer(self, provider: str, rail: str, currency: str, direction: str) -> Offer:
        answer = self.env.call(
            self._config().rail_terms,
            "offer",
            scval.to_address(provider),
            scval.to_symbol(rail),
            scval.to_symbol(currency),
            scval.to_symbol(direction),
        )
        offer: Offer | None = optional(struct(Offer)).decode(answer)
        if offer is None:
            raise self.env.fail(NO_TERMS, "the provider has no such terms")
        return offer

    def _check_open(self, provider: str, offer: Offer, amount: int) -> None:
        if offer.paused:
            raise self.env.fail(PROVIDER_PAUSED, "the provider is away")
        if not offer.enabled:
            raise self.env.fail(RAIL_DISABLED, "the rail is disabled")
        if not offer.currency_allowed:
            raise self.env.fail(CURRENCY_NOT_ON_RAIL, "the rail no longer carries the currency")
        if not offer.min <= amount <= offer.max:
            raise self.env.fail(OUTSIDE_LIMITS, "the amount is outside the terms")
        if self._balance(provider).open_orders >= self._config().max_open:
            raise self.env.fail(TOO_MANY_OPEN, "the provider has too many open orders")

    def _payee(self, direction: str, offer: Offer, of_taker: bytes | None) -> bytes:
        payee = offer.payee_hash if direction == ONRAMP else of_taker
        if payee is None or (direction == ONRAMP and of_taker is not None):
            raise self.env.fail(NO_PAYEE, "nobody is registered to receive the fiat")
        return payee

    def _check_proof(
        self, caller: str, order: Order, identifier: bytes, nullifier: bytes | None
    ) -> None:
        """A payment settles one order, and an order is settled by one payment."""
        answer = self.env.call(self._config().rail_terms, "verifier", scval.to_symbol(order.rail))
        if ADDRESS.decode(answer) != caller:
            raise self.env.fail(NOT_ALLOWED, "the caller does not verify this rail")
        if nullifier is None:
            raise self.env.fail(BAD_CLAIM, "a proof has a nullifier")
        if self.env.load(_nullifier_key(nullifier), BYTES32) is not None:
            raise self.env.fail(NULLIFIER_USED, "the payment has settled an order already")
        self.env.store(_nullifier_key(nullifier), BYTES32, identifier)

    def _check_manual(
        self, caller: str, order: Order, nullifier: bytes | None, released: int
    ) -> None:
        if caller != (order.provider if order.direction == ONRAMP else order.taker):
            raise self.env.fail(NOT_ALLOWED, "only who receives the fiat may release by hand")
        if nullifier is not None:
            raise self.env.fail(BAD_CLAIM, "a release by hand has no nullifier")
        if released != order.amount:
            raise self.env.fail(BAD_AMOUNT, "a release by hand is of the whole amount")

    def _canceller(self, caller: str, order: Order) -> str:
        if caller == self._config().admin:
            return "admin"
        if order.direction == ONRAMP and caller == order.taker:
            return "taker"
        if order.direction == OFFRAMP and caller == order.provider:
            return "provider"
        raise self.env.fail(NOT_ALLOWED, "the caller may not cancel this order")

    def _prune(self, taker: str, provider: str, identifiers: list[bytes]) -> None:
        if len(identifiers) > MAX_PRUNE:
            raise self.env.fail(BAD_PRUNE, f"at most {MAX_PRUNE} orders")
        for identifier in identifiers:
            order = self._order(identifier)
            if order.provider != provider:
                raise self.env.fail(BAD_PRUNE, "an order of another provider")
            if order.status != ACTIVE:
                # Another transaction ended it since the caller read it.
                continue
            if self.env.ledger.close_time <= order.expires_at:
                raise self.env.fail(NOT_EXPIRED, "the order has not expired")
            self._end(order, identifier, EXPIRED, "order_expire", scval.to_address(taker))

    # State changes

    def _open(self, order: Order) -> bytes:
        if self._balance(order.provider).free < order.lp_lock:
            raise self.env.fail(INSUFFICIENT_FREE, "the provider's free balance is too small")
        if order.taker_lock:
            self._pay(order.taker, self.env.contract, order.taker_lock)
        lock = order.lp_lock
        balance = self._change(order.provider, free=-lock, locked=lock, open_orders=1)
        identifier = order_id(self.env.contract, order.provider, balance.pseq)
        self._put_order(identifier, order)
        data = _fields(order)
        for topic in ("provider", "taker", "status"):
            del data[topic]
        self._emit_order("order_open", order, identifier, data, balance)
        return identifier

    def _settle(
        self,
        order: Order,
        identifier: bytes,
        claim: str,
        nullifier: bytes | None,
        released: int,
        fiat_paid: int | None,
        paid_at: int | None,
    ) -> None:
        fee = released * order.fee_bps // BPS
        net = released - fee
        onramp = order.direction == ONRAMP
        free_delta = order.lp_lock - released if onramp else order.lp_lock + net
        refund = 0 if onramp else order.amount - released
        self._put_order(identifier, replace(order, status=FULFILLED))
        balance = self._change(
            order.provider, free=free_delta, locked=-order.lp_lock, open_orders=-1
        )
        self._pay(self.env.contract, order.taker, net if onramp else refund)
        self._pay(self.env.contract, self._config().fee_to, fee)
        data = {
            "claim": scval.to_symbol(claim),
            "nullifier": optional(BYTES32).encode(nullifier),
            "released": scval.to_int128(released),
            "fee": scval.to_int128(fee),
            "net": scval.to_int128(net),
            "recipient": scval.to_address(order.taker if onramp else order.provider),
            "lp_unlock": scval.to_int128(order.lp_lock),
            "lp_free_delta": scval.to_int128(free_delta),
            "taker_refund": scval.to_int128(refund),
            "fiat_paid": codec_of(MaybeInt128).encode(fiat_paid),
            "paid_at": codec_of(MaybeUint64).encode(paid_at),
        }
        self._emit_order("order_fulfill", order, identifier, data, balance)

    def _end(self, order: Order, identifier: bytes, status: str, event: str, by: xdr.SCVal) -> None:
        """Give both sides back what the order locked."""
        self._put_order(identifier, replace(order, status=status))
        lock = order.lp_lock
        balance = self._change(order.provider, free=lock, locked=-lock, open_orders=-1)
        self._pay(self.env.contract, order.taker, order.taker_lock)
        data = {
            "by": by,
            "lp_unlock": scval.to_int128(lock),
            "taker_refund": scval.to_int128(order.taker_lock),
        }
        self._emit_order(event, order, identifier, data, balance)

    def _pay(self, sender: str, receiver: str, amount: int) -> None:
        if amount:
            self.env.call(
                self._config().token,
                "transfer",
                scval.to_address(sender),
                scval.to_address(receiver),
                scval.to_int128(amount),
            )

    # Events

    def _emit_order(
        self,
        name: str,
        order: Order,
        identifier: bytes,
        data: dict[str, xdr.SCVal],
        balance: Balance,
    ) -> None:
        topics = [scval.to_address(order.taker), scval.to_bytes(identifier)]
        self._emit_balance(name, order.provider, topics, data, balance)

    def _emit_balance(
        self,
        name: str,
        provider: str,
        topics: list[xdr.SCVal],
        data: dict[str, xdr.SCVal],
        balance: Balance,
    ) -> None:
        after = {
            "free_after": scval.to_int128(balance.free),
            "locked_after": scval.to_int128(balance.locked),
            "pseq": scval.to_uint64(balance.pseq),
        }
        self._emit(name, [scval.to_address(provider), *topics], {**data, **after})

    def _emit(self, name: str, topics: list[xdr.SCVal], data: dict[str, xdr.SCVal]) -> None:
        whole = {**data, "v": scval.to_uint32(VERSION)}
        self.env.emit([scval.to_symbol(name), *topics], scval.to_struct(whole))


def _fields(value: Config | Order) -> dict[str, xdr.SCVal]:
    """The members of a stored struct, as an event carries them."""
    return scval.from_struct(codec_of(type(value)).encode(value))
