"""Keys of GCP KMS, whose REST interface the local server speaks as its reference documents."""

import base64
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256K1, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from eth_account import Account
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from indexer.errors import ConfigurationError, RetryableChainError
from relay.keys import evm_address, evm_signature, stellar_signature
from relay.signing.gcp_kms import KmsKeyVersion, evm_key_of, stellar_key_of
from tests.relay.signing.wire import Request, Wire, serve, text

RING = "projects/p/locations/europe-west3/keyRings/isthmus/cryptoKeys"
EVM, STELLAR = f"{RING}/evm/cryptoKeyVersions/1", f"{RING}/stellar/cryptoKeyVersions/2"
EVM_PRIVATE = derive_private_key(0x5F, SECP256K1())
STELLAR_PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def reference(request: Request) -> tuple[int, object]:
    """`cryptoKeyVersions.getPublicKey` and `.asymmetricSign`."""
    is_evm = EVM in request.path
    key = EVM_PRIVATE if is_evm else STELLAR_PRIVATE
    if (request.method, request.path.endswith("/publicKey")) == ("GET", True):
        pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return 200, {"pem": pem.decode(), "algorithm": "EC_SIGN_…", "pemCrc32c": "1"}
    assert (request.method, request.path.endswith(":asymmetricSign")) == ("POST", True)
    if is_evm:
        assert request.body.keys() == {"digest"}
        digest = base64.b64decode(request.body["digest"]["sha256"])
        return 200, {"signature": text(EVM_PRIVATE.sign(digest, ECDSA(Prehashed(SHA256()))))}
    assert request.body.keys() == {"data"}
    return 200, {"signature": text(STELLAR_PRIVATE.sign(base64.b64decode(request.body["data"])))}


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve(reference) as wire:
        yield wire


def version(wire: Wire, name: str) -> KmsKeyVersion:
    session = AuthorizedSession(AnonymousCredentials())
    return KmsKeyVersion(name, session, f"{wire.url}/v1/")


def test_evm_digest_is_signed(wire: Wire) -> None:
    key = evm_key_of(version(wire, EVM))
    assert evm_address(key) == Account.from_key(0x5F.to_bytes(32, "big")).address.lower()
    # Verifies that the signature is the key's.
    evm_signature(key, bytes(range(32)))
    assert wire.requests[-1].path == f"/v1/{EVM}:asymmetricSign"


def test_stellar_message_is_signed(wire: Wire) -> None:
    key = stellar_key_of(version(wire, STELLAR))
    STELLAR_PRIVATE.public_key().verify(stellar_signature(key, b"message"), b"message")


def test_key_of_other_curve_is_rejected(wire: Wire) -> None:
    with pytest.raises(ConfigurationError, match="is no Ed25519 key"):
        _ = stellar_key_of(version(wire, EVM)).public_key
    with pytest.raises(ConfigurationError, match="is no secp256k1 key"):
        _ = evm_key_of(version(wire, STELLAR)).public_key


def test_name_without_version_is_rejected(wire: Wire) -> None:
    with pytest.raises(ConfigurationError, match="cryptoKeyVersions/N"):
        version(wire, f"{RING}/evm")


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (403, "PERMISSION_DENIED", ConfigurationError),
        (404, "NOT_FOUND", ConfigurationError),
        (400, "FAILED_PRECONDITION", ConfigurationError),
        (429, "RESOURCE_EXHAUSTED", RetryableChainError),
        (503, "UNAVAILABLE", RetryableChainError),
    ],
)
def test_statuses_are_retryable_or_permanent(
    wire: Wire, status: int, reason: str, kind: type[Exception]
) -> None:
    wire.answer = lambda _: (status, {"error": {"code": status, "status": reason}})
    with pytest.raises(kind, match=f"gcp-kms:{STELLAR}: {status} .*{reason}"):
        stellar_key_of(version(wire, STELLAR)).sign(b"message")


def test_unreachable_service_is_retryable() -> None:
    session = AuthorizedSession(AnonymousCredentials())
    key = stellar_key_of(KmsKeyVersion(STELLAR, session, "http://127.0.0.1:1/"))
    with pytest.raises(RetryableChainError):
        key.sign(b"message")
