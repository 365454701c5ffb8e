"""Sponsored reserves (CAP-33): accounts, entries, signatures and removal."""

import pytest
from stellar_sdk import SignerKey, xdr
from stellar_sdk.operation import (
    AccountMerge,
    BeginSponsoringFutureReserves,
    ChangeTrust,
    CreateAccount,
    EndSponsoringFutureReserves,
    ManageData,
    Payment,
    SetOptions,
)
from stellar_sdk.signer import Signer

from devnet.stellar.accounts import USDC, USDC_ISSUER, USDT0, XLM, address, keypair
from devnet.stellar.entries import BASE_RESERVE, account_key, trustline_key
from tests.devnet.stellar.chain import UNIT, Chain, codes, refusal

NEW = keypair("newcomer")
BEGUN, ENDED = (
    "BEGIN_SPONSORING_FUTURE_RESERVES_SUCCESS",
    "END_SPONSORING_FUTURE_RESERVES_SUCCESS",
)


@pytest.fixture
def chain():
    return Chain()


@pytest.fixture
def sponsor(chain):
    return chain.open("sponsor")


def around(*operations, who=NEW):
    """What the sponsor, which is the transaction's source, pays for."""
    return (
        BeginSponsoringFutureReserves(who.public_key),
        *operations,
        EndSponsoringFutureReserves(source=who.public_key),
    )


def onboarding(who=NEW, *assets):
    trust = [ChangeTrust(asset, source=who.public_key) for asset in assets or (USDC,)]
    return around(CreateAccount(who.public_key, "0"), *trust, who=who)


def sponsor_of(chain, key):
    entry = xdr.LedgerEntry.from_xdr_bytes(chain.node.entry(key))
    return chain.view().sponsor(key) if entry.ext.v else None


def test_sponsored_account_and_trustline_need_no_balance(chain, sponsor):
    before = chain.account(sponsor.public_key)
    row = chain.run(sponsor, *onboarding(), signers=[NEW])
    assert codes(row) == (
        "txSUCCESS",
        BEGUN,
        "CREATE_ACCOUNT_SUCCESS",
        "CHANGE_TRUST_SUCCESS",
        ENDED,
    )
    new, after = chain.account(NEW.public_key), chain.account(sponsor.public_key)
    assert (new.balance, new.reserve, new.sponsored, new.subentries) == (0, 0, 3, 1)
    assert (after.sponsoring, after.balance) == (3, before.balance - 400)
    assert after.reserve == before.reserve + 3 * BASE_RESERVE
    for key in (account_key(NEW.public_key), trustline_key(NEW.public_key, USDC)):
        assert sponsor_of(chain, key) == sponsor.public_key


def test_sponsor_remains_when_the_entry_changes(chain, sponsor):
    chain.run(sponsor, *onboarding(), signers=[NEW])
    chain.pay(keypair(USDC_ISSUER), NEW.public_key, 5 * UNIT)
    chain.pay(sponsor, NEW.public_key, UNIT, XLM)
    assert chain.balance(NEW.public_key) == 5 * UNIT
    for key in (account_key(NEW.public_key), trustline_key(NEW.public_key, USDC)):
        assert sponsor_of(chain, key) == sponsor.public_key
    # With a reserve of nothing, all that it has of XLM is its own to spend.
    assert chain.account(NEW.public_key).spendable == UNIT


def test_removed_entry_releases_the_sponsors_reserve(chain, sponsor):
    chain.run(sponsor, *onboarding(), signers=[NEW])
    chain.pay(sponsor, NEW.public_key, UNIT, XLM)
    chain.run(NEW, ChangeTrust(USDC, "0"))
    assert chain.account(sponsor.public_key).sponsoring == 2
    assert chain.account(NEW.public_key).sponsored == 2
    # A later ledger's number lies above the sequence with which the account began.
    for _ in range(3):
        chain.node.close_ledger()
    chain.run(NEW, AccountMerge(address("admin")))
    assert chain.account(sponsor.public_key).sponsoring == 0


def test_data_and_signers_are_sponsored_like_trustlines(chain, sponsor):
    alice = chain.open("alice")
    signer = Signer(SignerKey.ed25519_public_key(NEW.public_key), 1)
    added = (
        ManageData("greeting", "hello", source=alice.public_key),
        SetOptions(signer=signer, source=alice.public_key),
    )
    assert chain.run(sponsor, *around(*added, who=alice), signers=[alice]).succeeded
    assert chain.account(alice.public_key).sponsored == 2
    assert chain.account(alice.public_key).reserve == 2 * BASE_RESERVE
    chain.run(alice, ManageData("greeting", "changed"))
    gone = Signer(SignerKey.ed25519_public_key(NEW.public_key), 0)
    chain.run(alice, ManageData("greeting", None), SetOptions(signer=gone))
    assert chain.account(alice.public_key).sponsored == 0
    assert chain.account(sponsor.public_key).sponsoring == 0


def test_unended_sponsorship_fails_the_transaction(chain, sponsor):
    left_open = onboarding()[:-1]
    row = chain.run(sponsor, *left_open, signers=[NEW])
    assert codes(row) == ("txBAD_SPONSORSHIP",)
    assert chain.account(NEW.public_key) is None
    assert chain.account(sponsor.public_key).sponsoring == 0


def test_sponsored_account_must_sign(chain, sponsor):
    begun, created, trusted, ended = onboarding()
    submission = chain.submit(sponsor, [begun, created, trusted, ended])
    assert refusal(submission) == (
        "txFAILED",
        BEGUN,
        "CREATE_ACCOUNT_SUCCESS",
        "opBAD_AUTH",
        "opBAD_AUTH",
    )


def test_sponsor_without_balance_is_refused(chain, sponsor):
    rest = chain.account(sponsor.public_key).spendable - 2 * BASE_RESERVE - 1_000
    chain.pay(sponsor, address("admin"), rest, XLM)
    row = chain.run(sponsor, *onboarding(), signers=[NEW])
    assert "CHANGE_TRUST_LOW_RESERVE" in codes(row)
    assert chain.account(NEW.public_key) is None
    two = chain.run(sponsor, *onboarding(NEW, USDC, USDT0), signers=[NEW])
    assert codes(two).count("CHANGE_TRUST_LOW_RESERVE") == 2


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("itself", "BEGIN_SPONSORING_FUTURE_RESERVES_MALFORMED"),
        ("twice", "BEGIN_SPONSORING_FUTURE_RESERVES_ALREADY_SPONSORED"),
        ("in a row", "BEGIN_SPONSORING_FUTURE_RESERVES_RECURSIVE"),
        ("back", "BEGIN_SPONSORING_FUTURE_RESERVES_RECURSIVE"),
        ("unbegun", "END_SPONSORING_FUTURE_RESERVES_NOT_SPONSORED"),
    ],
)
def test_nested_sponsorship_is_refused(chain, sponsor, case, expected):
    alice, bob = chain.open("alice"), chain.open("bob")
    begin = BeginSponsoringFutureReserves
    if case == "itself":
        submission = chain.submit(sponsor, [begin(sponsor.public_key)])
        assert refusal(submission) == ("txFAILED", expected)
        return
    operations = {
        "twice": [begin(alice.public_key), begin(alice.public_key, source=bob.public_key)],
        "in a row": [begin(bob.public_key), begin(alice.public_key, source=bob.public_key)],
        "back": [
            begin(alice.public_key, source=bob.public_key),
            begin(bob.public_key),
        ],
        "unbegun": [EndSponsoringFutureReserves(source=bob.public_key)],
    }[case]
    row = chain.run(sponsor, *operations, signers=[bob])
    assert codes(row)[0] == "txFAILED"
    assert codes(row)[-1] == expected


def test_sponsor_cannot_be_merged(chain, sponsor):
    chain.run(sponsor, *onboarding(), signers=[NEW])
    row = chain.run(sponsor, AccountMerge(address("admin")))
    assert codes(row) == ("txFAILED", "ACCOUNT_MERGE_IS_SPONSOR")


def test_account_without_sponsor_needs_its_reserve(chain, sponsor):
    row = chain.run(sponsor, CreateAccount(NEW.public_key, "0"))
    assert codes(row) == ("txFAILED", "CREATE_ACCOUNT_LOW_RESERVE")
    spent = chain.run(sponsor, *around(CreateAccount(NEW.public_key, "1")), signers=[NEW])
    assert spent.succeeded
    assert chain.account(NEW.public_key).spendable == UNIT
    assert chain.run(NEW, Payment(address("admin"), XLM, "0.5")).succeeded
