"""A deposit's owner without a trustline: asked for, shown once it is signed, handed in, kept."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, delete, func, insert, select, update
from stellar_sdk import Keypair, TransactionBuilder

from indexer.actions.stellar_tx import StellarTx, draft, onboarding
from tests.api.actions.test_signed import hand_in, refused
from tests.factories.acting import ask_action, deposit, stellar_payment
from tests.factories.actions import MAINNET
from tests.factories.paid import forget_payments, pay
from tests.factories.projections import CLOSE_TIME
from tests.factories.sep10 import WALLET, make_rules
from tests.factories.started import NOBODY
from warehouse_schema.identifiers import StellarAddress, UnixSeconds
from warehouse_schema.intake import consents, onboardings
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
    forget_payments(kept)


@pytest.fixture
def transfer(ledger, accounts) -> str:
    """A deposit that is paid for good, and whose owner cannot be paid."""
    transfer = deposit(ledger, owner=ME, dest_address=ME)
    pay(ledger, transfer)
    return transfer


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
        "AWAITING_TRUSTLINE",
        None,
    )
    [row] = ledger.execute(select(consents)).all()
    raw = TransactionBuilder.from_xdr(envelope, STELLAR.passphrase).to_xdr_object().to_xdr_bytes()
    assert (row.tx_hash, row.transfer, row.signed) == (made.tx, transfer, raw)
    assert reason(actor, transfer) == "waiting"
    assert refused(hand_in(actor, transfer, envelope), 409)[0] == "DUPLICATE_SUBMISSION"


def test_unpaid_deposit_is_not_sponsored(ledger, actor, accounts):
    unpaid = deposit(ledger, owner=ME, dest_address=ME)
    assert ask_action(actor, unpaid, ME).json["action"]["kind"] == "evm_calls"
    assert asked(ledger, unpaid) == 0


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


def test_the_weight_of_an_account_that_is_there_counts(ledger, actor, transfer, accounts):
    accounts.rules[ME] = make_rules()
    offer(ledger, transfer, made := sponsored())
    ask_action(actor, transfer, ME)
    assert hand_in(actor, transfer, signed(made, WALLET)).status_code == 200


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "waiting"),
        ({"is_authorized": False}, "not_authorized"),
        ({"room": 199_899_999}, "no_room"),
        ({"room": 199_900_000}, "waiting"),
    ],
)
def test_what_else_hinders_is_said(ledger, actor, transfer, accounts, changes, says):
    line = replace(accounts.lines[NOBODY, ASSET], **changes)
    accounts.lines[ME, ASSET] = line
    assert reason(actor, transfer) == says
    assert asked(ledger, transfer) == 0
