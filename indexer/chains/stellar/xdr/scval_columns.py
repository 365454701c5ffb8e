"""Stellar's SCVals as polars expressions, for a frame of events at once.

A value is given as its XDR in lower-case hex digits, without `0x`. Rare ones do not fit and are
left to `scval`: addresses of neither accounts nor contracts, and amounts that are negative or have
124 bits and more.
"""

from functools import lru_cache

import polars as pl

from indexer.addresses import CACHED_STRKEYS, account_of_key, contract_of_id
from indexer.chains.layouts import Field
from warehouse_schema.identifiers import StellarAddress

_ACCOUNT = "00000012" + "00000000" + "00000000"
"""An SCVal that is an address, of an account, whose key is of ed25519 (32 bytes follow)."""
_CONTRACT = "00000012" + "00000001"
"""An SCVal that is an address, of a contract (32 bytes follow)."""
_KEY = 64
"""Hex digits of an account's key, and of a contract's id."""
_I128, _I128_DIGITS = "0000000a", 32
_U64, _U64_DIGITS = "00000005", 16
_MAP_OF_TWO = "00000011" + "00000001" + "00000002"
_SYMBOL, _STRING = "0000000f", "0000000e"


def symbol_topic(name: str) -> str:
    """A symbol as a frame has it among its topics."""
    return "0x" + _octets(_SYMBOL, name)


def string_digits(text: str) -> str:
    """The digits of a string."""
    return _octets(_STRING, text)


def _octets(kind: str, text: str) -> str:
    raw = text.encode()
    padding = bytes(-len(raw) % 4)
    return kind + f"{len(raw):08x}" + (raw + padding).hex()


def address(digits: pl.Expr) -> Field:
    """An account or a contract: its digits, for `strkey_of_digits`."""
    return Field(digits, is_account(digits) | _is(digits, _CONTRACT, _KEY))


def is_account(digits: pl.Expr) -> pl.Expr:
    """Whether a value is the address of an account."""
    return _is(digits, _ACCOUNT, _KEY)


@lru_cache(maxsize=CACHED_STRKEYS)
def strkey_of_digits(digits: str) -> StellarAddress:
    """The strkey of an account or a contract that fits `address`.

    Cached by its digits: an account of a ledger is looked up in the watchlist, then decoded.
    """
    encode = account_of_key if digits.startswith(_ACCOUNT) else contract_of_id
    return encode(bytes.fromhex(digits[-_KEY:]))


def amount_and_muxed_id(digits: pl.Expr) -> tuple[Field, Field]:
    """An i128, or a map of it and of a u64 that is the recipient's muxed id (CAP-67)."""
    before = _MAP_OF_TWO + _octets(_SYMBOL, "amount") + _I128
    between = _octets(_SYMBOL, "to_muxed_id") + _U64
    begin = len(before) + _I128_DIGITS
    is_plain = _is(digits, _I128, _I128_DIGITS)
    is_map = _is(digits, before, _I128_DIGITS + len(between) + _U64_DIGITS) & (
        digits.str.slice(begin, len(between)) == between
    )
    i128 = (
        pl.when(is_plain)
        .then(digits.str.slice(len(_I128)))
        .otherwise(digits.str.slice(len(before), _I128_DIGITS))
    )
    muxed_id = pl.when(is_map).then(digits.str.slice(begin + len(between)))
    return (
        Field(
            i128.str.to_integer(base=16, dtype=pl.UInt128, strict=False),
            (is_plain | is_map) & i128.str.starts_with("0"),
        ),
        Field(muxed_id.str.to_integer(base=16, dtype=pl.UInt64, strict=False).cast(pl.String)),
    )


def _is(digits: pl.Expr, lead: str, behind: int) -> pl.Expr:
    """Whether a value begins like that and has so many digits behind."""
    return digits.str.starts_with(lead) & (digits.str.len_bytes() == len(lead) + behind)
