"""New heads, polled for or pushed over a socket."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from indexer.chains.evm.reader import EvmReader
from indexer.errors import NodeBehind, NodeUnavailable
from tests.indexer.chains.evm.anvil import Anvil
from tests.indexer.chains.evm.chain import CHAIN, WATCHED, read, reading
from tests.indexer.chains.evm.fake_node import answer_with, fake_block, fake_hash
from warehouse_schema.identifiers import Height


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that is slow to open is waited for."""
    monkeypatch.setattr("indexer.chains.evm.heads._SOCKET_SECONDS", 20.0)


@pytest.fixture(params=["polling", "socket"])
def waiting(request: pytest.FixtureRequest, anvil: Anvil) -> Iterator[EvmReader]:
    urls = [anvil.http] if request.param == "polling" else [anvil.http, anvil.ws]
    with reading(CHAIN, *urls) as reader:
        yield reader


def later(seconds: float, action: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


def test_known_head_is_returned_at_once(anvil, waiting):
    head = waiting.head()
    assert waiting.wait_for_head(Height(head.height - 1), 5.0) == head


def test_no_new_head_is_none(waiting):
    started = time.monotonic()
    assert waiting.wait_for_head(waiting.head().height, 0.1) is None
    assert time.monotonic() - started >= 0.1


def test_new_head_ends_the_wait_and_can_be_read(anvil, waiting):
    for _ in range(3):
        before = waiting.head().height
        mining = later(0.05, anvil.mine)
        head = waiting.wait_for_head(before, 10.0)
        mining.join()
        assert head is not None
        assert head.height == before + 1
        assert waiting.read(head.height, head.height, [WATCHED]).blocks == (head,)


def test_only_the_newest_of_several_heads_is_returned(anvil, waiting):
    before = waiting.head().height
    assert waiting.wait_for_head(before, 0.05) is None
    for _ in range(5):
        anvil.mine()
    head = waiting.wait_for_head(Height(before + 4), 5.0)
    assert head is not None
    assert head.height == before + 5


class FakePusher:
    """A WebSocket that accepts a subscription and then does what a test says."""

    def __init__(self, *, says: str = '{"jsonrpc":"2.0","id":1,"result":"0xcd"}') -> None:
        self.says = says
        self.subscriptions = 0
        self.subscribed = threading.Event()
        self._sockets: list[ServerConnection] = []
        self._server = serve(self._accept, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{self._server.socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def _accept(self, socket: ServerConnection) -> None:
        assert json.loads(socket.recv())["params"] == ["newHeads"]
        # Before the answer: who has it asks at once what became of the subscription.
        self.subscriptions += 1
        self._sockets.append(socket)
        socket.send(self.says)
        self.subscribed.set()
        try:
            socket.recv()
        except ConnectionClosed:
            return

    def push(self, block: dict[str, Any]) -> None:
        params = {"subscription": "0xcd", "result": block}
        message = {"jsonrpc": "2.0", "method": "eth_subscription", "params": params}
        self._sockets[-1].send(json.dumps(message))

    def drop(self) -> None:
        self.subscribed.clear()
        self._sockets[-1].close()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()


@pytest.fixture
def pusher() -> Iterator[FakePusher]:
    pusher = FakePusher()
    yield pusher
    pusher.close()


def test_pushed_head_may_be_ahead_of_readable_blocks(server, pusher):
    with reading(CHAIN, server.url, pusher.url) as reader:
        assert reader.wait_for_head(Height(20), 0.05) is None
        pusher.push(fake_block(21))
        head = reader.wait_for_head(Height(20), 5.0)
        assert head is not None
        assert head.hash == fake_hash(21)
        with pytest.raises(NodeBehind):
            read(reader, 21, 21)


def test_lost_socket_is_reopened_and_missed_heads_are_found(server, node, pusher):
    with reading(CHAIN, server.url, pusher.url) as reader:
        assert reader.wait_for_head(Height(20), 0.05) is None
        pusher.drop()
        node.blocks.append(fake_block(21))
        missed = reader.wait_for_head(Height(20), 5.0)
        assert missed is not None
        assert missed.height == 21
        assert pusher.subscriptions == 2
        pusher.push(fake_block(22))
        pushed = reader.wait_for_head(Height(21), 5.0)
        assert pushed is not None
        assert pushed.height == 22


def test_silent_subscription_is_detected_and_renewed(server, node, pusher):
    with reading(CHAIN, server.url, pusher.url) as reader:
        assert reader.wait_for_head(Height(20), 0.05) is None
        for number in (21, 22):
            node.blocks.append(fake_block(number))
            found = reader.wait_for_head(Height(number - 1), 0.05)
            assert found is not None
            assert found.height == number
            assert pusher.subscriptions == 1
        assert reader.wait_for_head(Height(22), 0.05) is None
        assert pusher.subscriptions == 2


def test_late_pushed_head_keeps_the_subscription(server, node, pusher):
    with reading(CHAIN, server.url, pusher.url) as reader:
        assert reader.wait_for_head(Height(20), 0.05) is None
        for number in (21, 22, 23):
            node.blocks.append(fake_block(number))
            assert reader.wait_for_head(Height(number - 1), 0.05) is not None
            pusher.push(fake_block(number))
            assert reader.wait_for_head(Height(number), 0.05) is None
        assert pusher.subscriptions == 1


def test_heads_are_polled_if_the_socket_does_not_open(server, node):
    with reading(CHAIN, server.url, "ws://127.0.0.1:9") as reader:
        grow = later(0.05, lambda: node.blocks.append(fake_block(21)))
        head = reader.wait_for_head(Height(20), 5.0)
        grow.join()
        assert head is not None
        assert head.height == 21


@pytest.mark.parametrize(
    "answer", ['{"id":1,"error":{"message":"no subscriptions here"}}', "nonsense", "[]"]
)
def test_heads_are_polled_if_the_subscription_is_refused(server, node, answer):
    pusher = FakePusher(says=answer)
    with reading(CHAIN, server.url, pusher.url) as reader:
        node.blocks.append(fake_block(21))
        head = reader.wait_for_head(Height(20), 5.0)
        assert head is not None
        assert head.height == 21
    pusher.close()


def test_failing_node_ends_the_wait_with_its_error(server, node, pusher):
    with reading(CHAIN, server.url, pusher.url) as reader:
        node.respond = answer_with(503)
        with pytest.raises(NodeUnavailable, match="503"):
            reader.wait_for_head(Height(20), 5.0)
