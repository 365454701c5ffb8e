"""Limits per owner: what may be started in a UTC day, and be outstanding at a time.

The caller holds the owner's lock (`locks.OWNER`) until the new transfer is inserted. USDC and USDT0
count one dollar each.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, time
from functools import cache
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Row,
    Select,
    Text,
    bindparam,
    case,
    false,
    func,
    or_,
    select,
)

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
_OUTSTANDING = OUTSTANDING_USD * UNITS_PER_USD
_FINAL = [each for each in state_machine.STAGES if state_machine.is_final(each)]


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
    midnight = datetime.combine(now.astimezone(UTC), time(), UTC)
    used = conn.execute(_used(), {"owner": owner, "midnight": midnight}).all()
    _require_daily_limit(used, added)
    if sum(units(each.source_chain, each.not_final) for each in used) + added > _OUTSTANDING:
        _require_outstanding_limit(conn, network, owner, added)


@cache
def _used() -> Select[Any]:
    """Rows: source chain, number and amount of what was started since `midnight`, and amount of
    what is in no final stage, which is all that can be outstanding."""
    amount, chain = quotes.c.amount_in, quotes.c.source_chain
    is_todays = transfers.c.started_at >= bindparam("midnight", type_=DateTime(timezone=True))
    stage = transfer_states.c.stage
    is_final = func.coalesce(stage == any_of(_FINAL), false())
    return (
        select(
            chain,
            func.count().filter(is_todays).label("started"),
            _sum(amount, is_todays).label("amount_started"),
            _sum(amount, ~is_final).label("not_final"),
        )
        .join_from(transfers, quotes)
        .outerjoin(transfer_states, transfer_states.c.transfer == transfers.c.id)
        .where(transfers.c.owner == bindparam("owner", type_=Text))
        .group_by(chain)
    )


def _sum(amount: Column[Any], condition: ColumnElement[bool]) -> ColumnElement[Any]:
    return func.coalesce(func.sum(amount).filter(condition), 0)


def _require_daily_limit(used: Sequence[Row[Any]], added: int) -> None:
    started = sum(units(each.source_chain, each.amount_started) for each in used)
    if sum(each.started for each in used) >= MAX_PER_DAY:
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
    available, unsure = _OUTSTANDING, dict[str, int]()
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
    outstanding = [each for each in state_machine.STAGES if not state_machine.is_terminal(each)]
    states = (
        select(
            transfers.c.id,
            quotes.c.source_chain,
            quotes.c.amount_in,
            # A final stage cannot be outdated.
            case((stage == any_of(_FINAL), false()), else_=is_behind()).label("is_behind"),
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
