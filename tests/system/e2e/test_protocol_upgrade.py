"""The Stellar chain upgrades from Protocol 28 to 29 to 30 while the follower runs."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.engine import URL
from stellar_sdk import scval, xdr

from devnet.stellar.accounts import USDC
from devnet.stellar.asset_events import token_contract
from devnet.stellar.genesis import Genesis
from devnet.stellar.node import Node, fixed_clock
from devnet.stellar.protocol30 import MuxedContract
from devnet.stellar.registry import unwired
from indexer.facts.cursors import read_cursor
from indexer.ingest.follow import follow
from indexer.ingest.rebuild import differences
from tests.devnet.stellar.chain import UNIT, Chain
from tests.devnet.stellar.market import Market
from tests.factories.book_stand import NETWORK, Screen, reading
from warehouse_schema.engine import make_engine
from warehouse_schema.facts import blocks

STELLAR = NETWORK.stellar.id


@contextmanager
def following(engine: Engine, market: Market) -> Iterator[None]:
    """The follower of the market's chain in a thread; what it raises is raised."""
    stop = Event()
    with reading(market) as reader, ThreadPoolExecutor(1) as pool:
        follower = pool.submit(
            lambda: follow(
                engine,
                reader,
                NETWORK,
                should_stop=stop.is_set,
                on_progress=lambda progress: None,
            )
        )
        try:
            yield
        finally:
            stop.set()
        follower.result()


def await_ingested(engine: Engine, market: Market) -> None:
    """Until the cursor stands at the newest ledger; the test's timeout bounds it."""
    latest = market.chain.node.latest
    while True:
        with engine.connect() as conn:
            cursor = read_cursor(conn, STELLAR)
        if cursor is not None and cursor.height >= latest.sequence:
            assert cursor.block_hash == latest.hash
            return
        time.sleep(0.05)


@pytest.mark.timeout(600)
def test_follower_continues_through_both_upgrades(database: URL) -> None:
    market = Market(chain=Chain(node=Node(Genesis(unwired(), protocol=28), clock=fixed_clock)))
    node, alice = market.chain.node, market.chain.open("alice", usdc=10 * UNIT)
    engine, api = make_engine(database, role="indexer"), make_engine(database, role="api")
    with following(engine, market):
        market.deposit(100)
        market.set_terms(rail="venmo", rate=1.02, minimum=10, maximum=50)
        market.set_payee("venmo")
        await_ingested(engine, market)
        boundaries = []
        for protocol in (29, 30):
            node.upgrade(protocol)
            market.open(10)
            boundaries.append(node.latest.sequence)
            await_ingested(engine, market)
        closed = market.open(20)
        node.close_ledger(close_time_ms=node.latest.close_time_ms + 1, without_set=True)
        muxed = xdr.SCVal(xdr.SCValType.SCV_ADDRESS, address=MuxedContract(b"\x07" * 32, 9))
        arguments = [scval.to_address(alice.public_key), muxed, scval.to_int128(UNIT)]
        market.chain.invoke(alice, token_contract(USDC), "transfer", *arguments)
        market.fulfill(closed, 20 * UNIT)
        await_ingested(engine, market)
    with engine.connect() as conn:
        query = select(blocks.c.height, blocks.c.protocol_version, blocks.c.close_time_ms)
        read = conn.execute(query.where(blocks.c.chain == STELLAR).order_by(blocks.c.height)).all()
    assert {row.protocol_version for row in read} == {28, 29, 30}
    for row in read:
        ledger = node.ledger(row.height)
        assert row.protocol_version == ledger.protocol
        expected = ledger.close_time_ms if row.height > boundaries[1] else None
        assert row.close_time_ms == expected
    shown = Screen(market, engine, api).look()
    assert (shown.provider["availableUsdc"], shown.provider["lockedUsdc"]) == ("60", "20")
    assert sorted(order["status"] for order in shown.orders.values()) == [
        "active",
        "active",
        "fulfilled",
    ]
    assert differences(engine, NETWORK) == []
    engine.dispose()
    api.dispose()
