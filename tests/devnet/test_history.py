"""The demo's generated history: complete, plausible, free of alarms, the same for a seed."""

from collections.abc import Callable, Iterator
from datetime import date, timedelta
from itertools import pairwise

import pytest
from sqlalchemy import Engine, func, select, text
from sqlalchemy.engine import URL

from indexer.analytics.agreement import differences as figure_differences
from indexer.analytics.daily import FIGURES, due_days
from indexer.analytics.reconciliation import reconcile
from indexer.facts.checks import alarm_lines, block_faults
from indexer.ingest.rebuild import differences
from tests.factories.demo_history import NETWORK, OPEN_DAY, fill_with_history
from warehouse_schema.daily import market_days, route_days
from warehouse_schema.engine import make_engine
from warehouse_schema.projections import movements, offers, transfer_states

# The fixture plays 90 days, 16 s alone; beside other tests on a slow machine it took over 120.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def history(clone: Callable[[], URL]) -> Iterator[Engine]:
    """A warehouse with the whole history."""
    url = clone()
    fill_with_history(url)
    engine = make_engine(url, role="indexer")
    yield engine
    engine.dispose()


def test_history_has_90_closed_days_computed(history: Engine) -> None:
    with history.connect() as conn:
        first, last, number = conn.execute(
            select(
                func.min(market_days.c.day),
                func.max(market_days.c.day),
                func.count(market_days.c.day.distinct()),
            )
        ).one()
        assert (last, number) == (OPEN_DAY - timedelta(days=1), 90)
        assert first == last - timedelta(days=89)
        assert conn.scalar(select(func.count(route_days.c.day.distinct()))) == 90
        assert [due_days(conn, NETWORK, figure) for figure in FIGURES] == [[], []]


def test_history_raises_no_alarm_and_adds_up(history: Engine) -> None:
    assert figure_differences(history, NETWORK) == []
    assert differences(history, NETWORK) == []
    assert reconcile(history, NETWORK).findings == ()
    for chain in NETWORK.chains:
        assert alarm_lines(history, chain.id) == []
        assert block_faults(history, chain.id) == []


def test_history_ends_with_an_empty_book_and_nothing_under_way(history: Engine) -> None:
    with history.connect() as conn:
        assert conn.scalar(select(func.count()).select_from(offers)) == 0
        assert conn.scalars(select(movements.c.stage).distinct()).all() == ["COMPLETED"]
        stages = conn.scalars(select(transfer_states.c.stage).distinct()).all()
        assert sorted(stages) == ["CANCELLED", "COMPLETED", "EXPIRED"]


def test_daily_rates_change_by_less_than_a_tenth(history: Engine) -> None:
    """Rates drift; they do not jump."""
    query = text(
        "SELECT currency, day, sum(fiat) / sum(released) AS rate FROM projections.market_days"
        " WHERE direction = 'onramp' AND released > 0 GROUP BY 1, 2 ORDER BY 1, 2"
    )
    rates: dict[str, list[float]] = {}
    with history.connect() as conn:
        for row in conn.execute(query):
            rates.setdefault(row.currency, []).append(float(row.rate))
    assert sorted(rates) == ["BRL", "EUR", "GBP", "USD"]
    for series in rates.values():
        assert len(set(series)) > 20
        assert max(abs(after / before - 1) for before, after in pairwise(series)) < 0.1


def test_seed_decides_the_history(clone: Callable[[], URL]) -> None:
    def figures(seed: int) -> list[tuple[date, int]]:
        url = clone()
        fill_with_history(url, seed=seed, days=3)
        engine = make_engine(url)
        with engine.connect() as conn:
            query = text(
                "SELECT day, sum(released) FROM projections.market_days GROUP BY 1 ORDER BY 1"
            )
            rows = [(row[0], int(row[1])) for row in conn.execute(query)]
        engine.dispose()
        return rows

    first = figures(1)
    assert figures(1) == first
    assert figures(2) != first
