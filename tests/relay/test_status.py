"""What `isthmus relay status` prints of an account."""

from types import SimpleNamespace

import pytest

from relay.status import describe


@pytest.mark.parametrize(
    ("chain", "balance", "spent", "budget", "figures"),
    [
        (
            "eip155:1",
            10**18 + 5 * 10**15,
            692_822_678_054_836,
            5 * 10**16,
            "spendable 1.005 ether; spent today 0.000692822678054836 ether of 0.05 ether",
        ),
        (
            "stellar:pubnet",
            99_990_000_001,
            0,
            50 * 10**7,
            "spendable 9999.0000001 XLM; spent today 0 XLM of 50 XLM",
        ),
        (
            "eip155:1",
            None,
            0,
            1,
            "spendable unknown; spent today 0 ether of 0.000000000000000001 ether",
        ),
    ],
)
def test_amounts_are_coins(chain, balance, spent, budget, figures):
    row = SimpleNamespace(
        chain=chain,
        account="A",
        duty="deliver",
        balance=balance,
        spent_today=spent,
        budget=budget,
        open=2,
        seen_ago=1.4,
    )
    assert describe(row) == f"{chain} A (deliver): {figures}; 2 open; 1 s ago"
