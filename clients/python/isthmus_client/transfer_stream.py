"""The stream's channel of transfers: each change of the owner's transfers."""

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from websockets.exceptions import ConnectionClosedError, InvalidStatus, WebSocketException
from websockets.sync.client import connect

from isthmus_client.errors import SignInNeeded, TooMany, Unavailable, refusal
from isthmus_client.listening import messages
from isthmus_client.models import Transfer

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_TRANSFER = TypeAdapter(Transfer)


class TransferNews(NamedTuple):
    """A transfer, as of the change with that number."""

    number: int
    """Position in the owner's changes: the greatest one received is the next `after`."""
    transfer: Transfer


class _TokenRefused(Exception):
    """The server closed the connection because of its token."""


def follow_transfers(
    url: str,
    token: Callable[[bool], str],
    *,
    after: int | None = None,
    sleep: Callable[[float], None] = time.sleep,
    should_stop: Callable[[], bool] = lambda: False,
    **options: Any,
) -> Iterator[TransferNews]:
    """Transfers under way, or changed after the number `after`, and then each change.

    Ends after `should_stop` returns true: within a second while connected, else after the pause
    before the next connection. `token(True)` must return a new token. Reconnects after the last
    change received. Raises `SignInNeeded` when a new token is refused
    too, and `Refused` for a permanent error.
    """
    last, pause, is_refused = after, _SHORTEST_PAUSE, False
    while True:
        try:
            for number, transfer in _listen(url, token(is_refused), last, should_stop, options):
                last = max(number, last or 0)
                pause, is_refused = _SHORTEST_PAUSE, False
                if transfer is not None:
                    yield TransferNews(number, _TRANSFER.validate_python(transfer))
        except _TokenRefused as refused:
            if is_refused:
                body = {"code": "UNAUTHORIZED", "message": str(refused)}
                raise SignInNeeded(401, body, None) from refused
            is_refused = True
        except (TooMany, Unavailable) as refused:
            pause = max(pause, refused.retry_after or 0.0)
        except (OSError, WebSocketException):
            # The next connection continues after the last change received.
            pass
        if should_stop():
            return
        # Jitter: clients that lost the same server do not reconnect at once.
        sleep(pause * random.SystemRandom().uniform(0.5, 1.0))
        pause = min(2 * pause, _LONGEST_PAUSE)


def _listen(
    url: str,
    token: str,
    after: int | None,
    should_stop: Callable[[], bool],
    options: dict[str, Any],
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    try:
        # A channel of the book is always sent; that of orders is the smallest.
        socket = connect(f"{url}?channel=intent", max_size=None, **options)
    except InvalidStatus as error:
        answer = error.response
        retry_after = answer.headers.get("Retry-After")
        raise refusal(answer.status_code, bytes(answer.body or b""), retry_after) from error
    with socket:
        # The reason of a close is read below.
        with suppress(ConnectionClosedError):
            socket.send(json.dumps({"auth": token, "after": after}))
        try:
            for message in map(json.loads, messages(socket, should_stop)):
                if message["channel"] == "transfer":
                    yield message["number"], message.get("transfer")
        except ConnectionClosedError as error:
            if error.rcvd is not None and error.rcvd.reason.startswith("token "):
                _raise_if_refused(error.rcvd.code, error.rcvd.reason)
            raise


def _raise_if_refused(code: int, reason: str) -> None:
    """1013: the server could not check the token; the same one may be accepted later."""
    if code == 1008:
        raise _TokenRefused(reason)
