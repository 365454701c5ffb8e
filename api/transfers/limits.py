"""How much an owner may start in a day and have under way at a time, all routes together.

Who asks holds the owner's lock (`locks.OWNER`), so that nothing is started between the sum and the
row that adds to it. USDC and USDT0 count one dollar each.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, time
from typing import Any

from sqlalchemy import Connection, Select, case, false, func, or_, select

from api.errors import Unprocessable
from indexer.config.networks import Network
from indexer.config.routes import STELLAR_DECIMALS
from indexer.policy.limits import OUTSTANDING_USD, STARTED_USD, UNITS_PER_USD, units
from indexer.transfers import state_machine
from indexer.transfers.read import read_transfers
from indexer.transfers.store import is_behind
from warehouse_schema.identifiers import BaseUnits, ChainId, StellarAddress
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.projections import transfer_states
from warehouse_schema.queries import any_of

STARTED = 1_000
"""Most transfers that an owner starts in a UTC day: the sum is over all that an owner has ever
started, and a payment may be as small as its smallest unit."""


def refuse_over_limits(
    conn: Connection,
    network: Network,
    owner: StellarAddress,
    chain: ChainId,
    amount: BaseUnits,
    now: datetime,
) -> None:
    """Raises `Unacceptable` if one more transfer of that source amount is too much."""
    more = units(chain, amount)
    # The day first: whoever has used it up costs no sum over all that he has ever started.
    _refuse_over_day(conn, owner, more, now)
    _refuse_over_outstanding(conn, network, owner, more)


def _refuse_over_day(conn: Connection, owner: StellarAddress, more: int, now: datetime) -> None:
    midnight = datetime.combine(now.astimezone(UTC), time(), UTC)
    query = (
        select(quotes.c.source_chain, func.sum(quotes.c.amount_in), func.count())
        .join_from(transfers, quotes)
        .where(transfers.c.owner == owner, transfers.c.started_at >= midnight)
        .group_by(quotes.c.source_chain)
    )
    rows = conn.execute(query).all()
    started = sum(units(chain, amount) for chain, amount, _ in rows)
    if sum(number for _, _, number in rows) >= STARTED:
        raise Unprocessable(
            f"no more than {STARTED} transfers can be started in a UTC day", code="DAILY_LIMIT"
        )
    if started + more > STARTED_USD * UNITS_PER_USD:
        raise Unprocessable(
            f"no more than {STARTED_USD} USD can be started in a UTC day: "
            f"{_dollars(STARTED_USD * UNITS_PER_USD - started)} are left",
            code="DAILY_LIMIT",
        )


def _refuse_over_outstanding(
    conn: Connection, network: Network, owner: StellarAddress, more: int
) -> None:
    """Stored stages are taken at their word where they know of all that client and relay did.

    Any other transfer may be outstanding, and is folded if that would make the difference.
    """
    room, behind = OUTSTANDING_USD * UNITS_PER_USD, dict[str, int]()
    for transfer, chain, amount, is_unsure in conn.execute(_open(owner)):
        if is_unsure:
            behind[transfer] = units(chain, amount)
        else:
            room -= units(chain, amount)
    if sum(behind.values()) + more <= room:
        return
    room -= _folded(conn, network, list(behind))
    if more > room:
        raise Unprocessable(
            f"no more than {OUTSTANDING_USD} USD can be under way at a time: "
            f"{_dollars(room)} are left until a transfer is over",
            code="OUTSTANDING_LIMIT",
        )


def _open(owner: StellarAddress) -> Select[Any]:
    """Transfers that are outstanding, and those of which it is not known: id, source, behind."""
    stage = transfer_states.c.stage
    final = [each for each in state_machine.STAGES if state_machine.is_final(each)]
    under_way = [each for each in state_machine.STAGES if state_machine.is_outstanding(each)]
    each = (
        select(
            transfers.c.id,
            quotes.c.source_chain,
            quotes.c.amount_in,
            # Of what is final nothing can be missing any more.
            case((stage == any_of(final), false()), else_=is_behind()).label("is_behind"),
            func.coalesce(stage == any_of(under_way), false()).label("is_under_way"),
        )
        .join_from(transfers, quotes)
        .outerjoin(transfer_states, transfer_states.c.transfer == transfers.c.id)
        .where(transfers.c.owner == owner)
        # Or it would be worked out once for what is selected, and once for what is asked for.
        .offset(0)
        .subquery()
    )
    columns = each.c
    return select(columns.id, columns.source_chain, columns.amount_in, columns.is_behind).where(
        or_(columns.is_behind, columns.is_under_way)
    )


def _folded(conn: Connection, network: Network, ids: Sequence[str]) -> int:
    """What of these is outstanding, as the fold of now has it."""
    terms = (
        each.terms
        for each in read_transfers(conn, network, ids)
        if state_machine.is_outstanding(each.state.stage)
    )
    return sum(units(each.source_chain, each.amount_in) for each in terms)


def _dollars(units: int) -> str:
    whole, part = divmod(max(0, units), UNITS_PER_USD)
    return f"{whole}.{part:0{STELLAR_DECIMALS}d}".rstrip("0").rstrip(".")
