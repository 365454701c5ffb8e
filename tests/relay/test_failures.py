"""Failures at a node or in a block do not delay other jobs."""

from functools import partial
from typing import Any

import pytest

from indexer.chains.evm.account_state import EvmAccountNodes
from indexer.errors import NodeUnavailable
from relay.account import AccountRelay, TurnReport
from relay.failures import (
    FAILING_PAUSE_SECONDS,
    MAX_FAILURES,
    FailedRun,
    reset_failures,
    slots_allowed,
)
from relay.status import relay_problems
from tests.relay.conftest import AMOUNT, Message, Stand
from warehouse_schema.identifiers import ChainId, EvmAddress, Wei

# Jobs that nodes reject.


class Choosy(EvmAccountNodes):
    """Nodes that reject one call with an unknown error."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.unwanted = b""

    def estimate_gas(self, account: EvmAddress, to: EvmAddress, data: bytes, value: Wei) -> int:
        self._refuse(data)
        return super().estimate_gas(account, to, data, value)

    def send(self, raw: bytes) -> str:
        self._refuse(raw)
        return super().send(raw)

    def _refuse(self, raw: bytes) -> None:
        if self.unwanted and self.unwanted in raw:
            raise NodeUnavailable("max fee per gas less than block base fee")


def choosy(stand: Stand) -> tuple[Choosy, AccountRelay[Any]]:
    """The nodes, and a relay that uses them."""
    made: list[Choosy] = []

    class Kept(Choosy):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            made.append(self)

    relay = stand.relay(nodes=Kept)
    return made[0], relay


def test_rejected_bid_is_replaced_and_delays_no_other_slot(stand: Stand):
    stand.devnet.rpc("evm_setAutomine", False)
    first, second = stand.add_message(), stand.add_message()
    nodes, relay = choosy(stand)
    nodes.unwanted = bytes.fromhex(first.nonce[2:])
    nodes.estimate_gas = partial(EvmAccountNodes.estimate_gas, nodes)  # type: ignore[method-assign]
    with pytest.raises(NodeUnavailable):
        stand.turns(relay)
    assert stand.turns(relay) == TurnReport(sent=1), "the other one"
    stand.age_attempts(120)
    nodes.unwanted = b""
    assert stand.turns(relay).replaced == 1
    stand.devnet.rpc("evm_setAutomine", True)
    stand.devnet.rpc("evm_mine")
    for _ in range(2):
        stand.turns(relay)
        stand.ingest()
    assert [stand.received(each) for each in (first, second)] == [AMOUNT] * 2
    assert stand.nonce() == 2


def test_job_that_nodes_cannot_simulate_delays_no_other(stand: Stand):
    first, second = stand.add_message(), stand.add_message()
    nodes, relay = choosy(stand)
    nodes.unwanted = bytes.fromhex(first.nonce[2:])
    with pytest.raises(NodeUnavailable):
        stand.turns(relay)
    assert stand.turns(relay).opened == 1
    assert (stand.received(first), stand.received(second)) == (0, AMOUNT)


# Failures in a block.


def fail(stand: Stand) -> None:
    """Include all that was sent, without effect."""
    transmitter = stand.devnet.addresses.message_transmitter
    code = stand.devnet.rpc("eth_getCode", transmitter, "latest")
    stand.devnet.rpc("anvil_setCode", transmitter, "0x60006000fd")
    stand.devnet.rpc("evm_mine")
    stand.devnet.rpc("anvil_setCode", transmitter, code)
    stand.ingest()


def test_job_is_given_up_after_max_failures(stand: Stand):
    # The recipient can cause this by a transaction in the same block.
    message = given_up(stand)
    turn = stand.turns(stand.relay())
    assert f"failed {MAX_FAILURES} times" in turn.refused[0]
    with stand.relay_engine.connect() as conn:
        [complaint] = relay_problems(conn)
    assert f"deliver of {message.nonce[2:34]} failed {MAX_FAILURES} times" in complaint
    assert f"reset-failures {stand.chain.id} {message.nonce[2:34]}" in complaint
    other = stand.add_message()
    assert stand.turns(stand.relay()).opened == 1
    assert (stand.received(message), stand.received(other)) == (0, AMOUNT)


def test_reset_failures_retries_given_up_job(stand: Stand):
    message, other = given_up(stand), stand.message()
    with stand.relay_engine.begin() as conn:
        assert reset_failures(conn, stand.chain.id, other.nonce[2:34]) == 0, "another transfer's"
        assert reset_failures(conn, ChainId("eip155:10"), None) == 0, "another chain's"
    stand.turns(stand.relay())
    assert stand.received(message) == 0
    with stand.relay_engine.begin() as conn:
        assert reset_failures(conn, stand.chain.id, message.nonce[2:34]) == 1
        assert relay_problems(conn) == []
    with stand.relay_engine.begin() as conn:
        assert reset_failures(conn, stand.chain.id, message.nonce[2:34]) == 0, "it goes on already"
    for _ in range(2):
        stand.turns(stand.relay())
        stand.ingest()
    assert stand.slots_of(message)[-1] == (MAX_FAILURES, "confirmed")
    assert stand.received(message) == AMOUNT


def test_reset_job_fails_max_failures_times_again(stand: Stand):
    message = given_up(stand)
    with stand.relay_engine.begin() as conn:
        assert reset_failures(conn, stand.chain.id, None) == 1
    fail_each_time(stand)
    assert [outcome for _, outcome in stand.slots_of(message)] == ["reverted"] * 2 * MAX_FAILURES
    assert stand.turns(stand.relay()).opened == 0


def test_reset_signs_nothing_for_open_slot(stand: Stand):
    message, relay = given_up(stand), stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    for _ in range(2):
        with stand.relay_engine.begin() as conn:
            reset_failures(conn, stand.chain.id, None)
        stand.turns(relay)
    assert [outcome for _, outcome in stand.slots_of(message)] == ["reverted"] * MAX_FAILURES + [
        None
    ]
    assert len(stand.signed_for(message)) == MAX_FAILURES + 1


def given_up(stand: Stand) -> Message:
    """A job that failed too often."""
    message = stand.add_message()
    fail_each_time(stand)
    assert [outcome for _, outcome in stand.slots_of(message)] == ["reverted"] * MAX_FAILURES
    return message


def fail_each_time(stand: Stand) -> None:
    """Every attempt fails, in a new process each time."""
    stand.devnet.rpc("evm_setAutomine", False)
    for _ in range(MAX_FAILURES):
        assert stand.turns(stand.relay()).sent == 1
        fail(stand)
        assert stand.turns(stand.relay()).failed == 1
        stand.age_slots()
    stand.devnet.rpc("evm_setAutomine", True)


def test_failing_recipients_do_not_stop_the_account(stand: Stand):
    messages, relay = [stand.add_message() for _ in range(MAX_FAILURES)], stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(relay)
    fail(stand)
    assert stand.turns(relay).failed == MAX_FAILURES
    stand.devnet.rpc("evm_setAutomine", True)
    others = [stand.add_message(), stand.add_message()]
    assert stand.health().well, "routes stay available"
    with stand.relay_engine.connect() as conn:
        assert "the last 3 jobs were included without effect" in relay_problems(conn)[0]
    assert stand.turns(relay).opened == 0, "a pause"
    stand.age_slots(int(FAILING_PAUSE_SECONDS) * (MAX_FAILURES + 1))
    # One by one until a success, without a resume.
    assert stand.turns(stand.relay()).opened == 1
    assert stand.turns(stand.relay()).opened == 0
    stand.ingest()
    stand.turns(stand.relay())
    stand.ingest()
    stand.age_slots()
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
