"""Text form of integers and times."""

import pytest

from api.orderbook.responses import decimal_text
from api.responses import iso_time

DECIMALS = [
    (0, "0"),
    (1, "0.0000001"),
    (10, "0.000001"),
    (1_000_000, "0.1"),
    (9_999_999, "0.9999999"),
    (10_000_000, "1"),
    (10_000_001, "1.0000001"),
    (12_500_000, "1.25"),
    (100_000_000, "10"),
    (1_000_000_000_000_000, "100000000"),
    (123_456_789_012_345, "12345678.9012345"),
    (2**127 - 1, "17014118346046923173168730371588.4105727"),
    (-1, "-0.0000001"),
    (-15_000_000, "-1.5"),
]


def test_base_units_are_plain_decimals(subtests):
    for amount, text in DECIMALS:
        with subtests.test(amount=amount, text=text):
            assert decimal_text(amount) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_795_248_000, "2026-11-21T08:00:00Z"),
        (1_709_164_799, "2024-02-28T23:59:59Z"),
        (253_402_300_799, "9999-12-31T23:59:59Z"),
        (253_402_300_800, "9999-12-31T23:59:59Z"),
        (2**63 - 1, "9999-12-31T23:59:59Z"),
    ],
)
def test_time_is_iso_8601_in_utc(seconds, text):
    assert iso_time(seconds) == text
