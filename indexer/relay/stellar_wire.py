"""Stellar as an account of ours meets it.

A number that is signed for again while an older transaction of it may still be included is no
danger: the ledger takes one of a number. So nobody has to prove an older one dead first.
"""

from collections.abc import Collection, Sequence

from stellar_sdk import xdr

from indexer.chains.stellar_sender import StellarAccountNodes, Window
from indexer.errors import CallReverted, NodeUnavailable, PermanentChainError
from indexer.networks import StellarChain
from indexer.relay.keys import StellarKey, stellar_address
from indexer.relay.slots import (
    AskWhoTookIt,
    Inclusion,
    Owed,
    Replace,
    Send,
    Sight,
    Signed,
    Slot,
    Step,
    Wait,
    decided,
)
from indexer.relay.stellar_signing import (
    Bounds,
    Invocation,
    bounds_of,
    signed,
    unsigned,
    with_resources,
)
from indexer.relay.store import Account
from warehouse_schema.identifiers import Height, TxHash, UnixSeconds

RESEND_SECONDS = 10.0
"""The core tries for about two ledgers by itself."""
VALID_SECONDS = 60
"""Of a first transaction; each further one of its number is good for twice as long …"""
LONGEST_VALID_SECONDS = 3600
BID = 10_000
"""Stroops that a first transaction bids for its inclusion; each further one ten times that (a queue
replaces for no less) …"""
MOST_BID = 10_000_000


class StellarWire:
    """Contract calls, under sequence numbers, one at a time: the core's queue takes no more."""

    unit = "stroops"
    most_open = 1

    def __init__(self, chain: StellarChain, nodes: StellarAccountNodes, key: StellarKey) -> None:
        self._chain, self._nodes, self._key = chain, nodes, key
        self._address = stellar_address(key)
        self.account = Account(chain.id, self._address)
        self._sight = Sight(0, 0, {})
        self._window = Window(UnixSeconds(0), UnixSeconds(0))

    def look(self, transactions: Sequence[TxHash]) -> Sight:
        """The account now, and what became of these."""
        applied, self._window = self._nodes.applied(transactions)
        funds = self._nodes.funds(self._address)
        if funds is None:
            raise PermanentChainError(f"{self._chain.id} has no account {self._address}: fund it")
        inclusions = {
            tx: Inclusion(each.ledger, None, each.succeeded, each.charged)
            for tx, each in applied.items()
        }
        self._sight = Sight(funds.spendable, funds.sequence + 1, inclusions)
        return self._sight

    def step(self, slot: Slot, buried: Collection[TxHash]) -> Step:
        """What comes next for a slot."""
        included = [each for each in slot.attempts if each.tx in self._sight.inclusions]
        for attempt in included:
            if attempt.tx in buried:
                return decided(attempt, self._sight.inclusions[attempt.tx])
        if included:
            return Wait()
        if self._sight.next_number > slot.number:
            return AskWhoTookIt()
        newest = slot.newest
        if bounds_of(newest.raw).last < self._window.latest:
            return Replace()
        is_due = newest.sent_ago is None or newest.sent_ago > RESEND_SECONDS
        return Send() if is_due else Wait()

    def is_overtaken(self, slot: Slot, final: Height) -> bool:
        """Whether the number is used and every one of ours is past its bounds, in no ledger.

        Of a node that had all ledgers since the first of them was signed. Closed ledgers are final,
        whichever we have read.
        """
        applied, window = self._nodes.applied([each.tx for each in slot.attempts])
        bounds = [bounds_of(each.raw) for each in slot.attempts]
        return (
            not applied
            and window.oldest <= min(each.first for each in bounds)
            and window.latest > max(each.last for each in bounds)
        )

    def is_over(self, owed: Owed[Invocation]) -> bool:
        """Whether its view says that it happened."""
        if owed.is_over is None:
            return False
        try:
            value = self._try(1, owed.is_over)
        except CallReverted as error:
            raise NodeUnavailable(f"{owed.is_over.function} did not answer: {error}") from error
        return value.b is True

    def sign(self, number: int, call: Invocation) -> Signed:
        """A first transaction."""
        return self._sign(number, call, BID, VALID_SECONDS)

    def sign_again(self, slot: Slot, call: Invocation | None) -> Signed:
        """One that bids more and is good for longer."""
        times = len(slot.attempts)
        bid = min(MOST_BID, BID * 10**times)
        return self._sign(
            slot.number, call, bid, min(LONGEST_VALID_SECONDS, VALID_SECONDS * 2**times)
        )

    def send(self, raw: bytes) -> str:
        """Give a transaction to a node."""
        return self._nodes.send_raw(raw)

    def _sign(self, number: int, call: Invocation | None, bid: int, seconds: int) -> Signed:
        now = self._window.latest
        bounds = Bounds(now, UnixSeconds(now + seconds))
        source, passphrase = self._address, self._chain.passphrase
        envelope = unsigned(source, passphrase, number, call, bid, bounds)
        if call is not None:
            envelope = with_resources(envelope, self._nodes.tried(envelope.to_xdr()))
        return signed(self._key, envelope)

    def _try(self, number: int, call: Invocation) -> xdr.SCVal:
        bounds = Bounds(UnixSeconds(0), UnixSeconds(0))
        envelope = unsigned(self._address, self._chain.passphrase, number, call, BID, bounds)
        return xdr.SCVal.from_xdr_bytes(self._nodes.tried(envelope.to_xdr()).value)
