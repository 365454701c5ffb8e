"""A receiver of webhooks, and a sender that runs."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine
from stellar_sdk import Keypair

from devnet.webhook_receiver import Posted, Receiver, make_certificate, receiving
from relay.keys import LocalStellarKey
from relay.webhooks.run import DeliveryCounts, WebhookSender, send_webhooks

TIMEOUT = 20.0
SEED = Keypair.from_raw_ed25519_seed(bytes(range(32))).secret
KEY = LocalStellarKey.from_text(SEED, "test")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def receiver(certificate: Path) -> Iterator[Receiver]:
    with receiving(certificate) as receiver:
        yield receiver


@pytest.fixture
def sender(certificate: Path) -> WebhookSender:
    """A sender that admits this machine and trusts its receiver."""
    context = ssl.create_default_context(cafile=str(certificate))
    return WebhookSender(
        KEY, context=context, admits=lambda _: True, whole_seconds=60.0, prompt_seconds=60.0
    )


@contextmanager
def sending(engine: Engine, sender: WebhookSender) -> Iterator[list[DeliveryCounts]]:
    """Run the sender."""
    stop, done = threading.Event(), list[DeliveryCounts]()

    def work() -> None:
        send_webhooks(engine, sender, should_stop=stop.is_set, on_progress=done.append)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join(TIMEOUT)
        assert not thread.is_alive()


def number_of(posted: Posted) -> int:
    return int(json.loads(posted.body)["data"]["number"])


def heard(receiver: Receiver, how_many: int) -> list[int]:
    """Numbers of so many events, in order of arrival."""
    assert receiver.wait_for(lambda all_: len(all_) >= how_many, TIMEOUT)
    return [number_of(each) for each in receiver.received]
