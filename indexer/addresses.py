"""Addresses: validation with a reason, and conversion to and from 32 bytes. Pure.

The SDK reads Stellar's strkeys, except `W…` (SEP-23, protocol 30), which it does not know.
"""

import base64
import re
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
    """Parse an EVM address; mixed case must carry a valid EIP-55 checksum.

    Raises `ValueError` that quotes the text.
    """
    address = parse_evm_address(text)
    digits = text[2:]
    if digits not in (digits.lower(), digits.upper()) and not is_checksum_address(text):
        raise ValueError(f"{text!r} fails its EIP-55 checksum: a digit or a letter's case is wrong")
    return address


def stellar_account(text: str) -> StellarAddress:
    """Check a `G…` account. Raises `ValueError` that quotes the text."""
    if not StrKey.is_valid_ed25519_public_key(text):
        raise ValueError(f"{text!r} is not a Stellar account (G… with a valid checksum)")
    return StellarAddress(text)


def stellar_contract(text: str) -> StellarAddress:
    """Check a `C…` contract. Raises `ValueError` that quotes the text."""
    if not StrKey.is_valid_contract(text):
        raise ValueError(f"{text!r} is not a Stellar contract (C… with a valid checksum)")
    return StellarAddress(text)


def stellar_holder(text: str) -> StellarAddress:
    """Check a `G…` account or `C…` contract. Raises `ValueError` that quotes the text."""
    if text.startswith("W"):
        contract, muxed_id = parse_muxed_contract(text)
        raise ValueError(f"{text!r} is muxed id {muxed_id} of {contract}: name the contract itself")
    return stellar_contract(text) if text.startswith("C") else stellar_account(text)


def muxed_contract(contract: bytes, muxed_id: int) -> StellarAddress:
    """The `W…` strkey of a contract's raw id and a muxed id, a u64 (CAP-84)."""
    return _strkey(_MUXED_CONTRACT, contract + muxed_id.to_bytes(8, "big"))


def parse_muxed_contract(text: str) -> tuple[StellarAddress, int]:
    """The `C…` contract and the muxed id of a `W…` strkey. Raises `ValueError` that quotes it."""
    if _MUXED_CONTRACT_TEXT.fullmatch(text):
        raw = base64.b32decode(text + "===")
        contract, muxed_id = raw[1:33], int.from_bytes(raw[33:41], "big")
        # Encoding it again checks version, checksum, and the bits behind the last byte.
        if muxed_contract(contract, muxed_id) == text:
            return StellarAddress(StrKey.encode_contract(contract)), muxed_id
    raise ValueError(f"{text!r} is not a muxed Stellar contract (W… with a valid checksum)")


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
    return _strkey(_ACCOUNT, key)


_ACCOUNT, _MUXED_CONTRACT = 6 << 3, 22 << 3
"""Version bytes of `G…` and `W…` strkeys."""
_MUXED_CONTRACT_TEXT = re.compile(r"W[A-Z2-7]{68}")


def _strkey(version: int, payload: bytes) -> StellarAddress:
    checked = bytes([version]) + payload
    checksum = crc_hqx(checked, 0).to_bytes(2, "little")
    return StellarAddress(base64.b32encode(checked + checksum).decode().rstrip("="))
