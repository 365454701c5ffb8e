import pytest
from stellar_sdk import Asset, Keypair, SignerKey, xdr

from indexer.decode.accounts import Signer, SigningRules, account_key, signing_rules
from indexer.devnet.stellar.entries import Trustline
from tests.factories.accounts import make_account_entry
from tests.factories.stellar_events import account
from warehouse_schema.identifiers import StellarAddress

ALICE, BOB = account("alice"), account("bob")


def test_the_master_key_is_a_signer_with_its_weight() -> None:
    rules = signing_rules(make_account_entry(ALICE, master=3, medium=2))
    assert rules == SigningRules(ALICE, 2, (Signer(ALICE, 3),))


def test_a_master_key_that_was_removed_has_weight_0() -> None:
    rules = signing_rules(make_account_entry(ALICE, master=0, keys={BOB: 7}))
    assert rules.signers == (Signer(ALICE, 0), Signer(BOB, 7))


def test_signers_that_sign_no_message_are_left_out() -> None:
    others = [
        (SignerKey.sha256_hash(b"h" * 32), 9),
        (SignerKey.pre_auth_tx(b"t" * 32), 9),
        (SignerKey.ed25519_signed_payload(_payload()), 9),
    ]
    assert signing_rules(make_account_entry(ALICE, others=others)).signers == (Signer(ALICE, 1),)


def _payload():
    from stellar_sdk.signer_key import SignedPayloadSigner

    return SignedPayloadSigner(BOB, b"payload!")


def test_a_key_names_its_account() -> None:
    key = xdr.LedgerKey.from_xdr(account_key(ALICE))
    assert key.account.account_id.account_id.ed25519.uint256 == (
        Keypair.from_public_key(ALICE).raw_public_key()
    )


def test_no_key_is_made_for_what_is_no_account() -> None:
    with pytest.raises(ValueError, match="Invalid"):
        account_key(StellarAddress("C" + ALICE[1:]))


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "AAAA",
        "not base64!",
        make_account_entry(ALICE)[:-12],
        make_account_entry(ALICE) + "AAAA",
        Trustline(ALICE, Asset("USDC", BOB), 0, 1, 1).to_entry().to_xdr(),
    ],
    ids=["empty", "short", "garbage", "cut off", "longer", "a trustline"],
)
def test_what_is_no_account_entry_is_refused(entry: str) -> None:
    with pytest.raises(ValueError):
        signing_rules(entry)
