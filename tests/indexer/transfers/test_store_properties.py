"""Random histories of several transfers in Postgres equal a refold after every step."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection, select

from indexer.chains.events import Event
from indexer.facts.alarms import open_alarms
from indexer.facts.store import remove_range
from indexer.ingest.projections import revert_events
from indexer.transfers.inputs import TransferTerms
from indexer.transfers.keeper import expire_due
from indexer.transfers.state_machine import Stage, may_cancel
from indexer.transfers.store import refold_final, refold_transfers, state_differences
from tests.factories.intake import ask, cancel, submit
from tests.factories.stage_facts import (
    DIRECT,
    PAID_IN,
    bring_in,
    burn,
    given_back,
    mint,
    paid,
    stand_at,
)
from tests.factories.stage_history import DEPOSIT, START
from tests.factories.transfers import ETHEREUM, NETWORK, USER, moved, seen
from warehouse_schema.identifiers import Bytes32, Height
from warehouse_schema.projections import transfer_states

TRANSFERS = (DIRECT, PAID_IN)


@dataclass
class Story:
    """Two transfers, a chain that reorganises, and whoever else writes."""

    conn: Connection
    chance: random.Random
    height: int = 10
    ledger: int = 900
    final: int = 0
    lost: list[tuple[Event, ...]] = field(default_factory=list)
    """Events of transactions that were taken back and may come again."""
    told: set[Stage] = field(default_factory=set)

    def _block(self, *events: Event) -> None:
        self.height += self.chance.choice((1, 1, 40))
        events = tuple(self._here(each, number) for number, each in enumerate(events))
        stand_at(self.conn, seen(ETHEREUM, self.height), final=self.final or None)
        if events:
            bring_in(self.conn, *events)

    def _here(self, event: Event, position: int) -> Event:
        there = seen(ETHEREUM, self.height)
        place = {"height": there.height, "block_hash": there.block_hash, "position": position}
        return moved(event, block_time=there.block_time, **place)

    def _tx(self) -> str:
        return f"{self.chance.getrandbits(256):064x}"

    def burn(self) -> None:
        self._block(*burn(self.chance.choice(TRANSFERS), self.height, self._tx()))

    def pay(self) -> None:
        amount = self.chance.choice((1, PAID_IN.amount_in - 1, PAID_IN.amount_in))
        self._block(paid(USER, DEPOSIT, amount, self.height, self._tx()))

    def give_back(self) -> None:
        self._block(given_back(DEPOSIT, USER, PAID_IN.amount_in, self.height, self._tx()))

    def come_again(self) -> None:
        if self.lost:
            self._block(*self.lost.pop())

    def deliver(self) -> None:
        nonce = Bytes32("0x" + self._tx())
        terms = self.chance.choice(TRANSFERS)
        self.ledger += 1
        bring_in(self.conn, *mint(terms, self.ledger, self._tx(), nonce))

    def finalise(self) -> None:
        self.final = self.chance.randint(self.final, self.height)
        stand_at(self.conn, seen(ETHEREUM, self.height), final=self.final)
        refold_final(self.conn, NETWORK, ETHEREUM)

    def reorganise(self) -> None:
        if self.height == self.final:
            return
        above = self.chance.randint(self.final, self.height - 1)
        taken = remove_range(self.conn, ETHEREUM, Height(above + 1), None)
        revert_events(self.conn, NETWORK, taken)
        by_tx: dict[str, list[Event]] = {}
        for each in taken:
            by_tx.setdefault(each.seen.tx_hash, []).append(each)
        self.lost += [tuple(events) for events in by_tx.values()]
        self.height = max(above, 1)
        stand_at(self.conn, seen(ETHEREUM, self.height), final=self.final or None)

    def cancel(self) -> None:
        terms = self.chance.choice(TRANSFERS)
        if may_cancel(self._stage(terms)):
            cancel(self.conn, terms, START + 30)
            refold_transfers(self.conn, NETWORK, [terms.id])

    def submit(self) -> None:
        if self._stage(DIRECT) == "AWAITING_SIGNATURE":
            submit(self.conn, DIRECT, "0x" + self._tx(), START + 30)
            refold_transfers(self.conn, NETWORK, [DIRECT.id])

    def expire(self) -> None:
        expire_due(self.conn, NETWORK)

    def _stage(self, terms: TransferTerms) -> Stage:
        column = transfer_states.c
        stage: Stage = self.conn.scalars(
            select(column.stage).where(column.transfer == terms.id)
        ).one()
        return stage

    def look(self) -> None:
        assert state_differences(self.conn, NETWORK) == []
        assert [alarm.detail for alarm in open_alarms(self.conn)] == []
        self.told |= {self._stage(terms) for terms in TRANSFERS}


def tell(conn: Connection, seed: int, steps: int) -> Story:
    story = Story(conn, random.Random(seed))
    for terms in TRANSFERS:
        ask(conn, replace(terms))
    refold_transfers(conn, NETWORK, [terms.id for terms in TRANSFERS])
    moves: Sequence[Callable[[], None]] = [
        *(story.burn, story.pay, story.give_back, story.come_again, story.deliver),
        *(story.finalise, story.reorganise, story.cancel, story.submit, story.expire),
    ]
    for _ in range(steps):
        (move,) = story.chance.choices(moves, weights=[4, 5, 1, 3, 1, 3, 4, 1, 1, 2])
        move()
        story.look()
    return story


def test_random_history_equals_refold(connection: Connection):
    told: set[Stage] = set()
    for seed in range(5):
        life = connection.begin_nested()
        told |= tell(connection, seed, 20).told
        life.rollback()
    # These lives come somewhere.
    assert len(told) > 6
