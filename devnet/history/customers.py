"""Customers' history: quotes, transfers, their movements, and what the relay spent on them.

Times are unix seconds. Amounts are in the 6 decimals that both bridges share, unless a row's column
says otherwise.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from devnet.bridges import DUST
from devnet.evm_messages import FINALIZED
from devnet.history.crossings import Attestation, Crossing, Crossings
from devnet.history.emitting import Emitter
from devnet.history.market import DAY
from devnet.stellar.accounts import address as account
from indexer.bridges.cctp.message import burn_key
from indexer.config.networks import EvmChain, Network
from indexer.config.routes import RouteId, TransferRoute, find_route
from warehouse_schema.identifiers import ChainId, bytes32, is_evm

Rows = dict[str, list[dict[str, Any]]]
"""By `schema.table`."""

_UNIT = 10**6
_ROUTES: dict[RouteId, float] = {
    "usdc-deposit": 0.40,
    "usdc-withdraw": 0.25,
    "usdt0-deposit": 0.20,
    "usdt0-withdraw": 0.15,
}
"""Shares of the quotes."""
_PRICE_SEEKERS, _CANCELLED, _EXPIRED = 0.32, 0.04, 0.09
"""Shares of the quotes: not used; used, and then cancelled or never paid."""
_QUOTE_SECONDS, _TRANSFER_SECONDS = 300, 1_800
_CUSTOMERS = 60
_READY_SECONDS = {"cctp": (800, 1_300), "oft": (150, 420)}
"""From the source's block to the attestation or verification."""
_DELIVERY_GAS = {"cctp": 178_000, "oft": 142_000}
_GWEI = 10**9


@dataclass(frozen=True)
class _Quote:
    id: str
    route: TransferRoute
    owner: str
    evm_address: str
    amount: int
    at: int

    @property
    def source_chain(self) -> ChainId:
        return self.route.source_chains[0].chain

    @property
    def dest_chain(self) -> ChainId:
        return self.route.dest_chains[0].chain

    @property
    def label(self) -> bytes:
        """The transfer's id, as its burn carries it."""
        return sha256(f"history transfer {self.id}".encode()).digest()[:16]

    def on(self, chain: ChainId) -> str:
        """The customer's address on a chain."""
        return self.evm_address if is_evm(chain) else self.owner

    def units(self, chain: ChainId) -> int:
        """The amount in a chain's base units."""
        return self.amount * (1 if is_evm(chain) else DUST)


@dataclass
class CustomerHistory:
    """Emits the movements into the chains' emitters and keeps the rows of everything else."""

    network: Network
    emitters: dict[ChainId, Emitter]
    seed: int
    rows: Rows = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self._random = random.Random(f"customers {self.seed}")
        self._crossings = Crossings(self.network)
        self._numbers: dict[ChainId, int] = defaultdict(int)
        self._gas_price = 9.0 * _GWEI
        (self._evm,) = self.network.evm

    def play(self, begin: int, days: int) -> None:
        """All quotes of `days` days from `begin`, a midnight. All ends lie before the last ends."""
        for quote in self._quotes(begin, days):
            self._serve(quote)

    def _quotes(self, begin: int, days: int) -> Iterator[_Quote]:
        """In order of time; a customer's quotes are hours apart."""
        for number in range(days):
            self._gas_price *= self._random.lognormvariate(0, 0.12)
            self._gas_price = min(max(self._gas_price, 2.0 * _GWEI), 60.0 * _GWEI)
            midnight = begin + number * DAY
            wanted = round((8 + 6 * number / days) * self._random.uniform(0.7, 1.3))
            times = self._random.sample(range(900, DAY - 6_000), wanted)
            people = self._random.sample(range(_CUSTOMERS), wanted)
            for at, person in zip(sorted(times), people, strict=True):
                yield self._quote(midnight + at, person)

    def _quote(self, at: int, person: int) -> _Quote:
        (name,) = self._random.choices(list(_ROUTES), list(_ROUTES.values()))
        route = find_route(self.network, name)
        assert route is not None
        cents = min(max(round(self._random.lognormvariate(6.7, 0.6)), 200), 2_000)
        quote = _Quote(
            id=sha256(f"history quote {self.seed} {at} {person}".encode()).hexdigest()[:32],
            route=route,
            owner=account(f"history customer {person}"),
            evm_address="0x" + sha256(f"history payer {person}".encode()).hexdigest()[:40],
            amount=cents * _UNIT // 100,
            at=at,
        )
        self._put_quote(quote)
        return quote

    def _serve(self, quote: _Quote) -> None:
        chance = self._random.random()
        if chance < _PRICE_SEEKERS:
            return
        started = quote.at + self._random.randint(5, 120)
        self._put_transfer(quote, started)
        transfer = quote.label.hex()
        if chance < _PRICE_SEEKERS + _CANCELLED:
            at = _moment(started + self._random.randint(20, 400))
            self.rows["intake.cancellations"].append({"transfer": transfer, "cancelled_at": at})
        elif chance < _PRICE_SEEKERS + _CANCELLED + _EXPIRED:
            at = _moment(started + _TRANSFER_SECONDS + 12)
            self.rows["facts.expiries"].append({"transfer": transfer, "expired_at": at})
        else:
            self._move(quote, started)

    def _move(self, quote: _Quote, started: int) -> None:
        sent_at = started + self._random.randint(15, 240)
        crossing = self._crossing(quote)
        source, dest = self.emitters[quote.source_chain], self.emitters[quote.dest_chain]
        tx = source.send(sent_at, *crossing.sent)
        if is_evm(quote.source_chain):
            self._put_submission(quote, tx, sent_at + self._random.randint(2, 9))
        ready_at = sent_at + self._random.randint(*_READY_SECONDS[quote.route.mechanism])
        if crossing.verified:
            dest.send(ready_at, *crossing.verified)
        if crossing.attestation is not None:
            self._put_attestation(quote, crossing.attestation, tx, ready_at)
        delivered_at = ready_at + self._random.randint(6, 45)
        delivery = dest.send(delivered_at, *crossing.delivered)
        self._put_delivery(quote, delivery, delivered_at)

    def _crossing(self, quote: _Quote) -> Crossing:
        payer, recipient = quote.on(quote.source_chain), quote.on(quote.dest_chain)
        make = self._crossings
        if quote.route.mechanism == "cctp":
            burn = make.cctp_in if is_evm(quote.source_chain) else make.cctp_out
            return burn(payer, recipient, quote.amount, quote.label)
        send = make.oft_in if is_evm(quote.source_chain) else make.oft_out
        return send(payer, recipient, quote.amount)

    # Rows

    def _put_quote(self, quote: _Quote) -> None:
        source, dest, is_cctp = (
            quote.source_chain,
            quote.dest_chain,
            quote.route.mechanism == "cctp",
        )
        self.rows["intake.quotes"].append(
            {
                "id": quote.id,
                "owner": quote.owner,
                "route": quote.route.id,
                "mechanism": quote.route.mechanism,
                "funding_mode": "direct" if quote.route.direction == "deposit" else None,
                "source_chain": source,
                "source_asset": quote.route.source_chains[0].asset,
                "source_token": self._token(source, is_cctp=is_cctp),
                "source_address": quote.on(source),
                "dest_chain": dest,
                "dest_asset": quote.route.dest_chains[0].asset,
                "dest_address": quote.on(dest),
                "amount_in": quote.units(source),
                "amount_out": quote.units(dest),
                "min_refund": _UNIT * (1 if is_evm(source) else DUST),
                "finality_threshold": FINALIZED if is_cctp else None,
                "native_fee": None if is_cctp else 3 * 10**13 if is_evm(source) else 2_000_000,
                "fee": {
                    "total": "0",
                    "asset": quote.route.source_chains[0].asset,
                    "details": [{"name": "service_fee", "amount": "0"}],
                    "native_details": [],
                    "operator_details": [],
                },
                "created_at": _moment(quote.at),
                "expires_at": _moment(quote.at + _QUOTE_SECONDS),
            }
        )

    def _token(self, chain: ChainId, *, is_cctp: bool) -> str | None:
        on = self.network.chain(chain)
        if isinstance(on, EvmChain):
            return on.usdc if is_cctp else on.usdt0
        return on.usdc_contract if is_cctp else on.usdt0_contract

    def _put_transfer(self, quote: _Quote, started: int) -> None:
        self.rows["intake.transfers"].append(
            {
                "id": quote.label.hex(),
                "quote": quote.id,
                "owner": quote.owner,
                "idempotency_key": f"history {quote.id}",
                "fingerprint": sha256(quote.id.encode()).hexdigest(),
                "started_at": _moment(started),
                "expires_at": _moment(started + _TRANSFER_SECONDS),
            }
        )

    def _put_submission(self, quote: _Quote, tx: str, at: int) -> None:
        self.rows["intake.submissions"].append(
            {
                "transfer": quote.label.hex(),
                "tx_hash": tx,
                "log": 0,
                "kind": "evm_tx",
                "submitted_at": _moment(at),
            }
        )

    def _put_attestation(self, quote: _Quote, attested: Attestation, tx: str, at: int) -> None:
        domain = self.network.chain(quote.source_chain).cctp_domain
        target = self.network.chain(quote.dest_chain).cctp_domain
        assert domain is not None
        assert target is not None
        sender = bytes32(attested.source[44:76])
        self.rows["facts.cctp_attestations"].append(
            {
                "source_domain": domain,
                "nonce": f"0x{attested.nonce.hex()}",
                "message_hash": f"0x{attested.hash.hex()}",
                "source_chain": quote.source_chain,
                "source_tx": tx,
                "burn_key": burn_key(domain, target, sender, attested.source[148:]),
                "message": attested.message,
                "attestation": attested.signatures,
                "status": "complete",
                "finality_threshold_executed": FINALIZED,
                "fee_executed": 0,
                "expiration_block": 0,
                "attesters": list(attested.attesters),
                "verified": True,
                "judged_at": _moment(at),
            }
        )

    def _put_delivery(self, quote: _Quote, tx: str, at: int) -> None:
        """The relay's slot and attempt, by an account that is in use no more."""
        chain, mechanism = quote.dest_chain, quote.route.mechanism
        if is_evm(chain):
            gas = round(_DELIVERY_GAS[mechanism] * self._random.uniform(0.95, 1.1))
            spent = gas * round(self._gas_price * self._random.uniform(0.85, 1.25))
            used = "0x" + sha256(b"history relay").hexdigest()[:40]
        else:
            spent, used = self._random.randint(90_000, 260_000), account("history relay")
        place = {"chain": chain, "account": used, "number": self._numbers[chain]}
        self._numbers[chain] += 1
        mine = {**place, "purpose": "deliver", "subject": quote.label.hex()}
        self.rows["relay.slots"].append(
            {
                **mine,
                "key": f"history {quote.id}",
                "opened_at": _moment(at - 4),
                "outcome": "confirmed",
                "spent": spent,
                "closed_at": _moment(at + (780 if is_evm(chain) else 6)),
            }
        )
        self.rows["relay.attempts"].append(
            {
                **mine,
                "tx_hash": tx,
                "signed": b"generated",
                "most_cost": spent * 2,
                "created_at": _moment(at - 4),
                "sendings": 1,
                "sent_at": _moment(at - 3),
            }
        )


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
