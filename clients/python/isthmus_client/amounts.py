"""Conversion between whole tokens (`Decimal`) and base units (`int`), exact in both directions.

Transfers count in base units of the chain's asset; people count in whole tokens.
"""

from decimal import Decimal
from fractions import Fraction

_DECIMALS = {"eip155": 6, "stellar": 7}
"""Of USDC and USDT0, by CAIP-2 namespace."""
_MAX_DIGITS = 30
"""Before the decimal point: more than any token's supply has."""


def decimals(asset: str) -> int:
    """Decimals of USDC and USDT0 on a chain: 6 on EVM chains, 7 on Stellar.

    `asset` is an asset (`Quote.sell_asset`) or a chain (`eip155:1`). Raises `ValueError` for
    another namespace, and for an EVM chain's native token.
    """
    chain, _, token = asset.partition("/")
    namespace = chain.partition(":")[0]
    if namespace not in _DECIMALS or (token and not token.startswith("erc20:")):
        raise ValueError(f"{asset!r} is no token on an EVM chain or on Stellar")
    return _DECIMALS[namespace]


def to_base_units(amount: Decimal, asset: str) -> int:
    """Base units of so many whole tokens: `Decimal("1.5")` on an EVM chain is 1500000.

    Nothing is rounded. Raises `TypeError` for anything but a `Decimal` (a float is inexact, an
    `int` could be base units); `ValueError` for a negative or infinite amount, NaN, and more
    decimals than the token has.
    """
    if not isinstance(amount, Decimal):
        raise TypeError(
            f"an amount is a Decimal of whole tokens, such as Decimal('1.5'), not a"
            f" {type(amount).__name__}"
        )
    if not amount.is_finite() or amount < 0 or amount.adjusted() >= _MAX_DIGITS:
        raise ValueError(f"{amount} is no amount of a token")
    places = decimals(asset)
    # Before the fraction is computed, which may have a million digits.
    is_tiny = bool(amount) and amount.adjusted() < -places
    units = Fraction(0) if is_tiny else Fraction(amount) * int(10**places)
    if is_tiny or units.denominator != 1:
        raise ValueError(f"{amount} has more decimals than the {places} of {asset}")
    return units.numerator


def to_decimal(base_units: int, asset: str) -> Decimal:
    """Whole tokens of so many base units, without trailing zeros: 1500000 is `Decimal("1.5")`.

    Raises `TypeError` for anything but an `int`, `ValueError` for a namespace without decimals.
    """
    if not isinstance(base_units, int) or isinstance(base_units, bool):
        raise TypeError(f"base units are an int, not a {type(base_units).__name__}")
    whole, rest = divmod(abs(base_units), 10 ** decimals(asset))
    fraction = f"{rest:0{decimals(asset)}d}".rstrip("0")
    sign = "-" if base_units < 0 else ""
    return Decimal(f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}")
