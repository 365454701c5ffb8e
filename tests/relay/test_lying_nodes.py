"""A node that lies or lags about an account of ours: nothing stops for good, or is done twice."""

from collections.abc import Iterator
from typing import Any

import pytest

from indexer.chains.http.operators import NotEnoughSources, SourcesDisagree
from relay import store
from relay.account import AccountRelay, TurnReport
from tests.relay.conftest import AMOUNT, RELAYER, Stand
from tests.system.faults.fault import Call, Exchange, Reply, ReplyFault, instead
from tests.system.faults.proxy import FaultyHttp
from tests.system.faults.refusals import ServerError


class NextNonce(ReplyFault):
    """Says another count of an account's transactions."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        is_asked = call["method"] == "eth_getTransactionCount"
        return instead(reply, hex(self.count)) if is_asked else reply


class SeesNothing(ReplyFault):
    """Stays where the chain began, and keeps to itself what it is given."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        match call["method"]:
            case "eth_getTransactionCount" | "eth_blockNumber":
                return instead(reply, "0x0")
            case "eth_getTransactionReceipt":
                return instead(reply, None)
        return reply


class Swallows(ReplyFault):
    """Takes transactions and tells nobody."""

    def respond(self, exchange: Exchange) -> Any:
        if exchange.has("eth_sendRawTransaction"):
            exchange.upstream = lambda calls: [instead(call, None) for call in calls]
        return super().respond(exchange)

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        is_sent = call["method"] == "eth_sendRawTransaction"
        return instead(reply, "0x" + "1" * 64) if is_sent else reply


class Included(ReplyFault):
    """Says of every transaction that a block has it, where there is none such."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_getTransactionReceipt":
            return reply
        receipt = {
            "transactionHash": call["params"][0],
            "blockNumber": "0x0",
            "blockHash": exchange.ask("eth_getBlockByNumber", "0x0", False)["hash"],
            "status": "0x1",
            "gasUsed": "0x5208",
            "effectiveGasPrice": "0x1",
        }
        return instead(reply, receipt)


@pytest.fixture
def nodes(stand: Stand) -> Iterator[tuple[FaultyHttp, FaultyHttp]]:
    """Of two operators, of the same chain."""
    first, second = (FaultyHttp(stand.url, host=f"127.0.0.{n}") for n in (2, 3))
    yield first, second
    for each in (first, second):
        each.close()


def relay_of(stand: Stand, *nodes: FaultyHttp) -> AccountRelay[Any]:
    return stand.relay(urls=[each.url for each in nodes])


def is_stopped(stand: Stand, relay: AccountRelay[Any]) -> bool:
    with stand.relay_engine.begin() as conn:
        return store.current_halt(conn, relay.account) is not None


def settle(stand: Stand, relay: AccountRelay[Any]) -> None:
    for _ in range(3):
        stand.grow_older(25)
        stand.turns(relay)
        stand.ingest()


def test_a_first_number_is_signed_only_as_two_operators_say_it(stand: Stand, nodes):
    message, liar = stand.owed(), nodes[0]
    with liar.faulty(NextNonce(1000)), pytest.raises(SourcesDisagree, match="1000 and 0"):
        stand.turns(relay_of(stand, *nodes))
    with liar.faulty(ServerError()), pytest.raises(NotEnoughSources):
        stand.turns(relay_of(stand, *nodes))
    assert stand.slots_of(message) == []
    settle(stand, relay_of(stand, *nodes))
    assert stand.slots_of(message) == [(0, "done")]


@pytest.mark.parametrize("count", [0, 1000])
@pytest.mark.parametrize("operators", [1, 2])
def test_after_our_own_numbers_one_word_moves_the_next_nowhere(
    stand: Stand, nodes, operators, count
):
    stand.owed()
    settle(stand, relay_of(stand, *nodes))
    message = stand.owed()
    with nodes[0].faulty(NextNonce(count)):
        relay = relay_of(stand, *nodes[:operators])
        assert stand.turns(relay).opened == 1
    assert [number for number, _ in stand.slots_of(message)] == [1]
    settle(stand, relay_of(stand, *nodes))
    assert (stand.slots_of(message), stand.received(message)) == ([(1, "done")], AMOUNT)


def test_numbers_that_two_operators_say_are_used_are_passed_over(stand: Stand, nodes):
    relay = relay_of(stand, *nodes)
    stand.owed()
    settle(stand, relay)
    for _ in range(2):
        stand.devnet.send(RELAYER, RELAYER.address, b"")
    message = stand.owed()
    settle(stand, relay)
    assert stand.slots_of(message) == [(3, "done")]


@pytest.mark.parametrize(
    "lie", [NextNonce(1000), NextNonce(0), SeesNothing(), Swallows(), Included()]
)
@pytest.mark.parametrize("liar", [0, 1])
def test_one_node_neither_stops_what_is_under_way_nor_calls_it_over(stand: Stand, nodes, lie, liar):
    relay = relay_of(stand, *nodes)
    stand.devnet.rpc("evm_setAutomine", False)
    message = stand.owed()
    stand.turns(relay)
    stand.devnet.rpc("anvil_dropTransaction", stand.signed_for(message)[0])
    stand.devnet.rpc("evm_setAutomine", True)
    with nodes[liar].faulty(lie):
        for _ in range(3):
            stand.grow_older(25)
            stand.turns(relay)
            stand.ingest()
            assert [number for number, _ in stand.slots_of(message)] == [0]
        assert not is_stopped(stand, relay)
        assert stand.received(message) == AMOUNT, "one of two nodes brought it to the chain"
    settle(stand, relay)
    assert stand.slots_of(message) == [(0, "done")]
    assert not is_stopped(stand, relay)


def test_what_waits_for_its_fee_is_replaced_also_while_a_node_lags(stand: Stand, nodes):
    relay = relay_of(stand, *nodes)
    stand.owed()
    settle(stand, relay)
    stand.devnet.rpc("evm_setAutomine", False)
    stand.owed()
    stand.turns(relay)
    stand.grow_older(120)
    with nodes[0].faulty(SeesNothing()):
        assert stand.turns(relay).replaced == 1


def test_that_somebody_else_has_our_number_is_believed_of_two(stand: Stand, nodes):
    relay = relay_of(stand, *nodes)
    stand.devnet.rpc("evm_setAutomine", False)
    message = stand.owed()
    stand.turns(relay)
    stand.devnet.rpc("anvil_dropTransaction", stand.signed_for(message)[0])
    stand.devnet.rpc("evm_setAutomine", True)
    stand.devnet.send(RELAYER, RELAYER.address, b"")
    stand.ingest()
    with nodes[1].faulty(NextNonce(0)):
        stand.turns(relay)
        assert stand.slots_of(message) == [(0, None)]
    with nodes[1].faulty(ServerError()):
        assert stand.turns(relay) == TurnReport()
        assert stand.slots_of(message) == [(0, None)]
    relay = relay_of(stand, *nodes)
    stand.turns(relay)
    assert stand.slots_of(message) == [(0, "overtaken")]
    assert is_stopped(stand, relay)
