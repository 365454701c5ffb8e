"""What a socket says, for as long as somebody wants to hear it."""

from collections.abc import Callable, Iterator

from websockets.exceptions import ConnectionClosedOK
from websockets.sync.client import ClientConnection
from websockets.typing import Data

_LOOK_SECONDS = 0.5


def messages(socket: ClientConnection, should_stop: Callable[[], bool]) -> Iterator[Data]:
    """Each message, until the server has said all or `should_stop` does.

    Raises `ConnectionClosedError`.
    """
    while not should_stop():
        try:
            yield socket.recv(timeout=_LOOK_SECONDS)
        except TimeoutError:
            continue
        except ConnectionClosedOK:
            return
