"""How much an owner may start in a day and have under way at a time, all routes together.

Who asks holds the owner's lock (`locks.OWNER`), so that nothing is started between the sum and the
row that adds to it. USDC and USDT0 count one dollar each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any

from sqlalchemy import Connection, Select, and_, case, false, func, not_, select

from api.errors import Unacceptable
from api.transfers.progress import progress_of
from indexer.networks import Network
from indexer.projections.stages import table
from indexer.projections.stages.load import load
from indexer.projections.stages.store import is_behind
from indexer.routes import EVM_DECIMALS, STELLAR_DECIMALS
from warehouse_schema.identifiers import BaseUnits, ChainId, StellarAddress, is_evm
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.projections import transfer_stages
from warehouse_schema.queries import any_of

STARTED_USD = 100
"""Most that an owner starts in a UTC day, whatever becomes of it."""
OUTSTANDING_USD = 100
"""Most that is under way at a time; what comes late to a transfer that was over counts again."""
STARTED = 1_000
"""Most transfers that an owner starts in a UTC day: the sum is over all that an owner has ever
started, and a payment may be as small as its smallest unit."""

_UNIT = 10**STELLAR_DECIMALS
"""Sums are in the smaller of both base units."""


@dataclass(frozen=True, slots=True)
class Used:
    """What an owner has used of the limits; sums in units of 10⁻⁷ dollars."""

    started: int
    """In the UTC day."""
    number: int
    """Of transfers started in it."""
    outstanding: int
    behind: tuple[tuple[str, int], ...]
    """Ids and sums of transfers of which client or relay did something that their stored stage
    does not know of: these may be outstanding, too."""


def refuse_over_limits(
    conn: Connection,
    network: Network,
    owner: StellarAddress,
    chain: ChainId,
    amount: BaseUnits,
    now: datetime,
) -> None:
    """Raises `Unacceptable` if one more transfer of that source amount is too much."""
    used, more = _used(conn, owner, now), units(chain, amount)
    if used.number >= STARTED:
        raise Unacceptable(
            f"no more than {STARTED} transfers can be started in a UTC day", code="DAILY_LIMIT"
        )
    if used.started + more > STARTED_USD * _UNIT:
        raise Unacceptable(
            f"no more than {STARTED_USD} USD can be started in a UTC day: "
            f"{_dollars(STARTED_USD * _UNIT - used.started)} are left",
            code="DAILY_LIMIT",
        )
    room = OUTSTANDING_USD * _UNIT - used.outstanding
    # Only where it matters is it looked at more closely.
    if sum(each for _, each in used.behind) + more > room:
        room -= _folded(conn, network, [transfer for transfer, _ in used.behind])
        if more > room:
            raise Unacceptable(
                f"no more than {OUTSTANDING_USD} USD can be under way at a time: "
                f"{_dollars(room)} are left until a transfer is over",
                code="OUTSTANDING_LIMIT",
            )


def _used(conn: Connection, owner: StellarAddress, now: datetime) -> Used:
    started = number = outstanding = 0
    behind: list[tuple[str, int]] = []
    for row in conn.execute(_sums(owner, now)):
        started += units(row.source_chain, row.started or 0)
        number += row.number
        outstanding += units(row.source_chain, row.outstanding or 0)
        amounts = (units(row.source_chain, amount) for amount in row.amounts_behind or [])
        behind += zip(row.behind or [], amounts, strict=True)
    return Used(started, number, outstanding, tuple(behind))


def units(chain: ChainId, amount: int) -> int:
    """Base units of a coin there, as units of 10⁻⁷ dollars."""
    return amount * 10 ** (STELLAR_DECIMALS - EVM_DECIMALS) if is_evm(chain) else amount


def _sums(owner: StellarAddress, now: datetime) -> Select[Any]:
    """A row for each source chain."""
    stage = transfer_stages.c.stage
    final = [each for each in table.STAGES if table.is_final(each)]
    under_way = [each for each in table.STAGES if table.is_outstanding(each)]
    each = (
        select(
            quotes.c.source_chain,
            quotes.c.amount_in,
            transfers.c.id,
            transfers.c.started_at,
            (stage == any_of(under_way)).label("is_under_way"),
            # Of what is final nothing can be missing any more.
            case((stage == any_of(final), false()), else_=is_behind()).label("is_behind"),
        )
        .join_from(transfers, quotes)
        .outerjoin(transfer_stages, transfer_stages.c.transfer == transfers.c.id)
        .where(transfers.c.owner == owner)
        .subquery()
    )
    columns = each.c
    today = columns.started_at >= datetime.combine(now.astimezone(UTC), time(), UTC)
    counted = and_(columns.is_under_way, not_(columns.is_behind))
    return select(
        columns.source_chain,
        func.sum(columns.amount_in).filter(today).label("started"),
        func.count().filter(today).label("number"),
        func.sum(columns.amount_in).filter(counted).label("outstanding"),
        func.array_agg(columns.id).filter(columns.is_behind).label("behind"),
        func.array_agg(columns.amount_in).filter(columns.is_behind).label("amounts_behind"),
    ).group_by(columns.source_chain)


def _folded(conn: Connection, network: Network, ids: Sequence[str]) -> int:
    """What of these is outstanding, as the fold of now has it."""
    terms = (
        loaded.evidence.terms
        for loaded in load(conn, network, ids)
        if table.is_outstanding(progress_of(loaded).stage)
    )
    return sum(units(each.source_chain, each.amount_in) for each in terms)


def _dollars(units: int) -> str:
    whole, part = divmod(max(0, units), _UNIT)
    return f"{whole}.{part:0{STELLAR_DECIMALS}d}".rstrip("0").rstrip(".")
