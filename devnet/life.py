"""Activity after the scenario, until the demo is stopped: ledgers close, orders come and go."""

from __future__ import annotations

from typing import NoReturn

from devnet.scenario import Scenario
from devnet.supervisor import Supervisor

LEDGER_SECONDS = 1.0
LEDGERS_PER_ORDER = 20
"""About an order every twenty seconds: one provider's open orders stay far below its limit."""


class Life:
    """Light, seeded background activity on a scenario's world."""

    def __init__(self, scenario: Scenario, supervisor: Supervisor) -> None:
        self._scenario = scenario
        self._supervisor = supervisor

    def go_on(self) -> NoReturn:
        """Close a ledger each second. Ends by what `Supervisor.check` raises."""
        ledgers = 0
        while True:
            ledgers += 1
            if ledgers % LEDGERS_PER_ORDER == 0:
                self._scenario.book.ordinary_day()
            else:
                self._scenario.close_ledger()
            self._supervisor.wait(LEDGER_SECONDS)
