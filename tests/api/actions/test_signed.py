"""`POST …/submissions` of signed Stellar transactions: stored as issued, or refused."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from sqlalchemy import Connection, func, select, update
from stellar_sdk import Keypair, TransactionBuilder

from api.auth.accounts import LedgerUnavailable
from indexer.actions.stellar_orders import Pay, operation_of
from indexer.actions.stellar_tx import draft
from indexer.policy.paid_failures import MAX_PAID_FAILURES
from tests.factories.acting import ask_action, stellar_payment, submit
from tests.factories.actions import MAINNET, OWNER
from tests.factories.projections import CLOSE_TIME
from tests.factories.relay import signed as sign
from tests.factories.sep10 import WALLET, make_rules
from tests.factories.started import NOBODY, cancel, show
from warehouse_schema.intake import submissions
from warehouse_schema.relay import slots

ME = WALLET.public_key
PASSPHRASE = MAINNET.stellar.passphrase
UNTIL = CLOSE_TIME + 1_800


def drafted(sequence=7, until=UNTIL):
    order = Pay(MAINNET.stellar.usdc, NOBODY, 100_000_000)
    return draft(PASSPHRASE, ME, sequence, until, [operation_of(order, ME)])


def signed(issued, *keys: Keypair) -> str:
    envelope = TransactionBuilder.from_xdr(issued.envelope, PASSPHRASE)
    for key in keys or (WALLET,):
        envelope.sign(key)
    return envelope.to_xdr()


def hand_in(actor, transfer: str, envelope: str | None, **others):
    given = {"kind": "stellar_tx", "signed_xdr": envelope}
    return submit(actor, transfer, None, ME, **(given | others))


def stored(kept: Connection) -> list[tuple]:
    columns = submissions.c
    rows = kept.execute(select(columns.transfer, columns.tx_hash, columns.log, columns.signed))
    return [tuple(row) for row in rows]


@pytest.fixture
def payer(actor, accounts, stellar):
    """An app whose ledger knows the wallet and whom it pays."""
    accounts.rules[ME] = make_rules()
    accounts.lines[ME, MAINNET.stellar.usdc] = accounts.lines[OWNER, MAINNET.stellar.usdc]
    stellar.made = drafted()
    return actor


@pytest.fixture
def transfer(kept, payer) -> str:
    """A payment that was shown to the wallet's owner."""
    made = stellar_payment(kept, owner=ME, source_address=ME)
    assert ask_action(payer, made, ME).json["action"]["kind"] == "stellar_tx"
    return made


def refused(answer, status: int = 422) -> tuple[str, list[str] | None]:
    assert answer.status_code == status, answer.json
    return answer.json["code"], answer.json.get("fields")


def test_signed_envelope_is_stored_for_relay(kept, payer, transfer, stellar):
    answer = hand_in(payer, transfer, envelope := signed(stellar.made))
    assert answer.status_code == 200
    assert (answer.json["stage"], answer.json["stage_reason"]) == ("SUBMITTED", "not_included")
    assert answer.json["stellar_transaction_id"] == stellar.made.tx
    [(owner, tx, log, raw)] = stored(kept)
    assert (owner, tx, log) == (transfer, stellar.made.tx, 0)
    assert TransactionBuilder.from_xdr(envelope, PASSPHRASE).to_xdr_object().to_xdr_bytes() == raw
    assert ask_action(payer, transfer, ME).json == {
        "action": None,
        "reason": "waiting",
        "needs_trustline": None,
    }
    assert refused(cancel(payer, transfer, ME), 409)[0] == "NOT_CANCELLABLE"
    assert refused(hand_in(payer, transfer, envelope), 409)[0] == "DUPLICATE_SUBMISSION"


def test_mismatch_stores_nothing(kept, payer, transfer, stellar):
    before = show(payer, transfer, ME).json
    for envelope, field in (
        ("AAAA", "signed_xdr"),
        (signed(drafted(8)), "transaction"),
        (stellar.made.envelope, "signatures"),
        (signed(stellar.made, Keypair.random()), "signatures"),
        (signed(stellar.made, WALLET, Keypair.random()), "signatures"),
    ):
        assert refused(hand_in(payer, transfer, envelope)) == ("SUBMISSION_MISMATCH", [field])
    assert stored(kept) == []
    assert show(payer, transfer, ME).json == before
    assert hand_in(payer, transfer, signed(stellar.made)).status_code == 200


def test_expiring_transaction_is_refused(kept, payer, transfer, stellar):
    stellar.made = drafted(until=CLOSE_TIME + 10)
    ask_action(payer, transfer, ME)
    late = hand_in(payer, transfer, signed(stellar.made))
    assert refused(late) == ("SUBMISSION_MISMATCH", ["time"])


def test_too_many_paid_failures_refuse_the_submission(kept, payer, transfer, stellar):
    failed = {"outcome": "reverted", "spent": 100, "closed_at": func.now()}
    for number in range(MAX_PAID_FAILURES):
        tx = f"{number:064x}"
        sign(kept, MAINNET.stellar.id, "submit", transfer, tx, key=tx, **failed)
    answer = hand_in(payer, transfer, signed(stellar.made))
    assert refused(answer)[0] == "TOO_MANY_FAILURES"
    assert "send it to the network yourself" in answer.json["message"]
    kept.execute(update(slots).values(closed_at=slots.c.closed_at - timedelta(days=1)))
    assert hand_in(payer, transfer, signed(stellar.made)).status_code == 200


def test_any_issued_transaction_is_accepted(kept, payer, transfer, stellar):
    first, stellar.made = stellar.made, drafted(8)
    ask_action(payer, transfer, ME)
    assert hand_in(payer, transfer, signed(first)).status_code == 200


def test_submission_after_cancel_returns_409(kept, payer, transfer, stellar):
    cancel(payer, transfer, ME)
    answer = hand_in(payer, transfer, signed(stellar.made))
    assert refused(answer, 409)[0] == "NOT_AWAITED"
    assert answer.json["stage"] == "CANCELLED"
    assert stored(kept) == []


def test_concurrent_sign_and_cancel_accept_one(kept, payer, transfer, stellar):
    envelope, app = signed(stellar.made), payer.application
    together = threading.Barrier(2)

    def act(which: str) -> int:
        client = app.test_client()
        together.wait(10)
        if which == "cancel":
            return cancel(client, transfer, ME).status_code
        return hand_in(client, transfer, envelope).status_code

    with ThreadPoolExecutor(2) as threads:
        outcome = tuple(threads.map(act, ("cancel", "sign")))
    assert outcome in ((200, 409), (409, 200))
    assert len(stored(kept)) == (outcome[1] == 200)


def test_missing_account_signs_with_master_key(kept, payer, transfer, stellar, accounts):
    accounts.rules.clear()
    assert hand_in(payer, transfer, signed(stellar.made)).status_code == 200


def test_unreadable_ledger_returns_503(kept, payer, transfer, stellar, accounts):
    accounts.failure = LedgerUnavailable("the ledger cannot be read right now")
    answer = hand_in(payer, transfer, signed(stellar.made))
    assert refused(answer, 503)[0] == "LEDGER_UNAVAILABLE"
    assert stored(kept) == []


@pytest.mark.parametrize(("envelope", "others"), [(None, {}), ("AAAA", {"hash": "0x" + "7a" * 32})])
def test_submission_without_xdr_returns_400(kept, payer, transfer, envelope, others):
    assert refused(hand_in(payer, transfer, envelope, **others), 400)[0] == "BAD_SUBMISSION"


def test_submission_for_another_owner_returns_404(kept, payer, transfer, stellar):
    given = {"kind": "stellar_tx", "signed_xdr": signed(stellar.made)}
    assert refused(submit(payer, transfer, None, OWNER, **given), 404)[0] == "TRANSFER_NOT_FOUND"
