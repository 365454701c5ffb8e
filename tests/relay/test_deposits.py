"""Payments to deposit addresses are swept or refunded exactly once."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.engine import URL

from api.errors import Conflict
from api.transfers.access import OwnedTransferId
from api.transfers.store import cancel_transfer
from devnet.evm import EvmDevnet, dev_account
from indexer.chains.evm.account_state import EvmAccountNodes
from indexer.errors import ConfigurationError
from relay.account import TurnReport
from relay.jobs.refund_orders import NATIVE
from relay.leases import account_session
from tests.relay.bomb import Bomb, Killed, evm_nodes
from tests.relay.conftest import LIMITS, RELAYER, STRANGER, open_stand
from tests.relay.deposit_stand import AMOUNT, ARRIVES, LEAST, DepositStand, Paid
from warehouse_schema.events import cctp_burns, oft_sent
from warehouse_schema.identifiers import EvmAddress, Wei
from warehouse_schema.relay import attempts

EXCESS = 3 * LEAST
Money = Callable[[DepositStand], Paid]


@pytest.fixture
def stand(node: tuple[EvmDevnet, str], database: URL, engine: Engine) -> Iterator[DepositStand]:
    with open_stand(DepositStand, node, database, engine) as stand:
        yield stand


def burns(stand: DepositStand) -> list[tuple[str, int, int]]:
    """Sender, amount and maximum fee of each burn."""
    columns = cctp_burns.c
    with stand.engine.connect() as conn:
        found = conn.execute(select(columns.depositor, columns.amount, columns.max_fee))
        return [(row.depositor, row.amount, row.max_fee) for row in found]


# Sweeps.


def test_funded_deposit_is_swept_by_a_burn(stand: DepositStand):
    paid, relay = stand.deposit(), stand.relay()
    assert stand.turns(relay) == TurnReport(), "nothing is there"
    stand.pay(paid)
    turn = stand.turns(relay)
    assert (turn.opened, turn.sent, turn.refused) == (1, 1, [])
    assert stand.stage(paid) == "SUBMITTED"
    stand.ingest(final=0)
    assert burns(stand) == [(paid.address, AMOUNT, AMOUNT - ARRIVES)]
    assert stand.stage(paid) == "CONFIRMING"
    stand.settle(relay)
    assert (stand.stage(paid), stand.held(paid)) == ("ATTESTING", 0)
    assert stand.outcomes(paid) == [("sweep", "confirmed")]


def take_back(stand: DepositStand, blocks: int) -> None:
    """A reorg beyond finality, and the operator's reset of the cursor."""
    stand.devnet.rpc("anvil_reorg", blocks, [])
    with stand.engine.begin() as conn:
        conn.execute(text("UPDATE facts.cursors SET safe_height = NULL, final_height = NULL"))
    stand.devnet.rpc("evm_mine")
    stand.ingest(final=0)
    stand.age_attempts(25)


def test_sweep_in_reorg_beyond_finality_is_sent_again_once(stand: DepositStand):
    paid, relay = stand.deposit(), stand.relay()
    stand.pay(paid)
    height = stand.devnet.block_number()
    stand.settle(relay)
    assert (stand.outcomes(paid), stand.held(paid)) == ([("sweep", "confirmed")], 0)
    first = signed_for(stand, paid)
    take_back(stand, stand.devnet.block_number() - height)
    assert stand.held(paid) == AMOUNT
    stand.settle(stand.relay())
    assert (stand.stage(paid), stand.held(paid)) == ("ATTESTING", 0)
    assert stand.outcomes(paid) == [("sweep", "confirmed")]
    assert signed_for(stand, paid) == first, "nothing else was signed"
    assert len(burns(stand)) == 1


def test_sweep_in_reorg_before_finality_is_sent_again_once(stand: DepositStand):
    paid, relay = stand.deposit(), stand.relay()
    stand.pay(paid)
    height = stand.devnet.block_number()
    stand.turns(relay)
    stand.ingest(final=0)
    assert (stand.outcomes(paid), stand.held(paid)) == ([("sweep", None)], 0)
    take_back(stand, stand.devnet.block_number() - height)
    stand.settle(stand.relay())
    assert (stand.stage(paid), stand.held(paid)) == ("ATTESTING", 0)
    assert len(burns(stand)) == 1


def signed_for(stand: DepositStand, paid: Paid) -> list[str]:
    """Hashes of its signed transactions."""
    query = select(attempts.c.tx_hash).where(attempts.c.subject == paid.terms.id)
    with stand.engine.connect() as conn:
        return list(conn.scalars(query.order_by(attempts.c.id)))


def test_node_that_forgets_nonces_reopens_no_slot(stand: DepositStand):
    class Forgetful(EvmAccountNodes):
        def view(self, account, transactions):
            seen = super().view(account, transactions)
            return replace(seen, next_nonce=0, max_nonce=0)

    paid, relay = stand.deposit(), stand.relay()
    stand.pay(paid)
    stand.settle(relay)
    stand.turns(stand.relay(nodes=Forgetful))
    assert stand.outcomes(paid) == [("sweep", "confirmed")]


def test_usdt0_deposit_is_swept_and_relay_pays_its_message(stand: DepositStand):
    paid, relay = stand.deposit("oft"), stand.relay()
    stand.pay(paid)
    before = int(stand.devnet.rpc("eth_getBalance", RELAYER.address, "latest"), 16)
    stand.settle(relay)
    columns = oft_sent.c
    with stand.engine.connect() as conn:
        sent = conn.execute(select(columns.from_address, columns.amount_sent)).all()
    assert sent == [(paid.address, AMOUNT)]
    assert (stand.stage(paid), stand.held(paid)) == ("IN_FLIGHT", 0)
    after = int(stand.devnet.rpc("eth_getBalance", RELAYER.address, "latest"), 16)
    spent = int(stand.health().spent_today)
    # A tenth above the message's price was sent, and came back.
    assert 0 < before - after < spent < (before - after) * 11 // 10


def test_unaffordable_message_delays_no_other_deposit(
    stand: DepositStand,
):
    class Dear(EvmAccountNodes):
        def call_price(self, contract: EvmAddress, data: bytes) -> Wei:
            return Wei(super().call_price(contract, data) * 10**12)

    dear, paid, relay = stand.deposit("oft"), stand.deposit(), stand.relay(nodes=Dear)
    stand.pay(dear)
    stand.pay(paid)
    turn = stand.turns(relay)
    assert turn.opened == 1
    assert any("nsufficient funds" in each for each in turn.refused)
    stand.ingest(final=0)
    assert (stand.held(dear), stand.held(paid)) == (AMOUNT, 0)


def test_several_payments_are_swept_as_one_deposit(stand: DepositStand):
    paid, relay = stand.deposit(), stand.relay()
    stand.pay(paid, AMOUNT - 1)
    assert stand.turns(relay) == TurnReport(), "less is not yet the deposit"
    stand.pay(paid, 1)
    stand.settle(relay)
    assert (stand.held(paid), stand.outcomes(paid)) == (0, [("sweep", "confirmed")])


def test_excess_is_refunded_once_the_burn_is_final(stand: DepositStand):
    paid, relay = stand.deposit(), stand.relay()
    stand.pay(paid, 2 * AMOUNT + EXCESS)
    stand.turns(relay)
    stand.ingest(final=0)
    assert stand.turns(relay) == TurnReport(), "the chain might take the burn back"
    stand.settle(relay)
    assert stand.outcomes(paid) == [("sweep", "confirmed"), ("refund", "confirmed")]
    assert burns(stand) == [(paid.address, AMOUNT, AMOUNT - ARRIVES)]
    assert (stand.held(paid), stand.returned(stand.usdc)) == (0, AMOUNT + EXCESS)
    assert stand.stage(paid) == "ATTESTING"


# Back.


def cancelled_then_paid(stand: DepositStand) -> Paid:
    paid = stand.deposit()
    stand.cancel(paid)
    stand.pay(paid)
    return paid


def paid_then_cancelled(stand: DepositStand) -> Paid:
    paid = stand.deposit()
    stand.pay(paid)
    stand.cancel(paid)
    return paid


def expired_then_paid(stand: DepositStand) -> Paid:
    paid = stand.deposit()
    stand.expire(paid)
    stand.pay(paid)
    return paid


def short_and_expired(stand: DepositStand) -> Paid:
    paid = stand.deposit()
    stand.pay(paid, AMOUNT - 1)
    stand.expire(paid)
    return paid


@pytest.mark.parametrize(
    ("money", "amount"),
    [
        (cancelled_then_paid, AMOUNT),
        (paid_then_cancelled, AMOUNT),
        (expired_then_paid, AMOUNT),
        (short_and_expired, AMOUNT - 1),
    ],
)
def test_deposit_that_must_not_move_on_is_refunded(stand: DepositStand, money: Money, amount: int):
    paid, relay = money(stand), stand.relay()
    assert stand.stage(paid) == "REFUNDING"
    assert stand.turns(relay).opened == 1
    stand.settle(relay)
    assert (stand.stage(paid), stand.held(paid)) == ("REFUNDED", 0)
    assert stand.returned(stand.usdc) == amount
    assert stand.outcomes(paid) == [("refund", "confirmed")]
    assert burns(stand) == []


def test_wrong_token_is_refunded_while_deposit_is_awaited(stand: DepositStand):
    paid, relay = stand.deposit(), stand.relay()
    stand.pay(paid, EXCESS, stand.usdt0)
    stand.settle(relay)
    assert (stand.held(paid, stand.usdt0), stand.returned(stand.usdt0)) == (0, EXCESS)
    assert stand.stage(paid) == "AWAITING_FUNDS"
    stand.pay(paid)
    stand.settle(relay)
    assert stand.stage(paid) == "ATTESTING"
    assert stand.outcomes(paid) == [("refund", "confirmed"), ("sweep", "confirmed")]


def test_payment_after_refund_is_refunded(stand: DepositStand):
    paid, relay = cancelled_then_paid(stand), stand.relay()
    stand.turns(relay)
    stand.pay(paid, EXCESS)
    assert stand.turns(relay) == TurnReport(), "the first is under way"
    stand.settle(relay)
    stand.settle(relay)
    assert (stand.held(paid), stand.returned(stand.usdc)) == (0, AMOUNT + EXCESS)
    assert stand.outcomes(paid) == [("refund", "confirmed"), ("refund", "confirmed")]


def test_amount_below_minimum_refund_stays(stand: DepositStand):
    paid, relay = stand.deposit(), stand.relay()
    stand.expire(paid)
    stand.pay(paid, LEAST - 1)
    assert stand.turns(relay) == TurnReport()
    stand.pay(paid, 1)
    stand.settle(relay)
    assert (stand.held(paid), stand.returned(stand.usdc)) == (0, LEAST)


# Operators' orders.


def test_operator_order_refunds_amount_below_minimum(stand: DepositStand):
    paid, relay = stand.deposit(), stand.relay()
    stand.expire(paid)
    stand.pay(paid, LEAST - 1)
    stand.order(paid)
    stand.settle(relay)
    assert (stand.held(paid), stand.returned(stand.usdc)) == (0, LEAST - 1)
    assert stand.outcomes(paid) == [("refund", "confirmed")]
    assert stand.stage(paid) == "REFUNDED"
    stand.pay(paid, 1)
    assert stand.turns(relay) == TurnReport(), "an order is carried out once"


def test_operator_order_refunds_native_coin(stand: DepositStand):
    paid, relay = stand.deposit(), stand.relay()
    stand.pay(paid)
    stand.devnet.send(STRANGER, paid.address, b"", value=7)
    stand.order(paid, NATIVE)
    stand.settle(relay)
    assert int(stand.devnet.rpc("eth_getBalance", paid.address, "latest"), 16) == 0
    assert {*stand.outcomes(paid)} == {("sweep", "confirmed"), ("refund", "confirmed")}
    assert stand.stage(paid) == "ATTESTING"


def test_order_waits_while_deposit_may_move_on(stand: DepositStand):
    paid, relay = stand.deposit(), stand.relay()
    stand.pay(paid, AMOUNT - 1)
    stand.order(paid)
    turn = stand.turns(relay)
    assert (turn.opened, stand.held(paid)) == (0, AMOUNT - 1)
    assert "the transfer is AWAITING_FUNDS" in turn.refused[0]
    stand.cancel(paid)
    stand.settle(relay)
    assert (stand.held(paid), stand.stage(paid)) == (0, "REFUNDED")


def test_order_for_unknown_contract_delays_nothing(stand: DepositStand):
    paid, relay = stand.deposit(), stand.relay()
    stand.devnet.rpc("anvil_setCode", "0x" + "5c" * 20, "0x60006000fd")
    stand.order(paid, "0x" + "5c" * 20)
    stand.pay(paid)
    turn = stand.turns(relay)
    assert (turn.opened, len(turn.refused)) == (1, 1)
    assert stand.outcomes(paid) == [("sweep", None)]


def test_order_needs_a_deposit_address(stand: DepositStand):
    with pytest.raises(ConfigurationError, match="no transfer 'ab' has a deposit address"):
        stand.order_id("ab")


# Ownership.


def test_other_operators_deposit_is_skipped_until_release(stand: DepositStand):
    waiting = stand.deposit(operator=STRANGER.address.lower())
    stand.pay(waiting)
    back = stand.deposit(operator=STRANGER.address.lower())
    stand.cancel(back)
    stand.pay(back)
    relay = stand.relay()
    assert stand.turns(relay) == TurnReport()
    [complaint] = stand.complaints()
    assert f"deposits wait for {STRANGER.address.lower()}" in complaint
    theirs = stand.relay(key=STRANGER.key.hex())
    assert stand.turns(theirs).opened == 2
    assert stand.complaints() == []


def test_released_deposit_is_refunded_by_any_account(stand: DepositStand):
    waiting = stand.deposit(operator=STRANGER.address.lower(), days_ago=2)
    stand.pay(waiting)
    paid = stand.deposit(operator=STRANGER.address.lower(), days_ago=2)
    stand.cancel(paid)
    stand.pay(paid)
    stand.settle(stand.relay())
    assert (stand.stage(paid), stand.returned(stand.usdc)) == ("REFUNDED", AMOUNT)
    assert (stand.stage(waiting), stand.held(waiting)) == ("FUNDED", AMOUNT)


def test_strangers_refund_of_released_deposit_is_late(stand: DepositStand):
    """Pay again at once, so that the address is not empty at the next check."""
    paid, relay = stand.deposit(days_ago=2), stand.relay()
    stand.cancel(paid)
    stand.pay(paid)
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(relay)
    stand.drop_transactions(paid)
    stand.devnet.rpc("evm_setAutomine", True)
    stand.refund_as(STRANGER, paid)
    stand.age_attempts(25)
    assert stand.turns(relay).sent == 1
    stand.pay(paid)
    stand.ingest()
    assert stand.turns(relay).already_done == 1
    stand.age_slots()
    assert stand.turns(stand.relay()) == TurnReport(opened=1, sent=1)
    assert stand.outcomes(paid) == [("refund", "already_done"), ("refund", None)]


def test_terms_of_another_address_are_not_signed(stand: DepositStand, caplog):
    paid = stand.deposit()
    stand.pay(paid)
    with stand.engine.begin() as conn:
        conn.exec_driver_sql("UPDATE intake.quotes SET amount_out = amount_out - 10")
    assert stand.turns(stand.relay()) == TurnReport()
    relay = stand.relay()
    caplog.clear()
    assert [stand.turns(relay), stand.turns(relay)] == [TurnReport(), TurnReport()]
    message = f"wrong address chain={stand.chain.id} transfer={paid.terms.id}"
    assert caplog.text.count(message) == 1


FROZEN = "0x36602414600c5760006000fd5b600160005260206000f3"
"""A token that reports a balance of 1 and does nothing else."""


def test_refund_that_token_rejects_is_not_paid_for(stand: DepositStand):
    back, paid, relay = cancelled_then_paid(stand), stand.deposit("oft"), stand.relay()
    stand.pay(paid)
    stand.devnet.rpc("anvil_setCode", stand.usdc, FROZEN)
    turn = stand.turns(relay)
    assert (turn.opened, len(turn.refused)) == (1, 1)
    assert "revert" in turn.refused[0]
    assert stand.outcomes(back) == []
    assert stand.outcomes(paid) == [("sweep", None)]


# Cancellations.


def test_signed_sweep_prevents_cancellation(stand: DepositStand, api_engine: Engine):
    paid, relay = stand.deposit(), stand.relay()
    stand.pay(paid)
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(relay)
    with api_engine.begin() as conn, pytest.raises(Conflict, match="SUBMITTED"):
        cancel_transfer(conn, stand.network, OwnedTransferId(paid.terms.id))


def test_transfer_locked_by_cancellation_is_not_swept(stand: DepositStand, api_engine: Engine):
    paid, relay = stand.deposit(), stand.relay()
    stand.pay(paid)
    with api_engine.begin() as conn:
        cancel_transfer(conn, stand.network, OwnedTransferId(paid.terms.id))
        turn = stand.turns(relay)
    assert (turn.opened, stand.outcomes(paid)) == (0, [])
    assert "is locked by another process" in turn.refused[0]
    stand.fold()
    stand.settle(relay)
    assert (stand.stage(paid), stand.returned(stand.usdc)) == ("REFUNDED", AMOUNT)


# Reorgs and kills.


def test_deposit_removed_by_reorg_is_not_swept_again(stand: DepositStand):
    paid, relay = stand.deposit(), stand.relay()
    snapshot = stand.devnet.rpc("evm_snapshot")
    stand.pay(paid)
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(relay)
    stand.drop_transactions(paid)
    stand.devnet.rpc("evm_revert", snapshot)
    stand.devnet.rpc("evm_setAutomine", True)
    stand.devnet.send(STRANGER, dev_account(5).address, b"")
    stand.age_attempts(120)
    assert stand.turns(relay) == TurnReport(replaced=1, sent=1)
    stand.ingest()
    stand.settle(relay)
    assert stand.outcomes(paid) == [("sweep", "replaced")]
    assert stand.stage(paid) == "SUBMITTED", "the payment may come again"


def live(stand: DepositStand, bomb: Bomb) -> None:
    """One run of the relay: turns, with finality in between."""
    relay = stand.relay(nodes=evm_nodes(bomb))
    with account_session(stand.relay_engine, relay.account) as conn:
        bomb.watch(conn)
        relay.turn(conn)
        stand.ingest()
        relay.turn(conn)


def funded(stand: DepositStand) -> Paid:
    paid = stand.deposit()
    stand.pay(paid)
    return paid


@pytest.mark.parametrize(("money", "back"), [(funded, 0), (cancelled_then_paid, AMOUNT)])
def test_kill_at_any_point_moves_money_once_for_one_fee(
    stand: DepositStand, money: Money, back: int
):
    money(stand)
    bomb = Bomb()
    live(stand, bomb)
    points = bomb.passed
    assert {"before a commit", "after a commit", "before a sending", "after a sending"} == {*points}
    for at, name in enumerate(points):
        paid, before, returned = money(stand), stand.nonce(), stand.returned(stand.usdc)
        with pytest.raises(Killed, match=name):
            live(stand, Bomb(at))
        stand.age_attempts(25)
        live(stand, Bomb())
        where = f"killed {name}, point {at}"
        assert stand.held(paid) == 0, where
        assert stand.returned(stand.usdc) - returned == back, where
        assert [each[0] for each in burns(stand)].count(paid.address) == (0 if back else 1), where
        assert stand.nonce() - before == stand.attempts(paid) == 1, where
        assert stand.outcomes(paid) == [("refund" if back else "sweep", "confirmed")], where


def test_daily_budget_is_not_exceeded(stand: DepositStand):
    paid = funded(stand)
    turn = stand.turns(stand.relay(limits=replace(LIMITS, budget=Wei(1))))
    assert (turn.opened, stand.outcomes(paid)) == (0, [])
    assert "over the day's budget of 1 wei" in turn.refused[0]
    assert stand.held(paid) == AMOUNT
