"""Layouts of events: where their fields lie in a log, as polars expressions over a frame of logs.

A frame's `topics` are a list of texts, lower-case hex behind `0x`, and its data is such a text.
Expressions give hex digits without the prefix; `Field` values carry it. Readers of EVM words are in
`indexer.chains.evm.abi_columns`, those of Stellar's values in
`indexer.chains.stellar.xdr.scval_columns`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import polars as pl

TRUE = pl.lit(value=True)


@dataclass(frozen=True, slots=True)
class Field:
    """An event field: its value, and the condition under which the value is right."""

    value: pl.Expr
    fits: pl.Expr = TRUE


@dataclass(frozen=True, slots=True)
class EventLayout:
    """Where the fields of an event lie in a log. A log that misses a condition is undecided."""

    event: str
    topics: int
    fields: Mapping[str, Field]
    fits: Sequence[pl.Expr] = ()
    is_ours: pl.Expr = TRUE
    """False for a well-formed log of another application, which decodes to no event."""
    computed: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    """Fields that a function computes from the texts that `fields` gives them; null of null."""
    agrees: pl.Expr = TRUE
    """Condition over `fields` and `computed` together."""
    dropped: Sequence[str] = ()
    """Fields that exist only for `agrees`."""

    def fit(self) -> pl.Expr:
        """True for a log of this layout; never null."""
        has_topics = pl.col("topics").list.len() == self.topics
        conditions = (each.fits for each in self.fields.values())
        return pl.all_horizontal(has_topics, *self.fits, *conditions).fill_null(value=False)


LayoutTable: TypeAlias = Mapping[str, Mapping[str, EventLayout | Callable[[Any], EventLayout]]]
"""Field of the chain that names the contract → signature or name of the event → layout, or its
function where it depends on the chain."""


def topic(index: int) -> pl.Expr:
    """The hex digits of a topic, without `0x`; null where there is none."""
    return pl.col("topics").list.get(index, null_on_oob=True).str.slice(2)


def prefixed(digits: pl.Expr) -> pl.Expr:
    """Hex with its `0x`."""
    return pl.concat_str(pl.lit("0x"), digits)
