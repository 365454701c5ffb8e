"""The trustline that a deposit's owner needs for the delivery, and whether it is sponsored."""

from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection
from typing_extensions import TypedDict

from api.amounts import STROOPS, amount
from api.deps import deps, require_accounts, snapshot
from api.text_types import BaseUnitsText
from indexer.actions.onboarding import FEE_BID, reserves
from indexer.config.networks import StellarChain
from indexer.policy.sponsorship import (
    SponsorRefusal,
    SponsorshipRequest,
    all_sponsors,
    sponsor_refusal,
)
from warehouse_schema.identifiers import Stroops

FEE_ALLOWANCE = Stroops(2 * FEE_BID)
"""In addition to the reserves: bids for creating an account and opening a trustline."""


class NeededTrustline(TypedDict):
    """A trustline that the owner must open before the deposit can be delivered.

    Paying first is safe: the delivery waits for the trustline.
    """

    asset: Annotated[str, Field(description="`stellar:CODE:ISSUER`.")]
    creates_account: Annotated[
        bool, Field(description="Whether the owner's account is not on the ledger either.")
    ]
    reserve: Annotated[
        BaseUnitsText,
        amount(STROOPS, "15000100", "What the owner needs to open it: reserves and fees."),
    ]
    sponsored: Annotated[
        bool,
        Field(
            description=(
                "Whether the service pays the reserves, once the deposit is paid and final "
                "(`AWAITING_TRUSTLINE`). Before that it is a forecast."
            )
        ),
    ]
    reason: Annotated[
        SponsorRefusal | None,
        Field(
            description=(
                "Why it does not. `no_sponsor`: no sponsor account runs; `budget_used` and "
                "`payer_budget_used`: the day's budget of the service, or of the paying address, "
                "is used; `deposit_too_small`; `already_sponsored`: this owner and asset; "
                "`failed_too_often`. The owner can open the trustline at any time."
            )
        ),
    ]


def creates_account(recipient: SponsorshipRequest) -> bool:
    """Whether the owner has no account on the ledger. Raises `LedgerUnavailable`."""
    return require_accounts().signing_rules(recipient.owner) is None


def needed_trustline(recipient: SponsorshipRequest) -> NeededTrustline:
    """`describe_trustline` by what the ledger says of the owner's account."""
    is_new = creates_account(recipient)
    with snapshot() as conn:
        return describe_trustline(conn, deps().network.stellar, recipient, is_new=is_new)


def describe_trustline(
    conn: Connection, chain: StellarChain, recipient: SponsorshipRequest, *, is_new: bool
) -> NeededTrustline:
    """For an owner without the trustline; `is_new`: also without an account."""
    reason = sponsor_refusal(conn, all_sponsors(conn, chain.id), recipient)
    return {
        "asset": recipient.asset,
        "creates_account": is_new,
        "reserve": str(reserves(creates_account=is_new) + FEE_ALLOWANCE),
        "sponsored": reason is None,
        "reason": reason,
    }
