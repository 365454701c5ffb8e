"""Transactions that a ledger accepts, and the codes of those that fail."""

import pytest
from stellar_sdk import Asset, Keypair, MuxedAccount, SignerKey, scval
from stellar_sdk.memo import HashMemo, IdMemo, TextMemo
from stellar_sdk.operation import (
    AccountMerge,
    BumpSequence,
    ChangeTrust,
    CreateAccount,
    Inflation,
    ManageData,
    Payment,
    SetOptions,
    SetTrustLineFlags,
)
from stellar_sdk.operation.set_options import AuthorizationFlag
from stellar_sdk.operation.set_trust_line_flags import TrustLineFlags
from stellar_sdk.preconditions import Preconditions
from stellar_sdk.signer import Signer

from devnet.stellar import building
from devnet.stellar.accounts import USDC, USDC_ISSUER, address, keypair
from devnet.stellar.asset_events import token_contract
from devnet.stellar.entries import BASE_RESERVE
from tests.devnet.stellar.chain import (
    UNIT,
    Chain,
    codes,
    events,
    fee_bid,
    refusal,
    result,
)

XLM_CONTRACT = token_contract(Asset.native())


@pytest.fixture
def chain():
    return Chain()


def pay_one(destination=None):
    return Payment(destination or address("admin"), Asset.native(), "1")


def test_payment_moves_the_asset_and_emits_a_transfer(chain):
    alice, bob = chain.open("alice", usdc=5 * UNIT), chain.open("bob", usdc=0)
    row = chain.pay(alice, bob.public_key, 2 * UNIT)
    assert codes(row) == ("txSUCCESS", "PAYMENT_SUCCESS")
    assert (chain.balance(alice.public_key), chain.balance(bob.public_key)) == (3 * UNIT, 2 * UNIT)
    topics = ["transfer", alice.public_key, bob.public_key, f"USDC:{USDC.issuer}"]
    assert events(row) == [(token_contract(USDC), topics, 2 * UNIT)]


def test_payment_from_issuer_mints_and_to_issuer_burns(chain):
    alice = chain.open("alice", usdc=0)
    minted = chain.pay(keypair(USDC_ISSUER), alice.public_key, UNIT)
    burned = chain.pay(alice, address(USDC_ISSUER), UNIT)
    assert [topics[:2] for _, topics, _ in events(minted)] == [["mint", alice.public_key]]
    assert [topics[:2] for _, topics, _ in events(burned)] == [["burn", alice.public_key]]
    assert chain.balance(alice.public_key) == 0


@pytest.mark.parametrize(
    ("memo", "told"),
    [
        (IdMemo(7), 7),
        (TextMemo("order 7"), "order 7"),
        (HashMemo(b"\7" * 32), b"\7" * 32),
    ],
)
def test_memo_names_the_receiving_customer(chain, memo, told):
    alice = chain.open("alice")
    row = chain.run(alice, pay_one(), memo=memo)
    assert events(row)[0][2] == {"amount": UNIT, "to_muxed_id": told}


def test_muxed_destination_overrides_the_memo(chain):
    alice = chain.open("alice")
    muxed = MuxedAccount(address("admin"), 42)
    row = chain.run(alice, pay_one(muxed), memo=IdMemo(7))
    assert events(row)[0][1][2] == address("admin")
    assert events(row)[0][2] == {"amount": UNIT, "to_muxed_id": 42}


def test_create_account_is_transfer_and_sets_sequence(chain):
    alice, bob = chain.open("alice"), keypair("bob")
    row = chain.run(alice, CreateAccount(bob.public_key, "5"))
    assert events(row)[0][1][:3] == ["transfer", alice.public_key, bob.public_key]
    assert chain.account(bob.public_key).sequence == row.ledger << 32


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("underfunded", "PAYMENT_UNDERFUNDED"),
        ("no trust", "PAYMENT_NO_TRUST"),
        ("no source trust", "PAYMENT_SRC_NO_TRUST"),
        ("no destination", "PAYMENT_NO_DESTINATION"),
        ("line full", "PAYMENT_LINE_FULL"),
        ("not authorised", "PAYMENT_NOT_AUTHORIZED"),
        ("reserve", "PAYMENT_UNDERFUNDED"),
    ],
)
def test_invalid_payment_fails_with_its_code(chain, case, expected):
    alice, bob = chain.open("alice", usdc=5 * UNIT), chain.open("bob", usdc=0)
    carol = chain.open("carol")
    issuer = keypair(USDC_ISSUER)
    source, operation = alice, Payment(bob.public_key, USDC, "1")
    match case:
        case "underfunded":
            operation = Payment(bob.public_key, USDC, "6")
        case "no trust":
            operation = Payment(carol.public_key, USDC, "1")
        case "no source trust":
            source = carol
        case "no destination":
            operation = Payment(keypair("nobody").public_key, USDC, "1")
        case "line full":
            chain.run(bob, ChangeTrust(USDC, "0.5"))
        case "not authorised":
            flag = TrustLineFlags.AUTHORIZED_FLAG
            chain.run(issuer, SetTrustLineFlags(bob.public_key, USDC, clear_flags=flag))
        case "reserve":
            operation = Payment(bob.public_key, Asset.native(), "999.5")
    row = chain.run(source, operation)
    assert codes(row) == ("txFAILED", expected)
    assert events(row) == []


def test_failed_transaction_costs_only_fee_and_sequence(chain):
    alice, bob = chain.open("alice"), chain.open("bob")
    before, other = chain.account(alice.public_key), chain.account(bob.public_key)
    row = chain.run(alice, pay_one(bob.public_key), Payment(bob.public_key, USDC, "1"))
    assert codes(row) == ("txFAILED", "PAYMENT_SUCCESS", "PAYMENT_NO_TRUST")
    after = chain.account(alice.public_key)
    assert (after.balance, after.sequence) == (before.balance - 200, before.sequence + 1)
    assert chain.account(bob.public_key) == other


def test_used_or_skipped_sequence_number_is_refused(chain):
    alice = chain.open("alice")
    next_one = chain.account(alice.public_key).sequence + 1
    for sequence in (next_one - 1, next_one + 1):
        assert refusal(chain.submit(alice, [pay_one()], sequence=sequence)) == ("txBAD_SEQ",)
    assert chain.account(alice.public_key).sequence == next_one - 1


@pytest.mark.parametrize(
    ("offset", "expected"),
    [((100, 0), "txTOO_EARLY"), ((-200, -100), "txTOO_LATE")],
)
def test_time_bounds_use_the_close_time(chain, offset, expected):
    alice = chain.open("alice")
    bounds = tuple(chain.now + seconds if seconds else 0 for seconds in offset)
    submission = chain.submit(alice, [pay_one()], time_bounds=bounds)
    assert refusal(submission) == (expected,)


def test_transaction_that_expires_in_the_queue_is_dropped(chain):
    alice = chain.open("alice")
    queued = chain.submit(alice, [pay_one()], time_bounds=(0, chain.now + 10))
    assert queued.status == "PENDING"
    chain.at(chain.now + 11)
    assert chain.node.transaction(queued.hash) is None
    assert chain.run(alice, pay_one()).succeeded


def test_signature_of_another_account_is_refused(chain):
    alice, bob = chain.open("alice"), chain.open("bob")
    envelope = chain.envelope(alice, [pay_one()])
    envelope.signatures.clear()
    envelope.sign(bob)
    assert refusal(chain.node.submit(envelope.to_xdr_object())) == ("txBAD_AUTH",)


def test_operation_of_another_account_needs_its_signature(chain):
    alice, bob = chain.open("alice"), chain.open("bob")
    operation = Payment(alice.public_key, Asset.native(), "1", source=bob.public_key)
    unsigned = chain.submit(alice, [operation])
    assert refusal(unsigned) == ("txFAILED", "opBAD_AUTH")
    assert chain.run(alice, operation, signers=[bob]).succeeded


def test_unneeded_signature_is_refused(chain):
    alice, bob = chain.open("alice"), chain.open("bob")
    assert refusal(chain.submit(alice, [pay_one()], signers=[bob])) == ("txBAD_AUTH_EXTRA",)
    twice = chain.envelope(alice, [pay_one()])
    twice.signatures.append(twice.signatures[0])
    assert refusal(chain.node.submit(twice.to_xdr_object())) == ("txBAD_AUTH_EXTRA",)


def test_signer_weights_add_up_to_the_threshold(chain):
    alice, bob = chain.open("alice"), keypair("bob")
    signer = Signer(SignerKey.ed25519_public_key(bob.public_key), 2)
    chain.run(alice, SetOptions(signer=signer, low_threshold=1, med_threshold=3, high_threshold=3))
    assert chain.account(alice.public_key).subentries == 1
    assert refusal(chain.submit(alice, [pay_one()])) == ("txFAILED", "opBAD_AUTH")
    assert chain.run(alice, pay_one(), signers=[bob]).succeeded
    # A bump needs the low threshold alone, so the second signature has no use.
    bump = BumpSequence(0)
    assert refusal(chain.submit(alice, [bump], signers=[bob])) == ("txBAD_AUTH_EXTRA",)
    assert chain.run(alice, bump).succeeded


def test_locked_issuer_cannot_sign(chain):
    alice = chain.open("alice")
    chain.run(alice, SetOptions(master_weight=0))
    assert refusal(chain.submit(alice, [pay_one()])) == ("txBAD_AUTH",)


def test_missing_account_cannot_be_the_source(chain):
    assert refusal(chain.submit(keypair("nobody"), [pay_one()], sequence=1)) == ("txNO_ACCOUNT",)


def test_fee_below_base_fee_is_refused(chain):
    alice = chain.open("alice")
    envelope = chain.envelope(alice, [pay_one(), pay_one()])
    envelope.transaction.fee = 199
    envelope.signatures.clear()
    envelope.sign(alice)
    assert refusal(chain.node.submit(envelope.to_xdr_object())) == ("txINSUFFICIENT_FEE",)


def test_reserve_cannot_pay_fees(chain):
    alice = chain.open("alice")
    left = chain.account(alice.public_key)
    chain.pay(alice, address("admin"), left.spendable - 100, Asset.native())
    assert chain.account(alice.public_key).balance == 2 * BASE_RESERVE
    assert refusal(chain.submit(alice, [pay_one()])) == ("txINSUFFICIENT_BALANCE",)


def test_unsupported_operation_never_succeeds(chain):
    submission = chain.submit(chain.open("alice"), [Inflation()])
    assert refusal(submission) == ("txFAILED", "opNOT_SUPPORTED")


def test_ledger_takes_one_transaction_per_source(chain):
    alice = chain.open("alice")
    first = chain.envelope(alice, [pay_one()])
    assert chain.node.submit(first.to_xdr_object()).status == "PENDING"
    assert chain.node.submit(first.to_xdr_object()).status == "DUPLICATE"
    second = chain.submit(alice, [pay_one()], sequence=first.transaction.sequence + 1)
    assert second.status == "TRY_AGAIN_LATER"
    chain.node.close_ledger()
    # A ledger has taken it: to a real node, its sequence number is merely too low by now.
    assert refusal(chain.node.submit(first.to_xdr_object())) == ("txBAD_SEQ",)


def test_malformed_operation_is_refused_without_fee(chain):
    alice = chain.open("alice")
    itself = CreateAccount(alice.public_key, "5")
    assert refusal(chain.submit(alice, [itself])) == ("txFAILED", "CREATE_ACCOUNT_MALFORMED")


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([CreateAccount(address("admin"), "5")], "CREATE_ACCOUNT_ALREADY_EXIST"),
        ([CreateAccount(keypair("new").public_key, "0.9")], "CREATE_ACCOUNT_LOW_RESERVE"),
        ([CreateAccount(keypair("new").public_key, "1000")], "CREATE_ACCOUNT_UNDERFUNDED"),
        ([ChangeTrust(USDC, "0")], "CHANGE_TRUST_INVALID_LIMIT"),
        (
            [ChangeTrust(Asset("NONE", keypair("nobody").public_key))],
            "CHANGE_TRUST_NO_ISSUER",
        ),
        ([ManageData("absent", None)], "MANAGE_DATA_NAME_NOT_FOUND"),
        ([AccountMerge(keypair("nobody").public_key)], "ACCOUNT_MERGE_NO_ACCOUNT"),
    ],
)
def test_invalid_operations_fail_with_their_codes(chain, operations, expected):
    alice = chain.open("alice")
    assert codes(chain.run(alice, *operations)) == ("txFAILED", expected)


def test_trustline_is_a_subentry_and_removable_when_empty(chain):
    alice = chain.open("alice", usdc=UNIT)
    assert chain.account(alice.public_key).subentries == 1
    kept = chain.run(alice, ChangeTrust(USDC, "0"))
    assert codes(kept) == ("txFAILED", "CHANGE_TRUST_INVALID_LIMIT")
    chain.pay(alice, address(USDC_ISSUER), UNIT)
    gone = chain.run(alice, ChangeTrust(USDC, "0"))
    assert gone.succeeded
    assert chain.trustline(alice.public_key, USDC) is None
    assert chain.account(alice.public_key).subentries == 0


def test_asset_with_auth_required_needs_the_issuer(chain):
    issuer, alice = chain.open("issuer"), chain.open("alice")
    asset = Asset("GATED", issuer.public_key)
    chain.run(issuer, SetOptions(set_flags=AuthorizationFlag.AUTHORIZATION_REQUIRED))
    chain.run(alice, ChangeTrust(asset))
    refused = chain.pay(issuer, alice.public_key, UNIT, asset)
    assert codes(refused) == ("txFAILED", "PAYMENT_NOT_AUTHORIZED")
    flag = TrustLineFlags.AUTHORIZED_FLAG
    allowed = chain.run(issuer, SetTrustLineFlags(alice.public_key, asset, set_flags=flag))
    assert events(allowed)[0][1][:2] == ["set_authorized", alice.public_key]
    assert chain.pay(issuer, alice.public_key, UNIT, asset).succeeded


def test_merge_pays_whole_balance_and_removes_account(chain):
    alice, bob = chain.open("alice"), chain.open("bob")
    before = chain.account(bob.public_key).balance
    rest = chain.account(alice.public_key).balance - 100
    row = chain.run(alice, AccountMerge(bob.public_key))
    assert chain.account(alice.public_key) is None
    assert chain.account(bob.public_key).balance == before + rest
    merged = result(row).result.results[0].tr.account_merge_result
    assert merged.source_account_balance.int64 == rest


def test_data_entries_are_set_and_removed(chain):
    alice = chain.open("alice")
    chain.run(alice, ManageData("greeting", "hello"))
    assert chain.account(alice.public_key).subentries == 1
    chain.run(alice, ManageData("greeting", None))
    assert chain.account(alice.public_key).subentries == 0


def test_min_sequence_age_and_gap_are_enforced(chain):
    alice = chain.open("alice")
    chain.run(alice, pay_one())
    young = chain.envelope(alice, [pay_one()])
    young.transaction.preconditions = Preconditions(min_sequence_age=60)
    young.signatures.clear()
    young.sign(alice)
    submission = chain.node.submit(young.to_xdr_object())
    assert refusal(submission) == ("txBAD_MIN_SEQ_AGE_OR_GAP",)
    chain.at(chain.now + 60)
    assert chain.node.submit(young.to_xdr_object()).status == "PENDING"


def test_contract_call_with_memo_or_second_operation_fails(chain):
    alice = chain.open("alice")
    call = building.call(XLM_CONTRACT, "balance", scval.to_address(alice.public_key))
    assert refusal(chain.submit(alice, [call], memo=IdMemo(1))) == ("txSOROBAN_INVALID",)
    two = chain.envelope(alice, [call])
    two.transaction.operations.append(pay_one())
    two.transaction.fee += 100
    two.signatures.clear()
    two.sign(alice)
    assert refusal(chain.node.submit(two.to_xdr_object())) == ("txMALFORMED",)


def test_unused_resource_fee_is_refunded_after_the_set(chain):
    alice = chain.open("alice")
    before = chain.account(alice.public_key).balance
    row = chain.call(alice, XLM_CONTRACT, "balance", scval.to_address(alice.public_key))
    paid = result(row).fee_charged.int64
    assert 100 < paid < fee_bid(row)
    assert chain.account(alice.public_key).balance == before - paid


def test_keys_follow_from_the_public_phrase():
    seed = keypair("taker one").raw_secret_key()
    assert Keypair.from_raw_ed25519_seed(seed).public_key == address("taker one")
