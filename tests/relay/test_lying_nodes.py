"""A node that lies or lags about an account blocks no job for ever and repeats none."""

from collections.abc import Iterator
from typing import Any

import pytest

from indexer.chains.http.operators import NotEnoughSources, SourcesDisagree
from relay.account import AccountRelay, TurnReport
from relay.failures import current_halt
from relay.reconcile import UnrecordedTransactions
from tests.relay.conftest import AMOUNT, RELAYER, Stand
from tests.system.faults.fault import Call, Exchange, Reply, ReplyFault, instead
from tests.system.faults.proxy import FaultyHttp
from tests.system.faults.refusals import ServerError


class NextNonce(ReplyFault):
    """Reports a wrong nonce."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        is_asked = call["method"] == "eth_getTransactionCount"
        return instead(reply, hex(self.count)) if is_asked else reply


class SeesNothing(ReplyFault):
    """Lags at genesis, and withholds transactions."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        match call["method"]:
            case "eth_getTransactionCount" | "eth_blockNumber":
                return instead(reply, "0x0")
            case "eth_getTransactionReceipt":
                return instead(reply, None)
        return reply


class ForeignTransactions(ReplyFault):
    """Reports transactions of blocks as of a type that the relay never signs, by another hash."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_getBlockByNumber" or not call["params"][1]:
            return reply
        block = dict(reply["result"])
        false = {"type": "0x0", "hash": "0x" + "1" * 64}
        block["transactions"] = [each | false for each in block["transactions"]]
        return instead(reply, block)


class Swallows(ReplyFault):
    """Withholds transactions."""

    def respond(self, exchange: Exchange) -> Any:
        if exchange.has("eth_sendRawTransaction"):
            exchange.upstream = lambda calls: [instead(call, None) for call in calls]
        return super().respond(exchange)

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        is_sent = call["method"] == "eth_sendRawTransaction"
        return instead(reply, "0x" + "1" * 64) if is_sent else reply


class Included(ReplyFault):
    """Reports every transaction in a block that does not exist."""

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
    """Nodes of two operators."""
    first, second = (FaultyHttp(stand.url, host=f"127.0.0.{n}") for n in (2, 3))
    yield first, second
    for each in (first, second):
        each.close()


def relay_of(stand: Stand, *nodes: FaultyHttp) -> AccountRelay[Any]:
    return stand.relay(urls=[each.url for each in nodes])


def is_stopped(stand: Stand, relay: AccountRelay[Any]) -> bool:
    with stand.relay_engine.begin() as conn:
        return current_halt(conn, relay.account) is not None


def settle(stand: Stand, relay: AccountRelay[Any]) -> None:
    for _ in range(3):
        stand.age_attempts(25)
        stand.turns(relay)
        stand.ingest()


def test_first_number_needs_two_operators(stand: Stand, nodes):
    message, liar = stand.add_message(), nodes[0]
    with liar.faulty(NextNonce(1000)), pytest.raises(SourcesDisagree, match="1000 and 0"):
        stand.turns(relay_of(stand, *nodes))
    with liar.faulty(ServerError()), pytest.raises(NotEnoughSources):
        stand.turns(relay_of(stand, *nodes))
    assert stand.slots_of(message) == []
    settle(stand, relay_of(stand, *nodes))
    assert stand.slots_of(message) == [(0, "confirmed")]


@pytest.mark.parametrize(("operators", "count"), [(1, 0), (2, 0), (2, 1000)])
def test_one_operator_cannot_move_the_next_number(stand: Stand, nodes, operators, count):
    stand.add_message()
    settle(stand, relay_of(stand, *nodes))
    message = stand.add_message()
    with nodes[0].faulty(NextNonce(count)):
        relay = relay_of(stand, *nodes[:operators])
        assert stand.turns(relay).opened == 1
    assert [number for number, _ in stand.slots_of(message)] == [1]
    settle(stand, relay_of(stand, *nodes))
    assert (stand.slots_of(message), stand.received(message)) == ([(1, "confirmed")], AMOUNT)


def test_word_of_a_single_operator_stops_signing(stand: Stand, nodes):
    stand.add_message()
    settle(stand, relay_of(stand, *nodes))
    message = stand.add_message()
    relay = relay_of(stand, nodes[0])
    with nodes[0].faulty(NextNonce(1000)), pytest.raises(UnrecordedTransactions, match="1 to 999"):
        stand.turns(relay)
    settle(stand, relay)
    assert stand.slots_of(message) == [(1, "confirmed")]


def test_numbers_used_elsewhere_are_skipped_once_recorded(stand: Stand, nodes):
    relay = relay_of(stand, *nodes)
    stand.add_message()
    settle(stand, relay)
    for _ in range(2):
        stand.devnet.send(RELAYER, RELAYER.address, b"")
    message = stand.add_message()
    with pytest.raises(UnrecordedTransactions, match="1 to 2"):
        stand.turns(relay)
    stand.ingest()
    with stand.relay_engine.connect() as conn:
        assert [each.outcome for each in relay.reconcile(conn)] == ["replaced", "replaced"]
    settle(stand, relay)
    assert stand.slots_of(message) == [(3, "confirmed")]


def test_one_node_cannot_pass_off_our_transaction_as_foreign(stand: Stand, nodes):
    relay = relay_of(stand, *nodes)
    stand.add_message()
    settle(stand, relay)
    stand.devnet.send(RELAYER, RELAYER.address, b"")
    stand.ingest()
    with stand.relay_engine.connect() as conn:
        with nodes[0].faulty(ForeignTransactions()), pytest.raises(SourcesDisagree, match="nonce"):
            relay.reconcile(conn)
        assert [each.outcome for each in relay.reconcile(conn)] == ["replaced"]


@pytest.mark.parametrize(
    "lie", [NextNonce(1000), NextNonce(0), SeesNothing(), Swallows(), Included()]
)
@pytest.mark.parametrize("liar", [0, 1])
def test_one_lying_node_neither_blocks_nor_closes_a_slot(stand: Stand, nodes, lie, liar):
    relay = relay_of(stand, *nodes)
    stand.devnet.rpc("evm_setAutomine", False)
    message = stand.add_message()
    stand.turns(relay)
    stand.devnet.rpc("anvil_dropTransaction", stand.signed_for(message)[0])
    stand.devnet.rpc("evm_setAutomine", True)
    with nodes[liar].faulty(lie):
        for _ in range(3):
            stand.age_attempts(25)
            stand.turns(relay)
            stand.ingest()
            assert [number for number, _ in stand.slots_of(message)] == [0]
        assert not is_stopped(stand, relay)
        assert stand.received(message) == AMOUNT, "one of two nodes brought it to the chain"
    settle(stand, relay)
    assert stand.slots_of(message) == [(0, "confirmed")]
    assert not is_stopped(stand, relay)


def test_underpriced_attempt_is_replaced_while_a_node_lags(stand: Stand, nodes):
    relay = relay_of(stand, *nodes)
    stand.add_message()
    settle(stand, relay)
    stand.devnet.rpc("evm_setAutomine", False)
    stand.add_message()
    stand.turns(relay)
    stand.age_attempts(120)
    with nodes[0].faulty(SeesNothing()):
        assert stand.turns(relay).replaced == 1


def test_taken_nonce_needs_two_operators(stand: Stand, nodes):
    relay = relay_of(stand, *nodes)
    stand.devnet.rpc("evm_setAutomine", False)
    message = stand.add_message()
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
    assert stand.slots_of(message) == [(0, "nonce_taken")]
    assert is_stopped(stand, relay)
