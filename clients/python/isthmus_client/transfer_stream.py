"""The stream's channel of transfers: each of one's own, whenever something of it changes."""

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
    """A transfer as it was when it was told."""

    number: int
    """Of what is told to the owner: with the greatest one had, nothing is missed."""
    transfer: Transfer


class _TokenRefused(Exception):
    """The connection ended for its token."""


def follow_transfers(
    url: str,
    token: Callable[[bool], str],
    *,
    after: int | None = None,
    sleep: Callable[[float], None] = time.sleep,
    should_stop: Callable[[], bool] = lambda: False,
    **options: Any,
) -> Iterator[TransferNews]:
    """What is under way, or what changed after a number, and then each change.

    It ends soon after `should_stop` says so.

    `token(True)` has to be another one than before. A broken connection goes on where it ended.
    Raises `SignInNeeded` when a new token is refused too, and `Refused` for what waiting does not
    mend.
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
            # Whatever it was, the next connection goes on where this one ended.
            pass
        if should_stop():
            return
        # Not everybody at once, who lost the same server.
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
        # Of the book, which comes whether asked for or not, orders are the least.
        socket = connect(f"{url}?channel=intent", max_size=None, **options)
    except InvalidStatus as error:
        answer = error.response
        retry_after = answer.headers.get("Retry-After")
        raise refusal(answer.status_code, bytes(answer.body or b""), retry_after) from error
    with socket:
        # What the server says as it ends is read below.
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
    """1013 is a token that could not be checked: the same one may be good later."""
    if code == 1008:
        raise _TokenRefused(reason)
