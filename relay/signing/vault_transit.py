"""Keys of HashiCorp Vault's Transit engine: `vault:MOUNT/KEY@VERSION`; without a version, 1.

Stellar and webhook keys only: Transit has key type `ed25519` and none on secp256k1
(https://developer.hashicorp.com/vault/api-docs/secret/transit, hashicorp/vault#4594). The version
is fixed, because a rotation inside Vault would make another account of it.

Address, namespace and TLS come from Vault's variables (`VAULT_ADDR`, `VAULT_NAMESPACE`,
`VAULT_CACERT` …). The token's file is read at each call: Vault Agent replaces it.
"""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hvac
from hvac import exceptions as errors
from requests.exceptions import RequestException

from indexer.errors import ConfigurationError, RetryableChainError
from relay.keys import EvmKey, StellarKey
from relay.signing.service_keys import ServiceStellarKey
from relay.signing.services import SigningSettings

_SECONDS = 8
_PERMANENT = (
    *(errors.InvalidRequest, errors.Unauthorized, errors.Forbidden, errors.InvalidPath),
    *(errors.UnsupportedOperation, errors.ParamValidationError),
)
"""A wrong name, version or type of key, or a policy that does not allow the call. Others, such as
a sealed Vault (503), pass."""


def evm_key(name: str, settings: SigningSettings) -> EvmKey:  # noqa: ARG001
    """Raises `ConfigurationError`: Transit has no secp256k1."""
    raise ConfigurationError(
        f"vault:{name}: Vault's Transit engine has no secp256k1 keys, which EVM chains need; "
        "use aws-kms, gcp-kms or pkcs11"
    )


def stellar_key(name: str, settings: SigningSettings) -> StellarKey:
    """A key of type `ed25519`."""
    key = _TransitKey(name, settings.vault_token_file)
    return ServiceStellarKey(key.public_key, key.sign)


class _TransitKey:
    """One version of a key."""

    def __init__(self, name: str, token_file: Path | None) -> None:
        self._source = f"vault:{name}"
        path, _, version = name.partition("@")
        mount, _, key = path.rpartition("/")
        if not mount or not key or not (version or "1").isdecimal():
            raise ConfigurationError(f"{self._source} must be vault:MOUNT/KEY or MOUNT/KEY@VERSION")
        self._names = {"name": key, "mount_point": mount}
        self._version = int(version or 1)
        self._token_file = token_file
        self._client = hvac.Client(timeout=_SECONDS)

    def public_key(self) -> bytes:
        """32 bytes. Raises `ConfigurationError` for another type of key, or no such version."""
        data = self._call(lambda transit: transit.read_key(**self._names))
        if data["type"] != "ed25519":
            raise ConfigurationError(f"{self._source} is no ed25519 key, but {data['type']}")
        version = data["keys"].get(str(self._version))
        if version is None:
            raise ConfigurationError(f"{self._source}: the key has no version {self._version}")
        return base64.b64decode(version["public_key"])

    def sign(self, message: bytes) -> bytes:
        """64 bytes; the answer is `vault:v1:` and base64."""
        text = base64.b64encode(message).decode()
        data = self._call(
            lambda transit: transit.sign_data(
                **self._names, hash_input=text, key_version=self._version
            )
        )
        return base64.b64decode(data["signature"].rpartition(":")[2])

    def _call(self, call: Callable[[Any], Any]) -> Any:
        if self._token_file is not None:
            try:
                self._client.token = self._token_file.read_text().strip()
            except OSError as error:
                raise ConfigurationError(f"ISTHMUS_VAULT_TOKEN_FILE: {error}") from error
        try:
            return call(self._client.secrets.transit)["data"]
        except _PERMANENT as error:
            raise ConfigurationError(f"{self._source}: {error}") from error
        except (errors.VaultError, RequestException) as error:
            raise RetryableChainError(f"{self._source}: {error}") from error
