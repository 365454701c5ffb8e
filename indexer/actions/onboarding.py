"""The transaction that opens a trustline at a sponsor's expense (CAP-33), and what it costs.

Its source is the sponsor, its sequence number the sponsor's next one. It is shown unsigned: the
owner signs first, and the sponsor signs when the owner's signature is there. So no sequence number
is reserved while an owner thinks; a transaction whose number was used meanwhile is made anew.
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
from stellar_sdk.operation.operation import Operation

from indexer.actions.stellar_orders import asset_of
from indexer.actions.stellar_tx import IssuedTransaction, parse_tx
from warehouse_schema.identifiers import AssetId, StellarAddress, UnixSeconds

BASE_RESERVE = 5_000_000
"""Stroops an entry (0.5 XLM, by the validators' vote): an account takes two, a trustline one."""
FEE_BID = 10_000
"""Stroops an operation that an onboarding transaction bids for its inclusion."""
VALID_SECONDS = 300
"""How long a transaction may be included after it was shown."""
BEGUN_SECONDS = 300
"""How far its first close time lies back: clocks differ from those of ledgers."""
MAX_COST = 3 * BASE_RESERVE + 4 * FEE_BID
"""Stroops that the dearest onboarding takes: account, trustline and fee."""


@dataclass(frozen=True, slots=True)
class OnboardingTerms:
    """What an onboarding transaction says, beside owner and asset."""

    sponsor: StellarAddress
    sequence: int
    creates_account: bool
    first: UnixSeconds
    """Close times of the ledgers that may include it, both included."""
    last: UnixSeconds


def reserves(*, creates_account: bool) -> int:
    """Stroops that the sponsor has to keep for the new entries."""
    return BASE_RESERVE * (3 if creates_account else 1)


def onboarding_tx(
    passphrase: str, owner: StellarAddress, asset: AssetId, made: OnboardingTerms
) -> IssuedTransaction:
    """The transaction, unsigned."""
    source = Account(made.sponsor, made.sequence - 1)
    builder = TransactionBuilder(source, passphrase, FEE_BID)
    for operation in _operations(owner, asset, made):
        builder.append_operation(operation)
    envelope = builder.add_time_bounds(made.first, made.last).build()
    return parse_tx(passphrase, envelope.to_xdr())


def parse_onboarding(passphrase: str, shown: IssuedTransaction) -> OnboardingTerms:
    """What `onboarding_tx` was given. Raises `ValueError` for a transaction without time bounds."""
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


def _operations(
    owner: StellarAddress, asset: AssetId, made: OnboardingTerms
) -> tuple[Operation, ...]:
    sponsor = made.sponsor
    creation = (CreateAccount(owner, "0", source=sponsor),) if made.creates_account else ()
    return (
        BeginSponsoringFutureReserves(owner, source=sponsor),
        *creation,
        ChangeTrust(asset_of(asset), source=owner),
        EndSponsoringFutureReserves(source=owner),
    )
