"""Onboarding transactions (CAP-33) that owners have signed: signed by a sponsor of ours, and sent.

What an owner signed is the sponsor's own transaction, with the sequence number that was next when
the api showed it. It is made here anew, and must be that one in every byte. The number is taken
when the sponsor signs, and given free by a transaction of nothing if no ledger takes it at once.
"""

import base64
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from sqlalchemy import Connection, text
from stellar_sdk import TransactionBuilder, TransactionEnvelope

from indexer.actions.onboarding import (
    MAX_COST,
    VALID_SECONDS,
    onboarding_tx,
    parse_onboarding,
    reserves,
)
from indexer.actions.stellar_check import InvalidSubmission, check_signed, master_key_rules
from indexer.actions.stellar_tx import parse_tx
from indexer.errors import CallReverted
from indexer.movements.fold import STELLAR_PER_SHARED
from indexer.policy.relay_accounts import Duty
from indexer.policy.sponsorship import SponsorshipRequest, deposit_refusal, payers_of
from relay import store
from relay.account import AccountRelay
from relay.limits import SpendLimits
from relay.nonces import (
    AccountState,
    CloseSlot,
    NextStep,
    NonceSlot,
    RelayJob,
    ReplaceAttempt,
    SendAttempt,
    SignedTransaction,
    WaitForChain,
)
from relay.senders.stellar_sequences import StellarSequences
from relay.senders.stellar_signing import sign_stellar
from relay.store import AccountId
from warehouse_schema.identifiers import BaseUnits, TxHash

HOLD_SECONDS = 15.0
"""About three ledgers. A transaction that none of them took gives its sequence number free."""


@dataclass(frozen=True, slots=True)
class SponsorBounds:
    """For which deposits a sponsor pays."""

    min_deposit: BaseUnits
    """Least deposit, 10^-7 of the asset."""
    payer_budget: int
    """Stroops a UTC day for all deposits of one paying address."""


@dataclass(frozen=True, slots=True)
class OnboardingJob:
    """A trustline that is to be opened, and what its owner signed for it."""

    newcomer: SponsorshipRequest
    consent: bytes
    """The envelope with the owner's signatures alone."""


# What names a number that is used already is not asked for any more: the api shows its owner
# another transaction.
_OWED = text("""
    SELECT t.id, t.owner, q.dest_asset, q.amount_in, c.signed
    FROM intake.consents c
    JOIN intake.transfers t ON t.id = c.transfer
    JOIN intake.quotes q ON q.id = t.quote
    JOIN projections.transfer_states s ON s.transfer = t.id
    WHERE c.sponsor = :account
      AND c.number > (
          SELECT coalesce(max(number), 0) FROM relay.slots
          WHERE chain = :chain AND account = :account
      )
      AND c.consented_at > (SELECT clock_timestamp() - make_interval(secs => :valid))
      AND q.dest_chain = :chain AND q.source_chain <> :chain AND q.dest_address = t.owner
      AND s.stage = 'AWAITING_TRUSTLINE'
    ORDER BY c.consented_at, c.tx_hash
""")


class Onboardings:
    """What owners have signed of a sponsor's transactions, for deposits that are paid for good."""

    def __init__(self, account: AccountId, bounds: SponsorBounds) -> None:
        self._account, self._bounds = account, bounds

    def owed(self, conn: Connection) -> list[RelayJob[OnboardingJob]]:
        """Those whose number is free, the oldest first."""
        place = {"chain": self._account.chain, "account": self._account.address}
        found: dict[str, RelayJob[OnboardingJob]] = {}
        rows = conn.execute(_OWED, place | {"valid": VALID_SECONDS}).all()
        payers = payers_of(conn, [row.id for row in rows])
        for row in rows:
            deposit = BaseUnits(int(row.amount_in) * STELLAR_PER_SHARED)
            who = SponsorshipRequest(row.owner, row.dest_asset, deposit, payers[row.id])
            # Of one owner the newest: the one before it was given up.
            found[who.key] = RelayJob(
                "onboard", who.key, row.id, OnboardingJob(who, bytes(row.signed))
            )
        return list(found.values())

    def objection(self, conn: Connection, owed: RelayJob[OnboardingJob]) -> str | None:
        """Why it is not paid for; others of the same payer wait until this is decided."""
        store.lock_sponsoring(conn)
        bounds, who = self._bounds, owed.call.newcomer
        return deposit_refusal(
            conn, self._account.chain, bounds.min_deposit, bounds.payer_budget, who
        )


class SponsorSender(StellarSequences):
    """A sponsor's transactions. Its signature commits it to the reserves and a fee of one owner."""

    duty: Duty = "sponsor"

    def step(self, slot: NonceSlot, buried: Collection[TxHash]) -> NextStep:
        """As of any number, but for what no ledger takes soon, or takes in vain.

        The latter is nobody's failure but its owner's, who has opened the account meanwhile: it
        does not stop the sponsor.
        """
        step = super().step(slot, buried)
        if isinstance(step, CloseSlot) and step.outcome == "done":
            return CloseSlot("done", step.spent + self._reserves(slot))
        if isinstance(step, CloseSlot) and step.outcome == "failed":
            return CloseSlot("late", step.spent)
        is_included = any(each.tx in self._sight.inclusions for each in slot.attempts)
        newest = slot.newest
        is_held = not newest.is_fill and newest.signed_ago > HOLD_SECONDS and not is_included
        return (
            ReplaceAttempt() if is_held and isinstance(step, SendAttempt | WaitForChain) else step
        )

    def _reserves(self, slot: NonceSlot) -> int:
        first = parse_tx(self.chain.passphrase, slot.attempts[0].raw)
        made = parse_onboarding(self.chain.passphrase, first)
        return reserves(creates_account=made.creates_account)

    def is_over(self, owed: RelayJob[OnboardingJob]) -> bool:
        """Whether the trustline is there, whoever opened it."""
        who = owed.call.newcomer
        return self.nodes.trustline(who.owner, who.asset) is not None

    def sign(self, number: int, call: OnboardingJob) -> SignedTransaction:
        """Add the sponsor's signature to what the owner signed.

        Raises `CallReverted` unless that is the transaction of this number, and the ledger would
        take its signatures now.
        """
        who, passphrase = call.newcomer, self.chain.passphrase
        account = self.nodes.snapshot(who.owner)
        try:
            shown = parse_onboarding(passphrase, parse_tx(passphrase, call.consent))
        except (ValueError, EOFError) as error:
            raise CallReverted(f"it cannot be read: {error}") from error
        if not shown.first <= shown.last <= self._window.latest + 2 * VALID_SECONDS:
            raise CallReverted("it may be included for too long, or never")
        expected = replace(
            shown, sponsor=self.address, sequence=number, creates_account=account is None
        )
        issued = onboarding_tx(passphrase, who.owner, who.asset, expected)
        rules = master_key_rules(who.owner) if account is None else account.rules
        consent = base64.b64encode(call.consent).decode()
        verdict = check_signed(passphrase, [issued], rules, consent, self._window.latest)
        if isinstance(verdict, InvalidSubmission):
            raise CallReverted(verdict.message)
        envelope = TransactionBuilder.from_xdr(consent, passphrase)
        if not isinstance(envelope, TransactionEnvelope):
            raise CallReverted("a fee bump")
        made = sign_stellar(self.key, envelope)
        most = made.most_cost + reserves(creates_account=expected.creates_account)
        return SignedTransaction(made.tx, made.raw, most)

    def sign_again(self, slot: NonceSlot, call: OnboardingJob | None) -> SignedTransaction:
        """Nothing: the owner is shown a transaction of another number."""
        if call is not None:
            raise CallReverted("its number is given up")
        return self.fill(slot)


class SponsorRelay(AccountRelay[OnboardingJob]):
    """A sponsor, which also says what it would do next: the api has its word for it."""

    def __init__(
        self,
        wire: SponsorSender,
        limits: SpendLimits,
        bounds: SponsorBounds,
        clock: Callable[[], float],
    ) -> None:
        """As `AccountRelay`; without room for the dearest onboarding the account is unwell."""
        with_room = replace(limits, max_cost=MAX_COST)
        super().__init__(wire, Onboardings(wire.account, bounds), with_room, clock)
        self._bounds = bounds

    def _tell(self, conn: Connection, sight: AccountState) -> None:
        super()._tell(conn, sight)
        with conn.begin():
            left = self._limits.budget - self._spent(conn)
            store.set_sponsor(
                conn,
                self.account,
                next_number=sight.next_number,
                min_deposit=self._bounds.min_deposit,
                payer_budget=self._bounds.payer_budget,
                budget_left=max(0, left),
            )
