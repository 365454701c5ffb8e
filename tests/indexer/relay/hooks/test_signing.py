"""Webhooks are signed as the Standard Webhooks specification says, by Ed25519."""

import base64

import pytest
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey
from stellar_sdk import Keypair

from indexer.relay.hooks.signing import public_text, signed_headers
from indexer.relay.keys import LocalStellarKey
from warehouse_schema.identifiers import UnixSeconds

PAIR = Keypair.from_raw_ed25519_seed(bytes(range(32)))
KEY = LocalStellarKey.from_text(PAIR.secret, "test")


def test_what_is_signed_is_id_time_and_body() -> None:
    headers = signed_headers(KEY, "evt_7", UnixSeconds(1_700_000_000), b'{"a":1}')
    version, _, text = headers["webhook-signature"].partition(",")
    assert (version, headers["webhook-id"]) == ("v1a", "evt_7")
    public = VerifyKey(base64.b64decode(public_text(KEY).removeprefix("whpk_")))
    public.verify(b'evt_7.1700000000.{"a":1}', base64.b64decode(text))
    with pytest.raises(BadSignatureError):
        public.verify(b'evt_7.1700000001.{"a":1}', base64.b64decode(text))
