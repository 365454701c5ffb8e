"""Attested messages are delivered on an EVM chain: once, for one fee, whatever else happens."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from sqlalchemy import Engine, update

from devnet.evm import dev_account
from indexer.chains.evm.account_state import EvmAccountNodes
from indexer.errors import FollowerConflict, NodeUnavailable
from relay import store
from relay.account import AccountRelay, TurnReport
from relay.jobs.cctp_deliveries import EvmDeliveries
from relay.senders.evm import MAX_OPEN
from tests.factories.projections import address
from tests.factories.relay import owe, signed
from tests.relay.bomb import Bomb, Killed, evm_nodes
from tests.relay.conftest import AMOUNT, EVM, LIMITS, RELAYER, Stand
from warehouse_schema.intake import transfers


def settle(stand: Stand, relay: AccountRelay) -> None:
    """Turns until everything is final."""
    for _ in range(3):
        stand.turns(relay)
        stand.ingest()


def test_an_attested_message_is_delivered_and_closed_when_it_is_final(stand: Stand):
    message, relay = stand.owed(), stand.relay()
    turn = stand.turns(relay)
    assert (turn.opened, turn.sent, turn.refused) == (1, 1, [])
    assert stand.received(message) == AMOUNT
    [(number, outcome)] = stand.slots_of(message)
    assert (number, outcome) == (0, None)
    stand.ingest(final=0)
    assert stand.turns(relay) == TurnReport()
    stand.ingest()
    assert stand.turns(relay).done == 1
    assert stand.slots_of(message) == [(0, "done")]
    # The movement still waits, as far as the warehouse knows.
    assert stand.turns(relay) == TurnReport()
    assert stand.nonce() == 1


def test_what_a_delivery_cost_is_kept(stand: Stand):
    before = int(stand.devnet.rpc("eth_getBalance", RELAYER.address, "latest"), 16)
    stand.owed()
    settle(stand, stand.relay())
    after = int(stand.devnet.rpc("eth_getBalance", RELAYER.address, "latest"), 16)
    row = stand.health()
    assert (row.well, row.balance, row.spent_today, row.open) == (True, after, before - after, 0)


def test_what_somebody_else_delivered_costs_nothing(stand: Stand):
    message = stand.owed()
    stand.deliver(message)
    assert stand.turns(stand.relay()) == TurnReport()
    assert stand.slots_of(message) == []
    assert stand.nonce() == 0


def test_what_somebody_else_delivers_first_is_no_failure_that_is_tried_again(stand: Stand):
    message, relay = stand.owed(), stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(relay)
    stand.devnet.rpc("anvil_dropTransaction", stand.signed_for(message)[0])
    stand.devnet.rpc("evm_setAutomine", True)
    stand.deliver(message)
    stand.grow_older(25)
    assert stand.turns(relay).sent == 1
    stand.ingest()
    assert stand.turns(relay) == TurnReport(late=1)
    assert stand.slots_of(message) == [(0, "late")]
    assert stand.turns(relay) == TurnReport()
    assert (stand.received(message), stand.nonce()) == (AMOUNT, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"is_extra": True, "amount": 10_000},
        {"stage": "ATTESTING"},
        {"stage": "COMPLETED", "dest_tx": "0x" + "d" * 64},
        {"dest_chain": "eip155:10"},
        {"mechanism": "oft"},
    ],
)
def test_what_is_not_owed_is_not_delivered(stand: Stand, changes):
    message = stand.owed(**changes)
    assert stand.turns(stand.relay()) == TurnReport()
    assert stand.slots_of(message) == []


def test_an_extra_that_is_worth_it_is_delivered_too(stand: Stand):
    message = stand.owed(is_extra=True)
    assert stand.turns(stand.relay()).opened == 1
    assert stand.received(message) == AMOUNT


def test_a_message_that_would_revert_is_not_paid_for(stand: Stand):
    message = stand.message()
    forged = replace(message, attestation=message.attestation[:65] + bytes(65))
    with stand.engine.begin() as conn:
        owe(
            *(conn, stand.chain.id, forged.nonce, forged.message, forged.attestation),
            forged.recipient,
            amount=AMOUNT,
        )
    turn = stand.turns(stand.relay())
    assert turn.opened == 0
    assert "revert" in turn.refused[0]
    assert stand.nonce() == 0


def test_many_go_side_by_side_and_no_more_than_may_be_open(stand: Stand):
    messages = [stand.owed() for _ in range(MAX_OPEN + 2)]
    relay = stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    assert stand.turns(relay).opened == MAX_OPEN
    assert stand.turns(relay).opened == 0
    stand.devnet.rpc("evm_setAutomine", True)
    stand.devnet.rpc("evm_mine")
    settle(stand, relay)
    assert [stand.received(each) for each in messages] == [AMOUNT] * len(messages)
    assert [stand.slots_of(each) for each in messages] == [
        [(number, "done")] for number in range(len(messages))
    ]


def test_what_can_never_be_delivered_keeps_nothing_after_it_waiting_for_ever(engine: Engine):
    nonces = [f"0x{number:032x}{number:032x}" for number in range(1, 106)]
    chain, ledger = EVM.id, EvmDeliveries(EVM)
    with engine.begin() as conn:
        for nonce in nonces:
            owe(conn, chain, nonce, b"", b"", "0x" + "5e" * 20, amount=AMOUNT)
        signed(conn, chain, "deliver", nonces[-1][2:34], "0xa", key=nonces[-1])
        seen: set[str] = set()
        for _ in range(30):
            owed = [each.key for each in ledger.owed(conn)]
            assert owed == sorted(owed), "the oldest of them first"
            assert nonces[-1] in owed, "what is under way is always known"
            seen.update(owed)
    assert seen == {*nonces}


def test_nothing_goes_beyond_the_days_budget(stand: Stand):
    first = stand.owed()
    stand.turns(stand.relay())
    reserved, second = stand.health().spent_today, stand.owed()
    turn = stand.turns(stand.relay(limits=replace(LIMITS, budget=reserved + 1)))
    assert turn.opened == 0
    assert f"over the day's budget of {reserved + 1} wei" in turn.refused[0]
    assert (stand.received(first), stand.received(second)) == (AMOUNT, 0)
    stand.turns(stand.relay(limits=replace(LIMITS, budget=reserved)))
    assert stand.health().reason == f"the day's budget of {reserved} wei is used up"


def test_too_little_on_the_account_is_said_and_nothing_is_signed(stand: Stand):
    message = stand.owed()
    stand.devnet.rpc("anvil_setBalance", RELAYER.address, hex(10**9))
    turn = stand.turns(stand.relay())
    assert turn.opened == 0
    assert stand.slots_of(message) == []
    assert "1000000000 wei on the account" in stand.health().reason


# Stuck transactions.


def test_bytes_that_nobody_has_are_sent_again_and_no_others(stand: Stand):
    message, relay = stand.owed(), stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(relay)
    [tx] = stand.signed_for(message)
    stand.devnet.rpc("anvil_dropTransaction", tx)
    assert stand.turns(relay) == TurnReport()
    stand.grow_older(25)
    assert stand.turns(relay) == TurnReport(sent=1)
    stand.devnet.rpc("evm_mine")
    assert stand.signed_for(message) == [tx]
    assert stand.received(message) == AMOUNT


def test_a_stuck_transaction_is_replaced_under_its_number(stand: Stand):
    message, relay = stand.owed(), stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(relay)
    stand.grow_older(120)
    assert stand.turns(relay) == TurnReport(replaced=1, sent=1)
    first, second = stand.signed_for(message)
    stand.devnet.rpc("evm_mine")
    assert stand.devnet.rpc("eth_getTransactionReceipt", first) is None
    assert stand.devnet.rpc("eth_getTransactionReceipt", second)["status"] == "0x1"
    stand.ingest()
    stand.turns(relay)
    assert stand.slots_of(message) == [(0, "done")]


@pytest.mark.parametrize(("more", "replaced"), [(150, 1), (100, 0)])
def test_of_what_has_one_number_the_budget_counts_the_dearest(
    stand: Stand, more: int, replaced: int
):
    message = stand.owed()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(stand.relay())
    stand.grow_older(120)
    reserved = int(stand.health().spent_today)
    turn = stand.turns(stand.relay(limits=replace(LIMITS, budget=reserved * more // 100)))
    assert (turn.replaced, len(stand.signed_for(message))) == (replaced, 1 + replaced)
    assert turn.refused == [] if replaced else "over the day's budget" in turn.refused[0]


def test_a_number_that_nothing_needs_any_more_is_taken_by_a_transaction_of_nothing(stand: Stand):
    message, relay = stand.owed(), stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(relay)
    stand.devnet.rpc("anvil_dropTransaction", stand.signed_for(message)[0])
    stand.devnet.rpc("evm_setAutomine", True)
    stand.deliver(message)
    stand.grow_older(120)
    assert stand.turns(relay) == TurnReport(replaced=1, sent=1)
    stand.ingest()
    stand.turns(relay)
    assert stand.slots_of(message) == [(0, "filled")]
    assert (stand.received(message), stand.nonce()) == (AMOUNT, 1)
    assert stand.health().well


# Reorganisations, and others with our key.


def test_a_delivery_that_its_chain_took_back_is_sent_again(stand: Stand):
    message, relay = stand.owed(), stand.relay()
    snapshot = stand.devnet.rpc("evm_snapshot")
    stand.turns(relay)
    assert stand.received(message) == AMOUNT
    stand.devnet.rpc("evm_revert", snapshot)
    assert stand.received(message) == 0
    stand.grow_older(25)
    assert stand.turns(relay) == TurnReport(sent=1)
    assert stand.received(message) == AMOUNT
    assert len(stand.signed_for(message)) == 1


def test_a_block_that_was_not_ingested_buries_nothing(stand: Stand):
    message, relay = stand.owed(), stand.relay()
    stand.turns(relay)
    stand.ingest()
    with stand.engine.begin() as conn:
        conn.exec_driver_sql("UPDATE facts.blocks SET hash = '0xother' || height")
    assert stand.turns(relay) == TurnReport()
    assert stand.slots_of(message) == [(0, None)]


def test_who_else_signs_with_our_key_stops_the_account(stand: Stand):
    message, relay = stand.owed(), stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(relay)
    stand.devnet.rpc("anvil_dropTransaction", stand.signed_for(message)[0])
    stand.devnet.rpc("evm_setAutomine", True)
    stand.devnet.send(RELAYER, dev_account(5).address, b"")
    assert stand.turns(relay) == TurnReport(), "not before it is final"
    stand.ingest()
    assert stand.turns(relay).failed == 1
    assert stand.slots_of(message) == [(0, "overtaken")]
    assert "somebody else signs" in stand.health().reason
    assert stand.turns(relay) == TurnReport()
    with stand.relay_engine.begin() as conn:
        assert store.resume_accounts(conn, stand.chain.id) == 1
    assert stand.turns(relay).opened == 1
    assert stand.received(message) == AMOUNT


def test_one_process_signs_for_an_account(stand: Stand):
    relay = stand.relay()
    with (
        store.account_session(stand.relay_engine, relay.account),
        pytest.raises(FollowerConflict, match="another process signs"),
    ):
        stand.turns(stand.relay())


# Crashes.


def live(stand: Stand, bomb: Bomb) -> None:
    """A life of the relay: three turns, with all becoming final between."""
    relay = stand.relay(nodes=evm_nodes(bomb))
    with store.account_session(stand.relay_engine, relay.account) as conn:
        bomb.watch(conn)
        for _ in range(3):
            relay.turn(conn)
            stand.ingest()


def points_of_a_life(stand: Stand) -> Sequence[str]:
    bomb = Bomb()
    stand.owed()
    live(stand, bomb)
    return bomb.passed


@pytest.mark.parametrize("by_stranger", [False, True])
def test_whatever_is_killed_when_there_is_one_delivery_and_at_most_one_fee(
    stand: Stand, by_stranger: bool
):
    points = points_of_a_life(stand)
    assert {"before a commit", "after a commit", "before a sending", "after a sending"} == {*points}
    for at, name in enumerate(points):
        message, before = stand.owed(), stand.nonce()
        # A delivery that came too late counts as a paid failure of its owner, and others wait.
        with stand.engine.begin() as conn:
            mine = transfers.c.id == message.nonce[2:34]
            conn.execute(update(transfers).where(mine).values(owner=address(at)))
        with pytest.raises(Killed, match=name):
            live(stand, Bomb(at))
        if by_stranger and stand.received(message) == 0:
            stand.deliver(message)
        stand.grow_older(25)
        live(stand, Bomb())
        where = f"killed {name}, point {at}"
        assert stand.received(message) == AMOUNT, where
        assert stand.nonce() - before <= 1, where
        assert by_stranger or stand.nonce() - before == 1, where
        assert len(stand.signed_for(message)) <= 1, where
        assert all(outcome is not None for _, outcome in stand.slots_of(message)), where


class Deaf(EvmAccountNodes):
    """Nodes that take a transaction and do not say so."""

    def send(self, raw: bytes) -> str:
        super().send(raw)
        raise NodeUnavailable("no answer")


def test_a_sending_without_an_answer_is_no_reason_to_sign_anew(stand: Stand):
    message = stand.owed()
    deaf = stand.relay(nodes=Deaf)
    with pytest.raises(NodeUnavailable):
        stand.turns(deaf)
    settle(stand, stand.relay())
    assert (stand.received(message), stand.nonce()) == (AMOUNT, 1)
    assert len(stand.signed_for(message)) == 1


def test_the_database_itself_refuses_a_second_number_for_one_purpose(stand: Stand, engine: Engine):
    message, relay = stand.owed(), stand.relay()
    stand.turns(relay)
    with stand.relay_engine.begin() as conn:
        [slot] = store.open_slots(conn, relay.account)
    for outcome in (None, "done"):
        with stand.relay_engine.begin() as conn:
            if outcome:
                store.close_slot(conn, relay.account, slot, "done", 1)
        with (
            pytest.raises(Exception, match="uq_slots_once"),
            stand.relay_engine.begin() as conn,
        ):
            store.open_slot(conn, relay.account, replace(slot, number=7), 1)
    assert len(stand.slots_of(message)) == 1
