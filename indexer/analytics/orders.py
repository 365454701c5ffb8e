"""What became of orders, from their events alone. Pure: frames in, frames out.

The rules are those of the order book's fold (`projections/orders.py`), in columns: an order opens
once; the first terminal event of the same parties after that ends it; the clock ends it too, in the
first second after `expires_at`, and then nothing else does. Amounts are 7-decimal 128-bit integers,
times unix seconds.
"""

import polars as pl

_PARTIES = ["order_id", "provider", "taker"]
_PLACE = ["height", "position"]

MAX_EXACT = 9 * 10**18
"""Twice the product of two amounts below it fits into 128 bits."""


def orders_of(opened: pl.DataFrame, ended: pl.DataFrame) -> pl.DataFrame:
    """One row an order: its opening, its end if it has one, and how it stands by the clock.

    `opened` has the columns of `facts.orders_opened`. `ended` has the parties, `block_time`,
    `height` and `position` of terminal events, an `ending` (fulfilled, cancelled or expired) and,
    if it is fulfilled, `released`, `fee` and `claim`.

    `ended_at` and what else comes of an end are null while no event ended the order. `outcome` and
    `outcome_at` are what clients are told of it and from which second on: in the future for an
    order that is active. `lapsed_at` is when its lock became available again though the chain still
    had it; null if an end came before.
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
    """The event that ended each order that one ended."""
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
    """Fiat that the released part of an order stands for, rounded to a base unit, half up.

    Null if the amounts are too large for that to be exact: a provider can ask for any rate.
    """
    fiat, released, amount = pl.col("fiat_amount"), pl.col("released"), pl.col("amount")
    fits = (fiat < MAX_EXACT) & (released < MAX_EXACT) & (amount < MAX_EXACT) & (amount > 0)
    return pl.when(fits).then((2 * fiat * released + amount) // (2 * amount))
