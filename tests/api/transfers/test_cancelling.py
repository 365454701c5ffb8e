"""`POST /v1/transfers/{id}/cancel`, and its races with submissions and signatures."""

import threading
import time
from collections.abc import Callable

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, insert, select, text

from indexer.transfers.store import lock_transfers
from tests.factories.quotes import OTHER, SEPOLIA
from tests.factories.relay import signed
from tests.factories.started import (
    cancel,
    insert_quote,
    insert_transfer,
    make_transfer_app,
    payment,
    show,
    start,
)
from warehouse_schema.intake import cancellations, submissions

TX = "0x" + "5" * 64


def submit(conn: Connection, transfer: str, tx: str = TX) -> None:
    row = {"transfer": transfer, "tx_hash": tx, "log": 0, "kind": "evm_tx"}
    conn.execute(insert(submissions).values(row))


def test_unsigned_transfer_is_cancelled(kept, starter):
    made = insert_transfer(kept)
    answer = cancel(starter, made)
    assert answer.status_code == 200
    assert (answer.json["stage"], answer.json["status"]) == ("CANCELLED", "expired")
    assert [step["stage"] for step in answer.json["timeline"]] == [
        *("AWAITING_SIGNATURE", "CANCELLED"),
    ]
    assert show(starter, made).json == answer.json
    assert kept.scalars(select(cancellations.c.transfer)).all() == [made]


def test_payment_is_cancelled(kept, starter):
    assert cancel(starter, insert_transfer(kept, **payment())).json["stage"] == "CANCELLED"


def refused(answer, stage: str) -> None:
    assert (answer.status_code, answer.json["code"]) == (409, "NOT_CANCELLABLE")
    assert answer.json["stage"] == stage
    assert stage in answer.json["message"]


def test_second_cancel_returns_409(kept, starter):
    made = insert_transfer(kept)
    cancel(starter, made)
    refused(cancel(starter, made), "CANCELLED")


def test_cancel_after_submission_returns_409(kept, starter):
    made = insert_transfer(kept)
    submit(kept, made)
    refused(cancel(starter, made), "SUBMITTED")
    assert kept.scalars(select(cancellations.c.transfer)).all() == []


def test_cancel_after_signed_sweep_returns_409(kept, starter):
    made = insert_transfer(kept)
    signed(kept, SEPOLIA, "sweep", made, TX)
    refused(cancel(starter, made), "SUBMITTED")


def test_cancel_of_another_owner_returns_404(kept, starter):
    made = insert_transfer(kept)
    for wrong in (cancel(starter, made, OTHER), cancel(starter, "0" * 32), cancel(starter, "x")):
        assert (wrong.status_code, wrong.json["code"]) == (404, "TRANSFER_NOT_FOUND")
    assert starter.post(f"/v1/transfers/{made}/cancel").status_code == 401
    assert kept.scalars(select(cancellations.c.transfer)).all() == []


def test_cancelled_transfer_is_not_outstanding(kept, starter):
    made = insert_transfer(kept, ago=90_000, amount_in=95_000_000)
    assert start(starter, insert_quote(kept)).status_code == 422
    cancel(starter, made)
    assert start(starter, insert_quote(kept)).status_code == 201


# At once


@pytest.fixture
def plain(kept: Connection, reader: Engine) -> Callable[[], FlaskClient]:
    """Clients without the document held against each answer, which other tests do."""
    app = make_transfer_app(reader)
    app.test_client_class = FlaskClient
    return app.test_client


def test_submission_before_cancel_wins(kept, reader, plain):
    """A submission holds the lock: the cancellation waits, looks again and comes too late."""
    made = insert_transfer(kept)
    answers = []
    calling_off = threading.Thread(target=lambda: answers.append(cancel(plain(), made)))
    with reader.begin() as conn:
        lock_transfers(conn, [made])
        calling_off.start()
        wait_for_a_waiter(kept)
        submit(conn, made)
    calling_off.join(20)
    refused(answers[0], "SUBMITTED")


def wait_for_a_waiter(conn: Connection) -> None:
    waiting = text(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    deadline = time.monotonic() + 20
    while not conn.scalar(waiting):
        assert time.monotonic() < deadline, "nobody waits"
        time.sleep(0.01)


def test_concurrent_submit_and_cancel_accept_one(kept, reader, plain):
    outcomes = set()
    for number in range(20):
        made, tx = insert_transfer(kept), f"0x{number:064x}"
        barrier = threading.Barrier(2)
        taken: list[bool] = []

        def look_and_submit(made=made, tx=tx, barrier=barrier, taken=taken) -> None:
            """As whoever takes submissions does."""
            with reader.begin() as conn:
                barrier.wait(20)
                lock_transfers(conn, [made])
                called_off = select(cancellations.c.transfer)
                if conn.scalar(called_off.where(cancellations.c.transfer == made)) is None:
                    submit(conn, made, tx)
                    taken.append(True)

        submitting = threading.Thread(target=look_and_submit)
        submitting.start()
        client = plain()
        barrier.wait(20)
        answer = cancel(client, made)
        submitting.join(20)
        assert (answer.status_code == 200) != bool(taken)
        stage = show(client, made).json["stage"]
        assert stage == ("CANCELLED" if answer.status_code == 200 else "SUBMITTED")
        outcomes.add(stage)
    assert outcomes


def test_concurrent_cancels_accept_one(kept, plain):
    made = insert_transfer(kept)
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(cancel(plain(), made).status_code))
        for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(20)
    assert sorted(answers) == [200, *[409] * 7]
