"""Messages of a WebSocket, until the caller stops."""

from collections.abc import Callable, Iterator

from websockets.exceptions import ConnectionClosedOK
from websockets.sync.client import ClientConnection
from websockets.typing import Data

_POLL_SECONDS = 0.5


def messages(socket: ClientConnection, should_stop: Callable[[], bool]) -> Iterator[Data]:
    """Each message, until the server closes normally or `should_stop` returns true.

    Raises `ConnectionClosedError`.
    """
    while not should_stop():
        try:
            yield socket.recv(timeout=_POLL_SECONDS)
        except TimeoutError:
            continue
        except ConnectionClosedOK:
            return
