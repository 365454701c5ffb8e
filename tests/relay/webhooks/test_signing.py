"""Webhooks are signed by the Standard Webhooks specification, by HMAC and Ed25519."""

import base64
import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey
from standardwebhooks import Webhook, WebhookVerificationError
from stellar_sdk import Keypair

from relay.keys import LocalStellarKey
from relay.webhooks.signing import encode_public_key, signed_headers
from warehouse_schema.identifiers import UnixSeconds

ROOT = Path(__file__).parents[3]
PAIR = Keypair.from_raw_ed25519_seed(bytes(range(32)))
KEY = LocalStellarKey.from_text(PAIR.secret, "test")


def test_signature_covers_id_timestamp_and_body() -> None:
    headers = signed_headers([KEY], "evt_7", UnixSeconds(1_700_000_000), b'{"a":1}')
    version, _, text = headers["webhook-signature"].partition(",")
    assert (version, headers["webhook-id"]) == ("v1a", "evt_7")
    public = VerifyKey(base64.b64decode(encode_public_key(KEY).removeprefix("whpk_")))
    public.verify(b'evt_7.1700000000.{"a":1}', base64.b64decode(text))
    with pytest.raises(BadSignatureError):
        public.verify(b'evt_7.1700000001.{"a":1}', base64.b64decode(text))


SECRET = f"whsec_{base64.b64encode(bytes(range(32))).decode()}"
BODY = b'{"type":"transfer.changed"}'


def headers_of_now() -> Mapping[str, str]:
    # The libraries compare the timestamp with their own clock.
    return signed_headers([KEY], "evt_7", UnixSeconds(int(time.time())), BODY, SECRET)


def test_python_library_verifies_signature() -> None:
    headers = dict(headers_of_now())
    assert Webhook(SECRET).verify(BODY, headers) == {"type": "transfer.changed"}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(BODY + b" ", headers)


def test_npm_library_verifies_signature(tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    script = tmp_path / "verify.mjs"
    script.write_text(
        'import { Webhook } from "standardwebhooks";\n'
        "const [secret, body, headers] = process.argv.slice(2);\n"
        "console.log(new Webhook(secret).verify(body, JSON.parse(headers)).type);\n"
    )

    def verify(body: str) -> "subprocess.CompletedProcess[str]":
        headers = json.dumps(dict(headers_of_now()))
        return subprocess.run(
            ["node", script, SECRET, body, headers], capture_output=True, text=True
        )

    assert verify(BODY.decode()).stdout == "transfer.changed\n"
    assert "WebhookVerificationError" in verify(BODY.decode() + " ").stderr


def test_webhook_without_secret_has_ed25519_signature_only() -> None:
    headers = signed_headers([KEY], "evt_7", UnixSeconds(1), BODY)
    assert headers["webhook-signature"].startswith("v1a,")
    assert " " not in headers["webhook-signature"]
