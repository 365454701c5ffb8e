"""Loops that run until they are told to stop: how they hear of it, and how they wait."""

import signal
import threading
import time
from collections.abc import Callable

_LOOK_SECONDS = 0.2


def stop_requested() -> Callable[[], bool]:
    """Whether SIGINT or SIGTERM has come, from now on. Of the main thread alone."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop.is_set


def pause(seconds: float, should_stop: Callable[[], bool]) -> None:
    """Wait so long, or until told to stop."""
    until = time.monotonic() + seconds
    while not should_stop() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _LOOK_SECONDS))
