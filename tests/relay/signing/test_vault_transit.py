"""Keys of Vault's Transit engine, whose API the local server speaks as its reference documents."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indexer.config.settings import load_settings
from indexer.errors import ConfigurationError, RetryableChainError
from relay.keys import stellar_signature
from relay.settings import load_accounts, load_webhook_poster
from tests.relay.signing.wire import Request, Wire, serve, text

DEVNET = load_settings({}).network
KEYS = {1: Ed25519PrivateKey.from_private_bytes(bytes(32)), 2: Ed25519PrivateKey.generate()}


def reference(request: Request) -> tuple[int, object]:
    """`GET /transit/keys/:name` and `POST /transit/sign/:name`, at another mount."""
    if request.headers["X-Vault-Token"] != "hvs.current":
        return 403, {"errors": ["permission denied"]}
    if (request.method, request.path) == ("GET", "/v1/team/transit/keys/webhooks"):
        keys = {
            str(number): {
                "name": "ed25519",
                "public_key": text(key.public_key().public_bytes_raw()),
            }
            for number, key in KEYS.items()
        }
        return 200, {"data": {"type": "ed25519", "latest_version": 2, "keys": keys}}
    assert (request.method, request.path) == ("POST", "/v1/team/transit/sign/webhooks")
    number = request.body["key_version"]
    signature = KEYS[number].sign(base64.b64decode(request.body["input"]))
    return 200, {"data": {"signature": f"vault:v{number}:{text(signature)}"}}


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    with serve(reference) as wire:
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("VAULT_ADDR", wire.url)
        yield wire


def variables(tmp_path: Path, name: str, token: str = "hvs.current\n") -> dict[str, str]:
    (tmp_path / "token").write_text(token)
    return {"ISTHMUS_WEBHOOK_KMS": name, "ISTHMUS_VAULT_TOKEN_FILE": str(tmp_path / "token")}


def test_named_version_signs_whatever_is_latest(wire: Wire, tmp_path: Path) -> None:
    for name, number in (("team/transit/webhooks", 1), ("team/transit/webhooks@2", 2)):
        poster = load_webhook_poster(DEVNET, variables(tmp_path, f"vault:{name}"))
        assert poster is not None
        KEYS[number].public_key().verify(stellar_signature(poster.key, b"message"), b"message")


def test_token_file_is_read_at_each_signature(wire: Wire, tmp_path: Path) -> None:
    poster = load_webhook_poster(DEVNET, variables(tmp_path, "vault:team/transit/webhooks"))
    assert poster is not None
    (tmp_path / "token").write_text("hvs.revoked")
    with pytest.raises(ConfigurationError, match="permission denied"):
        poster.key.sign(b"message")
    (tmp_path / "token").write_text("hvs.current")
    assert len(poster.key.sign(b"message")) == 64


def test_evm_key_is_rejected_with_alternatives() -> None:
    with pytest.raises(ConfigurationError, match=r"no secp256k1 keys.*use aws-kms, gcp-kms"):
        load_accounts(DEVNET, {"ISTHMUS_RELAY_KMS_EIP155_31337": "vault:transit/evm"})


@pytest.mark.parametrize("name", ["webhooks", "transit/", "transit/webhooks@latest"])
def test_malformed_name_is_rejected(name: str) -> None:
    with pytest.raises(ConfigurationError, match="must be vault:MOUNT/KEY"):
        load_webhook_poster(DEVNET, {"ISTHMUS_WEBHOOK_KMS": f"vault:{name}"})


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ConfigurationError),
        (404, ConfigurationError),
        (429, RetryableChainError),
        (503, RetryableChainError),
    ],
)
def test_statuses_are_retryable_or_permanent(
    wire: Wire, tmp_path: Path, status: int, kind: type[Exception]
) -> None:
    poster = load_webhook_poster(DEVNET, variables(tmp_path, "vault:team/transit/webhooks"))
    assert poster is not None
    wire.answer = lambda _: (status, {"errors": ["Vault is sealed"]})
    with pytest.raises(kind, match="vault:team/transit/webhooks: Vault is sealed"):
        poster.key.sign(b"message")
