"""Keys of AWS KMS: secp256k1 in moto, Ed25519 (which moto 5.2 lacks) as the reference documents."""

import base64
from collections.abc import Iterator

import boto3
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from indexer.config.settings import load_settings
from indexer.errors import ConfigurationError, RetryableChainError
from relay.account import TurnReport
from relay.keys import evm_signature, stellar_signature
from relay.settings import EvmAccount, load_accounts, load_webhook_poster
from tests.relay.conftest import AMOUNT, Stand
from tests.relay.signing.moto_kms import aws_at, moto_kms, new_key
from tests.relay.signing.wire import Request, Wire, serve, text

DEVNET = load_settings({}).network
KMS = "ISTHMUS_RELAY_KMS_EIP155_31337"
PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@pytest.fixture
def moto(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with moto_kms(monkeypatch) as url:
        yield url


def evm_accounts(value: str) -> list[EvmAccount]:
    found = load_accounts(DEVNET, {KMS: value})
    return [each for each in found if isinstance(each, EvmAccount)]


def test_message_is_delivered_by_kms_key(moto: str, stand: Stand) -> None:
    [account] = evm_accounts(f"aws-kms:{new_key()}")
    message, relay = stand.add_message(), stand.relay(key=account.key)
    stand.devnet.rpc("anvil_setBalance", relay.account.address, hex(10**18))
    assert stand.turns(relay) == TurnReport(opened=1, sent=1)
    assert stand.received(message) == AMOUNT
    stand.ingest()
    assert stand.turns(relay) == TurnReport(confirmed=1)
    assert stand.slots_of(message) == [(0, "confirmed")]


def test_signatures_of_many_digests_have_low_s(moto: str) -> None:
    [account] = evm_accounts(f"aws-kms:{new_key()}")
    half = 0x7FFFFFFF_FFFFFFFF_FFFFFFFF_FFFFFFFF_5D576E73_57A4501D_DFE92F46_681B20A0
    found = [evm_signature(account.key, bytes([number]) * 32) for number in range(16)]
    assert all(s <= half for _, _, s in found)
    assert {parity for parity, _, _ in found} == {0, 1}


def test_several_keys_are_several_accounts(moto: str) -> None:
    first, second = new_key(), new_key()
    assert len(evm_accounts(f"aws-kms:{first}, aws-kms:{second}")) == 2
    with pytest.raises(ConfigurationError, match=f"{KMS} name one key twice"):
        evm_accounts(f"aws-kms:{first},aws-kms:{first}")


def test_wrong_keys_are_named_with_their_variable(moto: str) -> None:
    for value, problem in (
        ("aws-kms:" + "0" * 8 + "-0000-0000-0000-" + "0" * 12, "NotFoundException"),
        (f"aws-kms:{new_key('ECC_NIST_P256')}", "is no secp256k1 key"),
    ):
        with pytest.raises(ConfigurationError, match=f"{KMS}: aws-kms:.*{problem}"):
            evm_accounts(value)


def test_region_is_that_of_the_arn(monkeypatch: pytest.MonkeyPatch, moto: str) -> None:
    arn = boto3.client("kms").describe_key(KeyId=new_key())["KeyMetadata"]["Arn"]
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert len(evm_accounts(f"aws-kms:{arn}")) == 1
    with pytest.raises(ConfigurationError, match="You must specify a region"):
        evm_accounts("aws-kms:alias/relay")


def test_unreachable_service_is_retryable(monkeypatch: pytest.MonkeyPatch) -> None:
    aws_at(monkeypatch, "http://127.0.0.1:1")
    with pytest.raises(RetryableChainError, match="Could not connect"):
        evm_accounts("aws-kms:alias/relay")


def kms_reference(request: Request) -> tuple[int, object]:
    """`GetPublicKey` and `Sign` of a key of spec `ECC_NIST_EDWARDS25519`."""
    target = request.headers["X-Amz-Target"]
    if target == "TrentService.GetPublicKey":
        spki = PRIVATE.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return 200, {"KeyId": "k", "PublicKey": text(spki), "KeySpec": "ECC_NIST_EDWARDS25519"}
    assert target == "TrentService.Sign"
    assert request.body.keys() == {"KeyId", "Message", "MessageType", "SigningAlgorithm"}
    assert (request.body["SigningAlgorithm"], request.body["MessageType"]) == (
        "ED25519_SHA_512",
        "RAW",
    )
    message = base64.b64decode(request.body["Message"])
    return 200, {"KeyId": "k", "Signature": text(PRIVATE.sign(message))}


@pytest.fixture
def reference(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    with serve(kms_reference) as wire:
        aws_at(monkeypatch, wire.url)
        yield wire


def test_webhooks_are_signed_by_ed25519_key(reference: Wire) -> None:
    poster = load_webhook_poster(DEVNET, {"ISTHMUS_WEBHOOK_KMS": "aws-kms:alias/webhooks"})
    assert poster is not None
    message = b"evt_1.1795336200." + b"{}" * 300
    signature = stellar_signature(poster.key, message)
    PRIVATE.public_key().verify(signature, message)
    # The public key is read once.
    assert [each.headers["X-Amz-Target"].split(".")[1] for each in reference.requests] == [
        "GetPublicKey",
        "Sign",
    ]


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "AccessDeniedException", ConfigurationError),
        (400, "DisabledException", ConfigurationError),
        (400, "KMSInvalidStateException", ConfigurationError),
        (400, "ThrottlingException", RetryableChainError),
        (500, "KMSInternalException", RetryableChainError),
        (503, "ServiceUnavailable", RetryableChainError),
    ],
)
def test_error_codes_are_retryable_or_permanent(
    reference: Wire, status: int, code: str, kind: type[Exception]
) -> None:
    poster = load_webhook_poster(DEVNET, {"ISTHMUS_WEBHOOK_KMS": "aws-kms:alias/webhooks"})
    assert poster is not None
    reference.answer = lambda _: (status, {"__type": code, "message": "so it is"})
    with pytest.raises(kind, match=f"aws-kms:alias/webhooks: .*{code}"):
        poster.key.sign(b"message")
