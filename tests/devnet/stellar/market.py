"""An order book on a devnet: shorthands for the calls of RailTerms and Escrow."""

from stellar_sdk import scval

from devnet.stellar.accounts import ADMIN, RAIL_VERIFIER, keypair
from devnet.stellar.contracts.rail_terms import Terms
from devnet.stellar.registry import devnet_contracts
from devnet.stellar.values import BYTES32, I128, STRING, U64, optional, sequence, struct
from tests.devnet.stellar.chain import UNIT, Chain, events

AT = devnet_contracts()
PAYEE = b"\x5a" * 32
NOBODY = b"\0" * 32
VERIFIER = keypair(RAIL_VERIFIER)
ADMIN_KEY = keypair(ADMIN)


def address(holder):
    return scval.to_address(holder if isinstance(holder, str) else holder.public_key)


def terms(rail="venmo", currency="USD", direction="onramp", rate=1.02, minimum=10, maximum=50):
    """Terms in units; the contract takes stroops."""
    return Terms(
        currency, direction, maximum * UNIT, minimum * UNIT, rail, round(rate * 100) * UNIT // 100
    )


class Market:
    """A chain, a provider p, and a taker with USDC of its own."""

    def __init__(self, provider_usdc=1000, chain=None):
        self.chain = chain or Chain()
        self.provider = self.chain.open("provider one", usdc=provider_usdc * UNIT)
        self.taker = self.chain.open("taker one", usdc=100 * UNIT)

    # RailTerms

    def set_terms(self, each=None, *, provider=None, run="invoke", **fields):
        each = each or terms(**fields)
        source = provider or self.provider
        return getattr(self.chain, run)(
            source,
            AT.rail_terms,
            "set_terms",
            address(source),
            scval.to_symbol(each.rail),
            scval.to_symbol(each.currency),
            scval.to_symbol(each.direction),
            scval.to_int128(each.rate),
            scval.to_int128(each.min),
            scval.to_int128(each.max),
        )

    def set_terms_many(self, several):
        many = sequence(struct(Terms)).encode(several)
        args = (AT.rail_terms, "set_terms_many", address(self.provider), many)
        return self.chain.invoke(self.provider, *args)

    def del_terms(self, rail="venmo", currency="USD", direction="onramp", run="invoke"):
        names = map(scval.to_symbol, (rail, currency, direction))
        call = getattr(self.chain, run)
        return call(self.provider, AT.rail_terms, "del_terms", address(self.provider), *names)

    def set_payee(self, rail="venmo", payee_hash=PAYEE, handle=None, provider=None, run="invoke"):
        source = provider or self.provider
        return getattr(self.chain, run)(
            source,
            AT.rail_terms,
            "set_payee",
            address(source),
            scval.to_symbol(rail),
            scval.to_bool(payee_hash is not None),
            optional(BYTES32).encode(payee_hash),
            optional(STRING).encode(handle),
        )

    def set_provider(self, paused):
        args = (address(self.provider), scval.to_bool(paused))
        return self.chain.invoke(self.provider, AT.rail_terms, "set_provider", *args)

    def set_rail(self, rail="venmo", *, enabled=True, tier=2, fee_bps=50, currencies=("USD",)):
        return self.chain.invoke(
            ADMIN_KEY,
            AT.rail_terms,
            "set_rail",
            scval.to_symbol(rail),
            scval.to_bool(enabled),
            scval.to_uint32(tier),
            scval.to_uint32(fee_bps),
            address(VERIFIER),
            scval.to_vec([scval.to_symbol(each) for each in currencies]),
        )

    # Escrow

    def deposit(self, amount=100, run="invoke"):
        args = (address(self.provider), scval.to_int128(amount * UNIT))
        return getattr(self.chain, run)(self.provider, AT.escrow, "deposit", *args)

    def withdraw(self, amount, to=None, run="invoke"):
        args = (
            address(self.provider),
            scval.to_int128(amount * UNIT),
            address(to or self.provider),
        )
        return getattr(self.chain, run)(self.provider, AT.escrow, "withdraw", *args)

    def open(
        self,
        amount=40,
        *,
        taker=None,
        direction="onramp",
        rail="venmo",
        currency="USD",
        payee=None,
        prune=(),
        at=None,
        run="invoke",
    ):
        """Open an order; its id as bytes."""
        source = taker or self.taker
        return getattr(self.chain, run)(
            source,
            AT.escrow,
            "open",
            address(source),
            address(self.provider),
            scval.to_symbol(direction),
            scval.to_symbol(rail),
            scval.to_symbol(currency),
            scval.to_int128(amount * UNIT),
            optional(BYTES32).encode(payee),
            scval.to_vec([scval.to_bytes(each) for each in prune]),
            at=at,
        )

    def fulfill(
        self,
        order,
        released,
        *,
        caller=VERIFIER,
        claim="proof",
        nullifier=b"\1" * 32,
        fiat_paid=None,
        paid_at=None,
        at=None,
        run="invoke",
    ):
        """Settle; `released` in stroops."""
        return getattr(self.chain, run)(
            caller,
            AT.escrow,
            "fulfill",
            address(caller),
            scval.to_bytes(order),
            scval.to_symbol(claim),
            optional(BYTES32).encode(nullifier),
            scval.to_int128(released),
            optional(I128).encode(fiat_paid),
            optional(U64).encode(paid_at),
            at=at,
        )

    def end(self, function, caller, order, at=None, run="invoke"):
        """`cancel` or `expire`."""
        call = getattr(self.chain, run)
        return call(caller, AT.escrow, function, address(caller), scval.to_bytes(order), at=at)

    def set_config(self, order_ttl=600, bond_bps=10_000, max_open=20):
        return self.chain.invoke(
            ADMIN_KEY,
            AT.escrow,
            "set_config",
            address(ADMIN_KEY),
            address(keypair("protocol fee recipient")),
            scval.to_uint64(order_ttl),
            scval.to_uint32(bond_bps),
            scval.to_uint32(max_open),
        )

    def pause(self, opens=False, everything=False):
        args = (scval.to_bool(opens), scval.to_bool(everything))
        return self.chain.invoke(ADMIN_KEY, AT.escrow, "set_paused", *args)

    # What is so

    @property
    def balances(self):
        """(free, locked) of the provider, in units, as the contract says."""
        balance = self.chain.invoke(ADMIN_KEY, AT.escrow, "balance", address(self.provider))
        return balance["free"] / UNIT, balance["locked"] / UNIT

    def order(self, order):
        return self.chain.invoke(ADMIN_KEY, AT.escrow, "order", scval.to_bytes(order))

    def custody(self):
        """USDC that the contract holds, in stroops."""
        return self.chain.invoke(ADMIN_KEY, AT.usdc_sac, "balance", address(AT.escrow))


def quoted(provider_usdc=1000, deposit=100, **fields):
    """A market whose provider has 100 USDC in escrow, terms and a payee."""
    market = Market(provider_usdc)
    market.deposit(deposit)
    market.set_terms(**fields)
    market.set_payee()
    return market


def event(row, name, contract=AT.escrow):
    """Topics and data of the one event of that name in a transaction."""
    found = [
        (topics, data)
        for emitter, topics, data in events(row)
        if topics[0] == name and emitter == contract
    ]
    assert len(found) == 1, events(row)
    return found[0]
