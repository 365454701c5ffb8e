"""New heads of an EVM chain: pushed over a socket, or polled for."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import orjson
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from indexer.chains.http.client import host_of
from indexer.chains.raw import Block
from indexer.config.networks import EvmChain
from indexer.errors import NodeUnavailable
from indexer.metrics.collectors import waiting
from warehouse_schema.identifiers import Height

logger = logging.getLogger(__name__)

_MIN_POLL_SECONDS = 0.05
_MAX_POLL_SECONDS = 1.0
_POLLS_PER_BLOCK = 10
_MAX_MISSED_HEADS = 2
"""Heads in a row that a subscription may leave out before it counts as dead."""
_RECONNECT_SECONDS = 30.0
"""Polling before a socket that could not be opened is tried again."""
_SOCKET_SECONDS = 3.0
"""Timeout of connecting, of subscribing and of closing, each."""
_SUBSCRIBE = {"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"]}
_SOCKET_ERRORS = (OSError, WebSocketException, orjson.JSONDecodeError)


class HeadsLost(NodeUnavailable):
    """The subscription could not be opened, or was lost. Its socket is closed."""


class HeadSubscription:
    """`eth_subscribe` to new heads over one socket.

    Heads missed while it was down do not matter: only the newest one does, and the caller asks for
    that after opening.
    """

    def __init__(self, url: str) -> None:
        self._host, self._url = host_of(url), url
        self._stack = ExitStack()
        self._socket: ClientConnection | None = None

    @property
    def is_open(self) -> bool:
        """Whether the subscription is thought to be alive."""
        return self._socket is not None

    def open(self) -> None:
        """Connect and subscribe. Raises `HeadsLost`."""
        self.close()
        try:
            socket = self._stack.enter_context(
                connect(
                    self._url,
                    open_timeout=_SOCKET_SECONDS,
                    close_timeout=_SOCKET_SECONDS,
                    compression=None,
                    proxy=None,
                )
            )
            socket.send(orjson.dumps(_SUBSCRIBE).decode())
            answer = orjson.loads(socket.recv(timeout=_SOCKET_SECONDS))
        except _SOCKET_ERRORS as error:
            raise self._lost(error) from error
        if not isinstance(answer, dict) or "result" not in answer:
            self.close()
            raise HeadsLost(f"{self._host} refused to push new heads: {answer}")
        self._socket = socket

    def next(self, timeout: float) -> Any | None:
        """The newest header pushed within `timeout` seconds; None if there was none.

        Raises `HeadsLost`.
        """
        if self._socket is None:
            raise HeadsLost(f"{self._host}: not subscribed")
        newest = None
        try:
            while True:
                pushed = orjson.loads(self._socket.recv(timeout=timeout))
                params = pushed.get("params") if isinstance(pushed, dict) else None
                newest = params.get("result") if isinstance(params, dict) else None
                timeout = 0
        except TimeoutError:
            return newest
        except _SOCKET_ERRORS as error:
            raise self._lost(error) from error

    def close(self) -> None:
        """Close the socket, if it is open."""
        self._socket = None
        self._stack.close()

    def _lost(self, error: Exception) -> HeadsLost:
        self.close()
        # The name alone: some of these quote the URL.
        return HeadsLost(f"{self._host}: no new heads, {type(error).__name__}")


class HeadWatcher:
    """Waits for a head above a height. A lost socket is opened again once, then polled without."""

    def __init__(
        self,
        chain: EvmChain,
        urls: Sequence[str],
        head_above: Callable[[Height], Block | None],
        parse_pushed: Callable[[Any], Block],
    ) -> None:
        """The first `ws(s)` URL is subscribed to; without one, `head_above` is polled."""
        self._chain = chain.id
        sockets = [url for url in urls if url.startswith(("ws://", "wss://"))]
        self._subscription = HeadSubscription(sockets[0]) if sockets else None
        self._head_above, self._parse_pushed = head_above, parse_pushed
        self._reconnect_at = 0.0
        self._missed = 0
        self._poll_seconds = min(
            max(chain.block_seconds / _POLLS_PER_BLOCK, _MIN_POLL_SECONDS), _MAX_POLL_SECONDS
        )

    def wait(self, above: Height, timeout: float) -> Block | None:
        """The head once it is above `above`; None after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        subscription = self._subscription
        if subscription is not None and time.monotonic() >= self._reconnect_at:
            was_open = subscription.is_open
            try:
                return self._wait_for_push(subscription, above, deadline)
            except HeadsLost as error:
                if was_open:
                    return self.wait(above, max(0.0, deadline - time.monotonic()))
                self._reconnect_at = time.monotonic() + _RECONNECT_SECONDS
                logger.warning("polling for heads chain=%s: %s", self._chain, error)
        while True:
            head = self._head_above(above)
            remaining = deadline - time.monotonic()
            if head is not None or remaining <= 0:
                return head
            with waiting("idle"):
                time.sleep(min(self._poll_seconds, remaining))

    def close(self) -> None:
        """Close the socket."""
        if self._subscription is not None:
            self._subscription.close()

    def _wait_for_push(
        self, subscription: HeadSubscription, above: Height, deadline: float
    ) -> Block | None:
        if not subscription.is_open:
            subscription.open()
            self._missed = 0
            head = self._head_above(above)
            if head is not None:
                return head
        while (remaining := deadline - time.monotonic()) > 0:
            with waiting("idle"):
                answer = subscription.next(remaining)
            if answer is not None:
                self._missed = 0
                block = self._parse_pushed(answer)
                if block.height > above:
                    return block
        head = self._head_above(above)
        if head is not None:
            # Once, its push may be on the way. Twice without a push between: it is dead.
            self._missed += 1
            if self._missed == _MAX_MISSED_HEADS:
                subscription.close()
        return head
