"""Daily figures of routes: amounts sent and delivered between chains. Pure.

Movements in, rows of `projections.route_days` out. Amounts are base units of the chain they were
seen on. A day depends on the facts of that day only: CCTP takes its fee from the mint, so it counts
on delivery; an OFT from the send, so it counts on sending.
"""

import polars as pl

from indexer.analytics.book_days import DaySpan
from indexer.facts.days import SECONDS

ELSEWHERE = "elsewhere"
"""Stands for a chain that is not ours."""

_ROUTE = ["day", "mechanism", "source_chain", "dest_chain"]


def route_days(movements: pl.DataFrame, span: DaySpan) -> pl.DataFrame:
    """A row for each day and route with an amount sent or delivered."""
    named = movements.with_columns(
        pl.col("source_chain", "dest_chain").fill_null(ELSEWHERE), pl.col("fee").fill_null(0)
    )
    sent = _ends(named, "sent_at", "amount_in", "oft", span).rename({"amount": "amount_sent"})
    delivered = _ends(named, "delivered_at", "amount_out", "cctp", span)
    return (
        pl.concat(
            [
                sent.rename({"count": "sent"}),
                delivered.rename({"count": "delivered", "amount": "amount_delivered"}),
            ],
            how="diagonal",
        )
        .group_by(_ROUTE)
        .agg(pl.col("sent", "amount_sent", "delivered", "amount_delivered", "fee").sum())
        .sort(_ROUTE)
        .with_columns(pl.col("day").cast(pl.Int32).cast(pl.Date))
    )


def _ends(
    movements: pl.DataFrame, time: str, amount: str, takes_fee: str, span: DaySpan
) -> pl.DataFrame:
    fee = pl.when(pl.col("mechanism") == takes_fee).then("fee").otherwise(pl.lit(0, pl.Int128))
    return (
        movements.filter((pl.col(time) >= span.begin) & (pl.col(time) < span.end))
        .with_columns(day=pl.col(time) // SECONDS, fee=fee)
        .group_by(_ROUTE)
        .agg(count=pl.len().cast(pl.Int64), amount=pl.col(amount).sum(), fee=pl.col("fee").sum())
    )
