"""The numbers of an account of ours on Stellar: what is sent under them, and what became of it.

A number that is signed for again while an older transaction of it may still be included is no
danger: the ledger takes one of a number. So nobody has to prove an older one dead first.
"""

from collections.abc import Collection, Sequence

from indexer.chains.stellar.account_state import LookupWindow, StellarAccountNodes
from indexer.config.networks import StellarChain
from indexer.errors import PermanentChainError
from relay.keys import StellarKey, stellar_address
from relay.nonces import (
    AccountState,
    CheckEffect,
    Inclusion,
    NextStep,
    NonceSlot,
    ReplaceAttempt,
    SendAttempt,
    SignedTransaction,
    WaitForChain,
    final_outcome,
)
from relay.senders.stellar_signing import Bounds, bounds_of, build_call, sign_stellar
from relay.store import AccountId
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


class StellarSequences:
    """Transactions under sequence numbers, one at a time: the core's queue takes no more."""

    unit = "stroops"
    most_open = 1

    def __init__(self, chain: StellarChain, nodes: StellarAccountNodes, key: StellarKey) -> None:
        self.chain, self.nodes, self.key = chain, nodes, key
        self.address = stellar_address(key)
        self.account = AccountId(chain.id, self.address)
        self._sight = AccountState(0, 0, 0, {})
        self._window = LookupWindow(UnixSeconds(0), UnixSeconds(0))

    def look(self, transactions: Sequence[TxHash]) -> AccountState:
        """The account now, and what became of these."""
        applied, self._window = self.nodes.find_applied(transactions)
        funds = self.nodes.funds(self.address)
        if funds is None:
            raise PermanentChainError(f"{self.chain.id} has no account {self.address}: fund it")
        inclusions = {
            tx: Inclusion(each.ledger, None, each.succeeded, each.charged)
            for tx, each in applied.items()
        }
        number = funds.sequence + 1
        self._sight = AccountState(funds.spendable, number, number, inclusions)
        return self._sight

    def step(self, slot: NonceSlot, buried: Collection[TxHash]) -> NextStep:
        """What comes next for a slot."""
        included = [each for each in slot.attempts if each.tx in self._sight.inclusions]
        for attempt in included:
            if attempt.tx in buried:
                return final_outcome(attempt, self._sight.inclusions[attempt.tx])
        if included:
            return WaitForChain()
        if self._sight.next_number > slot.number:
            return CheckEffect()
        newest = slot.newest
        if bounds_of(newest.raw).last < self._window.latest:
            return ReplaceAttempt()
        is_due = newest.sent_ago is None or newest.sent_ago > RESEND_SECONDS
        return SendAttempt() if is_due else WaitForChain()

    def is_overtaken(self, slot: NonceSlot, final: Height) -> bool:
        """Whether the number is used and every one of ours is past its bounds, in no ledger.

        Of nodes that had all ledgers since the first of them was signed. Closed ledgers are final,
        whichever we have read.
        """
        bounds = [bounds_of(each.raw) for each in slot.attempts]
        return self.nodes.are_expired(
            [each.tx for each in slot.attempts],
            since=min(each.first for each in bounds),
            last=max(each.last for each in bounds),
        )

    def next_number(self, own: int | None) -> int:
        """The sequence number after our own."""
        return self.nodes.next_sequence(self.address, own)

    def send(self, raw: bytes) -> str:
        """Give a transaction to a node."""
        return self.nodes.send_raw(raw)

    def bounds(self, seconds: int) -> Bounds:
        """From the last ledger seen on, for so long."""
        now = self._window.latest
        return Bounds(now, UnixSeconds(now + seconds))

    def fill(self, slot: NonceSlot) -> SignedTransaction:
        """A transaction of nothing that takes a slot's number."""
        bid, seconds = again(slot)
        bounds, passphrase = self.bounds(seconds), self.chain.passphrase
        return sign_stellar(
            self.key, build_call(self.address, passphrase, slot.number, None, bid, bounds)
        )


def again(slot: NonceSlot) -> tuple[int, int]:
    """What a further transaction of a slot bids, in stroops, and for how many seconds."""
    times = len(slot.attempts)
    return (
        min(MOST_BID, BID * 10**times),
        min(LONGEST_VALID_SECONDS, VALID_SECONDS * 2**times),
    )
