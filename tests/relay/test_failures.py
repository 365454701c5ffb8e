"""What fails, at a node or in a block, keeps nothing else waiting for long."""

from functools import partial
from typing import Any

import pytest

from indexer.chains.evm.account_state import EvmAccountNodes
from indexer.errors import NodeUnavailable
from relay import store
from relay.account import (
    FAILING_PAUSE_SECONDS,
    MAX_FAILURES,
    AccountRelay,
    TurnReport,
    slots_allowed,
)
from relay.status import relay_problems
from relay.store import FailedRun
from tests.relay.conftest import AMOUNT, Message, Stand
from warehouse_schema.identifiers import ChainId, EvmAddress

# What no node will have.


class Choosy(EvmAccountNodes):
    """Nodes that will not have one thing, in words that say nothing to us."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.unwanted = b""

    def estimate_gas(self, account: EvmAddress, to: EvmAddress, data: bytes, value: int) -> int:
        self._refuse(data)
        return super().estimate_gas(account, to, data, value)

    def send(self, raw: bytes) -> str:
        self._refuse(raw)
        return super().send(raw)

    def _refuse(self, raw: bytes) -> None:
        if self.unwanted and self.unwanted in raw:
            raise NodeUnavailable("max fee per gas less than block base fee")


def choosy(stand: Stand) -> tuple[Choosy, AccountRelay[Any]]:
    """The nodes, and an account that asks them."""
    made: list[Choosy] = []

    class Kept(Choosy):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)

    relay = stand.relay(nodes=Kept)
    return made[0], relay


def test_a_bid_that_no_node_takes_is_replaced_and_keeps_no_other_waiting(stand: Stand):
    stand.devnet.rpc("evm_setAutomine", False)
    first, second = stand.owed(), stand.owed()
    nodes, relay = choosy(stand)
    nodes.unwanted = bytes.fromhex(first.nonce[2:])
    nodes.estimate_gas = partial(EvmAccountNodes.estimate_gas, nodes)  # type: ignore[method-assign]
    with pytest.raises(NodeUnavailable):
        stand.turns(relay)
    assert stand.turns(relay) == TurnReport(sent=1), "the other one"
    stand.grow_older(120)
    nodes.unwanted = b""
    assert stand.turns(relay).replaced == 1
    stand.devnet.rpc("evm_setAutomine", True)
    stand.devnet.rpc("evm_mine")
    for _ in range(2):
        stand.turns(relay)
        stand.ingest()
    assert [stand.received(each) for each in (first, second)] == [AMOUNT] * 2
    assert stand.nonce() == 2


def test_what_no_node_will_try_keeps_no_other_waiting(stand: Stand):
    first, second = stand.owed(), stand.owed()
    nodes, relay = choosy(stand)
    nodes.unwanted = bytes.fromhex(first.nonce[2:])
    with pytest.raises(NodeUnavailable):
        stand.turns(relay)
    assert stand.turns(relay).opened == 1
    assert (stand.received(first), stand.received(second)) == (0, AMOUNT)


# What fails in a block.


def fail(stand: Stand) -> None:
    """All that was sent is included and has no effect."""
    transmitter = stand.devnet.addresses.message_transmitter
    code = stand.devnet.rpc("eth_getCode", transmitter, "latest")
    stand.devnet.rpc("anvil_setCode", transmitter, "0x60006000fd")
    stand.devnet.rpc("evm_mine")
    stand.devnet.rpc("anvil_setCode", transmitter, code)
    stand.ingest()


def test_what_fails_again_and_again_is_let_be_and_stops_nothing_else(stand: Stand):
    # Its recipient may be who makes it fail, by what he does in the same ledger.
    message = given_up(stand)
    turn = stand.turns(stand.relay())
    assert f"failed {MAX_FAILURES} times" in turn.refused[0]
    with stand.relay_engine.connect() as conn:
        [complaint] = relay_problems(conn)
    assert f"deliver of {message.nonce[2:34]} failed {MAX_FAILURES} times" in complaint
    assert f"resume {stand.chain.id} {message.nonce[2:34]}" in complaint
    other = stand.owed()
    assert stand.turns(stand.relay()).opened == 1
    assert (stand.received(message), stand.received(other)) == (0, AMOUNT)


def test_what_was_let_be_is_tried_again_once_an_operator_says_so(stand: Stand):
    message, other = given_up(stand), stand.message()
    with stand.relay_engine.begin() as conn:
        assert store.reset_failures(conn, stand.chain.id, other.nonce[2:34]) == 0, (
            "another transfer's"
        )
        assert store.reset_failures(conn, ChainId("eip155:10"), None) == 0, "another chain's"
    stand.turns(stand.relay())
    assert stand.received(message) == 0
    with stand.relay_engine.begin() as conn:
        assert store.reset_failures(conn, stand.chain.id, message.nonce[2:34]) == 1
        assert relay_problems(conn) == []
    with stand.relay_engine.begin() as conn:
        assert store.reset_failures(conn, stand.chain.id, message.nonce[2:34]) == 0, (
            "it goes on already"
        )
    for _ in range(2):
        stand.turns(stand.relay())
        stand.ingest()
    assert stand.slots_of(message)[-1] == (MAX_FAILURES, "done")
    assert stand.received(message) == AMOUNT


def test_who_is_let_go_on_fails_as_often_as_before_and_no_more(stand: Stand):
    message = given_up(stand)
    with stand.relay_engine.begin() as conn:
        assert store.reset_failures(conn, stand.chain.id, None) == 1
    fail_each_time(stand)
    assert [outcome for _, outcome in stand.slots_of(message)] == ["failed"] * 2 * MAX_FAILURES
    assert stand.turns(stand.relay()).opened == 0


def test_a_pardon_signs_nothing_anew_for_what_may_still_land(stand: Stand):
    message, relay = given_up(stand), stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    for _ in range(2):
        with stand.relay_engine.begin() as conn:
            store.reset_failures(conn, stand.chain.id, None)
        stand.turns(relay)
    assert [outcome for _, outcome in stand.slots_of(message)] == ["failed"] * MAX_FAILURES + [None]
    assert len(stand.signed_for(message)) == MAX_FAILURES + 1


def given_up(stand: Stand) -> Message:
    """What has failed too often."""
    message = stand.owed()
    fail_each_time(stand)
    assert [outcome for _, outcome in stand.slots_of(message)] == ["failed"] * MAX_FAILURES
    return message


def fail_each_time(stand: Stand) -> None:
    """What is owed fails as often as it is sent, by processes that begin each time."""
    stand.devnet.rpc("evm_setAutomine", False)
    for _ in range(MAX_FAILURES):
        assert stand.turns(stand.relay()).sent == 1
        fail(stand)
        assert stand.turns(stand.relay()).failed == 1
        stand.outwait()
    stand.devnet.rpc("evm_setAutomine", True)


def test_failing_recipients_do_not_stop_the_account(stand: Stand):
    messages, relay = [stand.owed() for _ in range(MAX_FAILURES)], stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(relay)
    fail(stand)
    assert stand.turns(relay).failed == MAX_FAILURES
    stand.devnet.rpc("evm_setAutomine", True)
    others = [stand.owed(), stand.owed()]
    assert stand.health().well, "routes stay available"
    with stand.relay_engine.connect() as conn:
        assert (
            "the last 3 things to be done were included and had no effect"
            in relay_problems(conn)[0]
        )
    assert stand.turns(relay).opened == 0, "a pause"
    stand.outwait(int(FAILING_PAUSE_SECONDS) * (MAX_FAILURES + 1))
    # One by one, until one has its effect: nobody had to resume.
    assert stand.turns(stand.relay()).opened == 1
    assert stand.turns(stand.relay()).opened == 0
    stand.ingest()
    stand.turns(stand.relay())
    stand.ingest()
    stand.outwait()
    stand.turns(stand.relay())
    assert [stand.received(each) for each in (*messages, *others)] == [AMOUNT] * 5
    with stand.relay_engine.connect() as conn:
        assert relay_problems(conn) == []


def test_account_pauses_longer_with_each_further_failure(stand: Stand):
    def allowed(things: int, last_ago: float, opened_since: int = 0) -> int:
        return slots_allowed(FailedRun(things, last_ago, opened_since), 8)

    assert allowed(2, 0) == 8
    assert [allowed(3, 59), allowed(3, 61), allowed(3, 61, 1), allowed(3, 121, 1)] == [0, 1, 0, 1]
    assert [allowed(4, 119), allowed(4, 121)] == [0, 1]
    assert [allowed(40, 299), allowed(40, 301)] == [0, 1]
