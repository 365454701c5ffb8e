"""The demo's scenario: coverage, determinism by seed, and the endless part."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from devnet.scenario import BookStory, PacedClient, Scenario, real_time
from devnet.stellar.genesis import ORDER_TTL
from devnet.supervisor import Supervisor
from devnet.world import Pace, World, remotes_of_stellar, start_world
from tests.factories.stellar_process import StellarProcess

PACE = Pace(ledger_seconds=None, ledger_clock="fixed")


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    with Supervisor(tmp_path / "demo", print) as supervisor:
        yield supervisor


def new_world(supervisor: Supervisor) -> World:
    return start_world(supervisor, evm_port=0, stellar_port=0, pace=PACE)


def new_ledger() -> StellarProcess:
    """The half of a world in which the order book's story plays."""
    return StellarProcess.start(interval=None, clock="fixed", remotes=remotes_of_stellar())


def ignore(_: str) -> None:
    pass


def test_scenario_has_every_order_status_and_transfer_stage(
    supervisor: Supervisor,
) -> None:
    with new_world(supervisor) as world:
        story = Scenario(world, 7, ignore).play()
    orders = story.book.orders.values()
    assert Counter(order["status"] for order in orders) == {
        "active": 3,
        "fulfilled": 5,
        "cancelled": 2,
        "expired": 3,
    }
    assert {order["direction"] for order in orders} == {"onramp", "offramp"}
    assert any("txHash" in order and "nullifier" not in order for order in orders)
    assert len(story.book.providers) >= 4
    stages = Counter((each.mechanism, each.stage) for each in story.movements)
    assert stages == {
        ("cctp", "COMPLETED"): 3,
        ("cctp", "ATTESTING"): 1,
        ("oft", "COMPLETED"): 2,
        ("oft", "DELIVERING"): 1,
        ("oft", "IN_FLIGHT"): 1,
    }


def test_seed_determines_amounts_and_ids() -> None:
    books = []
    for seed in (7, 7, 8):
        with new_ledger() as process, PacedClient(process.url, real_time) as client:
            story = BookStory(client, random.Random(seed), ignore)
            story.play()
            books.append(story.deeds.expected(0, client.close_time()).orders)
    amounts = [{key: order["amountUsdc"] for key, order in book.items()} for book in books]
    assert amounts[0] == amounts[1]
    assert amounts[0] != amounts[2]


# Hundreds of ledgers: how long they take says how busy the machine is. Each request has its own
# timeout, so that one which is stuck fails.
@pytest.mark.timeout(0)
def test_endless_scenario_outlasts_balances_and_open_orders() -> None:
    with new_ledger() as process, PacedClient(process.url, real_time) as client:
        book = BookStory(client, random.Random(7), ignore)
        book.play()
        client.next_close = lambda last: last + 10_000
        for _ in range(150):
            book.ordinary_day()
            client.close_ledger(close_time_ms=client.close_time_ms() + ORDER_TTL * 1000 // 5)
        statuses = book.deeds.expected(0, client.close_time()).orders.values()
    assert Counter(order["status"] for order in statuses)["fulfilled"] > 80
