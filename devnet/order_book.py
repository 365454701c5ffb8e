"""Calls of the order book's two contracts, typed. Amounts and rates have 7 decimals.

Each returns the outcome of a transaction that succeeded; a refused one raises the client's errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from stellar_sdk import Keypair, scval, xdr

from devnet.expectations import Rail, Terms, TermsKey
from devnet.stellar.accounts import ADMIN, RAIL_VERIFIER, address, keypair
from devnet.stellar.client import DevnetClient, Outcome
from devnet.stellar.registry import devnet_contracts


def payee_hash(handle: str) -> bytes:
    """The canonical hash of a payee's handle: SHA-256 of its UTF-8 bytes."""
    return sha256(handle.encode()).digest()


@dataclass(frozen=True)
class OrderBook:
    """RailTerms and Escrow through one client."""

    client: DevnetClient

    # RailTerms

    def set_rail(self, name: str, rail: Rail) -> Outcome:
        """The admin replaces a rail's settings; the devnet's one verifier vouches for it."""
        return self._terms(
            keypair(ADMIN),
            "set_rail",
            scval.to_symbol(name),
            scval.to_bool(True),
            scval.to_uint32(rail.tier),
            scval.to_uint32(rail.fee_bps),
            scval.to_address(address(RAIL_VERIFIER)),
            scval.to_vec([scval.to_symbol(currency) for currency in rail.currencies]),
        )

    def set_terms(self, provider: Keypair, terms: Iterable[tuple[TermsKey, Terms]]) -> Outcome:
        """Set terms in one transaction, so that rails which agree share an offer at once."""
        many = scval.to_vec([_terms_struct(key, value) for key, value in terms])
        return self._terms(provider, "set_terms_many", _who(provider), many)

    def delete_terms(self, provider: Keypair, key: TermsKey) -> Outcome:
        """Withdraw terms."""
        return self._terms(
            provider,
            "del_terms",
            _who(provider),
            scval.to_symbol(key.rail),
            scval.to_symbol(key.currency),
            scval.to_symbol(key.direction),
        )

    def set_payee(self, provider: Keypair, rail: str, handle: str, *, publish: bool) -> Outcome:
        """Register where the provider takes fiat: its hash, and the handle if it is published."""
        return self._terms(
            provider,
            "set_payee",
            _who(provider),
            scval.to_symbol(rail),
            scval.to_bool(True),
            scval.to_bytes(payee_hash(handle)),
            scval.to_string(handle) if publish else scval.to_void(),
        )

    # Escrow

    def deposit(self, provider: Keypair, amount: int) -> Outcome:
        """Put USDC into the provider's escrow."""
        return self._escrow(provider, "deposit", _who(provider), scval.to_int128(amount))

    def withdraw(self, provider: Keypair, amount: int) -> Outcome:
        """Take free escrow back."""
        return self._escrow(
            provider, "withdraw", _who(provider), scval.to_int128(amount), _who(provider)
        )

    def open(
        self,
        taker: Keypair,
        provider: Keypair,
        key: TermsKey,
        amount: int,
        *,
        prune: Sequence[str] = (),
    ) -> tuple[str, Outcome]:
        """Open an order; its id in hex. `prune` are the provider's expired orders to clear."""
        offramp = key.direction == "offramp"
        outcome = self._escrow(
            taker,
            "open",
            _who(taker),
            _who(provider),
            scval.to_symbol(key.direction),
            scval.to_symbol(key.rail),
            scval.to_symbol(key.currency),
            scval.to_int128(amount),
            scval.to_bytes(payee_hash(taker.public_key)) if offramp else scval.to_void(),
            scval.to_vec([scval.to_bytes(bytes.fromhex(each)) for each in prune]),
        )
        identifier: bytes = outcome.value
        return identifier.hex(), outcome

    def prove(
        self, order_id: str, *, released: int, nullifier: bytes, fiat_paid: int, paid_at: int
    ) -> Outcome:
        """Settle on a payment claim that the rail's verifier has checked."""
        return self._escrow(
            keypair(RAIL_VERIFIER),
            "fulfill",
            scval.to_address(address(RAIL_VERIFIER)),
            _order(order_id),
            scval.to_symbol("proof"),
            scval.to_bytes(nullifier),
            scval.to_int128(released),
            scval.to_int128(fiat_paid),
            scval.to_uint64(paid_at),
        )

    def release(self, receiver: Keypair, order_id: str, amount: int) -> Outcome:
        """Settle by hand, by who received the fiat; always the whole amount."""
        nothing = scval.to_void()
        return self._escrow(
            receiver,
            "fulfill",
            _who(receiver),
            _order(order_id),
            scval.to_symbol("manual"),
            nothing,
            scval.to_int128(amount),
            nothing,
            nothing,
        )

    def cancel(self, caller: Keypair, order_id: str) -> Outcome:
        """Cancel: the taker an onramp, the provider an offramp."""
        return self._escrow(caller, "cancel", _who(caller), _order(order_id))

    def expire(self, caller: Keypair, order_id: str) -> Outcome:
        """Let the chain catch up with an expiry; anyone may."""
        return self._escrow(caller, "expire", _who(caller), _order(order_id))

    def _terms(self, source: Keypair, function: str, *arguments: xdr.SCVal) -> Outcome:
        return self.client.invoke(source, devnet_contracts().rail_terms, function, *arguments)

    def _escrow(self, source: Keypair, function: str, *arguments: xdr.SCVal) -> Outcome:
        return self.client.invoke(source, devnet_contracts().escrow, function, *arguments)


def _who(account: Keypair) -> xdr.SCVal:
    return scval.to_address(account.public_key)


def _order(order_id: str) -> xdr.SCVal:
    return scval.to_bytes(bytes.fromhex(order_id))


def _terms_struct(key: TermsKey, terms: Terms) -> xdr.SCVal:
    return scval.to_struct(
        {
            "currency": scval.to_symbol(key.currency),
            "direction": scval.to_symbol(key.direction),
            "max": scval.to_int128(terms.high),
            "min": scval.to_int128(terms.low),
            "rail": scval.to_symbol(key.rail),
            "rate": scval.to_int128(terms.rate),
        }
    )
