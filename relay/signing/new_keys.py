"""New keys in files that only their owner may read."""

import os
import secrets
from pathlib import Path
from typing import Literal, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from stellar_sdk import Keypair

from indexer.errors import ConfigurationError
from relay.keys import LocalEvmKey, LocalStellarKey, evm_address
from relay.webhooks.signing import encode_public_key

KeyKind: TypeAlias = Literal["evm", "stellar", "webhook", "sep10", "token"]


def write_new_key(kind: KeyKind, path: Path) -> str:
    """Write a new secret with mode 0600; returns its public part, empty for `token`.

    Raises `ConfigurationError` when the file exists or cannot be written: no key is overwritten.
    """
    secret, public = _new_key(kind)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be created: {error.strerror}") from error
    with os.fdopen(descriptor, "w") as file:
        file.write(f"{secret}\n")
    return public


def _new_key(kind: KeyKind) -> tuple[str, str]:
    """Secret and public part, as settings have them."""
    if kind == "evm":
        secret = secrets.token_hex(32)
        return secret, evm_address(LocalEvmKey.from_text(secret, "a new key"))
    if kind == "token":
        key = generate_private_key(SECP256R1())
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return pem.decode().strip(), ""
    pair = Keypair.random()
    if kind == "webhook":
        return pair.secret, encode_public_key(LocalStellarKey(pair))
    return pair.secret, pair.public_key
