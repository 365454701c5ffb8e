"""Proof that what webhooks promise is seen to be broken: each is planted in the warehouse, and sent
by the sender itself."""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import psycopg

from tests.system.chaos.transfers.checker import CheckerFailed
from tests.system.chaos.transfers.hooks import Place
from tests.system.chaos.transfers.run import Stage

_TIMEOUT = 30.0
_LOOK_SECONDS = 0.05

_TELL = """
INSERT INTO projections.transfer_events (owner, number, transfer, stage, status, reason)
SELECT owner, %(number)s, transfer, coalesce(%(stage)s, stage), status, reason
  FROM projections.transfer_events
 WHERE owner = (SELECT owner FROM intake.webhooks WHERE id = %(webhook)s)
 ORDER BY number DESC LIMIT 1
"""
_REWORD = """
UPDATE projections.transfer_events SET reason = 'planted'
 WHERE number = %s AND owner = (SELECT owner FROM intake.webhooks WHERE id = %s)
"""


@dataclass(frozen=True)
class _Outbox:
    """What there is to tell at one place, written behind the service's back."""

    conn: psycopg.Connection
    place: Place

    def tell(self, number: int, stage: str | None = None) -> None:
        """The last event again, under this number."""
        given = {"number": number, "stage": stage, "webhook": self.place.webhook}
        self.conn.execute(_TELL, given)

    def reword(self, number: int) -> None:
        """Have an event say something else."""
        self.conn.execute(_REWORD, (number, self.place.webhook))

    def put(self, position: int) -> None:
        """What is above that is still to be sent, and nothing else."""
        moved = "UPDATE relay.webhook_states SET position = %s WHERE webhook = %s"
        self.conn.execute(moved, (position, self.place.webhook))

    @property
    def position(self) -> int:
        """Up to which everything was sent."""
        query = "SELECT position FROM relay.webhook_states WHERE webhook = %s"
        [row] = self.conn.execute(query, (self.place.webhook,)).fetchall()
        return int(row[0])

    def wait_for(self, position: int) -> None:
        """Until that was sent, and all before it. Raises `CheckerFailed`."""
        deadline = time.monotonic() + _TIMEOUT
        while self.position != position:
            if time.monotonic() > deadline:
                raise CheckerFailed(f"event {position} is not sent, as was planted")
            time.sleep(_LOOK_SECONDS)


def _disorder(outbox: _Outbox) -> None:
    """One that is told before an earlier one is there."""
    last = outbox.position
    outbox.tell(last + 2)
    outbox.wait_for(last + 2)
    with outbox.conn.transaction():
        outbox.tell(last + 1)
        outbox.put(last)
    outbox.wait_for(last + 2)


def _another_body(outbox: _Outbox) -> None:
    last = outbox.position
    with outbox.conn.transaction():
        outbox.reword(last)
        outbox.put(last - 1)
    outbox.wait_for(last)


def _another_end(outbox: _Outbox) -> None:
    last = outbox.position
    outbox.tell(last + 1, "FUNDED")
    outbox.wait_for(last + 1)


def _miss(outbox: _Outbox) -> None:
    """One that is passed over."""
    last = outbox.position
    with outbox.conn.transaction():
        outbox.put(last + 1)
        outbox.tell(last + 1)


PLANTED: tuple[tuple[str, Callable[[_Outbox], None], str], ...] = (
    ("events told out of their order", _disorder, "told in the order"),
    ("an event told in two ways", _another_body, "with another body"),
    ("a last word that is not the end", _another_end, "told last"),
    ("an event that was not told", _miss, "was not taken"),
)
"""What it is, how it is planted, and what must then be said."""


def prove_hooks(stage: Stage) -> list[str]:
    """Plant each at one place of a run that went well; what was found. Raises `CheckerFailed`."""
    name, place = next(iter(stage.hooks.places.items()))
    with (
        psycopg.connect(stage.warehouse, autocommit=True) as conn,
        closing(stage.customer(name)),
    ):
        for what, plant, said in PLANTED:
            before = stage.hooks.problems(stage.ends())
            plant(_Outbox(conn, place))
            stage.hooks.look(name, stage.wallets[name])
            found = [each for each in stage.hooks.problems(stage.ends()) if each not in before]
            if not any(said in each for each in found):
                raise CheckerFailed(f"{what}: {found}")
    return [what for what, _, _ in PLANTED]
