"""Refused handshakes get an error in the API's format before the upgrade."""

import base64
import json
import logging
import socket
from contextlib import ExitStack

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from api.stream.socket import stream_of
from tests.factories.api_server import TIMEOUT
from tests.factories.app import make_app
from tests.factories.streaming import Listener

PATH = "/api/v1/stream"
HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": base64.b64encode(b"x" * 16).decode(),
}
SOCKET = {"gunicorn.socket": object()}


def ask(client, query="", *, environ=SOCKET, **headers):
    """Ask for an upgrade, some headers other than usual."""
    given = {name: value for name, value in (HANDSHAKE | headers).items() if value is not None}
    return client.get(f"{PATH}?{query}", headers=given, environ_overrides=environ)


def assert_refused(response, status, code):
    assert (response.status_code, response.json["code"]) == (status, code)
    assert response.content_type == "application/json"
    assert response.json["message"]


def test_client_that_leaves_the_handshake_is_no_error(
    client, book, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        response = ask(client, environ={"gunicorn.socket": ours})
    assert_refused(response, 400, "BAD_HANDSHAKE")
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
    stream = stream_of(client.application)
    assert stream.slots._taken.total() == 0
    stream.stop()
    stream.wait(TIMEOUT)


def test_plain_request_returns_426(cut_off):
    for method in ("GET", "HEAD"):
        response = cut_off.open(PATH, method=method)
        assert response.status_code == 426
        assert response.headers["Upgrade"] == "websocket"
    assert cut_off.get(PATH).json["code"] == "UPGRADE_REQUIRED"
    assert cut_off.post(PATH).status_code == 405


def test_other_websocket_version_returns_426(cut_off):
    response = ask(cut_off, **{"Sec-WebSocket-Version": "8"})
    assert_refused(response, 426, "UPGRADE_REQUIRED")
    assert response.headers["Sec-WebSocket-Version"] == "13"


@pytest.mark.parametrize("key", [None, "", "x", "AAAA", base64.b64encode(b"x" * 17).decode()])
def test_handshake_without_key_returns_400(cut_off, key):
    assert_refused(ask(cut_off, **{"Sec-WebSocket-Key": key}), 400, "BAD_HANDSHAKE")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("currency=EURO", "BAD_FILTER"),
        ("direction=up", "BAD_FILTER"),
        ("channel=transfer", "BAD_FILTER"),
        ("minAmount=5", "BAD_FILTER"),
        ("markers=2", "BAD_FILTER"),
        ("provider=x", "BAD_ADDRESS"),
        ("after=soon", "BAD_AFTER"),
    ],
)
def test_bad_query_returns_400_before_the_upgrade(cut_off, query, code):
    assert_refused(ask(cut_off, query), 400, code)


def test_server_without_upgrade_returns_503(cut_off):
    assert_refused(ask(cut_off, environ={}), 503, "STREAM_NOT_SERVED")


def test_stream_without_book_or_database_returns_503(cut_off, client):
    for _ in range(3):
        assert_refused(ask(client), 503, "ORDER_BOOK_NOT_READY")
        response = ask(cut_off)
        assert_refused(response, 503, "DATABASE_UNAVAILABLE")
        assert response.headers["Retry-After"] == "5"


def test_refused_client_takes_no_slot(reader):
    app = make_app(reader)
    for _ in range(60):
        assert_refused(ask(app.test_client()), 503, "ORDER_BOOK_NOT_READY")


def test_slots_are_counted_by_address_and_in_total(stand, serve):
    server = serve(
        workers=1,
        settings={
            "ISTHMUS_STREAMS": "3",
            "ISTHMUS_STREAMS_PER_ADDRESS": "2",
            "ISTHMUS_PROXIES": "1",
        },
    )

    def refused(address):
        with pytest.raises(InvalidStatus) as error:
            Listener(server.stream_url, headers={"X-Forwarded-For": f"6.6.6.6, {address}"})
        return json.loads(error.value.response.body)["code"]

    def enter(stack, address):
        headers = {"X-Forwarded-For": f"6.6.6.6, {address}"}
        listener = stack.enter_context(Listener(server.stream_url, headers=headers))
        listener.wait_for(stand.market.ledger)

    with ExitStack() as stack:
        for address in ("10.0.0.1", "10.0.0.1"):
            enter(stack, address)
        assert refused("10.0.0.1") == "TOO_MANY_STREAMS"
        enter(stack, "10.0.0.2")
        assert refused("10.0.0.3") == "STREAM_FULL"
    with ExitStack() as stack:
        # Whoever left has left a place.
        for address in ("10.0.0.1", "10.0.0.1", "10.0.0.3"):
            enter(stack, address)


def test_malformed_frames_do_not_harm_the_server(stand, serve):
    """Half a handshake, a close without a word, bytes that are no frame."""
    server = serve(workers=1)
    with httpx.Client(base_url=server.url, timeout=20) as http:
        for _ in range(20):
            answer = http.get(PATH, headers={"Connection": "Upgrade", "Upgrade": "websocket"})
            assert answer.status_code == 426
        with Listener(server.stream_url) as listener:
            listener.wait_for(stand.market.ledger)
            listener.send_raw(b"GET / HTTP/1.1\r\n\r\n")
            assert listener.wait_until_closed()[0] == 1002
        for _ in range(20):
            Listener(server.stream_url).abandon()
        assert http.get("/healthz").status_code == 200
        with Listener(server.stream_url) as listener:
            assert listener.wait_for(stand.market.ledger) == stand.show()[1]
