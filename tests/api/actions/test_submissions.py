"""`POST …/submissions` of EVM transactions: verified and stored, or refused without a change."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import Connection, select, update

from indexer.actions.evm_check import MinedTx
from indexer.addresses import evm_as_bytes32
from indexer.chains.evm.abi import TRANSFER_TOPIC
from indexer.chains.raw import EvmLog
from tests.factories.acting import ask_action, deposit, order_for, stellar_payment, submit
from tests.factories.actions import ETHEREUM, MAINNET, OWNER, PAYER, TX, logs_of, make_log
from tests.factories.notifications import queued_notifications
from tests.factories.started import cancel, show
from warehouse_schema import channels
from warehouse_schema.identifiers import EvmAddress
from warehouse_schema.intake import cancellations, submissions, transfers

OTHER = "0x" + "0c" * 20
WORD = "0x" + "0d" * 32


def stored(kept: Connection) -> list[tuple]:
    columns = submissions.c
    query = select(columns.transfer, columns.tx_hash, columns.log, columns.kind, columns.signed)
    return [tuple(row) for row in kept.execute(query.order_by(columns.log))]


def issued(kept: Connection, actor, mechanism: str = "cctp") -> str:
    """A deposit whose calls were shown."""
    transfer = deposit(kept, mechanism)
    assert ask_action(actor, transfer).json["action"] is not None
    return transfer


def refused(answer, status: int = 422) -> str:
    assert answer.status_code == status, answer.json
    return answer.json["code"]


@pytest.mark.parametrize("mechanism", ["cctp", "oft"])
def test_matching_submission_moves_the_transfer(kept, actor, evm, mechanism):
    transfer = issued(kept, actor, mechanism)
    order = order_for(transfer, mechanism)
    tx = evm.mine(order)
    answer = submit(actor, transfer, tx.upper().removeprefix("0X"))
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert (answer.json["id"], answer.json["stage"]) == (transfer, "SUBMITTED")
    assert (answer.json["stage_reason"], answer.json["turn"]) == ("not_included", "chain")
    assert answer.json["external_transaction_id"] == tx
    assert stored(kept) == [(transfer, tx, len(logs_of(order)) - 1, "evm_tx", None)]
    assert answer.json == show(actor, transfer, OWNER).json


def test_submission_notifies_the_keeper(kept, actor, evm):
    transfer = issued(kept, actor)
    before = queued_notifications(kept, channels.INTAKE)
    submit(actor, transfer, evm.mine(order_for(transfer)))
    assert queued_notifications(kept, channels.INTAKE) == [*before, transfer]


CHANGES = {
    "sender": {},
    "amount": {"amount": 1},
    "destination": {"domain": 5},
    "recipient": {"mint_recipient": WORD},
    "token": {"token": OTHER},
    "destination_caller": {"destination_caller": WORD},
    "max_fee": {"max_fee": 0},
    "finality_threshold": {"min_finality": 2000},
    "hook": {"hook_data": b"\x00" * 104},
    "contract": {"messenger": OTHER},
    "status": {},
}


@pytest.mark.parametrize("field", CHANGES)
def test_mismatch_names_differing_fields(kept, actor, evm, field):
    transfer = issued(kept, actor)
    before = show(actor, transfer, OWNER).json
    order = order_for(transfer)
    done = replace(order, **CHANGES[field])
    if field == "sender":
        tx = evm.mine(order, logs=logs_of(order, OTHER))
    else:
        tx = evm.mine(done, succeeded=field != "status")
    answer = submit(actor, transfer, tx)
    assert refused(answer) == "SUBMISSION_MISMATCH"
    assert answer.json["fields"] == [field]
    assert stored(kept) == []
    assert show(actor, transfer, OWNER).json == before
    # And what is right is taken afterwards.
    assert submit(actor, transfer, evm.mine(order)).status_code == 200


def paid_in(kept: Connection, address: str) -> str:
    """A deposit that is paid to this address."""
    transfer = deposit(kept, funding_mode="deposit_address")
    at = {"deposit_address": address, "deposit_operator": PAYER}
    kept.execute(update(transfers).where(transfers.c.id == transfer).values(at))
    return transfer


def payment(token: str, recipient: str) -> EvmLog:
    words = (evm_as_bytes32(PAYER), evm_as_bytes32(EvmAddress(recipient)))
    return make_log(token, TRANSFER_TOPIC, *words, data=bytes(31) + b"\x07")


@pytest.mark.parametrize("token", ["usdc", "usdt0"])
def test_payment_to_deposit_address_is_a_hint(kept, actor, evm, token):
    address = "0x" + "dd" * 20
    transfer = paid_in(kept, address)
    before = show(actor, transfer, OWNER).json
    not_mined = submit(actor, transfer)
    assert (not_mined.status_code, not_mined.json) == (200, before)
    log = payment(getattr(MAINNET.chain(ETHEREUM), token), address)
    evm.transactions[TX] = MinedTx(ETHEREUM, TX, True, (log,))
    for _ in range(2):
        answer = submit(actor, transfer)
        assert (answer.status_code, answer.json) == (200, before)
    assert stored(kept) == []


@pytest.mark.parametrize(
    ("succeeded", "recipient", "field"),
    [
        pytest.param(True, OTHER, "recipient", id="pays_another"),
        pytest.param(False, "0x" + "dd" * 20, "status", id="failed"),
    ],
)
def test_hint_that_pays_nothing_to_the_address_returns_422(
    kept, actor, evm, succeeded, recipient, field
):
    transfer = paid_in(kept, "0x" + "dd" * 20)
    log = payment(MAINNET.chain(ETHEREUM).usdc, recipient)
    evm.transactions[TX] = MinedTx(ETHEREUM, TX, succeeded, (log,))
    answer = submit(actor, transfer)
    assert refused(answer) == "SUBMISSION_MISMATCH"
    assert answer.json["fields"] == [field]


def test_burn_for_another_transfer_is_no_match(kept, actor, evm):
    mine, other = issued(kept, actor), issued(kept, actor)
    answer = submit(actor, mine, evm.mine(order_for(other)))
    assert refused(answer) == "SUBMISSION_MISMATCH"
    assert answer.json["fields"] == ["hook"]


def test_unmined_transaction_returns_422(kept, actor, evm):
    transfer = issued(kept, actor)
    assert refused(submit(actor, transfer)) == "NOT_MINED"
    evm.mine(order_for(transfer), chain="eip155:10")
    answer = submit(actor, transfer)
    assert refused(answer) == "NOT_MINED"
    assert "eip155:1," in answer.json["message"]
    evm.mine(order_for(transfer))
    assert submit(actor, transfer).status_code == 200


def test_duplicate_returns_409_without_node_call(kept, actor, evm):
    transfer = issued(kept, actor)
    evm.mine(order_for(transfer))
    assert submit(actor, transfer).status_code == 200
    evm.requests.clear()
    assert refused(submit(actor, transfer), 409) == "DUPLICATE_SUBMISSION"
    assert evm.requests == []
    assert len(stored(kept)) == 1


def test_each_log_serves_one_transfer(kept, actor, evm):
    first, second, third = (issued(kept, actor, "oft") for _ in range(3))
    order = order_for(first, "oft")
    alone = evm.mine(order)
    assert submit(actor, first, alone).status_code == 200
    # No label tells them apart, and the log is taken.
    assert refused(submit(actor, second, alone), 409) == "DUPLICATE_SUBMISSION"
    both = evm.mine(order, logs=(*logs_of(order), *logs_of(order)), tx=WORD)
    assert submit(actor, second, both).status_code == 200
    assert submit(actor, third, both).status_code == 200
    assert [row[0] for row in stored(kept) if row[1] == WORD] == [second, third]
    assert refused(submit(actor, issued(kept, actor, "oft"), both), 409) == "DUPLICATE_SUBMISSION"


def test_bundle_serves_each_payer(kept, actor, evm):
    one, two = issued(kept, actor), issued(kept, actor)
    logs = (*logs_of(order_for(two), PAYER), *logs_of(order_for(one), PAYER))
    tx = evm.mine(order_for(one), logs=logs)
    assert submit(actor, one, tx).status_code == 200
    assert submit(actor, two, tx).status_code == 200
    assert [(row[0], row[2]) for row in stored(kept)] == [(two, 0), (one, 1)]


def test_any_issued_action_is_accepted(kept, actor, evm):
    transfer = issued(kept, actor)
    evm.allowed = 20_000_000
    ask_action(actor, transfer)
    assert submit(actor, transfer, evm.mine(order_for(transfer))).status_code == 200


def test_submission_without_action_returns_422(kept, actor, evm):
    transfer = deposit(kept)
    answer = submit(actor, transfer, evm.mine(order_for(transfer)))
    assert refused(answer) == "SUBMISSION_MISMATCH"
    assert answer.json["fields"] == ["kind"]
    assert evm.requests == []


def test_submission_of_other_kind_returns_422(kept, actor, evm):
    transfer = issued(kept, actor)
    answer = submit(actor, transfer, None, kind="stellar_tx", signed_xdr="AAAA")
    assert (refused(answer), answer.json["fields"]) == ("SUBMISSION_MISMATCH", ["kind"])
    answer = submit(actor, stellar_payment(kept))
    assert (refused(answer), answer.json["fields"]) == ("SUBMISSION_MISMATCH", ["kind"])


@pytest.mark.parametrize(
    ("tx", "others"),
    [
        (None, {}),
        ("0x12", {}),
        (TX + "0", {}),
        (TX, {"signed_xdr": "AAAA"}),
    ],
)
def test_submission_without_hash_returns_400(kept, actor, tx, others):
    transfer = issued(kept, actor)
    assert refused(submit(actor, transfer, tx, **others), 400) == "BAD_SUBMISSION"


@pytest.mark.parametrize("others", [{"kind": "solana_tx"}, {"kind": None}, {"more": 1}])
def test_submission_without_kind_returns_400(kept, actor, others):
    assert refused(submit(actor, issued(kept, actor), **others), 400) == "BAD_BODY"


def test_burn_reopens_cancelled_deposit(kept, actor, evm):
    transfer = issued(kept, actor)
    assert cancel(actor, transfer, OWNER).json["stage"] == "CANCELLED"
    answer = submit(actor, transfer, evm.mine(order_for(transfer)))
    assert (answer.status_code, answer.json["stage"]) == (200, "SUBMITTED")


def test_cancel_after_evm_submission_returns_409(kept, actor, evm):
    transfer = issued(kept, actor)
    submit(actor, transfer, evm.mine(order_for(transfer)))
    answer = cancel(actor, transfer, OWNER)
    assert refused(answer, 409) == "NOT_CANCELLABLE"
    assert answer.json["stage"] == "SUBMITTED"


def test_cancel_during_chain_read_wins(kept, actor, evm):
    transfer = issued(kept, actor)
    tx = evm.mine(order_for(transfer))
    evm.meanwhile = lambda: cancel(actor, transfer, OWNER)
    assert submit(actor, transfer, tx).json["stage"] == "SUBMITTED"
    assert kept.scalar(select(cancellations.c.transfer)) == transfer


def test_concurrent_submissions_store_one(kept, actor, evm):
    transfer = issued(kept, actor)
    evm.mine(order_for(transfer))
    together = threading.Barrier(8)
    # All of them have asked the chain before the first one writes.
    evm.meanwhile = lambda: together.wait(10) and None
    app = actor.application
    with ThreadPoolExecutor(8) as threads:
        answers = list(
            threads.map(lambda _: submit(app.test_client(), transfer).status_code, range(8))
        )
    assert sorted(answers) == [200] + 7 * [409]
    assert len(stored(kept)) == 1
