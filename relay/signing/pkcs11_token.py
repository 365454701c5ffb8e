"""Keys of an HSM by PKCS#11: `pkcs11:TOKEN/LABEL`.

secp256k1 by CKM_ECDSA over a digest, Ed25519 by CKM_EDDSA without parameters, which is pure Ed25519
(PKCS#11 3.0, 2.3.14). The token needs private and public key under one label. PKCS#11 has no
timeouts: how long a call may take is a setting of the vendor's library.
"""

import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

import pkcs11
from pkcs11 import Attribute, KeyType, Mechanism, ObjectClass, Session, Token
from pkcs11 import exceptions as errors
from pkcs11.types import SignMixin

from indexer.errors import ConfigurationError, RetryableChainError
from relay.keys import EvmKey, StellarKey
from relay.signing.service_keys import ServiceEvmKey, ServiceStellarKey
from relay.signing.services import SigningSettings

T = TypeVar("T")

_SECP256K1 = bytes.fromhex("06052b8104000a")
"""CKA_EC_PARAMS: OID 1.3.132.0.10 (SEC 2, A.2.1)."""
_POINT_PREFIXES = {
    65: (b"\x04\x41", b""),
    32: (b"\x04\x20", b"\x03\x21\x00", b""),
}
"""Length of a point → what stands before it in CKA_EC_POINT: an OCTET STRING, for Ed25519 also a
BIT STRING (PKCS#11 3.0), and from some tokens nothing."""
_PERMANENT = (
    *(errors.NoSuchToken, errors.NoSuchKey),
    *(errors.MultipleTokensReturned, errors.MultipleObjectsReturned),
    *(errors.PinIncorrect, errors.PinInvalid, errors.PinLenRange, errors.PinLocked),
    *(errors.PinExpired, errors.UserPinNotInitialized),
    *(errors.MechanismInvalid, errors.KeyTypeInconsistent, errors.AttributeTypeInvalid),
    *(errors.FunctionNotSupported, errors.ArgumentsBad),
)
"""Errors that stay until an operator acts. The others may be of a lost connection to the HSM."""


def evm_key(name: str, settings: SigningSettings) -> EvmKey:
    """A key of type EC on secp256k1."""
    key = _TokenKey(name, settings, KeyType.EC, Mechanism.ECDSA)

    def sign(digest: bytes) -> tuple[int, int]:
        signature = key.sign(digest)
        return int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")

    return ServiceEvmKey(key.evm_public_key, sign)


def stellar_key(name: str, settings: SigningSettings) -> StellarKey:
    """A key of type EC_EDWARDS with 32 bytes."""
    key = _TokenKey(name, settings, KeyType.EC_EDWARDS, Mechanism.EDDSA)
    return ServiceStellarKey(key.stellar_public_key, key.sign)


class _TokenKey:
    """A key pair on a token."""

    def __init__(
        self, name: str, settings: SigningSettings, key_type: KeyType, mechanism: Mechanism
    ) -> None:
        self.source = f"pkcs11:{name}"
        token, _, self._label = name.partition("/")
        if not token or not self._label:
            raise ConfigurationError(f"{self.source} must be pkcs11:TOKEN/LABEL")
        if settings.pkcs11_module is None or settings.pkcs11_pin is None:
            raise ConfigurationError(
                f"{self.source} needs ISTHMUS_PKCS11_MODULE and ISTHMUS_PKCS11_PIN_FILE"
            )
        self._token = _token(settings.pkcs11_module, token, settings.pkcs11_pin)
        self._type, self._mechanism = key_type, mechanism

    def sign(self, message: bytes) -> bytes:
        """64 bytes: r and s, or an Ed25519 signature."""

        def run(session: Session) -> bytes:
            found = session.get_key(ObjectClass.PRIVATE_KEY, self._type, self._label)
            return cast(SignMixin, found).sign(message, mechanism=self._mechanism)

        return self._token.run(self.source, run)

    def evm_public_key(self) -> bytes:
        """x and y. Raises `ConfigurationError` for another curve."""
        curve, point = self._curve_and_point()
        if curve != _SECP256K1:
            raise ConfigurationError(f"{self.source} is no secp256k1 key, which EVM chains need")
        return self._point(point, 65)[1:]

    def stellar_public_key(self) -> bytes:
        """32 bytes. Raises `ConfigurationError` for another curve."""
        return self._point(self._curve_and_point()[1], 32)

    def _curve_and_point(self) -> tuple[bytes, bytes]:
        def run(session: Session) -> tuple[bytes, bytes]:
            found = session.get_key(ObjectClass.PUBLIC_KEY, self._type, self._label)
            return found[Attribute.EC_PARAMS], found[Attribute.EC_POINT]

        return self._token.run(self.source, run)

    def _point(self, encoded: bytes, length: int) -> bytes:
        for prefix in _POINT_PREFIXES[length]:
            if encoded.startswith(prefix) and len(encoded) == len(prefix) + length:
                return encoded[len(prefix) :]
        raise ConfigurationError(f"{self.source}: its public key has {len(encoded)} bytes")


class _TokenSession:
    """One session for all keys of a token: a login counts for the whole process.

    Calls take turns. After an error the session is closed, and the next call opens another.
    """

    def __init__(self, find_token: Callable[[], Token], pin: str) -> None:
        self._find_token, self._pin = find_token, pin
        self._lock = threading.Lock()
        self._session: Session | None = None

    def run(self, source: str, call: Callable[[Session], T]) -> T:
        """Call with a session that is logged in.

        Raises `ConfigurationError` when an operator must act, else `RetryableChainError`.
        """
        with self._lock:
            try:
                return call(self._open())
            except errors.PKCS11Error as error:
                self._close()
                kind = ConfigurationError if isinstance(error, _PERMANENT) else RetryableChainError
                reason = f"{type(error).__name__} {error}".strip()
                raise kind(f"{source}: {reason}") from error

    def _open(self) -> Session:
        if self._session is None:
            self._session = self._find_token().open(user_pin=self._pin)
        return self._session

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            except errors.PKCS11Error:
                # The token has lost it already.
                return


@cache
def _token(module: Path, label: str, pin: str) -> _TokenSession:
    try:
        library = pkcs11.lib(str(module))
    except errors.PKCS11Error as error:
        raise ConfigurationError(
            f"ISTHMUS_PKCS11_MODULE: {module} cannot be used: {type(error).__name__} {error}"
        ) from error
    return _TokenSession(lambda: library.get_token(token_label=label), pin)
