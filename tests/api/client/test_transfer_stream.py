"""The client follows transfers across lost connections and expired tokens."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.server import Server, ServerConnection, serve

from isthmus_client import Isthmus, SignInNeeded

SHOWN = json.loads(
    (Path(__file__).parents[3] / "api/document/examples.json").read_text(encoding="utf-8")
)["openStream"]["TransferMessage"]["transfer"]
MARKER = {"channel": "transfer", "mode": "resume", "account": "G", "expiresAt": "x"}

Script = Callable[[ServerConnection, dict[str, Any]], None]


def change(number: int, stage: str) -> dict[str, Any]:
    return {"channel": "transfer", "number": number, "transfer": SHOWN | {"stage": stage}}


def sends(*messages: dict[str, Any], end: tuple[int, str] = (1012, "order book rebuilt")) -> Script:
    def play(socket: ServerConnection, _: dict[str, Any]) -> None:
        for each in messages:
            socket.send(json.dumps(each))
        socket.close(*end)

    return play


REFUSE = sends(end=(1008, "token refused"))


@contextmanager
def playing(*scripts: Script) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that plays one script a connection, and what clients said to it."""
    left, received = list(scripts), []

    def handle(socket: ServerConnection) -> None:
        received.append(json.loads(socket.recv()))
        left.pop(0)(socket, received[-1])

    server: Server = serve(handle, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}", received
    finally:
        server.shutdown()
        thread.join()


def make_client(url: str, slept: list[float]) -> Isthmus:
    tokens = iter("abcdefgh")
    return Isthmus(url, token=lambda: next(tokens), sleep=slept.append)


def test_lost_connection_resumes_after_highest_number():
    book = {"channel": "orderbook", "op": "add", "entry": {}, "seq": 1, "prevSeq": 0, "ledger": 1}
    scripts = (
        sends(book, change(3, "SUBMITTED"), change(2, "CONFIRMING"), MARKER | {"number": 5}),
        sends(end=(1013, "token not checked")),
        sends(change(6, "COMPLETED")),
    )
    slept: list[float] = []
    with playing(*scripts) as (url, received), make_client(url, slept) as isthmus:
        news = isthmus.follow_transfers()
        news_items = [next(news) for _ in range(3)]
        news.close()
    assert [(each.number, each.transfer.stage) for each in news_items] == [
        (3, "SUBMITTED"),
        (2, "CONFIRMING"),
        (6, "COMPLETED"),
    ]
    assert [each["after"] for each in received] == [None, 5, 5]
    assert len(slept) == 2


def test_ended_token_is_renewed_and_second_refusal_raises():
    scripts = (
        sends(change(1, "SUBMITTED"), end=(1008, "token expired")),
        sends(change(2, "COMPLETED"), end=(1008, "token revoked")),
        REFUSE,
    )
    slept: list[float] = []
    with playing(*scripts) as (url, received), make_client(url, slept) as isthmus:
        news = isthmus.follow_transfers(after=0)
        assert [next(news).number, next(news).number] == [1, 2]
        with pytest.raises(SignInNeeded, match="token refused"):
            next(news)
    assert [(each["auth"], each["after"]) for each in received] == [("a", 0), ("b", 1), ("c", 2)]
    assert len(slept) == 2


def test_other_close_code_reconnects_after_a_pause():
    scripts = (sends(end=(1008, "too many messages")), sends(change(1, "SUBMITTED")))
    slept: list[float] = []
    with playing(*scripts) as (url, _), make_client(url, slept) as isthmus:
        news = isthmus.follow_transfers()
        assert next(news).transfer.stage == "SUBMITTED"
        news.close()
    assert len(slept) == 1


def test_should_stop_ends_the_stream_and_reconnecting():
    over = threading.Event()

    def wait(socket: ServerConnection, _: dict[str, Any]) -> None:
        socket.send(json.dumps(change(1, "SUBMITTED")))
        # Until the client hangs up.
        assert list(socket) == []

    with playing(wait) as (url, _), make_client(url, slept := []) as isthmus:
        news = isthmus.follow_transfers(should_stop=over.is_set)
        assert next(news).number == 1
        over.set()
        assert list(news) == []
        assert slept == []
    with make_client("http://127.0.0.1:1", slept) as isthmus:
        assert list(isthmus.follow_transfers(should_stop=over.is_set)) == []
    assert slept == []
