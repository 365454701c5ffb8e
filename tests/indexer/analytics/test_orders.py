"""Outcome of an order by the rules of the order book's fold."""

from typing import Any

import polars as pl
import pytest

from indexer.analytics.orders import MAX_EXACT, fiat_of_release, orders_of

UNITS = pl.Int128()
OPENED = {
    **dict.fromkeys(
        ["order_id", "provider", "taker", "direction", "rail", "currency"], pl.String()
    ),
    **dict.fromkeys(["amount", "fiat_amount", "lp_lock"], UNITS),
    **dict.fromkeys(["expires_at", "block_time", "height", "position"], pl.Int64()),
}
ENDED = {
    **dict.fromkeys(["order_id", "provider", "taker", "ending", "claim"], pl.String()),
    **dict.fromkeys(["released", "fee"], UNITS),
    **dict.fromkeys(["block_time", "height", "position"], pl.Int64()),
}


def opening(**fields: Any) -> dict[str, Any]:
    """At 1000 in ledger 10, for 40, until 1600."""
    row: dict[str, Any] = {
        "order_id": "1",
        "provider": "P",
        "taker": "T",
        "direction": "onramp",
        "rail": "wise",
    }
    row |= {"currency": "EUR", "amount": 40, "fiat_amount": 41, "lp_lock": 40}
    return row | {"expires_at": 1_600, "block_time": 1_000, "height": 10, "position": 5} | fields


def end(ending: str, at: int = 1_300, **fields: Any) -> dict[str, Any]:
    """In the ledger of that time, a ledger each 100 seconds."""
    row: dict[str, Any] = {"order_id": "1", "provider": "P", "taker": "T", "ending": ending}
    if ending == "fulfilled":
        row |= {"released": 40, "fee": 1, "claim": "proof"}
    return row | {"block_time": at, "height": at // 100, "position": 1} | fields


def fold(opened: list[dict[str, Any]], ended: list[dict[str, Any]]) -> list[dict[str, Any]]:
    frames = pl.DataFrame(opened, schema=OPENED), pl.DataFrame(ended, schema=ENDED)
    return orders_of(*frames).to_dicts()


@pytest.mark.parametrize(
    ("ended", "outcome", "outcome_at", "lapsed_at", "ended_at"),
    [
        ([], "expired", 1_601, 1_601, None),
        ([end("fulfilled")], "fulfilled", 1_300, None, 1_300),
        ([end("cancelled")], "cancelled", 1_300, None, 1_300),
        ([end("fulfilled", 1_600)], "fulfilled", 1_600, None, 1_600),
        ([end("expired", 1_601)], "expired", 1_601, 1_601, 1_601),
        ([end("expired", 1_900)], "expired", 1_601, 1_601, 1_900),
        # What the contract's rules forbid: too late, too early, twice.
        ([end("fulfilled", 1_700)], "expired", 1_601, 1_601, 1_700),
        ([end("expired", 1_300)], "expired", 1_300, None, 1_300),
        ([end("cancelled"), end("fulfilled", 1_400)], "cancelled", 1_300, None, 1_300),
        ([end("fulfilled", 1_400), end("cancelled")], "cancelled", 1_300, None, 1_300),
        ([end("fulfilled", taker="U"), end("cancelled", 1_400)], "cancelled", 1_400, None, 1_400),
        ([end("fulfilled", provider="Q")], "expired", 1_601, 1_601, None),
        ([end("fulfilled", order_id="2")], "expired", 1_601, 1_601, None),
        ([end("fulfilled", 900)], "expired", 1_601, 1_601, None),
        ([end("cancelled", 1_000, position=4)], "expired", 1_601, 1_601, None),
        ([end("cancelled", 1_000, position=6)], "cancelled", 1_000, None, 1_000),
    ],
)
def test_first_end_counts_unless_expired_before(
    ended: list[dict[str, Any]],
    outcome: str,
    outcome_at: int,
    lapsed_at: int | None,
    ended_at: int | None,
) -> None:
    (order,) = fold([opening()], ended)
    assert (order["outcome"], order["outcome_at"]) == (outcome, outcome_at)
    assert (order["lapsed_at"], order["ended_at"]) == (lapsed_at, ended_at)


def test_order_opens_once() -> None:
    again = opening(amount=99, block_time=1_100, height=11)
    (order,) = fold([again, opening()], [])
    assert (order["amount"], order["block_time"]) == (40, 1_000)


@pytest.mark.parametrize(
    ("fiat", "released", "amount", "expected"),
    [
        (41, 40, 40, 41),
        (41, 30, 40, 31),  # 30.75
        (10, 1, 4, 3),  # 2.5: half up
        (9, 1, 4, 2),  # 2.25
        (0, 1, 4, 0),
        (MAX_EXACT - 1, MAX_EXACT - 1, MAX_EXACT - 1, MAX_EXACT - 1),
        (MAX_EXACT - 1, MAX_EXACT - 1, 1, (MAX_EXACT - 1) ** 2),
        (MAX_EXACT, 1, 4, None),
        (2**126, 1, 4, None),
        (1, 1, 0, None),
    ],
)
def test_fiat_is_proportional_to_release(
    fiat: int, released: int, amount: int, expected: int | None
) -> None:
    row = {"fiat_amount": [fiat], "released": [released], "amount": [amount]}
    frame = pl.DataFrame(row, schema=dict.fromkeys(row, UNITS))
    assert frame.select(fiat_of_release()).item() == expected
