"""How long the last transfers took."""

from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    String,
    cast,
    column,
    func,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB

from indexer.config.routes import RouteId
from indexer.transfers import state_machine
from warehouse_schema.identifiers import ChainId
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.projections import transfer_states
from warehouse_schema.queries import any_of

DAYS = 30
MIN_TRANSFERS = 20
"""Of fewer transfers of a lane, no 90th percentile is stated: it would be one or two of them."""
MAX_TRANSFERS = 2_000
"""Of all lanes, the latest: the answer must not cost more the more transfers there are."""

_UNDER_WAY = tuple(
    stage
    for stage in state_machine.STAGES
    if state_machine.turn(stage) != "user" and not state_machine.is_terminal(stage)
)


class RouteLane(NamedTuple):
    """A route between two chains."""

    route: RouteId
    source_chain: ChainId
    dest_chain: ChainId


class Durations(NamedTuple):
    """Whole seconds from the payment, burn or submission to the delivery."""

    median_today: int | None
    """Of the transfers that were delivered since midnight UTC; None without one."""
    p90: int | None
    """90th percentile of those of the last `DAYS`; None if they are fewer than `MIN_TRANSFERS`."""


NO_DURATIONS = Durations(None, None)


def lane_durations(conn: Connection) -> dict[RouteLane, Durations]:
    """Durations of the latest `MAX_TRANSFERS` transfers that were delivered in the last `DAYS`.

    Lanes without such a transfer are left out.
    """
    states = transfer_states.c
    latest = (
        select(states.transfer, states.completed_at, states.timeline)
        .where(states.completed_at >= _epoch(func.now() - timedelta(days=DAYS)))
        .order_by(states.completed_at.desc())
        .limit(MAX_TRANSFERS)
        .subquery("latest")
    )
    step = func.jsonb_array_elements(latest.c.timeline).table_valued(
        column("value", JSONB), name="step"
    )
    began = (
        select(func.min(cast(step.c.value["at"].astext, BigInteger)))
        .where(cast(step.c.value["stage"].astext, String) == any_of(_UNDER_WAY))
        .correlate(latest)
        .scalar_subquery()
    )
    timed = (
        select(quotes.c.route, quotes.c.source_chain, quotes.c.dest_chain)
        .add_columns(latest.c.completed_at, began.label("began"))
        .select_from(latest)
        .join(transfers, transfers.c.id == latest.c.transfer)
        .join(quotes, quotes.c.id == transfers.c.quote)
        .cte("timed")
        # Else each filter below would read the timelines again.
        .prefix_with("MATERIALIZED")
    )
    lane = (timed.c.route, timed.c.source_chain, timed.c.dest_chain)
    taken = func.greatest(0, timed.c.completed_at - timed.c.began)
    is_today = timed.c.completed_at >= _epoch(func.date_trunc("day", func.now(), "UTC"))
    query = (
        select(*lane, func.count().label("number"))
        .add_columns(
            func.percentile_disc(0.5).within_group(taken).filter(is_today).label("median_today"),
            func.percentile_disc(0.9).within_group(taken).label("p90"),
        )
        # A transfer without a time.
        .where(timed.c.began.is_not(None))
        .group_by(*lane)
    )
    return {
        RouteLane(row.route, row.source_chain, row.dest_chain): Durations(
            row.median_today, row.p90 if row.number >= MIN_TRANSFERS else None
        )
        for row in conn.execute(query)
    }


def _epoch(moment: ColumnElement[datetime]) -> ColumnElement[int]:
    return cast(func.extract("epoch", moment), BigInteger)
