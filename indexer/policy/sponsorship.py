"""Which deposits the service pays an account and a trustline for, and within which bounds.

The relay decides by it before it signs; the api tells owners by it what to expect. Every moment is
the database's clock.
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
"""Why the service does not pay: no sponsor is at work; the day's budget is used, or that of the
paying address; the deposit is too small; it paid for this owner and asset before; or the owner's
transactions had no effect `MAX_FAILURES` times."""

MAX_FAILURES = 3
"""Onboarding transactions of an owner and asset without effect, after which an operator has to look
(`relay resume`); those that no ledger took count for their UTC day."""


@dataclass(frozen=True, slots=True)
class Sponsor:
    """An account that sponsors, and what it would do now."""

    chain: ChainId
    account: StellarAddress
    next_number: int
    """Sequence number of its next transaction."""
    min_deposit: BaseUnits
    """Least deposit that it sponsors for, 10^-7 of the asset."""
    payer_budget: int
    """Stroops a UTC day for all deposits of one paying address."""
    budget_left: int
    """Stroops of the UTC day's budget."""
    is_healthy: bool


@dataclass(frozen=True, slots=True)
class SponsorshipRequest:
    """An owner who needs a trustline for a deposit."""

    owner: StellarAddress
    asset: AssetId
    deposit: BaseUnits
    """What is paid, 10^-7 of the asset."""
    payer: Address
    """EVM address that paid, or is to pay."""

    @property
    def key(self) -> str:
        """What is sponsored once: key of a slot with the purpose `onboard`."""
        return f"{self.owner} {self.asset}"


def all_sponsors(conn: Connection, chain: ChainId) -> list[Sponsor]:
    """Sponsors of a chain that wrote of themselves lately, by account."""
    heard = {
        each.account: each
        for each in account_statuses(conn)
        if each.chain == chain and each.duty == "sponsor" and not each.is_silent
    }
    query = select(sponsors).where(sponsors.c.chain == chain).order_by(sponsors.c.account)
    return [
        Sponsor(
            chain=chain,
            account=StellarAddress(row.account),
            next_number=max(row.next_number, _after_slots(conn, chain, row.account)),
            min_deposit=BaseUnits(int(row.min_deposit)),
            payer_budget=int(row.payer_budget),
            budget_left=int(row.budget_left),
            is_healthy=heard[row.account].is_healthy,
        )
        for row in conn.execute(query)
        if row.account in heard
    ]


def _after_slots(conn: Connection, chain: ChainId, account: str) -> int:
    columns = slots.c
    query = select(func.max(columns.number)).where(
        columns.chain == chain, columns.account == account
    )
    return (conn.scalar(query) or 0) + 1


def sponsor_refusal(
    conn: Connection, by: list[Sponsor], who: SponsorshipRequest
) -> SponsorRefusal | None:
    """Why none of these sponsors would pay for a newcomer; None when one would."""
    well = [each for each in by if each.is_healthy]
    if not well:
        is_used = any(each.budget_left < MAX_COST for each in by)
        return "budget_used" if is_used else "no_sponsor"
    first = well[0]
    return deposit_refusal(conn, first.chain, first.min_deposit, first.payer_budget, who)


def deposit_refusal(
    conn: Connection, chain: ChainId, min_deposit: int, payer_budget: int, who: SponsorshipRequest
) -> SponsorRefusal | None:
    """Why a newcomer is not sponsored, whatever the sponsors themselves have left."""
    if who.deposit < min_deposit:
        return "deposit_too_small"
    place = {"chain": chain, "key": who.key}
    if conn.scalar(_IS_DONE, place):
        return "already_sponsored"
    if (conn.scalar(_FAILED, place) or 0) >= MAX_FAILURES:
        return "failed_too_often"
    if _spent_for(conn, chain, who.payer) + MAX_COST > payer_budget:
        return "payer_budget_used"
    return None


def is_under_way(conn: Connection, chain: ChainId, who: SponsorshipRequest) -> bool:
    """Whether a transaction of a sponsor's is to open the trustline already."""
    columns = slots.c
    query = select(columns.number).where(
        columns.chain == chain,
        columns.purpose == "onboard",
        columns.key == who.key,
        columns.outcome.is_(None),
    )
    return conn.execute(query).first() is not None


_IS_DONE = text("""
    SELECT EXISTS (
        SELECT FROM relay.slots
        WHERE chain = :chain AND purpose = 'onboard' AND key = :key AND outcome = 'done'
    )
""")

# As the relay counts failures; and the numbers of today that only had to be given free, for a fee.
# What cost nothing is no failure.
_FAILED = text("""
    SELECT count(*)
    FROM relay.slots s
    WHERE s.chain = :chain AND s.purpose = 'onboard' AND s.key = :key AND s.spent > 0
      AND (
          s.outcome IN ('failed', 'late')
          AND NOT EXISTS (
              SELECT FROM relay.failure_resets p
              WHERE p.chain = s.chain AND (p.subject IS NULL OR p.subject = s.subject)
                AND p.given_at >= s.closed_at
          )
          OR s.outcome = 'filled'
          AND s.opened_at >= (SELECT date_trunc('day', clock_timestamp(), 'UTC'))
      )
""")

_TODAY = text("""
    SELECT subject, coalesce(spent, :max_cost) AS cost
    FROM relay.slots
    WHERE chain = :chain AND purpose = 'onboard'
      AND opened_at >= (SELECT date_trunc('day', clock_timestamp(), 'UTC'))
""")


def _spent_for(conn: Connection, chain: ChainId, payer: Address) -> int:
    """Stroops spent today on deposits of one address; what is open counts as the dearest."""
    rows = conn.execute(_TODAY, {"chain": chain, "max_cost": MAX_COST}).all()
    payers = payers_of(conn, [row.subject for row in rows])
    return sum(int(row.cost) for row in rows if payers.get(row.subject) == payer)


# Of a deposit address the sender of most: a stranger's dust does not make it the stranger's. Of a
# direct deposit the address that its burn or send was matched by.
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
    """The EVM address that paid each deposit; before it is paid, the one that is to pay."""
    rows = conn.execute(_PAYERS, {"transfers": list(transfers)})
    return {row.id: Address(row.payer) for row in rows}
