"""Submitted Stellar transactions: issued ones only, with enough valid signatures."""

import base64
from typing import Any

import pytest
from stellar_sdk import Keypair, TransactionBuilder, TransactionEnvelope, xdr

from indexer.actions.agreed import Mismatch
from indexer.actions.onboarding import OnboardingTerms, onboarding_tx
from indexer.actions.stellar_check import (
    MAX_ENVELOPE_CHARS,
    MIN_SECONDS_LEFT,
    SignedTx,
    check_signed,
    master_key_rules,
)
from indexer.actions.stellar_orders import operation_of, stellar_order
from indexer.actions.stellar_tx import IssuedTransaction, draft
from indexer.chains.stellar.xdr.ledger_entries import Signer, SigningRules
from tests.factories.actions import MAINNET, make_withdrawal
from warehouse_schema.identifiers import StellarAddress, UnixSeconds

PASSPHRASE = MAINNET.stellar.passphrase
OWNER, OTHER, THIRD = (Keypair.from_raw_ed25519_seed(bytes([n] * 32)) for n in (1, 2, 3))
ADDRESS = StellarAddress(OWNER.public_key)
RULES = SigningRules(ADDRESS, 0, (Signer(ADDRESS, 1),))
EXPIRES = UnixSeconds(1_800_001_800)
NOW = UnixSeconds(EXPIRES - 600)


def make_issued(sequence: int = 7, amount: int = 200_000_000) -> IssuedTransaction:
    agreed = make_withdrawal(
        mechanism="payment",
        owner=ADDRESS,
        dest_address=OTHER.public_key,
        amount_in=amount,
        amount_out=amount,
    )
    operation = operation_of(stellar_order(MAINNET, agreed), ADDRESS)
    return draft(PASSPHRASE, ADDRESS, sequence, EXPIRES, [operation])


ISSUED = make_issued()


def signed(issued: IssuedTransaction, *signers: Keypair, passphrase: str = PASSPHRASE) -> str:
    envelope = TransactionBuilder.from_xdr(issued.envelope, passphrase)
    for signer in signers:
        envelope.sign(signer)
    return envelope.to_xdr()


def judged(text: str, rules: SigningRules = RULES, now: int = NOW, issued: Any = (ISSUED,)) -> Any:
    return check_signed(PASSPHRASE, issued, rules, text, UnixSeconds(now))


def field_of(*args: Any, **kwargs: Any) -> str:
    verdict = judged(*args, **kwargs)
    assert isinstance(verdict, Mismatch), verdict
    [field] = verdict.fields
    return field


def test_issued_and_signed_transaction_is_accepted_unchanged():
    text = signed(ISSUED, OWNER)
    assert judged(text) == SignedTx(ISSUED.tx, base64.b64decode(text))


def test_any_issued_transaction_is_accepted():
    newer = make_issued(sequence=8)
    for each in (ISSUED, newer):
        assert judged(signed(each, OWNER), issued=(ISSUED, newer)).tx == each.tx


@pytest.mark.parametrize("changes", [{"sequence": 9}, {"amount": 199_999_990}])
def test_other_transaction_is_refused(changes):
    assert field_of(signed(make_issued(**changes), OWNER)) == "transaction"


def test_signature_for_another_network_is_refused():
    other = "Test SDF Network ; September 2015"
    assert field_of(signed(ISSUED, OWNER, passphrase=other)) == "signatures"


@pytest.mark.parametrize(
    "signers",
    [(), (OTHER,), (OWNER, OTHER), (OTHER, OWNER)],
    ids=["nobody", "a stranger", "a stranger as well", "a stranger before"],
)
def test_missing_or_foreign_signatures_are_refused(signers):
    assert field_of(signed(ISSUED, *signers)) == "signatures"


def test_repeated_signature_is_refused():
    envelope = TransactionBuilder.from_xdr(signed(ISSUED, OWNER), PASSPHRASE)
    envelope.signatures.append(envelope.signatures[0])
    assert field_of(envelope.to_xdr()) == "signatures"


def test_hint_without_valid_signature_is_refused():
    envelope = TransactionBuilder.from_xdr(signed(ISSUED, OWNER), PASSPHRASE)
    envelope.signatures[0].signature = bytes(64)
    assert field_of(envelope.to_xdr()) == "signatures"
    envelope.signatures[0].signature = b"short"
    assert field_of(envelope.to_xdr()) == "signatures"


def rules_of(threshold: int, *weights: int) -> SigningRules:
    keys = (OWNER, OTHER, THIRD)
    signers = (
        Signer(StellarAddress(key.public_key), weight)
        for key, weight in zip(keys, weights, strict=False)
    )
    return SigningRules(ADDRESS, threshold, tuple(signers))


@pytest.mark.parametrize(
    ("rules", "signers", "is_enough"),
    [
        (rules_of(2, 1, 1), (OWNER, OTHER), True),
        (rules_of(2, 1, 1), (OTHER, OWNER), True),
        (rules_of(2, 1, 1), (OWNER,), False),
        (rules_of(2, 1, 1, 1), (OWNER, OTHER, THIRD), False),
        (rules_of(1, 0, 1), (OWNER,), False),
        (rules_of(0, 0, 1), (OTHER,), True),
        (rules_of(0, 0, 0), (OWNER,), False),
    ],
    ids=[
        "the weights add up",
        "in any order",
        "too little",
        "one more than is needed, which the ledger would not have",
        "a master key that was removed",
        "a threshold of nothing wants a signature all the same",
        "nobody can sign any more",
    ],
)
def test_signers_must_reach_the_threshold(rules, signers, is_enough):
    assert isinstance(judged(signed(ISSUED, *signers), rules), SignedTx) == is_enough


def test_transaction_about_to_expire_is_refused():
    text = signed(ISSUED, OWNER)
    assert isinstance(judged(text, now=EXPIRES - MIN_SECONDS_LEFT), SignedTx)
    assert field_of(text, now=EXPIRES - MIN_SECONDS_LEFT + 1) == "time"


def bumped() -> str:
    inner = TransactionBuilder.from_xdr(signed(ISSUED, OWNER), PASSPHRASE)
    assert isinstance(inner, TransactionEnvelope)
    bump = TransactionBuilder.build_fee_bump_transaction(OTHER, 200, inner, PASSPHRASE)
    bump.sign(OTHER)
    return bump.to_xdr()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no base64 at all!",
        signed(ISSUED, OWNER)[:-8],
        signed(ISSUED, OWNER) + "AAAA",
        " " + signed(ISSUED, OWNER),
        "A" * (MAX_ENVELOPE_CHARS + 4),
        bumped(),
        xdr.SCVal(xdr.SCValType.SCV_VOID).to_xdr(),
    ],
    ids=["nothing", "noise", "cut off", "more", "a blank", "huge", "a fee bump", "other XDR"],
)
def test_unreadable_xdr_is_refused(text):
    assert field_of(text) == "signed_xdr"


def test_too_many_signatures_are_refused():
    envelope = TransactionBuilder.from_xdr(signed(ISSUED, OWNER), PASSPHRASE).to_xdr_object()
    # The network's own limit is 20, which its XDR already says.
    envelope.v1.signatures.extend(envelope.v1.signatures * 19)
    assert field_of(envelope.to_xdr()) == "signatures"


# Of a sponsor


def test_owner_signs_an_onboarding_before_its_sponsor():
    made = OnboardingTerms(StellarAddress(OTHER.public_key), 5, True, UnixSeconds(0), EXPIRES)
    issued = onboarding_tx(PASSPHRASE, ADDRESS, MAINNET.stellar.usdc, made)
    verdict = judged(signed(issued, OWNER), master_key_rules(ADDRESS), issued=(issued,))
    assert isinstance(verdict, SignedTx)
    bare = judged(issued.envelope, master_key_rules(ADDRESS), issued=(issued,))
    assert bare.fields == ("signatures",)
    assert field_of(signed(issued, OWNER, OTHER), master_key_rules(ADDRESS), issued=(issued,)) == (
        "signatures"
    )
