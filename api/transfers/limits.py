"""Limits per owner: what may be started in a UTC day, and be outstanding at a time.

The caller holds the owner's lock (`locks.OWNER`) until the new transfer is inserted. USDC and USDT0
count one dollar each.
"""

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

MAX_PER_DAY = 1_000
"""Transfers started in a UTC day: a payment may be as small as its smallest unit, and the sum of
what is outstanding is over all transfers that an owner has ever started."""


def require_within_limits(
    conn: Connection,
    network: Network,
    owner: StellarAddress,
    chain: ChainId,
    amount: BaseUnits,
    now: datetime,
) -> None:
    """Raises `Unprocessable` if one more transfer of that source amount exceeds a limit."""
    added = units(chain, amount)
    # First the cheaper query: the other one sums all transfers that the owner has ever started.
    _require_daily_limit(conn, owner, added, now)
    _require_outstanding_limit(conn, network, owner, added)


def _require_daily_limit(
    conn: Connection, owner: StellarAddress, added: int, now: datetime
) -> None:
    midnight = datetime.combine(now.astimezone(UTC), time(), UTC)
    query = (
        select(quotes.c.source_chain, func.sum(quotes.c.amount_in), func.count())
        .join_from(transfers, quotes)
        .where(transfers.c.owner == owner, transfers.c.started_at >= midnight)
        .group_by(quotes.c.source_chain)
    )
    rows = conn.execute(query).all()
    started = sum(units(chain, amount) for chain, amount, _ in rows)
    if sum(number for _, _, number in rows) >= MAX_PER_DAY:
        raise Unprocessable(
            f"no more than {MAX_PER_DAY} transfers can be started in a UTC day", code="DAILY_LIMIT"
        )
    if started + added > STARTED_USD * UNITS_PER_USD:
        raise Unprocessable(
            f"no more than {STARTED_USD} USD can be started in a UTC day: "
            f"{_format_usd(STARTED_USD * UNITS_PER_USD - started)} are left",
            code="DAILY_LIMIT",
        )


def _require_outstanding_limit(
    conn: Connection, network: Network, owner: StellarAddress, added: int
) -> None:
    """Trusts a stored stage if it includes all that the client and the relay have done.

    Other transfers may be outstanding; they are folded only if their sum decides.
    """
    available, unsure = OUTSTANDING_USD * UNITS_PER_USD, dict[str, int]()
    for transfer, chain, amount, is_unsure in conn.execute(_outstanding_or_unsure(owner)):
        if is_unsure:
            unsure[transfer] = units(chain, amount)
        else:
            available -= units(chain, amount)
    if sum(unsure.values()) + added <= available:
        return
    for reading in read_transfers(conn, network, list(unsure)):
        if not state_machine.is_terminal(reading.state.stage):
            available -= unsure[reading.terms.id]
    if added > available:
        raise Unprocessable(
            f"no more than {OUTSTANDING_USD} USD can be under way at a time: "
            f"{_format_usd(available)} are left until a transfer is over",
            code="OUTSTANDING_LIMIT",
        )


def _outstanding_or_unsure(owner: StellarAddress) -> Select[Any]:
    """Rows: id, source chain, source amount, whether the stored stage may be outdated."""
    stage = transfer_states.c.stage
    final = [each for each in state_machine.STAGES if state_machine.is_final(each)]
    outstanding = [each for each in state_machine.STAGES if not state_machine.is_terminal(each)]
    states = (
        select(
            transfers.c.id,
            quotes.c.source_chain,
            quotes.c.amount_in,
            # A final stage cannot be outdated.
            case((stage == any_of(final), false()), else_=is_behind()).label("is_behind"),
            func.coalesce(stage == any_of(outstanding), false()).label("is_outstanding"),
        )
        .join_from(transfers, quotes)
        .outerjoin(transfer_states, transfer_states.c.transfer == transfers.c.id)
        .where(transfers.c.owner == owner)
        # Keeps Postgres from evaluating `is_behind` twice, in the SELECT list and in WHERE.
        .offset(0)
        .subquery()
    )
    columns = states.c
    return select(columns.id, columns.source_chain, columns.amount_in, columns.is_behind).where(
        or_(columns.is_behind, columns.is_outstanding)
    )


def _format_usd(units: int) -> str:
    whole, part = divmod(max(0, units), UNITS_PER_USD)
    return f"{whole}.{part:0{STELLAR_DECIMALS}d}".rstrip("0").rstrip(".")
