"""Outcomes of orders from their events, as frames. Pure.

The rules of the order book's fold (`indexer/orderbook/`) in columns: an order opens once; the first
later terminal event of the same parties ends it, unless it expired in the first second after
`expires_at`. Amounts are 7-decimal 128-bit integers, times unix seconds.
"""

import polars as pl

_PARTIES = ["order_id", "provider", "taker"]
_PLACE = ["height", "position"]

MAX_EXACT = 9 * 10**18
"""Twice the product of two smaller amounts fits into 128 bits."""


def orders_of(opened: pl.DataFrame, ended: pl.DataFrame) -> pl.DataFrame:
    """One row per order: its opening, its terminal event, and its outcome by the clock.

    `opened` has the columns of `facts.orders_opened`. `ended` has the parties, `block_time`,
    `height` and `position` of terminal events, an `ending` (fulfilled, cancelled or expired) and,
    if it is fulfilled, `released`, `fee` and `claim`.

    `ended_at` and the other columns of an end are null without a terminal event. Clients see
    `outcome` from the second `outcome_at` on, which is in the future for an active order.
    `lapsed_at` is when an expired order's lock became available although the chain still had it;
    null if the order ended before.
    """
    openings = opened.sort(_PLACE).unique("order_id", keep="first", maintain_order=True)
    late = pl.col("ended_at").is_null() | (pl.col("ended_at") > pl.col("expires_at"))
    first_second_after = pl.col("expires_at") + 1
    return openings.join(_ends(openings, ended), on="order_id", how="left").with_columns(
        outcome=pl.when(late).then(pl.lit("expired")).otherwise("ending"),
        outcome_at=pl.when(late).then(first_second_after).otherwise("ended_at"),
        lapsed_at=pl.when(late).then(first_second_after),
    )


def _ends(openings: pl.DataFrame, ended: pl.DataFrame) -> pl.DataFrame:
    """The terminal event of each order that has one."""
    later = pl.col("height_right") > pl.col("height")
    later |= (pl.col("height_right") == pl.col("height")) & (
        pl.col("position_right") > pl.col("position")
    )
    return (
        openings.select(*_PARTIES, *_PLACE)
        .join(ended.rename({"block_time": "ended_at"}), on=_PARTIES, how="inner")
        .filter(later)
        .sort("height_right", "position_right")
        .unique("order_id", keep="first", maintain_order=True)
        .select("order_id", "ended_at", "ending", "released", "fee", "claim")
    )


def fiat_of_release() -> pl.Expr:
    """Fiat value of an order's released part, rounded half up to a base unit.

    Null if the amounts are too large to be exact: a provider can ask for any rate.
    """
    fiat, released, amount = pl.col("fiat_amount"), pl.col("released"), pl.col("amount")
    fits = (fiat < MAX_EXACT) & (released < MAX_EXACT) & (amount < MAX_EXACT) & (amount > 0)
    return pl.when(fits).then((2 * fiat * released + amount) // (2 * amount))
