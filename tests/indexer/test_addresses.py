"""Addresses are read as the SDKs read them, and muxed contracts, `W…` (SEP-23, CAP-84), besides.

A muxed contract is refused where it can be no owner.
"""

import pytest
from eth_utils.address import to_checksum_address
from hypothesis import given
from hypothesis import strategies as st
from stellar_sdk import Asset, StrKey
from stellar_sdk.exceptions import AssetCodeInvalidError

from indexer.addresses import (
    account_as_bytes32,
    account_of_key,
    asset_contract,
    contract_as_bytes32,
    evm_address,
    is_payable,
    muxed_contract,
    parse_muxed_contract,
    stellar_account,
    stellar_contract,
    stellar_holder,
)

RAW = bytes.fromhex("363eaa3867841fbad0f4ed88c779e4fe66e56a2470dc98c0ec9c073d05c7b103")
MUXED = "WA3D5KRYM6CB7OWQ6TWYRR3Z4T7GNZLKERYNZGGA5SOAOPIFY6YQGAAAAAAAAAPCIA6IG"
CONTRACT = "CA3D5KRYM6CB7OWQ6TWYRR3Z4T7GNZLKERYNZGGA5SOAOPIFY6YQGAXE"


def test_muxed_contract_has_the_strkey_of_its_vector() -> None:
    assert muxed_contract(RAW, 123456) == MUXED
    assert parse_muxed_contract(MUXED) == (CONTRACT, 123456)


@pytest.mark.parametrize("muxed_id", [0, 1, 2**63, 2**64 - 1])
def test_any_u64_is_a_muxed_id(muxed_id: int) -> None:
    assert parse_muxed_contract(muxed_contract(RAW, muxed_id)) == (CONTRACT, muxed_id)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "W",
        CONTRACT,
        MUXED[:-1],
        MUXED + "A",
        MUXED.lower(),
        MUXED[:-1] + "H",
        MUXED[:20] + "A" + MUXED[21:],
        MUXED + "===",
        MUXED + "\n",
        "MA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVAAAAAAAAAAAAAJLK",
    ],
)
def test_what_is_no_muxed_contract_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a muxed Stellar contract"):
        parse_muxed_contract(text)


@pytest.mark.parametrize("read", [stellar_account, stellar_contract, stellar_holder])
def test_muxed_contract_is_no_owner(read) -> None:
    with pytest.raises(ValueError, match=MUXED):
        read(MUXED)


def test_holder_given_as_muxed_contract_is_told_the_contract() -> None:
    with pytest.raises(ValueError, match=f"muxed id 123456 of {CONTRACT}"):
        stellar_holder(MUXED)


keys = st.binary(min_size=32, max_size=32)


@given(keys)
def test_strkeys_are_those_of_the_sdk(key: bytes) -> None:
    account, contract = (
        StrKey.encode_ed25519_public_key(key),
        StrKey.encode_contract(key),
    )
    muxed = StrKey.encode_med25519_public_key(key + bytes(8))
    assert stellar_account(account) == account_of_key(key) == account
    assert stellar_contract(contract) == contract
    assert contract_as_bytes32(stellar_contract(contract)) == f"0x{key.hex()}"
    assert account_as_bytes32(stellar_account(account)) == f"0x{key.hex()}"
    assert all(map(is_payable, (account, contract, muxed)))


@given(keys, st.integers(min_value=0, max_value=55), st.sampled_from("ABZ27a018 \n="))
def test_altered_strkey_is_read_as_the_sdk_reads_it(key: bytes, place: int, letter: str) -> None:
    account = StrKey.encode_ed25519_public_key(key)
    text = account[:place] + letter + account[place + 1 :]
    if StrKey.is_valid_ed25519_public_key(text):
        assert stellar_account(text) == text
    else:
        with pytest.raises(ValueError, match="not a Stellar account"):
            stellar_account(text)
        assert not is_payable(text)


@given(keys, st.from_regex(r"[A-Za-z0-9]{1,12}", fullmatch=True), st.text())
def test_asset_contract_is_that_of_the_sdk(key: bytes, code: str, passphrase: str) -> None:
    issuer = account_of_key(key)
    assert asset_contract(code, issuer, passphrase) == Asset(code, issuer).contract_id(passphrase)


@pytest.mark.parametrize("code", ["", "ABCDEFGHIJKLM", "US D", "€"])
def test_asset_code_that_the_sdk_refuses_is_refused(code: str) -> None:
    issuer = account_of_key(bytes(32))
    with pytest.raises(AssetCodeInvalidError):
        Asset(code, issuer)
    with pytest.raises(ValueError, match="not an asset code"):
        asset_contract(code, issuer, "a passphrase")


@given(st.binary(min_size=20, max_size=20))
def test_checksummed_address_is_read_and_another_case_is_not(raw: bytes) -> None:
    text = to_checksum_address(raw)
    assert evm_address(text) == text.lower()
    swapped = f"0x{text[2:].swapcase()}"
    if swapped[2:] not in (text[2:].lower(), text[2:].upper()):
        with pytest.raises(ValueError, match="EIP-55"):
            evm_address(swapped)
