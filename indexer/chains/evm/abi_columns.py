"""Words of ABI-encoded logs as polars expressions, for a frame of logs at once."""

import polars as pl
from eth_hash.auto import keccak

from indexer.chains.layouts import Field, prefixed
from warehouse_schema.identifiers import EvmAddress

WORD = 64
"""Hex digits of a word."""
_UINT_TYPES = {32: pl.Int64, 64: pl.UInt64, 128: pl.UInt128}


def has_words(count: int) -> pl.Expr:
    """True when the data are so many words."""
    return pl.col("data").str.len_bytes() == 2 + WORD * count


def word(index: int) -> pl.Expr:
    """A word of the data."""
    return pl.col("data").str.slice(2 + WORD * index, WORD)


def keccak_hex(digits: str) -> str:
    """The keccak of hex digits, with its `0x`; for `EventLayout.computed`: polars has none."""
    return "0x" + keccak(bytes.fromhex(digits)).hex()


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
