"""AWS KMS as moto simulates it, over HTTP."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
import pytest
from botocore.config import Config
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.hazmat.primitives.hashes import SHA256
from moto.kms.responses import KmsResponse
from moto.server import ThreadedMotoServer


def _sign_digest(response: KmsResponse) -> str:
    """`Sign` with `MessageType` DIGEST, which moto 5.2 hashes once more (getmoto/moto#10202)."""
    key = response.kms_backend.describe_key(response._get_param("KeyId"))
    signature = key.private_key.private_key.sign(  # type: ignore[attr-defined]
        response._get_param("Message"), ECDSA(Prehashed(SHA256()))
    )
    return json.dumps({"KeyId": key.arn, "Signature": base64.b64encode(signature).decode()})


@contextmanager
def moto_kms(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """URL of the server, which the variables of AWS's default chain name."""
    sign = KmsResponse.sign

    def sign_by_type(response: KmsResponse) -> str:
        is_digest = response._get_param("MessageType") == "DIGEST"
        return _sign_digest(response) if is_digest else sign(response)

    monkeypatch.setattr(KmsResponse, "sign", sign_by_type)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    aws_at(monkeypatch, f"http://{host}:{port}")
    yield f"http://{host}:{port}"
    server.stop()


def aws_at(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Set the variables of AWS's default chain."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "relay")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


def new_key(spec: str = "ECC_SECG_P256K1") -> str:
    """Id of a new key that signs."""
    kms = boto3.client("kms", config=Config(connect_timeout=5, read_timeout=5))
    return str(kms.create_key(KeySpec=spec, KeyUsage="SIGN_VERIFY")["KeyMetadata"]["KeyId"])
