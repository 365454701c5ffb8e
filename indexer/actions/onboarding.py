"""The transaction that opens a trustline at a sponsor's expense (CAP-33), and its cost.

Its source and sequence number are the sponsor's. It is issued unsigned: the owner signs first, then
the sponsor. No sequence number is reserved while the owner decides; if it is used meanwhile,
another transaction is issued.
"""

from dataclasses import dataclass
from typing import cast

from stellar_sdk import Account, TransactionBuilder, TransactionEnvelope
from stellar_sdk.operation import (
    BeginSponsoringFutureReserves,
    ChangeTrust,
    CreateAccount,
    EndSponsoringFutureReserves,
)

from indexer.actions.stellar_orders import asset_of
from indexer.actions.stellar_tx import IssuedTransaction, parse_tx
from warehouse_schema.identifiers import AssetId, StellarAddress, Stroops, UnixSeconds

BASE_RESERVE = Stroops(5_000_000)
"""Per entry (0.5 XLM, by the validators' vote): an account has two, a trustline one."""
FEE_BID = Stroops(10_000)
"""Inclusion fee bid of an onboarding transaction, per operation."""
VALID_SECONDS = 300
"""Validity of a transaction after it was issued."""
BEGUN_SECONDS = 300
"""Validity before its issue: clocks differ from those of ledgers."""
MAX_COST = Stroops(3 * BASE_RESERVE + 4 * FEE_BID)
"""Of the most expensive onboarding: account, trustline and fee."""


@dataclass(frozen=True, slots=True)
class OnboardingTerms:
    """Terms of an onboarding transaction without owner and asset."""

    sponsor: StellarAddress
    sequence: int
    creates_account: bool
    first: UnixSeconds
    """First and last close time of a ledger that may include it."""
    last: UnixSeconds


def reserves(*, creates_account: bool) -> Stroops:
    """What the sponsor reserves for the new entries."""
    return Stroops(BASE_RESERVE * (3 if creates_account else 1))


def onboarding_tx(
    passphrase: str, owner: StellarAddress, asset: AssetId, made: OnboardingTerms
) -> IssuedTransaction:
    """Build the unsigned transaction."""
    sponsor = made.sponsor
    builder = TransactionBuilder(Account(sponsor, made.sequence - 1), passphrase, FEE_BID)
    builder.append_operation(BeginSponsoringFutureReserves(owner, source=sponsor))
    if made.creates_account:
        builder.append_operation(CreateAccount(owner, "0", source=sponsor))
    builder.append_operation(ChangeTrust(asset_of(asset), source=owner))
    builder.append_operation(EndSponsoringFutureReserves(source=owner))
    envelope = builder.add_time_bounds(made.first, made.last).build()
    return parse_tx(passphrase, envelope.to_xdr())


def parse_onboarding(passphrase: str, shown: IssuedTransaction) -> OnboardingTerms:
    """Inverse of `onboarding_tx`. Raises `ValueError` for a transaction without time bounds."""
    built = cast(TransactionEnvelope, TransactionBuilder.from_xdr(shown.envelope, passphrase))
    transaction = built.transaction
    conditions = transaction.preconditions
    bounds = None if conditions is None else conditions.time_bounds
    if bounds is None:
        raise ValueError(f"{shown.tx} has no time bounds")
    return OnboardingTerms(
        sponsor=StellarAddress(transaction.source.account_id),
        sequence=transaction.sequence,
        creates_account=any(isinstance(each, CreateAccount) for each in transaction.operations),
        first=UnixSeconds(bounds.min_time),
        last=UnixSeconds(bounds.max_time),
    )
