import pytest
from stellar_sdk import Asset, Keypair, SignerKey, xdr

from devnet.stellar.entries import Trustline
from indexer.chains.stellar.xdr.ledger_entries import (
    Signer,
    SigningRules,
    account_key,
    signing_rules,
    trustline,
    trustline_key,
)
from tests.factories.accounts import make_account_entry, make_trustline_entry
from tests.factories.stellar_events import account
from warehouse_schema.identifiers import AssetId, StellarAddress

ALICE, BOB = account("alice"), account("bob")
USDC, USDT0 = AssetId(f"stellar:USDC:{BOB}"), AssetId(f"stellar:USDT0:{BOB}")


def test_master_key_is_a_signer_with_its_weight() -> None:
    rules = signing_rules(make_account_entry(ALICE, master=3, medium=2))
    assert rules == SigningRules(ALICE, 2, (Signer(ALICE, 3),))


def test_removed_master_key_has_weight_0() -> None:
    rules = signing_rules(make_account_entry(ALICE, master=0, keys={BOB: 7}))
    assert rules.signers == (Signer(ALICE, 0), Signer(BOB, 7))


def test_signers_of_other_types_are_left_out() -> None:
    others = [
        (SignerKey.sha256_hash(b"h" * 32), 9),
        (SignerKey.pre_auth_tx(b"t" * 32), 9),
        (SignerKey.ed25519_signed_payload(_payload()), 9),
    ]
    assert signing_rules(make_account_entry(ALICE, others=others)).signers == (Signer(ALICE, 1),)


def _payload():
    from stellar_sdk.signer_key import SignedPayloadSigner

    return SignedPayloadSigner(BOB, b"payload!")


def test_key_names_its_account() -> None:
    key = xdr.LedgerKey.from_xdr(account_key(ALICE))
    assert key.account.account_id.account_id.ed25519.uint256 == (
        Keypair.from_public_key(ALICE).raw_public_key()
    )


def test_account_key_needs_an_account() -> None:
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
def test_entry_other_than_account_is_refused(entry: str) -> None:
    with pytest.raises(ValueError):
        signing_rules(entry)


@pytest.mark.parametrize("asset", [USDC, USDT0], ids=["four letters", "five"])
def test_trustline_room_is_limit_less_balance(asset) -> None:
    line = trustline(make_trustline_entry(ALICE, asset, balance=30, limit=100, offered=20))
    assert (line.account, line.asset, line.is_authorized, line.room) == (ALICE, asset, True, 50)
    assert trustline(make_trustline_entry(ALICE, asset, balance=30, limit=100)).room == 70
    over = make_trustline_entry(ALICE, asset, balance=100, limit=100, offered=1)
    assert trustline(over).room == 0


@pytest.mark.parametrize("flags", [0, 2, 4])
def test_unauthorized_trustline_is_not_authorized(flags) -> None:
    # 2 lets it keep what it has, 4 lets its issuer take it back.
    assert not trustline(make_trustline_entry(ALICE, USDC, flags=flags)).is_authorized


def test_trustline_cannot_spend_what_is_offered() -> None:
    offered = make_trustline_entry(ALICE, USDC, balance=100, limit=1_000, offered=0, selling=40)
    assert trustline(offered).spendable == 60
    assert trustline(make_trustline_entry(ALICE, USDC, balance=100)).spendable == 100


def test_trustline_key_names_account_and_asset() -> None:
    key = xdr.LedgerKey.from_xdr(trustline_key(ALICE, USDC)).trust_line
    assert Asset.from_xdr_object(key.asset) == Asset("USDC", BOB)
    assert key.account_id == xdr.LedgerKey.from_xdr(account_key(ALICE)).account.account_id


@pytest.mark.parametrize("asset", ["stellar:native", "stellar:USDC", f"stellar:USDC:{BOB[1:]}"])
def test_native_asset_has_no_trustline_key(asset) -> None:
    with pytest.raises(ValueError):
        trustline_key(ALICE, AssetId(asset))


def _pool_share() -> str:
    line = Trustline(ALICE, Asset("USDC", BOB), 0, 1, 1).to_entry()
    kind = xdr.AssetType.ASSET_TYPE_POOL_SHARE
    pool = xdr.PoolID(xdr.Hash(b"p" * 32))
    line.trust_line.asset = xdr.TrustLineAsset(kind, liquidity_pool_id=pool)
    return line.to_xdr()


@pytest.mark.parametrize(
    "entry",
    ["", "AAAA", make_account_entry(ALICE), make_trustline_entry(ALICE, USDC)[:-12], _pool_share()],
    ids=["empty", "short", "an account", "cut off", "a share of a pool"],
)
def test_entry_other_than_trustline_is_refused(entry: str) -> None:
    with pytest.raises(ValueError):
        trustline(entry)
