"""Conditions and budgets under which the service pays for an owner's account and trustline.

The relay checks them before it signs; the api shows them to owners. Times are the database's clock.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sqlalchemy import Connection, func, select, text

from indexer.actions.onboarding import MAX_COST
from indexer.policy.relay_accounts import account_statuses
from warehouse_schema.identifiers import (
    Address,
    AssetId,
    BaseUnits,
    ChainId,
    StellarAddress,
    Stroops,
)
from warehouse_schema.relay import slots, sponsors

SponsorRefusal: TypeAlias = Literal[
    "no_sponsor",
    "budget_used",
    "deposit_too_small",
    "payer_budget_used",
    "already_sponsored",
    "failed_too_often",
]
"""Why the service does not pay: no sponsor is healthy; the day's budget is used, or the paying
address's; the deposit is too small; it paid for this owner and asset before; or the owner's
transactions had no effect `MAX_FAILURES` times."""

MAX_FAILURES = 3
"""Onboarding transactions of an owner and asset without effect, after which an operator has to act
(`relay resume`); those that no ledger included count for their UTC day."""


@dataclass(frozen=True, slots=True)
class Sponsor:
    """A sponsoring account and its budgets."""

    chain: ChainId
    account: StellarAddress
    next_number: int
    """Sequence number of its next transaction."""
    min_deposit: BaseUnits
    """Smallest sponsored deposit, 10^-7 of the asset."""
    payer_budget: Stroops
    """Per UTC day for all deposits of one paying address."""
    budget_left: Stroops
    """Left of the UTC day's budget."""
    is_healthy: bool


@dataclass(frozen=True, slots=True)
class SponsorshipRequest:
    """An owner who needs a trustline for a deposit."""

    owner: StellarAddress
    asset: AssetId
    deposit: BaseUnits
    """Amount paid, 10^-7 of the asset."""
    payer: Address
    """EVM address that paid, or is to pay."""

    @property
    def key(self) -> str:
        """Key of the slot with the purpose `onboard`: each is sponsored once."""
        return f"{self.owner} {self.asset}"


def all_sponsors(conn: Connection, chain: ChainId) -> list[Sponsor]:
    """Sponsors of a chain with a recent report, by account."""
    reported = {
        each.account: each
        for each in account_statuses(conn)
        if each.chain == chain and each.duty == "sponsor" and not each.is_silent
    }
    used = select(func.max(slots.c.number)).where(
        slots.c.chain == chain, slots.c.account == sponsors.c.account
    )
    query = (
        select(sponsors, func.coalesce(used.scalar_subquery(), 0).label("last_used"))
        .where(sponsors.c.chain == chain)
        .order_by(sponsors.c.account)
    )
    return [
        Sponsor(
            chain=chain,
            account=StellarAddress(row.account),
            next_number=max(row.next_number, row.last_used + 1),
            min_deposit=BaseUnits(int(row.min_deposit)),
            payer_budget=Stroops(int(row.payer_budget)),
            budget_left=Stroops(int(row.budget_left)),
            is_healthy=reported[row.account].is_healthy,
        )
        for row in conn.execute(query)
        if row.account in reported
    ]


def sponsor_refusal(
    conn: Connection, by: list[Sponsor], request: SponsorshipRequest
) -> SponsorRefusal | None:
    """Why none of these sponsors would pay; None if one would."""
    well = [each for each in by if each.is_healthy]
    if not well:
        is_used = any(each.budget_left < MAX_COST for each in by)
        return "budget_used" if is_used else "no_sponsor"
    first = well[0]
    return deposit_refusal(conn, first.chain, first.min_deposit, first.payer_budget, request)


def deposit_refusal(
    conn: Connection,
    chain: ChainId,
    min_deposit: BaseUnits,
    payer_budget: Stroops,
    request: SponsorshipRequest,
) -> SponsorRefusal | None:
    """Why the request is refused, apart from the sponsors' own budgets."""
    if request.deposit < min_deposit:
        return "deposit_too_small"
    history = conn.execute(_HISTORY, {"chain": chain, "key": request.key}).one()
    if history.is_done:
        return "already_sponsored"
    if history.failed >= MAX_FAILURES:
        return "failed_too_often"
    if _spent_for(conn, chain, request.payer) + MAX_COST > payer_budget:
        return "payer_budget_used"
    return None


def is_under_way(conn: Connection, chain: ChainId, request: SponsorshipRequest) -> bool:
    """Whether a sponsor's transaction for this trustline is open."""
    return bool(conn.execute(_HISTORY, {"chain": chain, "key": request.key}).one().is_open)


# Failures as the relay counts them, and today's sequence numbers that were replaced for a fee. A
# transaction without cost is no failure.
_HISTORY = text("""
    SELECT coalesce(bool_or(s.outcome IS NULL), false) AS is_open,
           coalesce(bool_or(s.outcome = 'confirmed'), false) AS is_done,
           count(*) FILTER (WHERE s.spent > 0 AND (
               s.outcome IN ('reverted', 'already_done')
               AND NOT EXISTS (
                   SELECT FROM relay.failure_resets p
                   WHERE p.chain = s.chain AND (p.subject IS NULL OR p.subject = s.subject)
                     AND p.given_at >= s.closed_at
               )
               OR s.outcome = 'replaced'
               AND s.opened_at >= (SELECT date_trunc('day', clock_timestamp(), 'UTC'))
           )) AS failed
    FROM relay.slots s
    WHERE s.chain = :chain AND s.purpose = 'onboard' AND s.key = :key
""")

_TODAY = text("""
    SELECT subject, coalesce(spent, :max_cost) AS cost
    FROM relay.slots
    WHERE chain = :chain AND purpose = 'onboard'
      AND opened_at >= (SELECT date_trunc('day', clock_timestamp(), 'UTC'))
""")


def _spent_for(conn: Connection, chain: ChainId, payer: Address) -> Stroops:
    """Spent today on deposits of one address; open ones count at the maximum cost."""
    rows = conn.execute(_TODAY, {"chain": chain, "max_cost": MAX_COST}).all()
    payers = payers_of(conn, [row.subject for row in rows])
    return Stroops(sum(int(row.cost) for row in rows if payers.get(row.subject) == payer))


# Of a deposit address, the sender of the most: dust of others does not count. Of a direct deposit,
# the address by which its burn or send was matched.
_PAYERS = text("""
    SELECT t.id, coalesce(
        (
            SELECT paid.sender
            FROM facts.erc20_transfers paid
            WHERE paid.chain = q.source_chain AND paid.recipient = t.deposit_address
              AND paid.token = q.source_token
            GROUP BY paid.sender
            ORDER BY sum(paid.amount) DESC, paid.sender
            LIMIT 1
        ),
        q.source_address
    ) AS payer
    FROM intake.transfers t JOIN intake.quotes q ON q.id = t.quote
    WHERE t.id = ANY(:transfers)
""")


def payers_of(conn: Connection, transfers: Collection[str]) -> dict[str, Address]:
    """The EVM address that paid each deposit; before the payment, the agreed payer."""
    rows = conn.execute(_PAYERS, {"transfers": list(transfers)})
    return {row.id: Address(row.payer) for row in rows}
