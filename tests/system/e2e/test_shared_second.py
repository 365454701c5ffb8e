"""Twenty ledgers of Protocol 30 in one second: orders, expiries and payments in them.

The chain closes them first. The real reader and follower then ingest them in ranges of several
sizes, and the keeper of transfers runs after each range.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import Engine, insert, select
from sqlalchemy.engine import URL
from stellar_sdk import scval, xdr

from devnet.stellar.accounts import USDC
from devnet.stellar.asset_events import token_contract
from devnet.stellar.genesis import ORDER_TTL, Genesis
from devnet.stellar.node import LEDGER_MS, Node
from devnet.stellar.protocol30 import MuxedContract
from devnet.stellar.registry import unwired
from indexer.ingest.rebuild import differences
from indexer.transfers.keeper import catch_up
from tests.devnet.stellar.chain import UNIT, Chain
from tests.devnet.stellar.market import Market
from tests.factories.book_stand import NETWORK, Screen, reading
from tests.factories.book_walk import dump
from tests.factories.ingesting import ingest_once
from tests.factories.intake import ask
from tests.factories.stage_history import make_terms
from warehouse_schema.engine import make_engine
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import Address, BaseUnits, StellarAddress, UnixSeconds
from warehouse_schema.intake import watched_addresses
from warehouse_schema.projections import book, orders, transfer_states

LEDGERS = 20
STEP_MS = 50
STELLAR = NETWORK.stellar.id


class Clock:
    """The stand-in's: so many milliseconds from ledger to ledger."""

    step = LEDGER_MS

    def __call__(self, last: int) -> int:
        return last + self.step


@dataclass
class Story:
    """What happened; order ids without `0x`, transaction hashes of payments."""

    market: Market
    second: int
    alice: str
    receivers: dict[str, str]
    """By transfer id."""
    paid: dict[str, str]
    """Transfer id → transaction."""
    orders: dict[str, str]
    last_of_second: int


@pytest.fixture(scope="module")
def story() -> Story:
    clock = Clock()
    chain = Chain(node=Node(Genesis(unwired(), protocol=30), clock=clock))
    market = Market(chain=chain)
    alice, bob = chain.open("alice", usdc=100 * UNIT), chain.open("bob", usdc=0)
    dave, erin = chain.open("dave", usdc=0), chain.open("erin", usdc=0)
    market.deposit(500)
    market.set_terms(rail="venmo", rate=1.02, minimum=5, maximum=50)
    market.set_payee("venmo")
    early = market.open(40)
    second = chain.now + ORDER_TTL

    chain.at(second)
    clock.step = STEP_MS
    first_ledger = chain.node.latest.sequence
    settled = market.open(20)
    # The alike transfers are named so that their ids say nothing about their order.
    paid = {"b" * 32: chain.pay(alice, bob.public_key, 5 * UNIT).hash}
    market.fulfill(settled, 20 * UNIT)
    cancelled = market.open(10)
    market.end("cancel", market.taker, cancelled)
    paid["a" * 32] = chain.pay(alice, bob.public_key, 5 * UNIT).hash
    active = market.open(15)
    muxed = xdr.SCVal(xdr.SCValType.SCV_ADDRESS, address=MuxedContract(b"\x07" * 32, 9))
    arguments = [scval.to_address(alice.public_key), muxed, scval.to_int128(UNIT)]
    chain.invoke(alice, token_contract(USDC), "transfer", *arguments)
    while chain.node.latest.sequence < first_ledger + LEDGERS - 2:
        chain.node.close_ledger()
    paid["c" * 32] = chain.pay(alice, dave.public_key, 7 * UNIT).hash
    last = chain.node.latest
    assert (last.sequence, last.close_time) == (first_ledger + LEDGERS - 1, second)

    chain.at(second + 1)
    market.end("expire", market.taker, early)
    assert chain.now == second + 1
    names = {"early": early, "settled": settled, "cancelled": cancelled, "active": active}
    return Story(
        market=market,
        second=second,
        alice=alice.public_key,
        receivers={
            "b" * 32: bob.public_key,
            "a" * 32: bob.public_key,
            "c" * 32: dave.public_key,
            "d" * 32: erin.public_key,
        },
        paid=paid,
        orders={name: order.hex() for name, order in names.items()},
        last_of_second=last.sequence,
    )


@contextmanager
def engines(clone: Callable[[], URL]) -> Iterator[tuple[Engine, Engine]]:
    url = clone()
    indexer, api = make_engine(url, role="indexer"), make_engine(url, role="api")
    try:
        yield indexer, api
    finally:
        indexer.dispose()
        api.dispose()


def request_transfers(engine: Engine, story: Story) -> None:
    """Sends of alice, each a second after the one before; all expire at the shared second."""
    with engine.begin() as conn:
        watched = {"chain": STELLAR, "address": story.alice, "reason": "test"}
        conn.execute(insert(watched_addresses).values(watched))
        for number, (transfer, receiver) in enumerate(story.receivers.items()):
            terms = make_terms(
                id=transfer,
                owner=StellarAddress(story.alice),
                mechanism="payment",
                source_chain=STELLAR,
                source_address=Address(story.alice),
                source_token=Address(token_contract(USDC)),
                dest_chain=STELLAR,
                dest_address=Address(receiver),
                amount_in=BaseUnits((5, 5, 7, 11)[number] * UNIT),
                deposit_address=None,
                started_at=UnixSeconds(story.second - 60 + number),
                expires_at=UnixSeconds(story.second),
            )
            ask(conn, terms)


@dataclass
class Followed:
    """What a warehouse held after each range, and at the end."""

    early: dict[int, str]
    """Ledger → status of the order that expires at the shared second."""
    stages: dict[int, dict[str, str]]
    """Ledger → stage by transfer."""
    book: dict[str, list[Any]]
    transfers: list[Any]
    """Rows of `projections.transfer_states`."""


def follow(engine: Engine, story: Story, size: int) -> Followed:
    """Bring in the chain in ranges of `size` ledgers, the keeper's turn after each."""
    early: dict[int, str] = {}
    stages: dict[int, dict[str, str]] = {}
    known = select(orders.c.status).where(orders.c.order_id == "0x" + story.orders["early"])
    stages_query = select(transfer_states.c.transfer, transfer_states.c.stage)
    with reading(story.market) as reader, engine.connect() as conn:
        while (progress := ingest_once(engine, reader, NETWORK, max_blocks=size)) is not None:
            catch_up(conn, NETWORK)
            with conn.begin():
                early[progress.height] = str(conn.scalar(known))
                stages[progress.height] = {
                    row.transfer: row.stage for row in conn.execute(stages_query)
                }
        with conn.begin():
            # The database's clock says when a row changed.
            columns = [each for each in transfer_states.c if each.name != "changed_at"]
            rows = list(conn.execute(select(*columns).order_by("transfer")))
            return Followed(early, stages, dump(conn), rows)


def test_any_range_size_and_rebuild_give_the_same_rows(
    story: Story, clone: Callable[[], URL]
) -> None:
    found = []
    for size in (1, 7, 200):
        with engines(clone) as (engine, api):
            request_transfers(api, story)
            found.append(follow(engine, story, size))
            assert differences(engine, NETWORK) == []
    assert found[0].book == found[1].book == found[2].book
    # The database's clock says when one expired.
    done = [[row for row in each.transfers if row.stage == "COMPLETED"] for each in found]
    assert done[0] == done[1] == done[2]
    assert len(done[0]) == 3


def test_orders_and_transfers_end_at_their_second(story: Story, clone: Callable[[], URL]) -> None:
    with engines(clone) as (engine, api):
        request_transfers(api, story)
        followed = follow(engine, story, 1)
        shown = Screen(story.market, engine, api).look()
        with engine.connect() as conn:
            shared = conn.execute(
                select(blocks.c.height, blocks.c.close_time_ms)
                .where(blocks.c.chain == STELLAR, blocks.c.time == story.second)
                .order_by(blocks.c.height)
            ).all()
            as_of = conn.execute(select(book.c.as_of_ledger, book.c.as_of)).one()
    begin = story.last_of_second - LEDGERS + 1
    assert [tuple(row) for row in shared] == [
        (begin + number, story.second * 1000 + number * STEP_MS) for number in range(LEDGERS)
    ]
    latest = story.market.chain.node.latest
    assert tuple(as_of) == (latest.sequence, story.second + 1)

    # At `expires_at` itself an order is active, in each of the ledgers of that second.
    in_second = range(begin, story.last_of_second + 1)
    assert {followed.early[ledger] for ledger in in_second} == {"active"}
    assert followed.early[story.last_of_second + 1] == "expired"
    by_id = {row["order_id"].removeprefix("0x"): row for row in shown.rows["orders"]}
    ends = {
        name: tuple(by_id[order][column] for column in ("status", "created_at", "ended_at"))
        for name, order in story.orders.items()
    }
    second = story.second
    assert ends == {
        "early": ("expired", second - ORDER_TTL, second + 1),
        "settled": ("fulfilled", second, second),
        "cancelled": ("cancelled", second, second),
        "active": ("active", second, None),
    }
    # 500 deposited, 20 released, 15 locked: the expired order's 40 are free again.
    assert (shown.provider["availableUsdc"], shown.provider["lockedUsdc"]) == ("465", "15")

    # What is paid in the last ledger of the second is in time, so nothing expires before it.
    unpaid = {followed.stages[ledger].get("d" * 32) for ledger in in_second}
    assert unpaid <= {None, "AWAITING_SIGNATURE"}
    final = {row.transfer: row for row in followed.transfers}
    assert {transfer: row.stage for transfer, row in final.items()} == {
        "a" * 32: "COMPLETED",
        "b" * 32: "COMPLETED",
        "c" * 32: "COMPLETED",
        "d" * 32: "EXPIRED",
    }
    assert {name: final[name].stellar_tx for name in story.paid} == story.paid
