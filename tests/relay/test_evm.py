"""Attested messages are delivered on an EVM chain exactly once, for one fee."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from sqlalchemy import Engine, update

from devnet.evm import dev_account
from indexer.chains.evm.account_state import EvmAccountNodes
from indexer.errors import FollowerConflict, NodeUnavailable
from relay.account import AccountRelay, TurnReport
from relay.failures import resume_accounts
from relay.jobs.cctp_deliveries import EvmDeliveries
from relay.leases import account_session
from relay.senders.evm import MAX_OPEN
from relay.slots import close_slot, open_slot, open_slots
from tests.factories.projections import address
from tests.factories.relay import owe, signed
from tests.relay.bomb import Bomb, Killed, evm_nodes
from tests.relay.conftest import AMOUNT, EVM, LIMITS, RELAYER, Stand
from warehouse_schema.identifiers import Wei
from warehouse_schema.intake import transfers


def settle(stand: Stand, relay: AccountRelay) -> None:
    """Run turns until everything is final."""
    for _ in range(3):
        stand.turns(relay)
        stand.ingest()


def test_attested_message_is_delivered_and_closed_at_finality(stand: Stand):
    message, relay = stand.add_message(), stand.relay()
    turn = stand.turns(relay)
    assert (turn.opened, turn.sent, turn.refused) == (1, 1, [])
    assert stand.received(message) == AMOUNT
    [(number, outcome)] = stand.slots_of(message)
    assert (number, outcome) == (0, None)
    stand.ingest(final=0)
    assert stand.turns(relay) == TurnReport()
    stand.ingest()
    assert stand.turns(relay).confirmed == 1
    assert stand.slots_of(message) == [(0, "confirmed")]
    # The warehouse has not ingested the delivery.
    assert stand.turns(relay) == TurnReport()
    assert stand.nonce() == 1


def test_cost_of_delivery_is_stored(stand: Stand):
    before = int(stand.devnet.rpc("eth_getBalance", RELAYER.address, "latest"), 16)
    stand.add_message()
    settle(stand, stand.relay())
    after = int(stand.devnet.rpc("eth_getBalance", RELAYER.address, "latest"), 16)
    row = stand.health()
    assert (row.well, row.balance, row.spent_today, row.open) == (True, after, before - after, 0)


def test_delivery_by_another_sender_costs_nothing(stand: Stand):
    message = stand.add_message()
    stand.deliver(message)
    assert stand.turns(stand.relay()) == TurnReport()
    assert stand.slots_of(message) == []
    assert stand.nonce() == 0


def test_delivery_that_lost_the_race_is_late_and_not_retried(stand: Stand):
    message, relay = stand.add_message(), stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(relay)
    stand.devnet.rpc("anvil_dropTransaction", stand.signed_for(message)[0])
    stand.devnet.rpc("evm_setAutomine", True)
    stand.deliver(message)
    stand.age_attempts(25)
    assert stand.turns(relay).sent == 1
    stand.ingest()
    assert stand.turns(relay) == TurnReport(already_done=1)
    assert stand.slots_of(message) == [(0, "already_done")]
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
def test_message_without_transfer_is_not_delivered(stand: Stand, changes):
    message = stand.add_message(**changes)
    assert stand.turns(stand.relay()) == TurnReport()
    assert stand.slots_of(message) == []


def test_extra_above_minimum_is_delivered(stand: Stand):
    message = stand.add_message(is_extra=True)
    assert stand.turns(stand.relay()).opened == 1
    assert stand.received(message) == AMOUNT


def test_message_that_would_revert_is_not_sent(stand: Stand):
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


def test_open_slots_are_limited(stand: Stand):
    messages = [stand.add_message() for _ in range(MAX_OPEN + 2)]
    relay = stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    assert stand.turns(relay).opened == MAX_OPEN
    assert stand.turns(relay).opened == 0
    stand.devnet.rpc("evm_setAutomine", True)
    stand.devnet.rpc("evm_mine")
    settle(stand, relay)
    assert [stand.received(each) for each in messages] == [AMOUNT] * len(messages)
    assert [stand.slots_of(each) for each in messages] == [
        [(number, "confirmed")] for number in range(len(messages))
    ]


def test_undeliverable_messages_do_not_block_later_ones(engine: Engine):
    nonces = [f"0x{number:032x}{number:032x}" for number in range(1, 106)]
    chain, ledger = EVM.id, EvmDeliveries(EVM)
    with engine.begin() as conn:
        for nonce in nonces:
            owe(conn, chain, nonce, b"", b"", "0x" + "5e" * 20, amount=AMOUNT)
        signed(conn, chain, "deliver", nonces[-1][2:34], "0xa", key=nonces[-1])
        seen: set[str] = set()
        for _ in range(30):
            owed = [each.key for each in ledger.jobs(conn)]
            assert owed == sorted(owed), "the oldest of them first"
            assert nonces[-1] in owed, "what is under way is always known"
            seen.update(owed)
    assert seen == {*nonces}


def test_daily_budget_is_not_exceeded(stand: Stand):
    first = stand.add_message()
    stand.turns(stand.relay())
    reserved, second = stand.health().spent_today, stand.add_message()
    turn = stand.turns(stand.relay(limits=replace(LIMITS, budget=reserved + 1)))
    assert turn.opened == 0
    assert f"over the day's budget of {reserved + 1} wei" in turn.refused[0]
    assert (stand.received(first), stand.received(second)) == (AMOUNT, 0)
    health = stand.health()
    assert (health.well, health.problem) == (False, "budget"), "the rest pays for no transaction"
    stand.turns(stand.relay(limits=replace(LIMITS, budget=reserved)))
    assert stand.health().reason == f"the day's budget of {reserved} wei is used up"


def test_low_balance_is_reported_and_nothing_is_signed(stand: Stand):
    message = stand.add_message()
    stand.devnet.rpc("anvil_setBalance", RELAYER.address, hex(10**9))
    turn = stand.turns(stand.relay())
    assert turn.opened == 0
    assert stand.slots_of(message) == []
    assert "1000000000 wei on the account" in stand.health().reason


# Stuck transactions.


def test_dropped_transaction_is_resent_with_same_bytes(stand: Stand):
    message, relay = stand.add_message(), stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(relay)
    [tx] = stand.signed_for(message)
    stand.devnet.rpc("anvil_dropTransaction", tx)
    assert stand.turns(relay) == TurnReport()
    stand.age_attempts(25)
    assert stand.turns(relay) == TurnReport(sent=1)
    stand.devnet.rpc("evm_mine")
    assert stand.signed_for(message) == [tx]
    assert stand.received(message) == AMOUNT


def test_stuck_transaction_is_replaced_with_same_nonce(stand: Stand):
    message, relay = stand.add_message(), stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(relay)
    stand.age_attempts(120)
    assert stand.turns(relay) == TurnReport(replaced=1, sent=1)
    first, second = stand.signed_for(message)
    stand.devnet.rpc("evm_mine")
    assert stand.devnet.rpc("eth_getTransactionReceipt", first) is None
    assert stand.devnet.rpc("eth_getTransactionReceipt", second)["status"] == "0x1"
    stand.ingest()
    stand.turns(relay)
    assert stand.slots_of(message) == [(0, "confirmed")]


@pytest.mark.parametrize(("more", "replaced"), [(150, 1), (100, 0)])
def test_budget_counts_dearest_attempt_of_a_nonce(stand: Stand, more: int, replaced: int):
    message = stand.add_message()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(stand.relay())
    stand.age_attempts(120)
    reserved = int(stand.health().spent_today)
    turn = stand.turns(stand.relay(limits=replace(LIMITS, budget=Wei(reserved * more // 100))))
    assert (turn.replaced, len(stand.signed_for(message))) == (replaced, 1 + replaced)
    assert turn.refused == [] if replaced else "over the day's budget" in turn.refused[0]


def test_fill_uses_up_number_of_finished_job(stand: Stand):
    message, relay = stand.add_message(), stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(relay)
    stand.devnet.rpc("anvil_dropTransaction", stand.signed_for(message)[0])
    stand.devnet.rpc("evm_setAutomine", True)
    stand.deliver(message)
    stand.age_attempts(120)
    assert stand.turns(relay) == TurnReport(replaced=1, sent=1)
    stand.ingest()
    stand.turns(relay)
    assert stand.slots_of(message) == [(0, "replaced")]
    assert (stand.received(message), stand.nonce()) == (AMOUNT, 1)
    assert stand.health().well


# Reorgs, and a stolen key.


def test_delivery_removed_by_reorg_is_sent_again(stand: Stand):
    message, relay = stand.add_message(), stand.relay()
    snapshot = stand.devnet.rpc("evm_snapshot")
    stand.turns(relay)
    assert stand.received(message) == AMOUNT
    stand.devnet.rpc("evm_revert", snapshot)
    assert stand.received(message) == 0
    stand.age_attempts(25)
    assert stand.turns(relay) == TurnReport(sent=1)
    assert stand.received(message) == AMOUNT
    assert len(stand.signed_for(message)) == 1


def test_block_that_was_not_ingested_closes_no_slot(stand: Stand):
    message, relay = stand.add_message(), stand.relay()
    stand.turns(relay)
    stand.ingest()
    with stand.engine.begin() as conn:
        conn.exec_driver_sql("UPDATE facts.blocks SET hash = '0xother' || height")
    assert stand.turns(relay) == TurnReport()
    assert stand.slots_of(message) == [(0, None)]


def test_nonce_taken_by_another_signer_halts_account(stand: Stand):
    message, relay = stand.add_message(), stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(relay)
    stand.devnet.rpc("anvil_dropTransaction", stand.signed_for(message)[0])
    stand.devnet.rpc("evm_setAutomine", True)
    stand.devnet.send(RELAYER, dev_account(5).address, b"")
    assert stand.turns(relay) == TurnReport(), "not before it is final"
    stand.ingest()
    assert stand.turns(relay).failed == 1
    assert stand.slots_of(message) == [(0, "nonce_taken")]
    assert "another process signs" in stand.health().reason
    assert stand.turns(relay) == TurnReport()
    with stand.relay_engine.begin() as conn:
        assert resume_accounts(conn, stand.chain.id) == 1
    assert stand.turns(relay).opened == 1
    assert stand.received(message) == AMOUNT


@pytest.mark.usefixtures("long_leases")
def test_second_process_for_account_raises_conflict(stand: Stand):
    relay = stand.relay()
    with (
        account_session(stand.relay_engine, relay.account),
        pytest.raises(FollowerConflict, match="another process signs"),
    ):
        stand.turns(stand.relay())


# Crashes.


def live(stand: Stand, bomb: Bomb) -> None:
    """One run of the relay: three turns, with finality in between."""
    relay = stand.relay(nodes=evm_nodes(bomb))
    with account_session(stand.relay_engine, relay.account) as conn:
        bomb.watch(conn)
        for _ in range(3):
            relay.turn(conn)
            stand.ingest()


def points_of_a_life(stand: Stand) -> Sequence[str]:
    bomb = Bomb()
    stand.add_message()
    live(stand, bomb)
    return bomb.passed


@pytest.mark.parametrize("by_stranger", [False, True])
def test_kill_at_any_point_delivers_once_for_at_most_one_fee(stand: Stand, by_stranger: bool):
    points = points_of_a_life(stand)
    assert {"before a commit", "after a commit", "before a sending", "after a sending"} == {*points}
    for at, name in enumerate(points):
        message, before = stand.add_message(), stand.nonce()
        # A late delivery is a paid failure of its owner and delays the owner's others.
        with stand.engine.begin() as conn:
            mine = transfers.c.id == message.nonce[2:34]
            conn.execute(update(transfers).where(mine).values(owner=address(at)))
        with pytest.raises(Killed, match=name):
            live(stand, Bomb(at))
        if by_stranger and stand.received(message) == 0:
            stand.deliver(message)
        stand.age_attempts(25)
        live(stand, Bomb())
        where = f"killed {name}, point {at}"
        assert stand.received(message) == AMOUNT, where
        assert stand.nonce() - before <= 1, where
        assert by_stranger or stand.nonce() - before == 1, where
        assert len(stand.signed_for(message)) <= 1, where
        assert all(outcome is not None for _, outcome in stand.slots_of(message)), where


class Deaf(EvmAccountNodes):
    """Nodes that take a transaction and fail to answer."""

    def send(self, raw: bytes) -> str:
        super().send(raw)
        raise NodeUnavailable("no answer")


def test_broadcast_without_answer_signs_nothing_new(stand: Stand):
    message = stand.add_message()
    deaf = stand.relay(nodes=Deaf)
    with pytest.raises(NodeUnavailable):
        stand.turns(deaf)
    settle(stand, stand.relay())
    assert (stand.received(message), stand.nonce()) == (AMOUNT, 1)
    assert len(stand.signed_for(message)) == 1


def test_database_rejects_second_slot_for_a_job(stand: Stand, engine: Engine):
    message, relay = stand.add_message(), stand.relay()
    stand.turns(relay)
    with stand.relay_engine.begin() as conn:
        [slot] = open_slots(conn, relay.account)
    for outcome in (None, "confirmed"):
        with stand.relay_engine.begin() as conn:
            if outcome:
                close_slot(conn, relay.account, slot, "confirmed", Wei(1))
        with (
            pytest.raises(Exception, match="uq_slots_once"),
            stand.relay_engine.begin() as conn,
        ):
            open_slot(conn, relay.account, replace(slot, number=7), Wei(1))
    assert len(stand.slots_of(message)) == 1
