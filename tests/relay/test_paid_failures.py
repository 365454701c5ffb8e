"""Paid failures count for the job, its owner and its recipient."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, func, insert, select, update
from stellar_sdk.operation import ChangeTrust

from devnet.stellar.accounts import USDC
from indexer.policy.paid_failures import BACKOFF_SECONDS, MAX_PAID_FAILURES, paid_failures
from relay.account import TurnReport
from relay.failures import MAX_FAILURES
from relay.jobs.obstacles import PaymentObstacle, set_obstacle
from tests.factories.relay import STELLAR
from tests.factories.relay import signed as sign
from tests.relay.conftest import Message, Stand
from tests.relay.ledger import LedgerStand
from tests.relay.test_failures import fail
from tests.relay.test_stellar import Lost
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.relay import slots

OTHER = "GB54KUSW2OO5IY3LXJGIR54Q4ZIGQMQ6FIE7QZENCFCL3E5GYXAKQY7L"


def id_of(message: Any) -> str:
    return message.nonce[2:34]


def test_sabotaged_delivery_is_paid_three_times_at_most(
    ledger_stand: LedgerStand,
):
    stand, message = ledger_stand, ledger_stand.add_message()
    for _ in range(15):
        # A new process each time: only rows count the failures.
        stand.turns(stand.relay(nodes=Lost))
        # The trustline goes first, in the same ledger.
        closing = stand.chain.envelope(message.holder, [ChangeTrust(USDC, "0")])
        stand.chain.node.submit(closing.to_xdr_object())
        stand.age_attempts(15)
        stand.turns(stand.relay())
        with stand.engine.begin() as conn:
            set_obstacle(conn, id_of(message), PaymentObstacle("no_trustline", "closed"))
        stand.close()
        stand.turns(stand.relay())
        stand.chain.run(message.holder, ChangeTrust(USDC))
        with stand.engine.begin() as conn:
            set_obstacle(conn, id_of(message), None)
            conn.execute(update(slots).values(closed_at=slots.c.closed_at - timedelta(minutes=5)))
    assert stand.slots_of(message) == ["already_done"] * MAX_FAILURES


def test_owner_waits_after_failure_and_other_owners_do_not(stand: Stand):
    failed_once(stand)
    again, other = stand.add_message(), owned_by(stand, OTHER, stand.add_message())
    turn = stand.turns(stand.relay())
    assert turn.opened == 1
    assert "a paid failure of its owner" in turn.refused[0]
    assert (stand.received(again), stand.received(other) > 0) == (0, True)
    stand.age_slots(int(BACKOFF_SECONDS) + 1)
    stand.turns(stand.relay())
    assert stand.received(again) > 0


@pytest.mark.parametrize(("outcome", "waits"), [("reverted", True), ("already_done", False)])
def test_recipient_of_failed_delivery_waits_for_every_owner(
    stand: Stand, outcome: str, waits: bool
):
    message = failed_once(stand)
    other = owned_by(stand, OTHER, stand.add_message())
    with stand.engine.begin() as conn:
        conn.execute(update(slots).values(outcome=outcome))
    paid_to(stand, message.recipient, other)
    turn = stand.turns(stand.relay())
    assert (turn.opened == 0) is waits


def test_failed_submissions_do_not_delay_other_owners(stand: Stand):
    message, attack = stand.add_message(), owned_by(stand, OTHER, stand.add_message())
    paid_to(stand, message.recipient, attack)
    failed = {"outcome": "reverted", "spent": 100, "closed_at": func.now()}
    with stand.engine.begin() as conn:
        for number in range(MAX_PAID_FAILURES):
            tx = f"{number:064x}"
            sign(conn, STELLAR, "submit", id_of(attack), tx, key=tx, **failed)
    stand.turns(stand.relay())
    assert (stand.received(message) > 0, stand.slots_of(attack)) == (True, [])


def test_day_bounds_paid_failures_of_an_owner(stand: Stand):
    message = failed_once(stand)
    with stand.engine.begin() as conn:
        one = dict(conn.execute(select(slots)).one()._mapping) | {"chain": "eip155:10"}
        for number in range(1, MAX_PAID_FAILURES):
            conn.execute(insert(slots).values(one | {"number": number, "key": str(number)}))
        # Long enough for every pause, and of this day in UTC.
        midnight = func.date_trunc("day", func.now(), "UTC")
        conn.execute(update(slots).values(closed_at=midnight))
    other = stand.add_message()
    refused = stand.turns(stand.relay()).refused
    assert len(refused) == 2
    assert all(f"{MAX_PAID_FAILURES} paid failures of its owner" in each for each in refused)
    assert stand.received(other) == 0
    stand.age_slots(1)
    stand.turns(stand.relay())
    assert stand.received(other) > 0, "the next day"
    assert stand.received(message) > 0


def test_late_extras_do_not_delay_agreed_deliveries(stand: Stand):
    agreed = stand.add_message()
    late = {"outcome": "already_done", "spent": 100, "closed_at": func.now()}
    for number in range(MAX_PAID_FAILURES):
        extra, tx = stand.add_message(is_extra=True), f"{number:064x}"
        with stand.engine.begin() as conn:
            sign(conn, STELLAR, "deliver", id_of(extra), tx, key=extra.nonce, **late)
    with stand.engine.connect() as conn:
        assert paid_failures(conn, id_of(agreed)) == {}
    stand.turns(stand.relay())
    assert stand.received(agreed) > 0


def test_late_deliveries_do_not_delay_submissions(stand: Stand):
    message = stand.add_message()
    late = {"outcome": "already_done", "spent": 100, "closed_at": func.now()}
    with stand.engine.begin() as conn:
        for number in range(MAX_PAID_FAILURES):
            tx = f"{number:064x}"
            sign(conn, STELLAR, "deliver", id_of(message), tx, key=tx, **late)
        found = paid_failures(conn, id_of(message))
    assert (found["owner"].are_too_many, "submitter" in found) == (True, False)


def test_open_transactions_count_once_one_has_failed(stand: Stand):
    message = failed_once(stand)
    with stand.engine.begin() as conn:
        one = dict(conn.execute(select(slots)).one()._mapping)
        one |= {"outcome": None, "spent": None, "closed_at": None}
        for number in range(1, MAX_PAID_FAILURES):
            conn.execute(insert(slots).values(one | {"number": 100 + number, "key": str(number)}))
        found = paid_failures(conn, id_of(message))["owner"]
        assert (found.failed, found.open, found.are_too_many) == (1, MAX_PAID_FAILURES - 1, True)
        conn.execute(delete(slots).where(slots.c.number == 101))
        assert not paid_failures(conn, id_of(message))["owner"].are_too_many


def failed_once(stand: Stand) -> Message:
    """A delivery that was included without effect."""
    message = stand.add_message()
    stand.devnet.rpc("evm_setAutomine", False)
    assert stand.turns(stand.relay()) == TurnReport(opened=1, sent=1)
    fail(stand)
    assert stand.turns(stand.relay()).failed == 1
    stand.devnet.rpc("evm_setAutomine", True)
    return message


def owned_by(stand: Stand, owner: str, message: Message) -> Message:
    """Insert it for another owner's transfer."""
    with stand.engine.begin() as conn:
        mine = transfers.c.id == id_of(message)
        conn.execute(update(transfers).where(mine).values(owner=owner))
    return message


def paid_to(stand: Stand, recipient: str, message: Message) -> None:
    """Set the recipient of a message's transfer."""
    quote = quotes.c.id == f"quote of {id_of(message)}"
    with stand.engine.begin() as conn:
        conn.execute(update(quotes).where(quote).values(dest_address=recipient))
