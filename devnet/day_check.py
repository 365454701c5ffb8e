"""The demo's check that Dagster has computed every closed day."""

import time
from collections.abc import Callable

from sqlalchemy import Engine

from indexer.analytics.agreement import differences
from indexer.analytics.daily import FIGURES, due_days
from indexer.config.networks import Network

DEADLINE_SECONDS = 240.0
_LOOK_SECONDS = 0.5


def day_problems(engine: Engine, network: Network, wait: Callable[[float], None]) -> list[str]:
    """Sentences about days that are not computed in time, or whose figures are not the views'."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while late := _late(engine, network):
        if time.monotonic() > deadline:
            return late
        wait(_LOOK_SECONDS)
    return differences(engine, network)


def _late(engine: Engine, network: Network) -> list[str]:
    with engine.connect() as conn:
        due = {figure.name: due_days(conn, network, figure) for figure in FIGURES}
    return [
        f"{len(days)} days of {name} are not computed, the first is {days[0]}"
        for name, days in due.items()
        if days
    ]
