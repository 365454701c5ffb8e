"""Daily figures of the order book, by market and by provider. Pure.

Frames of facts in, rows of `projections.market_days` and `projections.provider_days` out. Days are
numbers since 1970 UTC (`block_time // 86400`), dates in the result. All days of a span are closed,
so every expiry in it has happened.
"""

from dataclasses import dataclass

import polars as pl

from indexer.analytics.orders import fiat_of_release
from indexer.facts.days import SECONDS

_MARKET = ["day", "direction", "rail", "currency"]
_ZERO = pl.lit(0, pl.Int128)


@dataclass(frozen=True, slots=True)
class DaySpan:
    """Days `first … last`, both included, as numbers since 1970."""

    first: int
    last: int

    @property
    def begin(self) -> int:
        """First second of the span."""
        return self.first * SECONDS

    @property
    def end(self) -> int:
        """First second after the span."""
        return (self.last + 1) * SECONDS


def market_days(orders: pl.DataFrame, span: DaySpan) -> pl.DataFrame:
    """A row for each day and market with an order opened or ended."""
    took = pl.col("ended_at") - pl.col("block_time")
    fulfilled = pl.col("change") == "fulfilled"
    fiat = pl.col("fiat").filter(fulfilled)
    return (
        _changes(orders, span)
        .with_columns(fiat=fiat_of_release())
        .group_by(_MARKET)
        .agg(
            _count("opened"),
            _sum("amount", "opened").alias("opened_amount"),
            _count("fulfilled"),
            _count("cancelled"),
            _count("expired"),
            _sum("released", "fulfilled"),
            _sum("fee", "fulfilled"),
            fiat=pl.when(fiat.null_count() == 0).then(fiat.sum()),
            partial=(fulfilled & (pl.col("released") < pl.col("amount"))).sum().cast(pl.Int64),
            manual=(fulfilled & (pl.col("claim") == "manual")).sum().cast(pl.Int64),
            fulfillment_seconds=took.filter(fulfilled).sum(),
        )
        .sort(_MARKET)
        .with_columns(pl.col("day").cast(pl.Int32).cast(pl.Date))
    )


def provider_days(orders: pl.DataFrame, balances: pl.DataFrame, span: DaySpan) -> pl.DataFrame:
    """A row for each provider and day from its first Escrow event on.

    `balances` are the Escrow events of the span, with `free_after`, `locked_after`, `deposited` and
    `withdrawn`, and of each provider the last one before the span.
    """
    key = ["day", "provider"]
    took = (pl.col("ended_at") - pl.col("block_time")).filter(pl.col("change") == "fulfilled")
    counts = [_count(change) for change in ("opened", "fulfilled", "cancelled", "expired")]
    sums = [_sum(column, "fulfilled") for column in ("released", "fee")]
    changed = (
        _changes(orders, span)
        .group_by(key)
        .agg(*counts, *sums, took.sum().alias("fulfillment_seconds"))
    )
    moved = (
        _within(balances, "block_time", span)
        .group_by(key)
        .agg(pl.col("deposited").sum(), pl.col("withdrawn").sum())
    )
    return (
        _balance_days(orders, balances, span)
        .join(changed, on=key, how="left")
        .join(moved, on=key, how="left")
        .with_columns(pl.exclude(*key).fill_null(0))
        .select(
            *key,
            *("opened", "fulfilled", "cancelled", "expired", "released", "fee"),
            *("fulfillment_seconds", "deposited", "withdrawn", "available", "locked"),
            *("locked_seconds", "escrow_seconds"),
        )
        .sort(key)
        .with_columns(pl.col("day").cast(pl.Int32).cast(pl.Date))
    )


# Orders.


def _changes(orders: pl.DataFrame, span: DaySpan) -> pl.DataFrame:
    """Each order once as `opened` and once as its outcome, with the day of either, in the span."""
    opened = orders.with_columns(change=pl.lit("opened"), at="block_time")
    ended = orders.with_columns(change="outcome", at="outcome_at")
    return _within(pl.concat([opened, ended]), "at", span)


def _within(frame: pl.DataFrame, time: str, span: DaySpan) -> pl.DataFrame:
    """The rows of the span, with their `day`."""
    in_span = frame.filter((pl.col(time) >= span.begin) & (pl.col(time) < span.end))
    return in_span.with_columns(day=pl.col(time) // SECONDS)


def _count(change: str) -> pl.Expr:
    return (pl.col("change") == change).sum().cast(pl.Int64).alias(change)


def _sum(column: str, change: str) -> pl.Expr:
    return pl.col(column).filter(pl.col("change") == change).sum()


# Escrow balances.


def _balance_days(orders: pl.DataFrame, balances: pl.DataFrame, span: DaySpan) -> pl.DataFrame:
    """Available and locked at each day's end and summed over its seconds, by day and provider."""
    available = pl.col("free_after") + pl.col("lapsed")
    locked = pl.col("locked_after") - pl.col("lapsed")
    seconds = pl.col("at").shift(-1).over("provider").fill_null(span.end) - pl.col("at")
    return (
        _balance_changes(orders, balances, span)
        .sort("provider", "at")
        .with_columns(
            pl.col("free_after", "locked_after").forward_fill().over("provider"),
            pl.col("lapsed").cum_sum().over("provider"),
            seconds=seconds.cast(pl.Int128),
            day=pl.col("at") // SECONDS,
        )
        .with_columns(available=available, locked=locked)
        .group_by("day", "provider", maintain_order=True)
        .agg(
            pl.col("available").last(),
            pl.col("locked").last(),
            locked_seconds=(pl.col("locked") * pl.col("seconds")).sum(),
            escrow_seconds=((pl.col("available") + pl.col("locked")) * pl.col("seconds")).sum(),
        )
    )


def _balance_changes(orders: pl.DataFrame, balances: pl.DataFrame, span: DaySpan) -> pl.DataFrame:
    """One row per second with a change of a provider's escrow, and per midnight.

    Balances hold from then on, null where no event names them; `lapsed` is the change of what
    expired orders have unlocked. Changes before the span count from its first second.
    """
    named = balances.sort("height", "position").select(
        "provider", _in_span("block_time", span), "free_after", "locked_after", lapsed=_ZERO
    )
    null = pl.lit(None, pl.Int128)
    unnamed = {"free_after": null, "locked_after": null}
    lapses = [
        orders.filter(pl.col("lapsed_at").is_not_null() & (pl.col(time) < span.end)).select(
            "provider", _in_span(time, span), **unnamed, lapsed=sign * pl.col("lp_lock")
        )
        for time, sign in (("lapsed_at", 1), ("ended_at", -1))
    ]
    # Each midnight that a provider was there before.
    firsts = named.group_by("provider").agg(first=pl.col("at").min())
    days = pl.DataFrame({"at": range(span.begin, span.end, SECONDS)}, schema={"at": pl.Int64})
    midnights = firsts.join(days, how="cross").filter(pl.col("at") > pl.col("first"))
    midnights = midnights.select("provider", "at", **unnamed, lapsed=_ZERO)
    return (
        pl.concat([named, *lapses, midnights])
        .group_by("provider", "at", maintain_order=True)
        .agg(
            pl.col("free_after", "locked_after").drop_nulls().last(),
            pl.col("lapsed").sum(),
        )
    )


def _in_span(time: str, span: DaySpan) -> pl.Expr:
    return pl.max_horizontal(pl.col(time), pl.lit(span.begin)).alias("at")
