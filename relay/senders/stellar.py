"""Stellar as an account of ours meets it when it has a contract to call."""

from indexer.chains.stellar.checked_nodes import inconsistent_on_error
from indexer.chains.stellar.xdr.scval import Kind, ScVal, boolean, parse
from indexer.errors import CallReverted, NodeUnavailable
from indexer.policy.relay_accounts import Duty
from relay.nonces import NonceSlot, RelayJob, SignedTransaction
from relay.senders.stellar_sequences import BID, VALID_SECONDS, StellarSequences, again
from relay.senders.stellar_signing import (
    Bounds,
    Invocation,
    build_call,
    sign_stellar,
    with_resources,
)
from warehouse_schema.identifiers import UnixSeconds


class StellarSender(StellarSequences):
    """Contract calls, under sequence numbers."""

    duty: Duty = "deliver"

    def is_over(self, owed: RelayJob[Invocation]) -> bool:
        """Whether its view says that it happened."""
        if owed.is_over is None:
            return False
        try:
            value = self._try(1, owed.is_over)
        except CallReverted as error:
            raise NodeUnavailable(f"{owed.is_over.function} did not answer: {error}") from error
        if owed.is_over_at_nought:
            return value.kind is Kind.SCV_VOID
        return value.kind is Kind.SCV_BOOL and boolean(value)

    def sign(self, number: int, call: Invocation) -> SignedTransaction:
        """A first transaction."""
        return self._sign(number, call, BID, VALID_SECONDS)

    def sign_again(self, slot: NonceSlot, call: Invocation | None) -> SignedTransaction:
        """One that bids more and is good for longer."""
        if call is None:
            return self.fill(slot)
        return self._sign(slot.number, call, *again(slot))

    def _sign(self, number: int, call: Invocation, bid: int, seconds: int) -> SignedTransaction:
        source, passphrase = self.address, self.chain.passphrase
        bounds = self.bounds(seconds)
        envelope = build_call(source, passphrase, number, call, bid, bounds)
        envelope = with_resources(envelope, self.nodes.simulate(envelope.to_xdr()))
        return sign_stellar(self.key, envelope)

    def _try(self, number: int, call: Invocation) -> ScVal:
        bounds = Bounds(UnixSeconds(0), UnixSeconds(0))
        envelope = build_call(self.address, self.chain.passphrase, number, call, BID, bounds)
        with inconsistent_on_error(self.chain.id):
            return parse(self.nodes.simulate(envelope.to_xdr()).value)
