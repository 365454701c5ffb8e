"""Onboarding of an owner without a trustline: shown unsigned, submitted, stored for the relay."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, delete, func, insert, select, update
from stellar_sdk import Keypair, TransactionBuilder

from indexer.actions.onboarding import BASE_RESERVE, MAX_COST, OnboardingTerms, onboarding_tx
from tests.api.actions.test_signed import hand_in, refused
from tests.factories.acting import ask_action, deposit, order_for, stellar_payment, submit
from tests.factories.actions import MAINNET
from tests.factories.paid import pay
from tests.factories.sep10 import WALLET, make_rules
from tests.factories.started import NOBODY
from warehouse_schema.identifiers import UnixSeconds
from warehouse_schema.intake import consents
from warehouse_schema.relay import health, slots, sponsors

ME: Any = WALLET.public_key
SPONSOR: Any = Keypair.random().public_key
STELLAR = MAINNET.stellar
ASSET = STELLAR.usdc
PLACE = {"chain": STELLAR.id, "account": SPONSOR}
WELL = {"duty": "sponsor", "well": True, "balance": 10**9, "spent_today": 0, "open": 0}
WELL |= {"budget": 10**9, "floor": 10**7}
TERMS = {
    "next_number": 7,
    "min_deposit": 5 * 10**7,
    "payer_budget": 5 * 10**7,
    "budget_left": 50 * 10**7,
}


@pytest.fixture
def ledger(kept: Connection):
    """A warehouse with a sponsor that is well."""
    kept.execute(insert(health).values(PLACE | WELL))
    kept.execute(insert(sponsors).values(PLACE | TERMS))
    return kept


@pytest.fixture
def transfer(ledger, accounts) -> str:
    """A deposit of 20 USDC that is paid for good, and whose owner cannot be paid."""
    transfer = deposit(ledger, owner=ME, dest_address=ME)
    pay(ledger, transfer)
    return transfer


def shown(actor, transfer: str, account: str = ME) -> Any:
    answer = ask_action(actor, transfer, account).json
    assert answer["action"] is not None, answer
    return answer["action"]


def sequence_of(action: Any) -> int:
    built = TransactionBuilder.from_xdr(action["xdr"], STELLAR.passphrase)
    return built.transaction.sequence


def signed(action: Any, *keys: Keypair) -> str:
    envelope = TransactionBuilder.from_xdr(action["xdr"], STELLAR.passphrase)
    for key in keys:
        envelope.sign(key)
    return envelope.to_xdr()


def slot(ledger: Connection, transfer: str, number: int, **changes: Any) -> None:
    """A number that the sponsor gave to somebody."""
    key = {"purpose": "onboard", "key": f"{ME} {ASSET}", "subject": transfer}
    over = {"outcome": "confirmed", "spent": 3 * BASE_RESERVE, "closed_at": func.now()}
    ledger.execute(insert(slots).values(PLACE | key | over | {"number": number} | changes))


OPEN = {"outcome": None, "spent": None, "closed_at": None}


def reason(actor, transfer: str) -> tuple[str, str | None]:
    answer = ask_action(actor, transfer, ME).json
    assert answer["action"] is None
    needs = answer["needs_trustline"]
    return answer["reason"], None if needs is None else needs["reason"]


def test_paid_deposit_shows_an_unsigned_onboarding(ledger, actor, transfer):
    answer = ask_action(actor, transfer, ME).json
    made = answer["action"]
    assert (made["kind"], made["asset"]) == ("stellar_trustline", ASSET)
    envelope = TransactionBuilder.from_xdr(made["xdr"], made["network_passphrase"])
    assert (envelope.transaction.source.account_id, envelope.signatures) == (SPONSOR, [])
    assert sequence_of(made) == 7
    assert answer["needs_trustline"] == {
        "asset": ASSET,
        "creates_account": True,
        "reserve": "15020000",
        "sponsored": True,
        "reason": None,
    }
    assert shown(actor, transfer) == made, "the same as long as its number is free"


def test_signed_onboarding_is_stored_for_relay(ledger, actor, transfer):
    envelope = signed(shown(actor, transfer), WALLET)
    answer = hand_in(actor, transfer, envelope)
    assert answer.status_code == 200
    assert answer.json["stage"] == "AWAITING_TRUSTLINE"
    [row] = ledger.execute(select(consents)).all()
    built = TransactionBuilder.from_xdr(envelope, STELLAR.passphrase)
    assert (row.tx_hash, row.transfer) == (built.hash_hex(), transfer)
    assert (row.sponsor, row.number) == (SPONSOR, 7)
    assert row.signed == built.to_xdr_object().to_xdr_bytes()
    assert reason(actor, transfer) == ("waiting", None)
    assert refused(hand_in(actor, transfer, envelope), 409)[0] == "DUPLICATE_SUBMISSION"


def test_unsigned_onboardings_reserve_no_sequence(ledger, actor, transfer):
    for height in range(101, 106):
        silent = Keypair.random().public_key
        other = deposit(ledger, owner=silent, dest_address=silent)
        pay(ledger, other, height)
        assert sequence_of(shown(actor, other, silent)) == 7
    mine = shown(actor, transfer)
    assert sequence_of(mine) == 7
    assert hand_in(actor, transfer, signed(mine, WALLET)).status_code == 200


def test_used_sequence_is_refused_and_replaced(ledger, actor, transfer):
    mine = shown(actor, transfer)
    slot(ledger, "another", 7, key=f"{NOBODY} {ASSET}", **OPEN)
    assert refused(hand_in(actor, transfer, signed(mine, WALLET))) == (
        "SUBMISSION_MISMATCH",
        ["transaction"],
    )
    newer = shown(actor, transfer)
    assert sequence_of(newer) == 8
    assert hand_in(actor, transfer, signed(newer, WALLET)).status_code == 200


def test_signed_onboarding_with_used_sequence_is_replaced(ledger, actor, transfer):
    assert hand_in(actor, transfer, signed(shown(actor, transfer), WALLET)).status_code == 200
    slot(ledger, "another", 7, key=f"{NOBODY} {ASSET}", **OPEN)
    assert sequence_of(shown(actor, transfer)) == 8


def test_onboarding_in_progress_shows_waiting(ledger, actor, transfer):
    slot(ledger, transfer, 7, **OPEN)
    assert reason(actor, transfer) == ("waiting", None)


def test_account_created_meanwhile_changes_onboarding(ledger, actor, transfer, accounts):
    before = shown(actor, transfer)
    accounts.rules[ME] = make_rules()
    after = ask_action(actor, transfer, ME).json
    assert after["action"]["xdr"] != before["xdr"]
    assert after["needs_trustline"]["creates_account"] is False
    assert after["needs_trustline"]["reserve"] == "5020000"
    assert hand_in(actor, transfer, signed(after["action"], WALLET)).status_code == 200


def test_unpaid_deposit_is_not_sponsored(ledger, actor, accounts):
    unpaid = deposit(ledger, owner=ME, dest_address=ME)
    answer = ask_action(actor, unpaid, ME).json
    assert answer["action"]["kind"] == "evm_calls"
    assert answer["needs_trustline"]["sponsored"] is True, "a forecast"


def test_owner_with_a_trustline_needs_none(ledger, actor, accounts):
    accounts.lines[ME, ASSET] = accounts.lines[NOBODY, ASSET]
    answer = ask_action(actor, deposit(ledger, owner=ME, dest_address=ME), ME).json
    assert (answer["action"]["kind"], answer["needs_trustline"]) == ("evm_calls", None)


Spoil = Callable[[Connection], Any]


def sponsors_say(**changes: Any) -> Spoil:
    return lambda ledger: ledger.execute(update(sponsors).values(changes))


def health_says(**changes: Any) -> Spoil:
    return lambda ledger: ledger.execute(update(health).values(changes))


def used_up(ledger: Connection) -> None:
    health_says(well=False, reason="the day's budget is used up")(ledger)
    sponsors_say(budget_left=MAX_COST - 1)(ledger)


def payer_used_up(ledger: Connection) -> None:
    """Two accounts today, of the three that fit, for deposits that the same address paid."""
    for number in (5, 6):
        before = deposit(ledger, owner=NOBODY, dest_address=NOBODY)
        slot(ledger, before, number, key=f"{number} {ASSET}", spent=2 * 10**7)


def failed_often(ledger: Connection) -> None:
    for number in (4, 5, 6):
        slot(ledger, "before", number, outcome="already_done", spent=1)


UNSPONSORED: dict[str, tuple[Spoil, str]] = {
    "no sponsor": (lambda ledger: ledger.execute(delete(health)), "no_sponsor"),
    "unwell": (health_says(well=False, reason="3 stroops on the account"), "no_sponsor"),
    "silent": (health_says(seen_at=func.now() - timedelta(minutes=3)), "no_sponsor"),
    "delivers": (health_says(duty="deliver"), "no_sponsor"),
    "day's budget used": (used_up, "budget_used"),
    "payer's budget used": (payer_used_up, "payer_budget_used"),
    "too small": (sponsors_say(min_deposit=20 * 10**7 + 1), "deposit_too_small"),
    "before": (lambda ledger: slot(ledger, "before", 6), "already_sponsored"),
    "failed often": (failed_often, "failed_too_often"),
}


@pytest.mark.parametrize("case", UNSPONSORED)
def test_unsponsored_owner_gets_reason_and_reserve(ledger, actor, transfer, case):
    spoil, why = UNSPONSORED[case]
    unpaid = deposit(ledger, owner=ME, dest_address=ME)
    spoil(ledger)
    assert reason(actor, transfer) == ("no_trustline", why)
    before = ask_action(actor, unpaid, ME).json
    assert before["action"]["kind"] == "evm_calls", "paying is safe, and what it takes is said"
    needs = before["needs_trustline"]
    assert (needs["sponsored"], needs["reason"], needs["reserve"]) == (False, why, "15020000")


def test_recipient_of_a_payment_cannot_be_signed_for(ledger, actor, accounts):
    accounts.lines.clear()
    payment = stellar_payment(ledger, owner=ME, source_address=ME)
    assert reason(actor, payment) == ("no_trustline", None)


def test_mismatched_onboarding_is_refused(ledger, actor, transfer):
    made = OnboardingTerms(SPONSOR, 7, True, UnixSeconds(0), UnixSeconds(2**32))
    other = {"xdr": onboarding_tx(STELLAR.passphrase, ME, ASSET, made).envelope}
    assert refused(hand_in(actor, transfer, signed(other, WALLET))) == (
        "SUBMISSION_MISMATCH",
        ["kind"],
    ), "nothing was shown so far"
    mine = shown(actor, transfer)
    for envelope, field in (
        (mine["xdr"], "signatures"),
        (signed(mine, Keypair.random()), "signatures"),
        (signed(mine, WALLET, Keypair.random()), "signatures"),
        (signed(other, WALLET), "transaction"),
    ):
        assert refused(hand_in(actor, transfer, envelope)) == ("SUBMISSION_MISMATCH", [field])
    assert ledger.execute(select(consents)).all() == []


def test_onboarding_is_no_submission_of_the_transfer(ledger, actor, transfer, evm):
    assert hand_in(actor, transfer, signed(shown(actor, transfer), WALLET)).status_code == 200
    assert submit(actor, transfer, evm.mine(order_for(transfer)), ME).status_code == 422


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "waiting"),
        ({"is_authorized": False}, "not_authorized"),
        ({"room": 199_899_999}, "no_room"),
        ({"room": 199_900_000}, "waiting"),
    ],
)
def test_other_obstacles_are_shown(ledger, actor, transfer, accounts, changes, says):
    accounts.lines[ME, ASSET] = replace(accounts.lines[NOBODY, ASSET], **changes)
    assert reason(actor, transfer) == (says, None)
