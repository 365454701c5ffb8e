"""Keys of AWS KMS: `aws-kms:KEY_ID`, with a key's id or ARN, or an alias.

Specs `ECC_SECG_P256K1` (signs the digest that it is given) and `ECC_NIST_EDWARDS25519` (pure
Ed25519: `ED25519_SHA_512` on the raw message, of 4096 bytes at most; `ED25519_PH_SHA_512` would be
Ed25519ph, which Stellar does not accept).
https://docs.aws.amazon.com/kms/latest/APIReference/API_Sign.html

Credentials and region come from AWS's default chain; an ARN brings its region.
"""

from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
)
from botocore.exceptions import ConnectionError as AwsConnectionError

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

_CONFIG = Config(
    connect_timeout=3, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 2}
)
_RETRYABLE = (
    *("DependencyTimeoutException", "KeyUnavailableException", "KMSInternalException"),
    *("Throttling", "ThrottlingException", "TooManyRequestsException", "LimitExceededException"),
    *("RequestLimitExceeded", "ServiceUnavailable", "RequestTimeout", "RequestTimeoutException"),
)
"""Error codes that pass: of the API reference's Sign and its common errors."""


def evm_key(name: str, settings: SigningSettings) -> EvmKey:  # noqa: ARG001
    """A key of spec `ECC_SECG_P256K1`."""
    key = _KmsKey(name)
    return ServiceEvmKey(
        lambda: evm_public_key(key.public_key(), key.source),
        lambda digest: ecdsa_numbers(key.sign(digest, "ECDSA_SHA_256", "DIGEST"), key.source),
    )


def stellar_key(name: str, settings: SigningSettings) -> StellarKey:  # noqa: ARG001
    """A key of spec `ECC_NIST_EDWARDS25519`."""
    key = _KmsKey(name)
    return ServiceStellarKey(
        lambda: stellar_public_key(key.public_key(), key.source),
        lambda message: key.sign(message, "ED25519_SHA_512", "RAW"),
    )


class _KmsKey:
    """The two calls that a key needs, each with a timeout and one retry."""

    def __init__(self, name: str) -> None:
        self.source = f"aws-kms:{name}"
        self._id = name
        region = name.split(":")[3] if name.startswith("arn:") and name.count(":") >= 5 else None
        try:
            self._client = boto3.client("kms", region_name=region, config=_CONFIG)
        except BotoCoreError as error:
            raise ConfigurationError(f"{self.source}: {error}") from error

    def public_key(self) -> bytes:
        """SubjectPublicKeyInfo in DER."""
        return bytes(self._call("get_public_key")["PublicKey"])

    def sign(self, message: bytes, algorithm: str, message_type: str) -> bytes:
        """ECDSA in DER, Ed25519 as 64 bytes."""
        answer = self._call(
            "sign", Message=message, SigningAlgorithm=algorithm, MessageType=message_type
        )
        return bytes(answer["Signature"])

    def _call(self, method: str, **arguments: object) -> Any:
        try:
            return getattr(self._client, method)(KeyId=self._id, **arguments)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            is_temporary = code in _RETRYABLE or status >= 500
            kind = RetryableChainError if is_temporary else ConfigurationError
            raise kind(f"{self.source}: {error}") from error
        except (HTTPClientError, AwsConnectionError, CredentialRetrievalError) as error:
            # No connection, a timeout, or the machine's credential service is away.
            raise RetryableChainError(f"{self.source}: {error}") from error
        except BotoCoreError as error:
            raise ConfigurationError(f"{self.source}: {error}") from error
