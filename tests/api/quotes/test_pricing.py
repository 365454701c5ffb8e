"""Amounts and fees of a transfer are exact and never exceed the limit."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.quotes.pricing import (
    BURN_HEADROOM,
    burn_price,
    payment_price,
    send_price,
    unit_price,
)
from indexer.chain_state.fees import MAX_FEE_BPS, BurnTerms, SendTerms
from indexer.config.routes import SERVICE_FEE_BPS

EVM, STELLAR = "eip155:1", "stellar:pubnet"
AMOUNTS = st.integers(1_000_000, 20_000_000)
BPS = st.decimals(0, MAX_FEE_BPS, places=3)


def circle_takes(carried: int, bps: Decimal) -> int:
    """What Circle deducted in every recorded transfer."""
    return int(Fraction(bps) * carried / 10_000)


@given(AMOUNTS, BPS)
def test_deposit_amount_out_deducts_full_max_fee(amount, bps):
    price = burn_price(EVM, STELLAR, amount, BurnTerms(1000, bps), None)
    assert price.amount_out == (amount - price.total) * 10
    assert price.total == sum(fee.amount for fee in price.fees)
    assert circle_takes(amount, bps * Decimal("1.2")) <= price.total
    # No more than the headroom, but for the one unit that is rounded up to.
    assert price.total < Fraction(bps) * BURN_HEADROOM * amount / 10_000 + 1
    assert 0 < price.amount_out <= amount * 10


@given(AMOUNTS, BPS)
def test_withdrawal_price_is_exact_in_both_decimals(carried, bps):
    price = burn_price(STELLAR, EVM, carried * 10, BurnTerms(2000, bps), 7)
    assert price.amount_out * 10 + price.total == carried * 10
    assert price.total % 10 == 0
    assert price.finality_threshold == 2000
    [gas] = price.operator_fees
    assert (gas.name, gas.amount, gas.chain) == ("relay_gas", 7 * 200_000, EVM)


@pytest.mark.parametrize(
    ("amount", "taken"), [(27_960_598, 3_634), (79_784_024, 10_371), (2_000_000, 260)]
)
def test_observed_base_fee_is_within_max_fee(amount, taken):
    price = burn_price("eip155:8453", STELLAR, amount, BurnTerms(1000, Decimal("1.3")), None)
    assert taken <= price.total <= taken * 6 // 5 + 2


def test_indivisible_amount_raises():
    with pytest.raises(ValueError, match="no multiple of 10"):
        burn_price(STELLAR, EVM, 100_000_001, BurnTerms(2000, Decimal(0)), 1)


@given(AMOUNTS, st.data(), st.integers(0, 10**20))
def test_send_amount_out_is_oft_received(amount, data, native):
    received = data.draw(st.integers(1, amount))
    price = send_price(EVM, STELLAR, amount, SendTerms(0, 10**18, received, native))
    assert price.amount_out == received * 10
    assert price.total == amount - received
    assert [(fee.name, fee.chain) for fee in price.native_fees] == [("lz_native_fee", EVM)]
    assert native <= price.native_fee == price.native_fees[0].amount
    assert price.native_fee * 10 <= native * 11 + 10


@given(st.integers(1, 20_000_000), st.data())
def test_stellar_send_amount_out_has_six_decimals(carried, data):
    received = data.draw(st.integers(1, carried)) * 10
    price = send_price(STELLAR, EVM, carried * 10, SendTerms(0, 10**18, received, 10))
    assert price.amount_out * 10 == received == carried * 10 - price.total
    assert isinstance(price.amount_out, int)
    assert (price.native_fee, price.native_fees[0].chain) == (11, STELLAR)


def test_send_with_seventh_decimal_raises():
    with pytest.raises(ValueError, match="multiple"):
        send_price(STELLAR, EVM, 100, SendTerms(0, 10**18, 95, 10))


@given(st.integers(1, 200_000_000))
def test_payment_costs_nothing(amount):
    price = payment_price(amount)
    assert (price.amount_out, price.total) == (amount, 0)


def test_service_fee_is_zero():
    assert SERVICE_FEE_BPS == 0


@pytest.mark.parametrize(
    ("sold", "bought", "price"),
    [
        ((10_000_000, 6), (100_000_000, 7), "1"),
        ((10_000_000, 6), (99_984_400, 7), "0.999844"),
        ((3_000_000, 6), (20_000_000, 7), "0.666666666666"),
        ((1, 7), (1, 7), "1"),
        ((3, 0), (100_000, 0), "33333.3333333"),
    ],
)
def test_unit_price_has_twelve_digits(sold, bought, price):
    assert unit_price(*sold, *bought) == price


@given(st.integers(1, 10**15), st.integers(1, 10**15))
def test_unit_price_is_rounded_down(sold, bought):
    shown = unit_price(sold, 6, bought, 7)
    exact = Fraction(bought, 10 * sold)
    assert Fraction(shown) <= exact
    assert exact - Fraction(shown) < exact / 10**11
    assert "E" not in shown
    assert shown == shown.rstrip("0").rstrip(".") or "." not in shown
