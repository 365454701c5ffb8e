"""Extra movements with a transfer's id are paid for while the owner's daily limit has room."""

from datetime import timedelta

import pytest
from sqlalchemy import func, update

from relay.account import TurnReport
from relay.jobs.cctp_deliveries import EvmDeliveries
from tests.relay.conftest import Message, Stand
from warehouse_schema.intake import transfers
from warehouse_schema.relay import slots

USD = 1_000_000


def extra(stand: Stand, amount: int = 40 * USD) -> Message:
    """An extra movement of an old transfer."""
    found = stand.add_message(amount, is_extra=True)
    start(stand, found, timedelta(days=30))
    return found


def start(stand: Stand, message: Message, ago: timedelta) -> None:
    """Set the age of a message's transfer."""
    moment = {"started_at": func.now() - ago, "expires_at": func.now() + timedelta(hours=1)}
    with stand.engine.begin() as conn:
        conn.execute(update(transfers).where(transfers.c.id == id_of(message)).values(moment))


def id_of(message: Message) -> str:
    return message.nonce[2:34]


def test_extras_beyond_daily_limit_are_not_paid_for(stand: Stand):
    extras, relay = [extra(stand) for _ in range(3)], stand.relay()
    for _ in range(3):
        stand.turns(relay)
        stand.ingest()
    assert [stand.received(each) for each in extras] == [40 * USD, 40 * USD, 0]
    assert stand.nonce() == 2
    assert stand.slots_of(extras[2]) == []


def test_extras_are_delivered_the_next_day(stand: Stand):
    extras, relay = [extra(stand) for _ in range(3)], stand.relay()
    stand.turns(relay)
    stand.ingest()
    stand.turns(relay)
    with stand.engine.begin() as conn:
        conn.execute(update(slots).values(opened_at=slots.c.opened_at - timedelta(days=1)))
    assert stand.turns(stand.relay()).opened == 1
    assert stand.received(extras[2]) == 40 * USD


def test_started_transfers_count_against_limit_of_extras(stand: Stand):
    large, small = extra(stand, 95 * USD), extra(stand, 80 * USD)
    # Of the same owner, 10 USD, in any stage.
    started = stand.add_message(10 * USD, stage="ATTESTING")
    start(stand, started, timedelta(0))
    assert stand.turns(stand.relay()).opened == 1
    assert [stand.received(each) for each in (large, small)] == [0, 80 * USD]


def test_agreed_delivery_ignores_daily_limit(stand: Stand):
    extra(stand, 100 * USD)
    relay = stand.relay()
    stand.turns(relay)
    agreed = stand.add_message()
    assert stand.turns(relay).opened == 1
    assert stand.received(agreed) > 0


def test_signed_extra_stays_a_job_until_it_closes(stand: Stand):
    message, relay = extra(stand, 100 * USD), stand.relay()
    stand.devnet.rpc("evm_setAutomine", False)
    assert stand.turns(relay) == TurnReport(opened=1, sent=1)
    with stand.relay_engine.connect() as conn:
        assert [each.key for each in EvmDeliveries(stand.chain).jobs(conn)] == [message.nonce]


@pytest.mark.parametrize("amount", [60 * USD, 40 * USD], ids=["over", "within"])
def test_limit_is_checked_again_when_signing(stand: Stand, amount: int):
    first, second = extra(stand, 60 * USD), extra(stand, amount)
    ledger = EvmDeliveries(stand.chain)
    with stand.relay_engine.connect() as conn:
        [owed] = [each for each in ledger.jobs(conn) if each.key == first.nonce]
        assert ledger.rejection(conn, owed) is None
    with stand.engine.begin() as conn:
        # Another account of the relay signs for the other message.
        place = {"chain": "eip155:10", "account": "0x" + "0e" * 20, "number": 0}
        what = {"purpose": "deliver", "key": second.nonce, "subject": id_of(second)}
        conn.execute(slots.insert().values(place | what))
    with stand.relay_engine.connect() as conn:
        assert (ledger.rejection(conn, owed) is None) is (amount == 40 * USD)
