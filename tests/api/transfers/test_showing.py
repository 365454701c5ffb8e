"""`GET /v1/transfers/{id}`: the state computed from the transfer's inputs."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, func, insert, update

from indexer.config.routes import find_route
from indexer.movements.store import refold_movements
from indexer.transfers.inputs import TransferTerms
from indexer.transfers.state_machine import IllegalTransition
from indexer.transfers.store import refold_all, refold_transfers
from tests.factories.acting import ask_action
from tests.factories.intake import OPERATOR, ask, moment, submit
from tests.factories.quotes import OTHER
from tests.factories.sep10 import FixedAccounts
from tests.factories.stage_facts import (
    DIRECT,
    PAID_IN,
    USDC,
    bring_in,
    burn,
    given_back,
    key_of,
    mint,
    paid,
    stand_at,
)
from tests.factories.stage_history import DEPOSIT, EXPIRY, START
from tests.factories.started import cancel, insert_transfer, make_transfer_app, show
from tests.factories.transfers import ACCOUNT, ETHEREUM, NETWORK, NONCE, USER, seen
from warehouse_schema import intake
from warehouse_schema.facts import cctp_attestations, expiries
from warehouse_schema.projections import transfer_states

BURNED = "0x" + "a" * 64


@pytest.fixture
def world(engine: Engine) -> Iterator[Connection]:
    """Facts of mainnet, each committed as it is written."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        yield conn


@pytest.fixture
def client(api_engine: Engine) -> FlaskClient:
    """Calls an app on mainnet."""
    return make_transfer_app(api_engine, network=NETWORK).test_client()


def begin(conn: Connection, terms: TransferTerms) -> None:
    ask(conn, terms)
    conn.execute(update(intake.quotes).values(fee={"total": "7"}))


def shown(client: FlaskClient, terms: TransferTerms) -> Any:
    answer = show(client, terms.id, ACCOUNT)
    assert answer.status_code == 200, answer.json
    return answer.json


def attest(conn: Connection, terms: TransferTerms, tx: str = BURNED, nonce: str = NONCE) -> None:
    row = {
        "source_domain": 0,
        "nonce": nonce,
        "message_hash": nonce,
        "source_chain": terms.source_chain,
        "source_tx": tx,
        "burn_key": key_of(terms),
        "message": b"\x01\x02",
        "attestation": b"\x03",
        "status": "complete",
        "attesters": [],
        "verified": True,
        "judged_at": moment(START + 700),
    }
    conn.execute(insert(cctp_attestations).values(row))
    refold_movements(conn, NETWORK, [("cctp", key_of(terms))])


def test_deposit_is_shown_from_burn_to_delivery(world, client):
    begin(world, DIRECT)
    submit(world, DIRECT, BURNED, START + 60)
    submitted = shown(client, DIRECT)
    assert (submitted["stage"], submitted["stage_reason"]) == ("SUBMITTED", "not_included")
    page = f"https://etherscan.io/tx/{BURNED}"
    assert submitted["explorer"] == {"source": page, "destination": None}
    stand_at(world, seen(ETHEREUM, 100))
    bring_in(world, *burn(DIRECT, 100))
    burned = shown(client, DIRECT)
    assert (burned["stage"], burned["status"], burned["turn"]) == (
        *("CONFIRMING", "pending_external", "chain"),
    )
    assert burned["external_transaction_id"] == BURNED
    # 1700000000 and 100 blocks of 12 seconds; then what the route usually takes.
    route = find_route(NETWORK, "usdc-deposit")
    usual = route.source(ETHEREUM).expected_seconds + route.dest_chains[0].expected_seconds
    assert burned["eta"] == f"2023-11-14T22:33:{20 + usual:02}Z"
    assert burned["timeline"][-1] == {
        "stage": "CONFIRMING",
        "at": "2023-11-14T22:33:20Z",
        "clock": ETHEREUM,
        "chain": ETHEREUM,
        "tx": BURNED,
    }
    assert burned["self_finish"] is None
    attest(world, DIRECT)
    ready = shown(client, DIRECT)
    assert (ready["stage"], ready["turn"]) == ("DELIVERING", "relay")
    assert ready["self_finish"] == {
        "chain": NETWORK.stellar.id,
        "contract": NETWORK.stellar.cctp_forwarder,
        "message": "0x0102",
        "attestation": "0x03",
    }
    bring_in(world, *mint(DIRECT, 900))
    done = shown(client, DIRECT)
    assert (done["stage"], done["status"]) == ("COMPLETED", "completed")
    assert (done["amount_delivered"], done["amount_fee"]) == (str(DIRECT.amount_in * 10), "7")
    assert done["stellar_transaction_id"] == "c" * 64
    assert done["completed_at"] == done["timeline"][-1]["at"]
    assert submitted["updated_at"] < burned["updated_at"] < done["updated_at"]
    assert done["explorer"] == {
        "source": page,
        "destination": f"https://stellar.expert/explorer/public/tx/{'c' * 64}",
    }
    assert (done["eta"], done["self_finish"]) == (None, None)


def test_extra_movement_is_shown_with_its_attested_message(world, client):
    begin(world, DIRECT)
    stand_at(world, seen(ETHEREUM, 100))
    bring_in(world, *burn(DIRECT, 100))
    bring_in(world, *burn(DIRECT, 101, "9"))
    refold_transfers(world, NETWORK, [DIRECT.id])
    extra = f"cctp:{key_of(DIRECT)}:1"
    waiting = shown(client, DIRECT)
    assert (waiting["extras"], waiting["extras_self_finish"]) == ([extra], [])
    attest(world, DIRECT)
    attest(world, DIRECT, "0x" + "9" * 64, "0x" + "02" * 32)
    assert shown(client, DIRECT)["extras_self_finish"] == [
        {
            "movement": extra,
            "chain": NETWORK.stellar.id,
            "contract": NETWORK.stellar.cctp_forwarder,
            "message": "0x0102",
            "attestation": "0x03",
        }
    ]
    bring_in(world, *mint(DIRECT, 900))
    bring_in(world, *mint(DIRECT, 901, "d", "0x" + "02" * 32))
    assert shown(client, DIRECT)["extras_self_finish"] == []


def test_transfer_is_folded_despite_stored_stage(world, client):
    begin(world, DIRECT)
    refold_transfers(world, NETWORK, [DIRECT.id])
    world.execute(insert(expiries).values(transfer=DIRECT.id))
    assert shown(client, DIRECT)["stage"] == "EXPIRED"


def test_refund_is_shown(world, client):
    begin(world, PAID_IN)
    bring_in(world, paid(USER, DEPOSIT, 1_000, 100))
    waiting = shown(client, PAID_IN)
    assert (waiting["stage"], waiting["stage_reason"]) == ("AWAITING_FUNDS", "short_payment")
    assert waiting["deposit"] == {"address": DEPOSIT, "operator": OPERATOR}
    line = {"token": USDC, "received": "1000", "swept": "0", "returned": "0", "owed": "0"}
    assert waiting["refund"]["tokens"] == [line]
    world.execute(insert(expiries).values(transfer=PAID_IN.id, expired_at=moment(EXPIRY)))
    left = shown(client, PAID_IN)
    assert (left["stage"], left["stage_reason"]) == ("EXPIRED", "below_minimum")
    assert left["refund"]["pending_below_minimum"] == "1000"
    bring_in(world, paid(USER, DEPOSIT, PAID_IN.amount_in, 160, "d"))
    assert shown(client, PAID_IN)["stage"] == "REFUNDING"
    bring_in(world, given_back(DEPOSIT, USER, PAID_IN.amount_in + 1_000, 170))
    back = shown(client, PAID_IN)
    assert (back["stage"], back["status"]) == ("REFUNDED", "refunded")
    assert back["completed_at"] == back["timeline"][-1]["at"] is not None
    assert (back["refund"]["amount"], back["refund"]["transactions"]) == (
        str(PAID_IN.amount_in + 1_000),
        ["0x" + "e" * 64],
    )
    assert back["eta"] is None


def test_updated_at_moves_only_with_shown_changes(engine, world, client):
    begin(world, PAID_IN)
    created = shown(client, PAID_IN)
    assert created["updated_at"] == created["started_at"]
    refold_transfers(world, NETWORK, [PAID_IN.id])
    assert shown(client, PAID_IN) == created
    bring_in(world, paid(USER, DEPOSIT, 1_000, 100))
    first = shown(client, PAID_IN)
    bring_in(world, paid(USER, DEPOSIT, 500, 101, "d"))
    second = shown(client, PAID_IN)
    assert created["stage"] == first["stage"] == second["stage"] == "AWAITING_FUNDS"
    assert created["updated_at"] < first["updated_at"] < second["updated_at"]
    # What only the indexer looks at.
    world.execute(update(transfer_states).values(inputs=99))
    assert refold_transfers(world, NETWORK, [PAID_IN.id]) == 1
    with engine.begin() as conn:
        refold_all(conn, NETWORK)
    assert shown(client, PAID_IN) == second


def test_action_after_short_payment_asks_for_the_rest(world, api_engine):
    begin(world, PAID_IN)
    now = {"started_at": func.now(), "expires_at": func.now() + timedelta(minutes=30)}
    world.execute(update(intake.transfers).values(now))
    accounts = FixedAccounts()
    client = make_transfer_app(api_engine, network=NETWORK, accounts=accounts).test_client()
    action = ask_action(client, PAID_IN.id, ACCOUNT).json["action"]
    assert action["amount"] == str(PAID_IN.amount_in)
    for amount, height, tx in ((1_000, 100, "b"), (500, 101, "d")):
        bring_in(world, paid(USER, DEPOSIT, amount, height, tx))
    action = ask_action(client, PAID_IN.id, ACCOUNT).json["action"]
    assert action["amount"] == str(PAID_IN.amount_in - 1_500)


def test_illegal_transition_is_on_hold(world, client, monkeypatch):
    begin(world, DIRECT)

    def impossible(evidence):
        raise IllegalTransition("COMPLETED does not lead to CANCELLED")

    monkeypatch.setattr("indexer.transfers.read.fold_transfer", impossible)
    held = shown(client, DIRECT)
    assert (held["stage"], held["stage_reason"], held["turn"]) == ("ON_HOLD", "held", "operator")
    refused = cancel(client, DIRECT.id, ACCOUNT)
    assert (refused.status_code, refused.json["stage"]) == (409, "ON_HOLD")


def test_transfer_of_another_owner_returns_404(kept, starter):
    made = insert_transfer(kept)
    for written in (made, made.upper(), f"0x{made}"):
        assert show(starter, written).json["id"] == made
    for answer in (show(starter, made, OTHER), show(starter, "0" * 32), show(starter, "x" * 999)):
        assert (answer.status_code, answer.json["code"]) == (404, "TRANSFER_NOT_FOUND")
    assert starter.get(f"/v1/transfers/{made}").status_code == 401
