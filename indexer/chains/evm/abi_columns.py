"""Words of ABI-encoded logs as polars expressions, for a frame of logs at once.

Topics and data are lower-case hex behind `0x`. Expressions give hex digits without the prefix;
`Field` values carry it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import polars as pl

from indexer.config.networks import EvmChain
from warehouse_schema.identifiers import EvmAddress

WORD = 64
"""Hex digits of a word."""
_TRUE = pl.lit(value=True)
_UINT_TYPES = {32: pl.Int64, 64: pl.UInt64, 128: pl.UInt128}


@dataclass(frozen=True, slots=True)
class Field:
    """An event field: its value, and the condition under which the value is right."""

    value: pl.Expr
    fits: pl.Expr = _TRUE


@dataclass(frozen=True, slots=True)
class EventLayout:
    """Where the fields of an event lie in a log. A log that misses a condition is undecided."""

    event: str
    topics: int
    fields: Mapping[str, Field]
    words: int | None = None
    """Exact number of words of data; None: `fits` decides."""
    fits: Sequence[pl.Expr] = ()
    is_ours: pl.Expr = _TRUE
    """False for a well-formed log of another application, which decodes to no event."""
    hashed: Mapping[str, pl.Expr] = field(default_factory=dict)
    """Fields that are the keccak of hex; null of null. They may use `fields`."""
    agrees: pl.Expr = _TRUE
    """Condition over `fields` and `hashed` together."""
    dropped: Sequence[str] = ()
    """Fields that exist only for `agrees`."""

    def fit(self) -> pl.Expr:
        """True for a log of this layout; never null."""
        sizes = [pl.col("topics").list.len() == self.topics]
        if self.words is not None:
            sizes.append(pl.col("data").str.len_bytes() == 2 + WORD * self.words)
        conditions = (each.fits for each in self.fields.values())
        return pl.all_horizontal(*sizes, *self.fits, *conditions).fill_null(value=False)


LayoutTable: TypeAlias = Mapping[str, Mapping[str, EventLayout | Callable[[EvmChain], EventLayout]]]
"""Field of `EvmChain` → event signature → layout, or its function where it depends on a chain."""


def topic(index: int) -> pl.Expr:
    """A topic's word."""
    return pl.col("topics").list.get(index, null_on_oob=True).str.slice(2)


def word(index: int) -> pl.Expr:
    """A word of the data."""
    return pl.col("data").str.slice(2 + WORD * index, WORD)


def prefixed(digits: pl.Expr) -> pl.Expr:
    """Hex with its `0x`."""
    return pl.concat_str(pl.lit("0x"), digits)


def padded(digits: pl.Expr, width: int) -> pl.Expr:
    """A number of `width` hex digits as a word."""
    return pl.concat_str(pl.lit("0" * (WORD - width)), digits)


def is_below(digits: pl.Expr, bits: int) -> pl.Expr:
    """True when a word's unused high bits are zero."""
    return digits.str.starts_with("0" * ((256 - bits) // 4))


def bytes32(digits: pl.Expr) -> Field:
    """A word as it is."""
    return Field(prefixed(digits), digits.str.len_bytes() == WORD)


def address(digits: pl.Expr) -> Field:
    """A word as an address."""
    return Field(prefixed(digits.str.slice(24)), is_below(digits, 160))


def uint(digits: pl.Expr, bits: int) -> Field:
    """A word as a number of 32, 64 or 128 bits."""
    low = digits.str.slice(WORD - bits // 4)
    return Field(
        low.str.to_integer(base=16, dtype=_UINT_TYPES[bits], strict=False), is_below(digits, bits)
    )


def amount(digits: pl.Expr) -> Field:
    """A word as base units. A larger amount than 128 bits leaves the log undecided."""
    return uint(digits, 128)


def dynamic_bytes(offset: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """`bytes` at an offset in bytes, as hex, and the condition that all of them are there."""
    start = 2 + 2 * offset
    length_word = pl.col("data").str.slice(start, WORD)
    length = 2 * uint(length_word, 32).value
    content = pl.col("data").str.slice(start + WORD, length)
    is_whole = (length_word.str.len_bytes() == WORD) & (content.str.len_bytes() == length)
    return content, is_below(length_word, 32) & is_whole


def bytes_at(head: int, offset: int) -> tuple[pl.Expr, pl.Expr]:
    """As `dynamic_bytes`, if the head word has the offset that an ABI encoder writes."""
    content, is_whole = dynamic_bytes(pl.lit(offset, dtype=pl.Int64))
    return content, is_whole & (word(head) == f"{offset:064x}")


def address_word(address: EvmAddress | None) -> str | None:
    """An address as a word; comparing with None gives null, which fits nothing."""
    return None if address is None else "0" * 24 + address[2:]


def uint32_hex(number: int | None) -> str | None:
    """A number as eight hex digits."""
    return None if number is None else f"{number:08x}"
