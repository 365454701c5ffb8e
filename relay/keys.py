"""Keys that sign transactions, in memory or in a key service.

A key signs and never reveals its secret, so a service (KMS, HSM) can replace `LocalEvmKey` and
`LocalStellarKey`. Every signature is verified before it is used.
"""

from dataclasses import dataclass, field
from typing import Protocol

from eth_keys.datatypes import PrivateKey, PublicKey, Signature
from eth_keys.exceptions import BadSignature
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError
from stellar_sdk import Keypair
from stellar_sdk.exceptions import BadSignatureError, Ed25519SecretSeedInvalidError

from indexer.errors import ConfigurationError
from warehouse_schema.identifiers import EvmAddress, StellarAddress

_ORDER = 0xFFFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFE_BAAEDCE6_AF48A03B_BFD25E8C_D0364141
"""Of secp256k1's group (SEC 2, 2.4.1)."""


class WrongSignature(ConfigurationError):
    """A key returned a signature that its public key does not verify."""


class EvmKey(Protocol):
    """A secp256k1 key. Both members raise `RetryableChainError` when a service does not answer."""

    @property
    def public_key(self) -> bytes:
        """64 bytes: x and y."""
        ...

    def sign(self, digest: bytes) -> tuple[int, int]:
        """Return r and s over 32 bytes; s in either half, as key services leave it."""
        ...


class StellarKey(Protocol):
    """An Ed25519 key. Both members raise `RetryableChainError` when a service does not answer."""

    @property
    def public_key(self) -> bytes:
        """32 bytes."""
        ...

    def sign(self, message: bytes) -> bytes:
        """Return 64 bytes over a transaction hash, or over the body of a webhook."""
        ...


@dataclass(frozen=True, slots=True)
class LocalEvmKey:
    """An EVM key in this process's memory."""

    _secret: PrivateKey = field(repr=False)

    @classmethod
    def from_text(cls, text: str, source: str) -> "LocalEvmKey":
        """Read 32 bytes of hex. Raises `ConfigurationError` that names only the source."""
        try:
            return cls(PrivateKey(bytes.fromhex(text.removeprefix("0x"))))
        except (ValueError, ValidationError):
            # Without the cause, which may quote the secret.
            raise ConfigurationError(
                f"{source} is no EVM key: 32 bytes as 64 hex digits are wanted"
            ) from None

    @property
    def public_key(self) -> bytes:
        """64 bytes: x and y."""
        return self._secret.public_key.to_bytes()

    def sign(self, digest: bytes) -> tuple[int, int]:
        """Return r and s over 32 bytes."""
        signature = self._secret.sign_msg_hash(digest)
        return signature.r, signature.s


@dataclass(frozen=True, slots=True)
class LocalStellarKey:
    """A Stellar key in this process's memory."""

    _secret: Keypair = field(repr=False)

    @classmethod
    def from_text(cls, text: str, source: str) -> "LocalStellarKey":
        """Read a seed (`S…`). Raises `ConfigurationError` that names only the source."""
        try:
            return cls(Keypair.from_secret(text))
        except (Ed25519SecretSeedInvalidError, ValueError):
            raise ConfigurationError(f"{source} is no Stellar seed (S…)") from None

    @property
    def public_key(self) -> bytes:
        """32 bytes."""
        return self._secret.raw_public_key()

    def sign(self, message: bytes) -> bytes:
        """Return 64 bytes over a message."""
        return self._secret.sign(message)


def evm_address(key: EvmKey) -> EvmAddress:
    """Address of a key's account."""
    return EvmAddress("0x" + keccak(key.public_key)[12:].hex())


def stellar_address(key: StellarKey) -> StellarAddress:
    """Address of a key's account."""
    return StellarAddress(Keypair.from_raw_ed25519_public_key(key.public_key).public_key)


def evm_signature(key: EvmKey, digest: bytes) -> tuple[int, int, int]:
    """Parity of y, r, and the lower s, as EVM chains require (EIP-2).

    Raises `WrongSignature` when it is not the key's.
    """
    r, s = key.sign(digest)
    s = min(s, _ORDER - s)
    expected = PublicKey(key.public_key)
    for parity in (0, 1):
        try:
            signature = Signature(vrs=(parity, r, s))
            if signature.recover_public_key_from_msg_hash(digest) == expected:
                return parity, r, s
        except (BadSignature, ValidationError):
            continue
    raise WrongSignature(f"the key of {evm_address(key)} gave a signature that is not its own")


def stellar_signature(key: StellarKey, message: bytes) -> bytes:
    """Signature of 64 bytes. Raises `WrongSignature` when it is not the key's."""
    signature = key.sign(message)
    account = Keypair.from_raw_ed25519_public_key(key.public_key)
    try:
        account.verify(message, signature)
    except BadSignatureError as error:
        raise WrongSignature(
            f"the key of {account.public_key} gave a signature that is not its own"
        ) from error
    return signature
