"""Histories that last for days, and the warehouse that ingested them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, insert

from indexer.chains.raw import Block
from indexer.facts import store
from indexer.facts.store import DecodedEvent
from indexer.orderbook.state import BookEvent, LedgerClose
from indexer.orderbook.store import apply_ledgers
from tests.factories.book import digest
from tests.factories.book_history import RandomHistory
from tests.factories.contract_model import ContractModel
from tests.factories.events import make_stellar_event
from warehouse_schema import facts
from warehouse_schema.identifiers import BlockHash, Height

BEGIN = 1_795_046_400
"""2026-11-19T00:00:00Z."""
HOUR, DAY = 3_600, 86_400

Ledger = tuple[LedgerClose, Sequence[BookEvent]]


@dataclass
class SlowHistory(RandomHistory):
    """A random history whose ledgers close minutes apart, or at midnight; orders live two hours."""

    model: ContractModel = field(default_factory=lambda: ContractModel(now=BEGIN - 7, ttl=2 * HOUR))

    def _gap(self) -> int:
        if self.random.random() < 0.2:
            return super()._gap()
        if self.random.random() < 0.1:
            until_midnight = DAY - self.model.now % DAY
            return max(1, until_midnight - self.random.choice((0, 1)))
        return self.random.randint(1, HOUR // 2)


def slow_history(seed: int, days: int) -> list[Ledger]:
    """Whole days of it, and the first ledger of the day after."""
    story = SlowHistory(seed)
    history: list[Ledger] = [story.ledger()]
    while history[-1][0].close_time < BEGIN + days * DAY:
        history.append(story.ledger())
    return history


def ledger_block(ledger: LedgerClose) -> Block:
    """The block that `seen_in` sees events of a ledger in."""
    return Block(
        chain=ledger.chain,
        height=ledger.height,
        hash=BlockHash(digest("ledger", ledger.height).hex()),
        parent_hash=BlockHash(digest("ledger", ledger.height - 1).hex()),
        time=ledger.close_time,
        protocol_version=23,
    )


def append_ledgers(conn: Connection, history: Iterable[Ledger]) -> None:
    """Write their facts, raw and decoded, and nothing else."""
    history = list(history)
    events = [event for _, own in history for event in own]
    store.append(
        conn,
        [ledger_block(ledger) for ledger, _ in history],
        [DecodedEvent(make_stellar_event(event.seen), event, None) for event in events],
    )


def ingest_ledgers(conn: Connection, history: Sequence[Ledger]) -> None:
    """As a follower would: facts, the order book, the cursor; every ledger is final."""
    append_ledgers(conn, history)
    ledgers = [ledger for ledger, _ in history]
    apply_ledgers(conn, ledgers, [e for _, own in history for e in own])
    set_cursor(conn, ledger_block(ledgers[-1]))


def set_cursor(conn: Connection, block: Block, final: Height | None = None) -> None:
    """Let a chain be at a block; `final` is its own height unless said otherwise."""
    conn.execute(delete(facts.cursors).where(facts.cursors.c.chain == block.chain))
    conn.execute(
        insert(facts.cursors).values(
            chain=block.chain,
            height=block.height,
            block_hash=block.hash,
            block_time=block.time,
            head_height=block.height,
            head_time=block.time,
            safe_height=block.height if final is None else final,
            final_height=block.height if final is None else final,
        )
    )
