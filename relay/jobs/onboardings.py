"""Onboarding transactions (CAP-33) that owners have signed, to be signed and sent by a sponsor.

An owner signs the sponsor's own transaction, with the sequence number that was next when the api
showed it. The relay builds the transaction again and requires equality in every byte. The number is
reserved when the sponsor signs, and a fill uses it up if no ledger takes the transaction at once.
"""

import base64
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from sqlalchemy import Connection, text
from stellar_sdk import Asset, TransactionBuilder, TransactionEnvelope, xdr
from stellar_sdk.operation import ChangeTrust, Operation

from indexer.actions.agreed import Mismatch
from indexer.actions.onboarding import (
    MAX_COST,
    VALID_SECONDS,
    onboarding_tx,
    parse_onboarding,
    reserves,
)
from indexer.actions.stellar_check import check_signed, master_key_rules
from indexer.actions.stellar_tx import parse_tx
from indexer.errors import CallReverted
from indexer.movements.fold import STELLAR_PER_SHARED
from indexer.policy.relay_accounts import Duty
from indexer.policy.sponsorship import SponsorshipRequest, deposit_refusal, payers_of
from indexer.transfers.state_machine import NEEDS_TRUSTLINE
from relay.account import AccountRelay
from relay.leases import lock_sponsoring
from relay.limits import SpendLimits
from relay.nonces import (
    AccountId,
    AccountState,
    CloseSlot,
    JobName,
    NextStep,
    NonceSlot,
    RelayJob,
    SignedTransaction,
    SlotStep,
)
from relay.senders.stellar import SequenceSender
from relay.senders.stellar_signing import sign_stellar
from relay.status import set_sponsor
from warehouse_schema.identifiers import (
    AssetId,
    BaseUnits,
    NativeAmount,
    StellarAddress,
    Stroops,
    TxHash,
)

HOLD_SECONDS = 15.0
"""About three ledgers, after which a fill uses up the sequence number."""


_NEWCOMER = text("""
    SELECT t.id
    FROM intake.transfers t JOIN intake.quotes q ON q.id = t.quote
    WHERE t.owner = :owner AND q.dest_asset = :asset
    ORDER BY t.started_at, t.id
    LIMIT 1
""")


@dataclass(frozen=True, slots=True)
class SponsorBounds:
    """Deposits that a sponsor pays for."""

    min_deposit: BaseUnits
    """10^-7 of the asset."""
    payer_budget: Stroops
    """Per UTC day for all deposits of one paying address."""


@dataclass(frozen=True, slots=True)
class OnboardingJob:
    """Trustline to open, and the owner's signature for it."""

    newcomer: SponsorshipRequest
    consent: bytes
    """Envelope with the owner's signatures only."""


# Consents to a number that is already used are not read: the api shows their owners another
# transaction.
_CONSENTS = text("""
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
      AND s.stage = :needs_trustline
    ORDER BY c.consented_at, c.tx_hash
""")


class Onboardings:
    """Job source: signed onboardings of a sponsor, for deposits that are finalized."""

    def __init__(self, account: AccountId, bounds: SponsorBounds) -> None:
        self._account, self._bounds = account, bounds

    def jobs(self, conn: Connection) -> list[RelayJob[OnboardingJob]]:
        """Onboardings whose number is free, the oldest first."""
        account = {"chain": self._account.chain, "account": self._account.address}
        found: dict[str, RelayJob[OnboardingJob]] = {}
        bounds = {"valid": VALID_SECONDS, "needs_trustline": NEEDS_TRUSTLINE}
        rows = conn.execute(_CONSENTS, account | bounds).all()
        payers = payers_of(conn, [row.id for row in rows])
        for row in rows:
            deposit = BaseUnits(int(row.amount_in) * STELLAR_PER_SHARED)
            newcomer = SponsorshipRequest(row.owner, row.dest_asset, deposit, payers[row.id])
            # The newest consent of an owner replaces the ones before it.
            call = OnboardingJob(newcomer, bytes(row.signed))
            found[newcomer.key] = RelayJob("onboard", newcomer.key, row.id, call, is_bound=True)
        return list(found.values())

    def rejection(self, conn: Connection, job: RelayJob[OnboardingJob]) -> str | None:
        """Reason why the deposit is not sponsored; serialises these decisions until commit."""
        lock_sponsoring(conn)
        bounds, newcomer = self._bounds, job.call.newcomer
        return deposit_refusal(
            conn, self._account.chain, bounds.min_deposit, bounds.payer_budget, newcomer
        )

    def recognize(self, conn: Connection, raw: bytes) -> JobName | None:
        """Job of a signed onboarding; its key is the owner and asset of the trustline."""
        envelope = xdr.TransactionEnvelope.from_xdr_bytes(raw)
        operations = () if envelope.v1 is None else envelope.v1.tx.operations
        for each in map(Operation.from_xdr_object, operations):
            if isinstance(each, ChangeTrust) and each.source and isinstance(each.asset, Asset):
                owner = StellarAddress(each.source.account_id)
                asset = AssetId(f"stellar:{each.asset.code}:{each.asset.issuer}")
                subject = conn.scalar(_NEWCOMER, {"owner": owner, "asset": asset})
                return JobName("onboard", f"{owner} {asset}", subject or "")
        return None


class SponsorSender(SequenceSender):
    """A sponsor's transactions. Each commits the sponsor to the reserves and fee of one owner."""

    duty: Duty = "sponsor"
    max_cost: NativeAmount = MAX_COST

    def next_step(self, slot: NonceSlot, finalized: Collection[TxHash]) -> NextStep:
        """Decide about a slot; a fill replaces a transaction that no ledger takes at once.

        A failed transaction is `already_done`: only the owner can cause it, by opening the account
        first, and it must not slow the sponsor down.
        """
        step = super().next_step(slot, finalized)
        if isinstance(step, CloseSlot) and step.outcome == "confirmed":
            first = parse_tx(self.chain.passphrase, slot.attempts[0].raw)
            terms = parse_onboarding(self.chain.passphrase, first)
            spent = step.spent + reserves(creates_account=terms.creates_account)
            return CloseSlot("confirmed", Stroops(spent))
        if isinstance(step, CloseSlot) and step.outcome == "reverted":
            return CloseSlot("already_done", step.spent)
        is_included = any(each.tx in self.state.inclusions for each in slot.attempts)
        newest = slot.newest
        is_held = not newest.is_fill and newest.signed_ago > HOLD_SECONDS and not is_included
        return SlotStep.REPLACE if is_held and step in (SlotStep.SEND, SlotStep.WAIT) else step

    def is_done(self, job: RelayJob[OnboardingJob]) -> bool:
        """True when the trustline exists, no matter who opened it."""
        newcomer = job.call.newcomer
        return self.nodes.trustline(newcomer.owner, newcomer.asset) is not None

    def sign(self, number: int, call: OnboardingJob) -> SignedTransaction:
        """Add the sponsor's signature to the owner's.

        Raises `CallReverted` unless the owner signed the transaction of this number, and the ledger
        would accept the owner's signatures now.
        """
        newcomer, passphrase = call.newcomer, self.chain.passphrase
        account = self.nodes.snapshot(newcomer.owner)
        try:
            shown = parse_onboarding(passphrase, parse_tx(passphrase, call.consent))
        except (ValueError, EOFError) as error:
            raise CallReverted(f"it cannot be read: {error}") from error
        if not shown.first <= shown.last <= self.window.latest + 2 * VALID_SECONDS:
            raise CallReverted("it may be included for too long, or never")
        expected = replace(
            shown, sponsor=self.address, sequence=number, creates_account=account is None
        )
        issued = onboarding_tx(passphrase, newcomer.owner, newcomer.asset, expected)
        rules = master_key_rules(newcomer.owner) if account is None else account.rules
        consent = base64.b64encode(call.consent).decode()
        verdict = check_signed(passphrase, [issued], rules, consent, self.window.latest)
        if isinstance(verdict, Mismatch):
            raise CallReverted(verdict.message)
        envelope = TransactionBuilder.from_xdr(consent, passphrase)
        if not isinstance(envelope, TransactionEnvelope):
            raise CallReverted("a fee bump")
        signed = sign_stellar(self.key, envelope)
        max_cost = signed.max_cost + reserves(creates_account=expected.creates_account)
        return SignedTransaction(signed.tx, signed.raw, Stroops(max_cost))

    def sign_replacement(self, slot: NonceSlot, call: OnboardingJob | None) -> SignedTransaction:
        """Sign a fill only: the owner is shown a transaction with another number."""
        if call is not None:
            raise CallReverted("its number is given up")
        return self.replace_with(slot, None)


class SponsorRelay(AccountRelay[OnboardingJob]):
    """A sponsor, which also writes the terms of its next onboarding for the api."""

    def __init__(
        self,
        sender: SponsorSender,
        limits: SpendLimits,
        bounds: SponsorBounds,
        clock: Callable[[], float],
        *,
        is_draining: bool = False,
    ) -> None:
        jobs = Onboardings(sender.account, bounds)
        super().__init__(sender, jobs, limits, clock, is_draining=is_draining)
        self._bounds = bounds

    def _write_health(self, conn: Connection, state: AccountState) -> None:
        super()._write_health(conn, state)
        with conn.begin():
            left = self._limits.budget - self._spent_today(conn)
            set_sponsor(
                conn,
                self.account,
                next_number=state.next_number,
                min_deposit=self._bounds.min_deposit,
                payer_budget=self._bounds.payer_budget,
                budget_left=max(0, left),
            )
