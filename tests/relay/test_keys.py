"""Keys sign, are verified, and are never shown."""

from dataclasses import dataclass

import pytest
from eth_account import Account
from eth_utils.address import to_checksum_address
from hypothesis import given, settings
from hypothesis import strategies as st
from stellar_sdk import Keypair

from indexer.errors import ConfigurationError
from relay.keys import (
    _ORDER,
    LocalEvmKey,
    LocalStellarKey,
    WrongSignature,
    evm_address,
    evm_signature,
    stellar_address,
    stellar_signature,
)
from relay.senders.evm_signing import ContractCall, GasBid, sign_evm
from warehouse_schema.identifiers import EvmAddress, Wei

SECRET = "5f" * 32
SEED = Keypair.from_raw_ed25519_seed(bytes(range(32))).secret
TO = EvmAddress("0x" + "7a" * 20)


@dataclass(frozen=True)
class Kms:
    """A key service that returns the upper s; with `of` it signs with another key."""

    named: LocalEvmKey
    of: LocalEvmKey

    @property
    def public_key(self) -> bytes:
        return self.named.public_key

    def sign(self, digest: bytes) -> tuple[int, int]:
        r, s = self.of.sign(digest)
        return r, _ORDER - s


def evm_key(text: str = SECRET) -> LocalEvmKey:
    return LocalEvmKey.from_text(text, "KEY")


@settings(max_examples=15)
@given(
    nonce=st.integers(0, 2**64 - 2),
    value=st.integers(0, 2**128),
    data=st.binary(max_size=80),
    gas=st.integers(21_000, 30_000_000),
    tip=st.integers(0, 10**12),
    most=st.integers(0, 10**13),
)
def test_signed_bytes_equal_those_of_other_libraries(
    nonce: int, value: int, data: bytes, gas: int, tip: int, most: int
) -> None:
    call, bid = ContractCall(TO, data, Wei(value)), GasBid(Wei(most), Wei(tip))
    ours = sign_evm(evm_key(), 10, nonce, call, gas, bid)
    theirs = Account.sign_transaction(
        {
            "type": 2,
            "chainId": 10,
            "nonce": nonce,
            "to": to_checksum_address(TO),
            "value": value,
            "data": data,
            "gas": gas,
            "maxFeePerGas": most,
            "maxPriorityFeePerGas": tip,
        },
        SECRET,
    )
    assert (ours.raw, ours.tx) == (bytes(theirs.raw_transaction), "0x" + theirs.hash.hex())
    assert ours.max_cost == gas * most + value


def test_address_equals_that_of_other_libraries() -> None:
    assert evm_address(evm_key()) == Account.from_key(SECRET).address.lower()
    assert evm_key("0x" + SECRET) == evm_key()
    assert stellar_address(LocalStellarKey.from_text(SEED, "KEY")) == (
        Keypair.from_secret(SEED).public_key
    )


def test_high_s_of_key_service_is_normalised() -> None:
    digest = bytes(range(32))
    assert evm_signature(Kms(evm_key(), evm_key()), digest) == evm_signature(evm_key(), digest)


def test_signature_of_another_key_is_rejected() -> None:
    with pytest.raises(WrongSignature, match=evm_address(evm_key())):
        evm_signature(Kms(evm_key(), evm_key("11" * 32)), bytes(32))


def test_wrong_stellar_signature_is_rejected() -> None:
    key, digest = LocalStellarKey.from_text(SEED, "KEY"), bytes(range(32))
    Keypair.from_secret(SEED).verify(digest, stellar_signature(key, digest))

    @dataclass(frozen=True)
    class Stranger:
        public_key: bytes = Keypair.random().raw_public_key()

        def sign(self, message: bytes) -> bytes:
            return key.sign(message)

    with pytest.raises(WrongSignature, match="not its own"):
        stellar_signature(Stranger(), digest)


def test_repr_shows_no_secret() -> None:
    shown = f"{evm_key()!r} {evm_key()} {LocalStellarKey.from_text(SEED, 'KEY')!r}"
    assert SECRET not in shown
    assert SEED not in shown


@pytest.mark.parametrize("text", ["", "5f", "0x" + "zz" * 32, "00" * 32, "ff" * 32, "5f" * 33])
def test_invalid_evm_key_error_hides_the_value(text: str) -> None:
    with pytest.raises(ConfigurationError, match="KEY is no EVM key") as refused:
        evm_key(text)
    assert not text or text not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("text", ["", "S", SEED[:-1], SEED.lower(), "G" + SEED[1:]])
def test_invalid_stellar_seed_error_hides_the_value(text: str) -> None:
    with pytest.raises(ConfigurationError, match="KEY is no Stellar seed") as refused:
        LocalStellarKey.from_text(text, "KEY")
    assert len(text) < 2 or text not in str(refused.value)
    assert refused.value.__cause__ is None
