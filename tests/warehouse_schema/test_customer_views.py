"""Views that sum up customers' rows: right sums, and no identity in any of them."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from tests.factories.demo_history import fill_with_history
from warehouse_schema.engine import make_engine

VIEWS = ("quote_funnel_daily", "transfer_outcomes_daily", "relay_costs_daily")
IDENTITIES = """
    SELECT unnest(ARRAY[id, owner, source_address, dest_address]) FROM intake.quotes
    UNION SELECT unnest(ARRAY[id, owner, idempotency_key, fingerprint]) FROM intake.transfers
    UNION SELECT tx_hash FROM intake.submissions
    UNION SELECT unnest(ARRAY[account, key, subject]) FROM relay.slots
    UNION SELECT tx_hash FROM relay.attempts
"""


@pytest.fixture(scope="module")
def history(clone: Callable[[], URL]) -> URL:
    url = clone()
    fill_with_history(url, days=8)
    return url


@pytest.fixture
def owner(history: URL) -> Iterator[Connection]:
    engine = make_engine(history)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture
def analyst(history: URL) -> Iterator[Connection]:
    engine = make_engine(history, role="analyst", pool_size=1)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def total(connection: Connection, query: str) -> Any:
    return connection.scalar(text(query))


@pytest.mark.parametrize("view", VIEWS)
def test_view_shows_no_identity(owner: Connection, analyst: Connection, view: str) -> None:
    hidden = {each.lower() for each in owner.scalars(text(IDENTITIES)) if each is not None}
    assert len(hidden) > 400
    rows = analyst.execute(text(f"SELECT * FROM analytics.{view}")).all()
    assert len(rows) > 20
    shown = {str(value).lower() for row in rows for value in row}
    assert [text for text in shown if any(each in text for each in hidden if len(each) > 8)] == []


def test_funnel_counts_every_quote_once(owner: Connection, analyst: Connection) -> None:
    sums = (
        "SELECT sum(asked), sum(used), sum(paid), sum(completed) FROM analytics.quote_funnel_daily"
    )
    stage = "SELECT count(*) FROM projections.transfer_states WHERE stage = 'COMPLETED'"
    asked, used, paid, completed = analyst.execute(text(sums)).one()
    assert asked == total(owner, "SELECT count(*) FROM intake.quotes")
    assert used == total(owner, "SELECT count(*) FROM intake.transfers")
    assert completed == total(owner, stage)
    assert asked > used > paid >= completed > 0


def test_outcomes_sum_to_all_transfers(owner: Connection, analyst: Connection) -> None:
    query = "SELECT sum(transfers) FROM analytics.transfer_outcomes_daily"
    assert total(analyst, query) == total(owner, "SELECT count(*) FROM intake.transfers")
    rows = "SELECT amount_band, outcome, tokens / transfers, timed, transfers, p50_seconds"
    edges = {"under 5": (0, 5), "5 to 10": (5, 10), "10 to 20": (10, 20), "20 and more": (20, 1e9)}
    seen = set()
    for band, outcome, mean, timed, number, p50 in analyst.execute(
        text(f"{rows} FROM analytics.transfer_outcomes_daily")
    ):
        low, high = edges[band]
        assert low <= mean < high
        assert timed == (number if outcome == "completed" else 0)
        assert (p50 is not None and p50 > 0) == (outcome == "completed")
        seen.add(outcome)
    assert seen == {"completed", "cancelled", "expired"}


def test_relay_costs_sum_to_what_was_spent(owner: Connection, analyst: Connection) -> None:
    spent = "SELECT sum(spent) FROM relay.slots WHERE chain "
    costs = "SELECT sum(spent_native) FROM analytics.relay_costs_daily WHERE chain "
    for chain, unit in (("LIKE 'eip155:%'", 10**18), ("LIKE 'stellar:%'", 10**7)):
        assert total(analyst, costs + chain) == Decimal(int(total(owner, spent + chain))) / unit
    waste = "SELECT sum(wasted_native), sum(confirmed), sum(transactions), count(DISTINCT route)"
    query = text(f"{waste} FROM analytics.relay_costs_daily")
    wasted, confirmed, sent, routes = analyst.execute(query).one()
    assert (wasted, routes) == (0, 4)
    assert confirmed == sent
