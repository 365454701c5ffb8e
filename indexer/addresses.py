"""Is this address valid on that chain? Pure checks, with the reason when it is not."""

import base64
from binascii import crc_hqx

from eth_utils.address import is_checksum_address
from stellar_sdk import StrKey

from warehouse_schema.identifiers import (
    Bytes32,
    EvmAddress,
    StellarAddress,
    bytes32,
    parse_evm_address,
)


def evm_address(text: str) -> EvmAddress:
    """Read an EVM address that a person wrote; mixed case must carry a right EIP-55 checksum.

    Raises `ValueError` that quotes the text.
    """
    address = parse_evm_address(text)
    digits = text[2:]
    if digits not in (digits.lower(), digits.upper()) and not is_checksum_address(text):
        raise ValueError(f"{text!r} fails its EIP-55 checksum: a digit or a letter's case is wrong")
    return address


def stellar_account(text: str) -> StellarAddress:
    """Read a `G…` account. Raises `ValueError` that quotes the text."""
    if not StrKey.is_valid_ed25519_public_key(text):
        raise ValueError(f"{text!r} is not a Stellar account (G… with a valid checksum)")
    return StellarAddress(text)


def stellar_contract(text: str) -> StellarAddress:
    """Read a `C…` contract. Raises `ValueError` that quotes the text."""
    if not StrKey.is_valid_contract(text):
        raise ValueError(f"{text!r} is not a Stellar contract (C… with a valid checksum)")
    return StellarAddress(text)


def stellar_holder(text: str) -> StellarAddress:
    """Read a `G…` account or a `C…` contract. Raises `ValueError` that quotes the text."""
    return stellar_contract(text) if text.startswith("C") else stellar_account(text)


def evm_as_bytes32(address: EvmAddress) -> Bytes32:
    """Left-pad to 32 bytes, as CCTP and LayerZero carry EVM addresses."""
    return Bytes32("0x" + "00" * 12 + address[2:])


def contract_as_bytes32(contract: StellarAddress) -> Bytes32:
    """The raw contract id inside a `C…` strkey."""
    return bytes32(StrKey.decode_contract(contract))


def account_as_bytes32(account: StellarAddress) -> Bytes32:
    """The raw ed25519 key inside a `G…` strkey."""
    return bytes32(StrKey.decode_ed25519_public_key(account))


def bytes32_as_evm(word: Bytes32) -> EvmAddress | None:
    """The EVM address in 32 bytes, or None when the upper 12 are not zero."""
    return EvmAddress("0x" + word[26:]) if word[2:26] == "0" * 24 else None


def bytes32_as_account(word: Bytes32) -> StellarAddress:
    """The `G…` strkey of a raw ed25519 key."""
    return account_of_key(bytes.fromhex(word[2:]))


def account_of_key(key: bytes) -> StellarAddress:
    """The `G…` strkey of the 32 bytes of an ed25519 key (SEP-23).

    The SDK's encoder takes 45 µs, too long for each account of each ledger.
    """
    payload = _ACCOUNT_VERSION + key
    checksum = crc_hqx(payload, 0).to_bytes(2, "little")
    return StellarAddress(base64.b32encode(payload + checksum).decode())


_ACCOUNT_VERSION = bytes([6 << 3])
