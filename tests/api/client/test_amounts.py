"""The client's conversion between whole tokens and base units."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus_client import Isthmus, decimals, to_base_units, to_decimal

EVM = "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"
STELLAR = "stellar:USDC:GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"


@pytest.mark.parametrize(
    ("text", "asset", "units"),
    [
        ("20", EVM, 20_000_000),
        ("1.500000000", EVM, 1_500_000),
        ("0.000001", EVM, 1),
        ("0.0000001", STELLAR, 1),
        ("1E+3", STELLAR, 10_000_000_000),
        ("0", STELLAR, 0),
        ("12345678901234567890.1234567", STELLAR, 123_456_789_012_345_678_901_234_567),
        ("123456789012345678901234567890.1234567", STELLAR, 1234567890123456789012345678901234567),
    ],
)
def test_whole_tokens_convert_exactly(text: str, asset: str, units: int) -> None:
    assert to_base_units(Decimal(text), asset) == units
    assert to_decimal(units, asset) == Decimal(text)


@pytest.mark.parametrize("amount", [0.1, 1, "1", True, None])
def test_only_decimals_are_amounts(amount: Any) -> None:
    with pytest.raises(TypeError, match="whole tokens"):
        to_base_units(amount, EVM)


@pytest.mark.parametrize("text", ["NaN", "sNaN", "Infinity", "-1", "1E+30", "1E+999999"])
def test_impossible_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no amount"):
        to_base_units(Decimal(text), EVM)


@pytest.mark.parametrize(
    ("text", "asset"),
    [("0.0000001", EVM), ("1.0000001", EVM), ("0.00000001", STELLAR), ("1E-999999", STELLAR)],
)
def test_amount_with_too_many_decimals_is_refused(text: str, asset: str) -> None:
    with pytest.raises(ValueError, match="more decimals"):
        to_base_units(Decimal(text), asset)


@pytest.mark.parametrize("asset", ["", "solana:mainnet", "eip155:1/slip44:60", "USDC"])
def test_other_asset_has_no_decimals(asset: str) -> None:
    with pytest.raises(ValueError, match="no token"):
        decimals(asset)


@pytest.mark.parametrize("units", [1.0, "1", Decimal(1), True])
def test_base_units_are_integers(units: Any) -> None:
    with pytest.raises(TypeError, match="base units"):
        to_decimal(units, EVM)


@given(st.integers(0, 10**35), st.sampled_from([EVM, STELLAR]))
def test_conversions_are_inverse(units: int, asset: str) -> None:
    assert to_base_units(to_decimal(units, asset), asset) == units


def test_quote_refuses_a_wrong_amount_before_any_request() -> None:
    with Isthmus("http://127.0.0.1:1", token=lambda: "none") as isthmus:
        for amount in (1_000_000, 1.5, "1.5"):
            with pytest.raises(TypeError, match="whole tokens"):
                isthmus.quote(
                    "usdc-deposit",
                    amount,  # type: ignore[arg-type]
                    source_chain="eip155:1",
                    source_address="0x",
                    dest_address="G",
                )
