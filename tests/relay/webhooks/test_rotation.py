"""Drill: the key of webhooks is replaced while events are posted."""

from dataclasses import replace

import pytest
from sqlalchemy import Engine
from stellar_sdk import Keypair

from api.errors import Unavailable
from api.webhooks.store import require_sender
from devnet.webhook_receiver import Receiver
from isthmus_client import WebhookNotTrusted, verify_webhook
from relay.keys import LocalStellarKey
from relay.webhooks.run import WebhookSender
from relay.webhooks.signing import encode_public_key
from tests.factories.webhooks import begun, insert_stages, insert_webhook
from tests.relay.webhooks.conftest import KEY, heard, sending

NEW = LocalStellarKey(Keypair.from_raw_ed25519_seed(bytes(range(1, 33))))
OLD_PUBLIC, NEW_PUBLIC = encode_public_key(KEY), encode_public_key(NEW)
STEPS = (
    # Keys of the sender, the key that the API publishes meanwhile, and who can verify.
    ((KEY,), OLD_PUBLIC, {OLD_PUBLIC}),
    ((KEY, NEW), OLD_PUBLIC, {OLD_PUBLIC, NEW_PUBLIC}),
    ((KEY, NEW), NEW_PUBLIC, {OLD_PUBLIC, NEW_PUBLIC}),
    ((NEW,), NEW_PUBLIC, {NEW_PUBLIC}),
)


def verifies(public_key: str, receiver: Receiver, number: int) -> bool:
    posted = receiver.received[number]
    try:
        verify_webhook(public_key, posted.headers, posted.body)
    except WebhookNotTrusted:
        return False
    return True


def test_every_event_verifies_by_the_published_key_in_every_step(
    engine: Engine, relay_engine: Engine, sender: WebhookSender, receiver: Receiver
) -> None:
    with engine.begin() as conn:
        insert_webhook(conn, receiver.url)
    for number, (keys, published, verifiers) in enumerate(STEPS):
        rotated = replace(sender, key=keys[0], more_keys=keys[1:])
        with sending(relay_engine, rotated):
            with engine.begin() as conn:
                insert_stages(conn, begun(conn), "SUBMITTED")
            heard(receiver, number + 1)
        found = {each for each in (OLD_PUBLIC, NEW_PUBLIC) if verifies(each, receiver, number)}
        assert found == verifiers
        with engine.connect() as conn:
            # The API registers webhooks in every step.
            require_sender(conn, published)
    with engine.connect() as conn, pytest.raises(Unavailable):
        require_sender(conn, OLD_PUBLIC)
