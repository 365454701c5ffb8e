"""Keys of Google Cloud KMS: `gcp-kms:projects/…/cryptoKeyVersions/N`.

Algorithms `EC_SIGN_SECP256K1_SHA256` (of protection level HSM only; signs the 32 bytes that stand
for a SHA-256 digest) and `EC_SIGN_ED25519` (pure Ed25519, on the raw data).
https://docs.cloud.google.com/kms/docs/reference/rest/v1/projects.locations.keyRings.cryptoKeys.cryptoKeyVersions/asymmetricSign

The REST interface, with Google's library for credentials alone: its KMS client brings gRPC. Its
checksums are not sent: every signature is verified against the public key instead.
Credentials are Application Default Credentials.
"""

import base64
import re
from typing import Any

import google.auth
from google.auth.exceptions import GoogleAuthError, TransportError
from google.auth.transport.requests import AuthorizedSession
from requests.exceptions import RequestException

from indexer.errors import ConfigurationError, RetryableChainError
from relay.keys import EvmKey, StellarKey
from relay.signing.service_keys import (
    ServiceEvmKey,
    ServiceStellarKey,
    ecdsa_numbers,
    evm_public_key,
    stellar_public_key,
)
from relay.signing.services import SigningSettings

URL = "https://cloudkms.googleapis.com/v1/"
_SCOPE = "https://www.googleapis.com/auth/cloudkms"
_SECONDS = (3.0, 5.0)
"""To connect, and to wait for bytes."""
_NAME = re.compile(
    "projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+/cryptoKeyVersions/[0-9]+"
)


def evm_key(name: str, settings: SigningSettings) -> EvmKey:  # noqa: ARG001
    """A key version of `EC_SIGN_SECP256K1_SHA256`."""
    return evm_key_of(KmsKeyVersion(name, _session(name)))


def stellar_key(name: str, settings: SigningSettings) -> StellarKey:  # noqa: ARG001
    """A key version of `EC_SIGN_ED25519`."""
    return stellar_key_of(KmsKeyVersion(name, _session(name)))


def evm_key_of(key: "KmsKeyVersion") -> EvmKey:
    """The EVM key of a version."""
    return ServiceEvmKey(
        lambda: evm_public_key(key.public_key(), key.source),
        lambda digest: ecdsa_numbers(key.sign({"digest": {"sha256": _text(digest)}}), key.source),
    )


def stellar_key_of(key: "KmsKeyVersion") -> StellarKey:
    """The Stellar key of a version."""
    return ServiceStellarKey(
        lambda: stellar_public_key(key.public_key(), key.source),
        lambda message: key.sign({"data": _text(message)}),
    )


class KmsKeyVersion:
    """The two calls that a key needs. Another `url` is for tests."""

    def __init__(self, name: str, session: AuthorizedSession, url: str = URL) -> None:
        self.source = f"gcp-kms:{name}"
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{self.source} must be gcp-kms:projects/…/locations/…/keyRings/…/cryptoKeys/…/"
                "cryptoKeyVersions/N"
            )
        self._session, self._url = session, url + name

    def public_key(self) -> bytes:
        """SubjectPublicKeyInfo in PEM."""
        return str(self._call("GET", "/publicKey")["pem"]).encode()

    def sign(self, body: object) -> bytes:
        """ECDSA in DER, Ed25519 as 64 bytes."""
        return base64.b64decode(self._call("POST", ":asymmetricSign", body)["signature"])

    def _call(self, method: str, path: str, body: object = None) -> Any:
        try:
            answer = self._session.request(method, self._url + path, json=body, timeout=_SECONDS)
            if answer.ok:
                return answer.json()
        except (RequestException, TransportError) as error:
            raise RetryableChainError(f"{self.source}: {error}") from error
        except GoogleAuthError as error:
            kind = RetryableChainError if error.retryable else ConfigurationError
            raise kind(f"{self.source}: {error}") from error
        # 400 is a disabled version (FAILED_PRECONDITION) too, 403 a missing permission.
        is_temporary = answer.status_code in (408, 409, 429) or answer.status_code >= 500
        kind = RetryableChainError if is_temporary else ConfigurationError
        raise kind(f"{self.source}: {answer.status_code} {answer.text[:300]}")


def _session(name: str) -> AuthorizedSession:
    try:
        credentials, _ = google.auth.default(scopes=[_SCOPE])
    except GoogleAuthError as error:
        raise ConfigurationError(f"gcp-kms:{name}: {error}") from error
    return AuthorizedSession(credentials)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
