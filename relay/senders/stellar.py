"""Senders on Stellar: transactions under sequence numbers, and contract calls among them.

Replacing an attempt whose predecessor may still be included is safe, because a ledger takes one
transaction per number. So the predecessor need not be proven expired first.
"""

from collections.abc import Callable, Collection, Sequence

from indexer.chains.stellar.account_state import LookupWindow, StellarAccountNodes
from indexer.chains.stellar.checked_nodes import inconsistent_on_error
from indexer.chains.stellar.xdr.scval import Kind, boolean, parse
from indexer.config.networks import StellarChain
from indexer.errors import (
    CallReverted,
    InconsistentAnswer,
    NodeUnavailable,
    PermanentChainError,
)
from indexer.policy.relay_accounts import Duty
from relay.keys import StellarKey, stellar_address
from relay.nonces import (
    AccountId,
    AccountState,
    Inclusion,
    NextStep,
    NonceSlot,
    Recovered,
    RelayJob,
    SignedTransaction,
    SlotStep,
    final_outcome,
)
from relay.senders.stellar_signing import (
    Bounds,
    Invocation,
    build_call,
    is_fill,
    is_signed_by,
    read_header,
    sign_stellar,
    tx_hash,
    with_resources,
)
from warehouse_schema.identifiers import Height, NativeAmount, Stroops, TxHash, UnixSeconds

RESEND_SECONDS = 10.0
"""The core itself retries for about two ledgers."""
VALID_SECONDS = 60
"""Validity of a first attempt; each replacement is valid for twice as long …"""
MAX_VALID_SECONDS = 3600
BID = Stroops(10_000)
"""Inclusion bid of a first attempt; each replacement bids ten times that, the minimum for
which the core's queue replaces a transaction …"""
MAX_BID = Stroops(10_000_000)


class SequenceSender:
    """Transactions under sequence numbers, one at a time: the core's queue takes no more."""

    unit = "stroops"
    max_open = 1
    max_cost: NativeAmount = Stroops(1)

    def __init__(self, chain: StellarChain, nodes: StellarAccountNodes, key: StellarKey) -> None:
        self.chain, self.nodes, self.key = chain, nodes, key
        self.address = stellar_address(key)
        self.account = AccountId(chain.id, self.address)
        self.state = AccountState(Stroops(0), 0, 0, {})
        self.window = LookupWindow(UnixSeconds(0), UnixSeconds(0))

    def refresh(self, transactions: Sequence[TxHash]) -> AccountState:
        """Read the account and these transactions."""
        applied, self.window = self.nodes.find_applied(transactions)
        funds = self.nodes.funds(self.address)
        if funds is None:
            raise PermanentChainError(f"{self.chain.id} has no account {self.address}: fund it")
        inclusions = {
            tx: Inclusion(each.ledger, None, each.succeeded, each.charged)
            for tx, each in applied.items()
        }
        number = funds.sequence + 1
        self.state = AccountState(funds.spendable, number, number, inclusions)
        return self.state

    def next_step(self, slot: NonceSlot, finalized: Collection[TxHash]) -> NextStep:
        """Decide about a slot."""
        included = [each for each in slot.attempts if each.tx in self.state.inclusions]
        for attempt in included:
            if attempt.tx in finalized:
                return final_outcome(attempt, self.state.inclusions[attempt.tx])
        if included:
            return SlotStep.WAIT
        if self.state.next_number > slot.number:
            return SlotStep.CHECK_NONCE
        newest = slot.newest
        if read_header(newest.raw).bounds.last < self.window.latest:
            return SlotStep.REPLACE
        is_due = newest.sent_ago is None or newest.sent_ago > RESEND_SECONDS
        return SlotStep.SEND if is_due else SlotStep.WAIT

    def is_nonce_taken(self, slot: NonceSlot, final: Height) -> bool:
        """True when the number is used and every attempt is past its bounds, in no ledger.

        Asks nodes that have all ledgers since the first signature. Closed ledgers are final, so
        `final` does not matter.
        """
        bounds = [read_header(each.raw).bounds for each in slot.attempts]
        return self.nodes.are_expired(
            [each.tx for each in slot.attempts],
            since=min(each.first for each in bounds),
            last=max(each.last for each in bounds),
        )

    def next_number(self, own: int | None) -> int:
        """Sequence number after the last one reserved."""
        return self.nodes.next_sequence(self.address, own)

    def confirmed_number(self) -> int:
        """Next sequence number, as the needed operators confirm it: that of the last state."""
        return self.state.next_number

    def pending_number(self) -> int:
        """As `confirmed_number`: what waits in a queue has the same number as what we sign next."""
        return self.state.next_number

    def find_transactions(
        self,
        numbers: Collection[int],
        signed: Sequence[bytes],
        height_at: Callable[[UnixSeconds], Height],
    ) -> dict[int, Recovered]:
        """Transactions with these numbers, in ledgers that closed since the first signature.

        Raises `InconsistentAnswer` for one that the account's key did not sign: an envelope from a
        node that lies, or the account has other signers.
        """
        since = height_at(min(read_header(raw).bounds.first for raw in signed))
        found = self.nodes.find_by_sequence(self.address, numbers, since)
        for number, raw in found.items():
            if not is_signed_by(self.address, self.chain.passphrase, raw):
                raise InconsistentAnswer(
                    f"a node has a transaction with number {number} that the key of {self.address} "
                    "did not sign"
                )
        return {
            number: Recovered(tx_hash(self.chain.passphrase, raw), raw, is_fill(raw))
            for number, raw in found.items()
        }

    def send(self, raw: bytes) -> str:
        """Broadcast a transaction."""
        return self.nodes.send(raw)

    def sign_at(
        self, number: int, call: Invocation | None, bid: Stroops = BID, seconds: int = VALID_SECONDS
    ) -> SignedTransaction:
        """Sign a call, or None: a transaction that only uses up the number.

        `seconds` is the validity from the last ledger seen on.
        """
        now = self.window.latest
        bounds = Bounds(now, UnixSeconds(now + seconds))
        envelope = build_call(self.address, self.chain.passphrase, number, call, bid, bounds)
        if call is not None:
            envelope = with_resources(envelope, self.nodes.simulate(envelope.to_xdr()))
        return sign_stellar(self.key, envelope)

    def replace_with(self, slot: NonceSlot, call: Invocation | None) -> SignedTransaction:
        """Sign for a slot's number again, with a higher bid and a longer validity."""
        attempts = len(slot.attempts)
        bid = Stroops(min(MAX_BID, BID * 10**attempts))
        seconds = min(MAX_VALID_SECONDS, VALID_SECONDS * 2**attempts)
        return self.sign_at(slot.number, call, bid, seconds)


class StellarSender(SequenceSender):
    """Contract calls under sequence numbers."""

    duty: Duty = "deliver"

    def is_done(self, job: RelayJob[Invocation]) -> bool:
        """True when the job's view call says so."""
        view = job.done_view
        if view is None:
            return False
        bounds = Bounds(UnixSeconds(0), UnixSeconds(0))
        envelope = build_call(self.address, self.chain.passphrase, 1, view, BID, bounds)
        try:
            with inconsistent_on_error(self.chain.id):
                value = parse(self.nodes.simulate(envelope.to_xdr()).value)
        except CallReverted as error:
            raise NodeUnavailable(f"{view.function} did not answer: {error}") from error
        if job.done_when_zero:
            return value.kind is Kind.SCV_VOID
        return value.kind is Kind.SCV_BOOL and boolean(value)

    def sign(self, number: int, call: Invocation) -> SignedTransaction:
        """Sign a first attempt."""
        return self.sign_at(number, call)

    def sign_replacement(self, slot: NonceSlot, call: Invocation | None) -> SignedTransaction:
        """Sign an attempt that bids more and is valid for longer."""
        return self.replace_with(slot, call)
