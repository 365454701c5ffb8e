"""Stored movements equal a full refold after every range."""

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from sqlalchemy import Connection, Engine, event, insert, select

from indexer.bridges.cctp.events import MessageReceived, MessageSent
from indexer.chains.events import Event
from indexer.chains.services.messages import MessageStatus, burn_id
from indexer.facts.messages import replace_statuses
from indexer.facts.rows import EVENT_MAPPINGS, copy_into
from indexer.facts.store import remove_range
from indexer.ingest.rebuild import fold_all_movements
from indexer.movements import store
from indexer.movements.fold import Movement
from indexer.movements.mechanisms import affected_movements
from indexer.movements.store import apply_events, refold_movements
from tests.factories.transfers import (
    BURN_KEY,
    ETHEREUM,
    NETWORK,
    PUBNET,
    make_burn_to_stellar,
    make_mint_on_stellar,
    moved,
    seen,
)
from warehouse_schema.facts import cctp_attestations
from warehouse_schema.identifiers import Bytes32, Height
from warehouse_schema.projections import movements

KEYS = (BURN_KEY, Bytes32("0x" + "b1" * 32))


def nonce_of(number: int) -> Bytes32:
    return Bytes32(f"0x{number:064x}")


def of_key(events: Sequence[Event], key: Bytes32) -> list[Event]:
    """The events with another burn key."""
    return [
        replace(each, burn_key=key) if isinstance(each, MessageSent | MessageReceived) else each
        for each in events
    ]


def burns_in(tx: str, height: int, keys: Iterable[Bytes32]) -> list[Event]:
    """A transaction that burns once for each key."""
    return [
        each
        for number, key in enumerate(keys)
        for each in of_key(make_burn_to_stellar(height=height, tx=tx, position=2 * number), key)
    ]


def in_block(each: Event, height: int) -> Event:
    """The same event in another block of its chain."""
    there = seen(each.seen.chain, height)
    return moved(each, height=Height(height), block_hash=there.block_hash)


def mint_in(tx: str, height: int, key: Bytes32, nonce: Bytes32) -> list[Event]:
    events = [in_block(each, height) for each in make_mint_on_stellar(tx=tx)]
    return [
        replace(each, nonce=nonce) if isinstance(each, MessageReceived) else each
        for each in of_key(events, key)
    ]


def keep(conn: Connection, events: Sequence[Event]) -> None:
    """Store events as facts."""
    by_type: dict[type[Event], list[Event]] = defaultdict(list)
    for each in events:
        by_type[type(each)].append(each)
    for event_type, of_type in by_type.items():
        shelf = EVENT_MAPPINGS[event_type]
        copy_into(conn, shelf.columns, map(shelf.row, of_type))


def bring_in(conn: Connection, events: Sequence[Event]) -> int:
    keep(conn, events)
    return apply_events(conn, NETWORK, events)


def attest(conn: Connection, sent: MessageSent, nonce: Bytes32) -> None:
    """Store a verified attestation; the caller refolds."""
    row = {
        "source_domain": 0,
        "nonce": nonce,
        "message_hash": nonce,
        "source_chain": sent.seen.chain,
        "source_tx": sent.seen.tx_hash,
        "burn_key": sent.burn_key,
        "message": b"",
        "attestation": b"",
        "status": "complete",
        "attesters": [],
        "verified": True,
    }
    conn.execute(insert(cctp_attestations).values(row))


def stored(conn: Connection) -> list[Movement]:
    return sorted(store.read_movements(conn, KEYS), key=lambda row: row.id)


@dataclass
class Story:
    """Two keys' burns and mints as chance has them; every step is followed by a comparison."""

    conn: Connection
    chance: random.Random
    height: int = 100
    sent: list[MessageSent] = field(default_factory=list)
    nonces: int = 0

    def burn(self) -> None:
        """A block of one or two transactions with up to three burns each."""
        self.height += 1
        events = [
            each
            for number in range(self.chance.randint(1, 2))
            for each in burns_in(
                f"{self.height * 10 + number:064x}",
                self.height,
                self.chance.choices(KEYS, k=self.chance.randint(1, 3)),
            )
        ]
        # Positions are of the block.
        events = [moved(each, position=number) for number, each in enumerate(events)]
        bring_in(self.conn, events)
        self.sent += [each for each in events if isinstance(each, MessageSent)]

    def mint(self) -> None:
        self.height += 1
        nonce = nonce_of(self.chance.randint(1, self.nonces + 2))
        tx = f"{self.height:064x}"
        bring_in(self.conn, mint_in(tx, self.height, self.chance.choice(KEYS), nonce))

    def attest(self) -> None:
        if self.sent:
            self.nonces += 1
            burn = self.chance.choice(self.sent)
            attest(self.conn, burn, nonce_of(self.nonces))
            self._refold(burn)

    def say(self) -> None:
        if self.sent:
            burn = self.chance.choice(self.sent)
            place = burn_id(burn.seen)
            assert burn.burn_key is not None
            status = MessageStatus("iris", place, burn.burn_key, "pending", None)
            replace_statuses(self.conn, "iris", {place: status})
            self._refold(burn)

    def reorganise(self) -> None:
        """Take the newest burns back; then mine some of them again, in another block."""
        if not self.sent:
            return
        above = self.chance.choice(self.sent).seen.height
        gone = remove_range(self.conn, ETHEREUM, above, None)
        refold_movements(self.conn, NETWORK, affected_movements(gone))
        self.sent = [each for each in self.sent if each.seen.height < above]
        self.height += 1
        again = [in_block(each, self.height) for each in gone]
        if self.chance.random() < 0.7:
            again = [moved(each, position=number) for number, each in enumerate(again)]
            bring_in(self.conn, again)
            self.sent += [each for each in again if isinstance(each, MessageSent)]

    def _refold(self, burn: MessageSent) -> None:
        assert burn.burn_key is not None
        refold_movements(self.conn, NETWORK, [("cctp", burn.burn_key)])


@pytest.mark.parametrize("seed", range(8))
def test_random_history_equals_refold(connection: Connection, seed: int) -> None:
    story = Story(connection, random.Random(seed))
    steps = [story.burn, story.mint, story.attest, story.say, story.reorganise]
    for _ in range(20):
        (step,) = story.chance.choices(steps, weights=[6, 4, 3, 2, 2])
        step()
        assert stored(connection) == fold_all_movements(connection, NETWORK), step.__name__
    assert len(stored(connection)) > 2


def test_reading_cost_is_constant_for_identical_burns(engine: Engine) -> None:
    read = 0

    def count(conn: object, cursor: object, *_: object) -> None:
        nonlocal read
        read += max(0, cursor.rowcount)  # type: ignore[attr-defined]

    with engine.begin() as conn:
        many = [each for n in range(300) for each in burns_in(f"{n:064x}", 100 + n, [BURN_KEY])]
        assert bring_in(conn, many) == 300
        event.listen(conn, "after_cursor_execute", count)
        assert bring_in(conn, burns_in(f"{300:064x}", 400, [BURN_KEY])) == 1
        assert read < 10
        read = 0
        assert bring_in(conn, mint_in(f"{1:064x}", 500, BURN_KEY, nonce_of(1))) == 1
        assert conn.scalars(
            select(movements.c.id).where(movements.c.stage == "COMPLETED")
        ).all() == [f"cctp:{BURN_KEY}:0"]


def test_burn_takes_a_waiting_mint(connection: Connection) -> None:
    bring_in(connection, mint_in("c" * 64, 900, BURN_KEY, nonce_of(1)))
    bring_in(connection, burns_in("a" * 64, 100, [BURN_KEY]))
    (row,) = stored(connection)
    assert (row.stage, row.source_chain, row.dest_chain) == ("COMPLETED", ETHEREUM, PUBNET)


def test_burn_and_mint_may_arrive_together(connection: Connection) -> None:
    burn, mint = burns_in("a" * 64, 100, [BURN_KEY]), mint_in("c" * 64, 900, BURN_KEY, nonce_of(1))
    bring_in(connection, [*burn, *mint])
    assert [row.stage for row in stored(connection)] == ["COMPLETED"]


def test_remined_burn_keeps_its_attestation(connection: Connection) -> None:
    burn = burns_in("a" * 64, 100, [BURN_KEY])
    bring_in(connection, burn)
    sent = next(each for each in burn if isinstance(each, MessageSent))
    attest(connection, sent, nonce_of(1))
    gone = remove_range(connection, ETHEREUM, Height(100), None)
    refold_movements(connection, NETWORK, affected_movements(gone))
    assert stored(connection) == []
    bring_in(connection, burns_in("a" * 64, 101, [BURN_KEY]))
    assert [row.message_id for row in stored(connection)] == [nonce_of(1)]
