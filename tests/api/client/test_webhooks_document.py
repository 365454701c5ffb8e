"""The receiver of docs/webhooks.md runs unchanged and gets signed posts."""

import re
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from stellar_sdk import Keypair

from devnet.webhook_receiver import make_certificate
from relay.keys import LocalStellarKey
from relay.webhooks.post import WHOLE_SECONDS, WebhookResponse
from relay.webhooks.retrying import WebhookState
from relay.webhooks.run import WebhookSender
from relay.webhooks.store import DueEvent, TransferEvent
from tests.factories.tokens import ACCOUNT
from tests.factories.webhooks import PUBLIC_KEY
from warehouse_schema.identifiers import StellarAddress

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "webhooks.md").read_text()
[EXAMPLE] = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SEED = Keypair.from_raw_ed25519_seed(bytes(range(32))).secret


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    return make_certificate(tmp_path)


@pytest.fixture
def url(certificate: Path) -> Iterator[str]:
    """Of the receiver, behind TLS."""
    world: dict[str, Any] = {"public_key": PUBLIC_KEY}
    exec(EXAMPLE, world)
    handler = world["Hooks"]
    handler.log_message = lambda *_: None
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"https://localhost:{server.server_port}/hooks"
    server.shutdown()
    thread.join()
    server.server_close()


def due(url: str, number: int, stage: str) -> DueEvent:
    event = TransferEvent(
        number=number,
        transfer="5e" * 16,
        stage=stage,
        status="pending_anchor",
        reason=None,
        told_at=datetime.now(UTC),
    )
    return DueEvent("webhook", StellarAddress(ACCOUNT), url, number - 1, event, WebhookState())


def test_receiver_handles_event_once_and_refuses_other_keys(
    url: str, certificate: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def sender(seed: str) -> WebhookSender:
        key = LocalStellarKey.from_text(seed, "test")
        context = ssl.create_default_context(cafile=str(certificate))
        return WebhookSender(key, context, admits=lambda _: True)

    ours = sender(SEED)
    first = due(url, 1, "SUBMITTED")
    for each in (first, first, due(url, 2, "COMPLETED")):
        assert ours.send(each, WHOLE_SECONDS) == WebhookResponse(204, None)
    stranger = sender(Keypair.random().secret)
    assert stranger.send(due(url, 3, "REFUNDED"), WHOLE_SECONDS) == WebhookResponse(400, None)
    assert capsys.readouterr().out.splitlines() == [
        f"{'5e' * 16} SUBMITTED",
        f"{'5e' * 16} COMPLETED",
    ]
