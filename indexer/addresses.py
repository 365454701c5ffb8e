"""Addresses: validation with a reason, and conversion to and from 32 bytes. Pure.

Stellar's strkeys (SEP-23) and EIP-55 are read here, in a few lines each: every process reads them
at its start, and importing the SDKs for that costs more than half a second of processor time. Nor
does Stellar's SDK know `W…` (protocol 30). Tests compare both with the SDKs.
"""

import base64
import re
from binascii import crc_hqx
from functools import lru_cache
from hashlib import sha256

from eth_hash.auto import keccak

from warehouse_schema.identifiers import (
    Bytes32,
    EvmAddress,
    StellarAddress,
    bytes32,
    parse_evm_address,
)

CACHED_STRKEYS = 32_768
"""Accounts of two ledgers of 6,000 transfers, and a third more: 8 MB."""


def evm_address(text: str) -> EvmAddress:
    """Parse an EVM address; mixed case must carry a valid EIP-55 checksum.

    Raises `ValueError` that quotes the text.
    """
    address = parse_evm_address(text)
    digits = text[2:]
    if digits not in (digits.lower(), digits.upper()) and digits != _checksummed(digits.lower()):
        raise ValueError(f"{text!r} fails its EIP-55 checksum: a digit or a letter's case is wrong")
    return address


def _checksummed(digits: str) -> str:
    """Lower-case digits of an address in the case of EIP-55."""
    cases = keccak(digits.encode()).hex()
    return "".join(
        digit.upper() if int(case, 16) >= 8 else digit
        for digit, case in zip(digits, cases, strict=False)
    )


def stellar_account(text: str) -> StellarAddress:
    """Check a `G…` account. Raises `ValueError` that quotes the text."""
    if _payload(text, _ACCOUNT) is None:
        raise ValueError(f"{text!r} is not a Stellar account (G… with a valid checksum)")
    return StellarAddress(text)


def stellar_contract(text: str) -> StellarAddress:
    """Check a `C…` contract. Raises `ValueError` that quotes the text."""
    if _payload(text, _CONTRACT) is None:
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
    payload = _payload(text, _MUXED_CONTRACT)
    if payload is None:
        raise ValueError(f"{text!r} is not a muxed Stellar contract (W… with a valid checksum)")
    return _strkey(_CONTRACT, payload[:32]), int.from_bytes(payload[32:], "big")


def is_payable(text: str) -> bool:
    """Whether a text is a `G…` account, a `C…` contract or an `M…` muxed account."""
    kinds = (_ACCOUNT, _CONTRACT, _MUXED_ACCOUNT)
    return any(_payload(text, kind) is not None for kind in kinds)


def asset_contract(code: str, issuer: StellarAddress, passphrase: str) -> StellarAddress:
    """The contract of a classic asset: the hash of its `ContractIDPreimage` (CAP-46-06).

    Raises `ValueError` that quotes a code which is not 1 to 12 ASCII letters and digits.
    """
    if not _ASSET_CODE.fullmatch(code):
        raise ValueError(f"{code!r} is not an asset code of 1 to 12 letters and digits")
    kind, size = (1, 4) if len(code) <= 4 else (2, 12)
    asset = _uint32(kind) + code.encode().ljust(size, b"\0") + _uint32(0) + _key(issuer)
    preimage = _uint32(8) + sha256(passphrase.encode()).digest() + _uint32(1) + asset
    return _strkey(_CONTRACT, sha256(preimage).digest())


def evm_as_bytes32(address: EvmAddress) -> Bytes32:
    """Left-pad to 32 bytes, as CCTP and LayerZero carry EVM addresses."""
    return Bytes32("0x" + "00" * 12 + address[2:])


@lru_cache(maxsize=1_000)
def contract_as_bytes32(contract: StellarAddress) -> Bytes32:
    """The raw contract id inside a `C…` strkey.

    Cached: each fold compares with the few contracts of the network file.
    """
    return bytes32(_required(contract, _CONTRACT))


def account_as_bytes32(account: StellarAddress) -> Bytes32:
    """The raw ed25519 key inside a `G…` strkey."""
    return bytes32(_key(account))


def bytes32_as_evm(word: Bytes32) -> EvmAddress | None:
    """The EVM address in 32 bytes, or None when the upper 12 are not zero."""
    return EvmAddress("0x" + word[26:]) if word[2:26] == "0" * 24 else None


def bytes32_as_account(word: Bytes32) -> StellarAddress:
    """The `G…` strkey of a raw ed25519 key."""
    return account_of_key(bytes.fromhex(word[2:]))


@lru_cache(maxsize=CACHED_STRKEYS)
def account_of_key(key: bytes) -> StellarAddress:
    """The `G…` strkey of the 32 bytes of an ed25519 key (SEP-23).

    The SDK's encoder takes 45 µs, too long for each account of each ledger. Cached: an account of a
    ledger is looked up in the watchlist, then decoded, and is in other ledgers too.
    """
    return _strkey(_ACCOUNT, key)


@lru_cache(maxsize=1_000)
def contract_of_id(raw: bytes) -> StellarAddress:
    """The `C…` strkey of the 32 bytes of a contract's id (SEP-23)."""
    return _strkey(_CONTRACT, raw)


# Version bytes of `G…`, `M…`, `C…` and `W…` strkeys (SEP-23).
_ACCOUNT, _MUXED_ACCOUNT, _CONTRACT, _MUXED_CONTRACT = (n << 3 for n in (6, 12, 2, 22))
_SIZES = {_ACCOUNT: 32, _MUXED_ACCOUNT: 40, _CONTRACT: 32, _MUXED_CONTRACT: 40}
"""Bytes of their payloads."""
_BASE32 = re.compile(r"[A-Z2-7]+")
_ASSET_CODE = re.compile(r"[A-Za-z0-9]{1,12}")


def _strkey(version: int, payload: bytes) -> StellarAddress:
    checked = bytes([version]) + payload
    checksum = crc_hqx(checked, 0).to_bytes(2, "little")
    return StellarAddress(base64.b32encode(checked + checksum).decode().rstrip("="))


def _payload(text: str, version: int) -> bytes | None:
    """The payload of a strkey of that version; None for any other text."""
    size = _SIZES[version]
    # Version, payload and checksum, five bits to a character.
    if len(text) != -(-(size + 3) * 8 // 5) or not _BASE32.fullmatch(text):
        return None
    payload = base64.b32decode(text + "=" * (-len(text) % 8))[1 : 1 + size]
    # Encoding it again checks version, checksum, and the bits behind the last byte.
    return payload if _strkey(version, payload) == text else None


def _required(text: str, version: int) -> bytes:
    payload = _payload(text, version)
    if payload is None:
        raise ValueError(f"{text!r} is not a strkey with a valid checksum")
    return payload


def _key(account: StellarAddress) -> bytes:
    return _required(account, _ACCOUNT)


def _uint32(number: int) -> bytes:
    return number.to_bytes(4, "big")
