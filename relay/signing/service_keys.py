"""Keys of any key service, and the encodings that services share.

The public key is read once and kept for the process: the account of a key cannot change while it
runs. A service that changes it makes signatures that `relay.keys` rejects.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256K1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    load_der_public_key,
    load_pem_public_key,
)

from indexer.errors import ConfigurationError

S = TypeVar("S")


class _ServiceKey(Generic[S]):
    """A key of a service. Both members raise errors of the service."""

    def __init__(self, read_public_key: Callable[[], bytes], sign: Callable[[bytes], S]) -> None:
        self._read, self._sign = read_public_key, sign
        self._public_key: bytes | None = None

    @property
    def public_key(self) -> bytes:
        """As the protocol of `relay.keys` has it; the service is asked once."""
        if self._public_key is None:
            self._public_key = self._read()
        return self._public_key

    def sign(self, message: bytes) -> S:
        """As the protocol of `relay.keys` has it."""
        return self._sign(message)


class ServiceEvmKey(_ServiceKey[tuple[int, int]]):
    """A secp256k1 key of a service. Implements `relay.keys.EvmKey`."""

    def sign(self, digest: bytes) -> tuple[int, int]:
        """Return r and s over 32 bytes; s in either half."""
        return super().sign(digest)


class ServiceStellarKey(_ServiceKey[bytes]):
    """An Ed25519 key of a service. Implements `relay.keys.StellarKey`."""


def evm_public_key(spki: bytes, source: str) -> bytes:
    """x and y of a SubjectPublicKeyInfo in DER or PEM (RFC 5480).

    Raises `ConfigurationError` for another kind of key.
    """
    key = _load_public_key(spki)
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256K1):
        raise ConfigurationError(f"{source} is no secp256k1 key, which EVM chains need")
    numbers = key.public_numbers()
    return numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")


def stellar_public_key(spki: bytes, source: str) -> bytes:
    """32 bytes of a SubjectPublicKeyInfo in DER or PEM (RFC 8410).

    Raises `ConfigurationError` for another kind of key.
    """
    key = _load_public_key(spki)
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigurationError(f"{source} is no Ed25519 key, which Stellar needs")
    return key.public_bytes_raw()


def ecdsa_numbers(signature: bytes, source: str) -> tuple[int, int]:
    """r and s of an ECDSA signature in DER. Raises `ConfigurationError` for other bytes."""
    try:
        return decode_dss_signature(signature)
    except ValueError as error:
        raise ConfigurationError(f"{source} returned no ECDSA signature in DER") from error


def _load_public_key(spki: bytes) -> object:
    """None for what `cryptography` cannot read, such as another curve."""
    try:
        is_pem = spki.startswith(b"-----")
        return load_pem_public_key(spki) if is_pem else load_der_public_key(spki)
    except (ValueError, UnsupportedAlgorithm):
        return None
