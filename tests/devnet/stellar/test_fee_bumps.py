"""Fee bump transactions (CAP-15): fees, hashes, errors and replacement."""

import pytest
from stellar_sdk import Asset, Keypair, TransactionBuilder, TransactionEnvelope, scval
from stellar_sdk.operation import Payment, SetOptions

from devnet.stellar import building
from devnet.stellar.accounts import PASSPHRASE, address
from devnet.stellar.asset_events import token_contract
from devnet.stellar.rpc import Rpc
from tests.devnet.stellar.chain import Chain, codes, fee_bid, refusal, result

XLM = Asset.native()
HELD = ("txFEE_BUMP_INNER_SUCCESS", "txSUCCESS", "PAYMENT_SUCCESS")


@pytest.fixture
def chain():
    return Chain()


@pytest.fixture
def alice(chain):
    return chain.open("alice")


@pytest.fixture
def payer(chain):
    return chain.open("payer")


def pay_one():
    return Payment(address("admin"), XLM, "1")


def inside(chain, source, *operations, **options) -> TransactionEnvelope:
    return chain.envelope(source, operations or [pay_one()], **options)


def bumped(payer: Keypair, inner, base_fee=200, signer=None, fee=None):
    bump = TransactionBuilder.build_fee_bump_transaction(payer, base_fee, inner, PASSPHRASE)
    if fee is not None:
        bump.transaction.fee = fee
    bump.sign(signer or payer)
    return bump


def send(chain, bump):
    return chain.node.submit(bump.to_xdr_object())


def taken(chain, bump):
    submission = send(chain, bump)
    assert submission.status == "PENDING", refusal(submission)
    chain.node.close_ledger()
    return chain.node.transaction(bump.hash_hex())


def test_payer_pays_fee_and_source_spends_sequence_number(chain, alice, payer):
    before, purse = (chain.account(who.public_key) for who in (alice, payer))
    row = taken(chain, bumped(payer, inside(chain, alice)))
    after, left = (chain.account(who.public_key) for who in (alice, payer))
    assert codes(row) == HELD
    assert (after.balance, after.sequence) == (before.balance - 10**7, before.sequence + 1)
    # The base fee of one operation, and of one more for the bump; not all that was bid.
    assert (left.balance, left.sequence) == (purse.balance - 200, purse.sequence)
    assert result(row).fee_charged.int64 == 200
    assert result(row).result.inner_result_pair.result.fee_charged.int64 == 0


def test_fee_bump_is_found_by_outer_and_inner_hash(chain, alice, payer):
    inner = inside(chain, alice)
    row = taken(chain, bumped(payer, inner))
    pair = result(row).result.inner_result_pair
    assert pair.transaction_hash.hash.hex() == row.inner_hash == inner.hash_hex()
    assert chain.node.transaction(inner.hash_hex()) is row
    answer = Rpc(chain.node).call("getTransaction", {"hash": inner.hash_hex()})
    assert (answer["txHash"], answer["feeBump"], answer["status"]) == (
        inner.hash_hex(),
        True,
        "SUCCESS",
    )


def test_failed_inner_transaction_still_costs_the_payer(chain, alice, payer):
    purse = chain.account(payer.public_key)
    row = taken(chain, bumped(payer, inside(chain, alice, Payment(payer.public_key, XLM, "9999"))))
    assert codes(row) == ("txFEE_BUMP_INNER_FAILED", "txFAILED", "PAYMENT_UNDERFUNDED")
    assert not row.succeeded
    assert chain.account(payer.public_key).balance == purse.balance - 200


def test_inner_fee_of_zero_is_accepted(chain, alice, payer):
    inner = inside(chain, alice)
    inner.transaction.fee = 0
    inner.signatures.clear()
    inner.sign(alice)
    assert codes(taken(chain, bumped(payer, inner))) == HELD


@pytest.mark.parametrize(
    ("fee", "named"),
    [(199, 0), (1999, 2000)],
)
def test_fee_bump_below_minimum_or_inner_rate_is_refused(chain, alice, payer, fee, named):
    inner = inside(chain, alice)
    if named:
        inner.transaction.fee = 1000
        inner.signatures.clear()
        inner.sign(alice)
    submission = send(chain, bumped(payer, inner, base_fee=1000, fee=fee))
    assert refusal(submission) == ("txINSUFFICIENT_FEE",)
    assert submission.error.fee_charged.int64 == named


def test_inner_error_is_reported_as_inner_failed(chain, alice, payer):
    late = inside(chain, alice, sequence=chain.account(alice.public_key).sequence + 2)
    assert refusal(send(chain, bumped(payer, late))) == ("txFEE_BUMP_INNER_FAILED", "txBAD_SEQ")
    old = inside(chain, alice, time_bounds=(0, chain.now - 1))
    assert refusal(send(chain, bumped(payer, old))) == ("txFEE_BUMP_INNER_FAILED", "txTOO_LATE")
    stolen = inside(chain, alice)
    stolen.signatures.clear()
    stolen.sign(payer)
    assert refusal(send(chain, bumped(payer, stolen))) == ("txFEE_BUMP_INNER_FAILED", "txBAD_AUTH")


def test_payer_is_checked_before_the_inner_transaction(chain, alice, payer):
    inner = inside(chain, alice, sequence=1)
    assert refusal(send(chain, bumped(payer, inner, signer=alice))) == ("txBAD_AUTH",)
    twice = bumped(payer, inner)
    twice.sign(alice)
    assert refusal(send(chain, twice)) == ("txBAD_AUTH_EXTRA",)
    nobody = Keypair.from_raw_ed25519_seed(bytes(32))
    assert refusal(send(chain, bumped(nobody, inner))) == ("txNO_ACCOUNT",)
    everything = chain.account(payer.public_key).spendable + 1
    too_much = bumped(payer, inner, fee=everything)
    assert refusal(send(chain, too_much)) == ("txINSUFFICIENT_BALANCE",)


def test_payer_must_afford_all_pending_fee_bumps(chain, alice, payer):
    bob = chain.open("bob")
    half = chain.account(payer.public_key).spendable // 2 + 1
    assert send(chain, bumped(payer, inside(chain, alice), fee=half)).status == "PENDING"
    second = send(chain, bumped(payer, inside(chain, bob), fee=half))
    assert refusal(second) == ("txINSUFFICIENT_BALANCE",)
    assert send(chain, bumped(payer, inside(chain, bob))).status == "PENDING"
    ledger = chain.node.close_ledger()
    assert [codes(row) for row in ledger.transactions] == [HELD, HELD]


def test_pending_fee_bump_is_replaced_at_ten_times_its_rate(chain, alice, payer):
    inner = inside(chain, alice)
    first = bumped(payer, inner)
    assert send(chain, first).status == "PENDING"
    assert send(chain, first).status == "DUPLICATE"
    assert chain.node.submit(inner.to_xdr_object()).status == "DUPLICATE"
    # Another of the same source waits its turn, whatever it bids.
    following = inside(chain, alice, sequence=inner.transaction.sequence + 1)
    assert send(chain, bumped(payer, following, base_fee=9000)).status == "TRY_AGAIN_LATER"
    low = send(chain, bumped(payer, inner, base_fee=1999))
    assert refusal(low) == ("txINSUFFICIENT_FEE",)
    assert low.error.fee_charged.int64 == 4000
    better = bumped(payer, inner, base_fee=2000)
    assert send(chain, better).status == "PENDING"
    ledger = chain.node.close_ledger()
    assert [row.hash for row in ledger.transactions] == [better.hash_hex()]
    again = send(chain, better)
    assert refusal(again) == ("txFEE_BUMP_INNER_FAILED", "txBAD_SEQ")


def test_fee_bump_needs_low_threshold_of_the_payer(chain, alice, payer):
    chain.run(payer, SetOptions(low_threshold=2, med_threshold=2, high_threshold=2))
    assert refusal(send(chain, bumped(payer, inside(chain, alice)))) == ("txBAD_AUTH",)


def test_unused_resource_fee_is_refunded_to_the_payer(chain, alice, payer):
    purse = chain.account(payer.public_key)
    native = token_contract(XLM)
    call = building.call(native, "balance", scval.to_address(alice.public_key))
    row = taken(chain, bumped(payer, inside(chain, alice, call)))
    assert codes(row)[:2] == ("txFEE_BUMP_INNER_SUCCESS", "txSUCCESS")
    paid = result(row).fee_charged.int64
    assert 200 < paid < fee_bid(row)
    assert chain.account(payer.public_key).balance == purse.balance - paid
