"""A deposit's owner without a trustline: asked for, shown once it is signed, handed in, kept."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, delete, func, insert, select, update
from stellar_sdk import Keypair, TransactionBuilder

from api.actions import rules, submissions
from api.transfers import progress
from indexer.actions.stellar_tx import StellarTx, draft, onboarding
from tests.api.actions.test_signed import hand_in, refused
from tests.factories.acting import ask_action, deposit, order_for, stellar_payment, submit
from tests.factories.actions import MAINNET
from tests.factories.projections import CLOSE_TIME
from tests.factories.sep10 import WALLET, make_rules
from tests.factories.started import NOBODY, cancel, show
from warehouse_schema.identifiers import StellarAddress, UnixSeconds
from warehouse_schema.intake import actions, consents, onboardings
from warehouse_schema.relay import attempts, health, slots
from warehouse_schema.relay import onboardings as signed_by_relay

ME: Any = WALLET.public_key
SPONSOR = Keypair.random()
STELLAR = MAINNET.stellar
ASSET = STELLAR.usdc
PLACE = {"chain": STELLAR.id, "account": SPONSOR.public_key}
WELL = {"duty": "sponsor", "well": True, "balance": 10**9, "spent_today": 0, "open": 0}


@pytest.fixture
def ledger(kept: Connection):
    """A warehouse with a sponsor that is well."""
    kept.execute(insert(health).values(PLACE | WELL))
    yield kept
    for table in (signed_by_relay, attempts, slots, health, consents, onboardings):
        kept.execute(delete(table))


@pytest.fixture
def transfer(ledger, accounts) -> str:
    return deposit(ledger, owner=ME, dest_address=ME)


def sponsored(seconds: int = 180, number: int = 7) -> StellarTx:
    """What the relay signs."""
    by = StellarAddress(SPONSOR.public_key)
    operations = onboarding(by, ME, ASSET, creates_account=True)
    until = UnixSeconds(CLOSE_TIME + 4 + seconds)
    plain = draft(STELLAR.passphrase, by, number, until, operations)
    return StellarTx(signed(plain, SPONSOR), plain.tx)


def signed(issued: StellarTx, *keys: Keypair) -> str:
    envelope = TransactionBuilder.from_xdr(issued.envelope, STELLAR.passphrase)
    for key in keys:
        envelope.sign(key)
    return envelope.to_xdr()


def offer(ledger: Connection, transfer: str, made: StellarTx, outcome: str | None = None) -> None:
    """As the relay keeps what it signed."""
    number = ledger.scalar(select(func.count()).select_from(slots))
    key = {"purpose": "onboard", "key": f"{ME} {ASSET}", "subject": transfer}
    over = {"outcome": outcome, "spent": 1, "closed_at": func.now()} if outcome else {}
    ledger.execute(insert(slots).values(PLACE | key | over | {"number": number}))
    raw = TransactionBuilder.from_xdr(made.envelope, STELLAR.passphrase)
    envelope = raw.to_xdr_object().to_xdr_bytes()
    row = {"number": number, "purpose": "onboard", "subject": transfer, "tx_hash": made.tx}
    ledger.execute(insert(attempts).values(PLACE | row | {"signed": envelope, "most_cost": 1}))
    shown = {"tx_hash": made.tx, "transfer": transfer, "envelope": envelope}
    ledger.execute(insert(signed_by_relay).values(shown))


def asked(ledger: Connection, transfer: str) -> int:
    query = select(func.count()).where(onboardings.c.transfer == transfer)
    return ledger.scalar(query) or 0


def reason(actor, transfer: str) -> Any:
    answer = ask_action(actor, transfer, ME).json
    assert answer["action"] is None
    return answer["reason"]


def test_who_has_no_trustline_has_the_relay_asked_once_a_minute(ledger, actor, transfer):
    assert [reason(actor, transfer) for _ in range(3)] == ["sponsoring"] * 3
    assert asked(ledger, transfer) == 1
    ledger.execute(update(onboardings).values(asked_at=func.now() - timedelta(seconds=61)))
    assert reason(actor, transfer) == "sponsoring"
    assert asked(ledger, transfer) == 2


def test_what_the_relay_signed_is_shown_signed_and_kept_for_it(ledger, actor, transfer, accounts):
    reason(actor, transfer)
    offer(ledger, transfer, made := sponsored())
    action = {
        "kind": "stellar_trustline",
        "asset": ASSET,
        "xdr": made.envelope,
        "network_passphrase": STELLAR.passphrase,
    }
    assert ask_action(actor, transfer, ME).json == {"action": action, "reason": None}
    envelope = signed(made, WALLET)
    answer = hand_in(actor, transfer, envelope)
    assert answer.status_code == 200
    assert (answer.json["stage"], answer.json["stellar_transaction_id"]) == (
        "AWAITING_SIGNATURE",
        None,
    )
    [row] = ledger.execute(select(consents)).all()
    raw = TransactionBuilder.from_xdr(envelope, STELLAR.passphrase).to_xdr_object().to_xdr_bytes()
    assert (row.tx_hash, row.transfer, row.signed) == (made.tx, transfer, raw)
    assert reason(actor, transfer) == "waiting"
    assert refused(hand_in(actor, transfer, envelope), 409)[0] == "DUPLICATE_SUBMISSION"


def test_once_it_is_open_the_calls_are_shown(ledger, actor, transfer, accounts, evm):
    reason(actor, transfer)
    line = accounts.lines[NOBODY, ASSET]
    accounts.lines[ME, ASSET] = line
    assert ask_action(actor, transfer, ME).json["action"]["kind"] == "evm_calls"


def test_what_is_too_old_to_be_signed_is_not_shown_and_asked_for_anew(ledger, actor, transfer):
    offer(ledger, transfer, sponsored(seconds=29))
    assert reason(actor, transfer) == "sponsoring"
    offer(ledger, transfer, newer := sponsored(number=8), outcome="filled")
    assert ask_action(actor, transfer, ME).json["action"]["xdr"] == newer.envelope


Spoil = Callable[[Connection], Any]

UNSPONSORED: dict[str, Spoil] = {
    "no sponsor": lambda ledger: ledger.execute(delete(health)),
    "a sponsor that is unwell": lambda ledger: ledger.execute(
        update(health).values(well=False, reason="3 stroops on the account")
    ),
    "a sponsor that is silent": lambda ledger: ledger.execute(
        update(health).values(seen_at=func.now() - timedelta(minutes=3))
    ),
    "an account that delivers": lambda ledger: ledger.execute(
        update(health).values(duty="deliver")
    ),
}


@pytest.mark.parametrize("case", UNSPONSORED)
def test_without_a_sponsor_the_owner_is_told_to_open_it_himself(ledger, actor, transfer, case):
    UNSPONSORED[case](ledger)
    assert reason(actor, transfer) == "no_trustline"
    assert asked(ledger, transfer) == 0


def test_nobody_is_sponsored_twice_for_one_asset(ledger, actor, transfer):
    before = deposit(ledger, owner=ME, dest_address=ME)
    offer(ledger, before, sponsored(seconds=-5), outcome="done")
    assert reason(actor, transfer) == "no_trustline"


def test_who_pays_somebody_else_cannot_sign_for_him(ledger, actor, accounts):
    accounts.lines.clear()
    payment = stellar_payment(ledger, owner=ME, source_address=ME)
    assert reason(actor, payment) == "no_trustline"
    assert asked(ledger, payment) == 0


def test_a_mismatch_changes_nothing(ledger, actor, transfer):
    offer(ledger, transfer, made := sponsored())
    assert refused(hand_in(actor, transfer, signed(made, WALLET))) == (
        "SUBMISSION_MISMATCH",
        ["kind"],
    ), "it was not shown so far"
    ask_action(actor, transfer, ME)
    for envelope, field in (
        (made.envelope, "signatures"),
        (signed(made, Keypair.random()), "signatures"),
        (signed(sponsored(number=8), WALLET), "transaction"),
    ):
        assert refused(hand_in(actor, transfer, envelope)) == ("SUBMISSION_MISMATCH", [field])
    assert ledger.execute(select(consents)).all() == []


def test_nothing_is_opened_for_what_was_called_off(ledger, actor, transfer):
    offer(ledger, transfer, made := sponsored())
    ask_action(actor, transfer, ME)
    cancel(actor, transfer, ME)
    assert refused(hand_in(actor, transfer, signed(made, WALLET)), 409)[0] == "NOT_AWAITED"
    assert ledger.execute(select(consents)).all() == []


def test_the_weight_of_an_account_that_is_there_counts(ledger, actor, transfer, accounts):
    accounts.rules[ME] = make_rules()
    offer(ledger, transfer, made := sponsored())
    ask_action(actor, transfer, ME)
    assert hand_in(actor, transfer, signed(made, WALLET)).status_code == 200


def test_opening_it_is_no_submission_of_the_transfer(ledger, actor, transfer, accounts, evm):
    offer(ledger, transfer, made := sponsored())
    ask_action(actor, transfer, ME)
    assert hand_in(actor, transfer, signed(made, WALLET)).status_code == 200
    assert cancel(actor, transfer, ME).json["stage"] == "CANCELLED"
    assert show(actor, transfer, ME).json["timeline"][-1]["stage"] == "CANCELLED"
    rows = ledger.execute(select(actions.c.kind).where(actions.c.transfer == transfer)).all()
    assert rows == [("stellar_trustline",)]
    assert submit(actor, transfer, evm.mine(order_for(transfer)), ME).status_code == 422


@pytest.fixture
def on_its_way(transfer, monkeypatch) -> str:
    """A deposit whose burn is final, and whose owner cannot be paid."""

    def progress_of(loaded):
        return replace(progress.progress_of(loaded), stage="AWAITING_TRUSTLINE")

    for module in (rules, submissions):
        monkeypatch.setattr(module, "progress_of", progress_of)
    return transfer


def test_what_is_on_its_way_can_still_be_received(ledger, actor, on_its_way):
    assert reason(actor, on_its_way) == "sponsoring"
    offer(ledger, on_its_way, made := sponsored())
    assert ask_action(actor, on_its_way, ME).json["action"]["kind"] == "stellar_trustline"
    assert hand_in(actor, on_its_way, signed(made, WALLET)).status_code == 200


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "waiting"),
        ({"is_authorized": False}, "not_authorized"),
        ({"room": 199_899_999}, "no_room"),
        ({"room": 199_900_000}, "waiting"),
    ],
)
def test_what_else_hinders_is_said(ledger, actor, on_its_way, accounts, changes, says):
    line = replace(accounts.lines[NOBODY, ASSET], **changes)
    accounts.lines[ME, ASSET] = line
    assert reason(actor, on_its_way) == says
    assert asked(ledger, on_its_way) == 0
