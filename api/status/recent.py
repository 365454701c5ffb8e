"""The last status answer of a process, which anyone may ask for as often as they like."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from flask import Flask, current_app

from api.replica import WalPosition
from api.status import schema

STATUS_SECONDS = 2.0
"""How long a process serves an answer. Figures change every few seconds anyway."""

_KEY = "isthmus_status"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and the position that it is as of."""

    body: schema.Status
    position: WalPosition | None
    """None without a replica."""


class RecentStatus:
    """Serves one answer for `seconds`; 0 reads at every request. Threads share it.

    One thread reads at a time; the others wait for it.
    """

    def __init__(self, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._answer: Answer | None = None
        self._read_at = 0.0
        """When its read began, by the monotonic clock."""

    def get(self, needed: WalPosition | None, read: Callable[[], Answer]) -> Answer:
        """The last answer if it is recent and not older than `needed`, else what `read` returns.

        Raises as `read`.
        """
        with self._lock:
            began = self._monotonic()
            answer = self._answer
            if answer is None or began - self._read_at >= self._seconds or _misses(answer, needed):
                answer = read()
                self._answer, self._read_at = answer, began
            return answer


def _misses(answer: Answer, needed: WalPosition | None) -> bool:
    if needed is None:
        return False
    position = answer.position
    return position is None or position.timeline != needed.timeline or position < needed


def register_status(app: Flask, recent: RecentStatus) -> None:
    """Give an app its last answer."""
    app.extensions[_KEY] = recent


def recent_status() -> RecentStatus:
    """That of the app that serves this request."""
    found: RecentStatus = current_app.extensions[_KEY]
    return found
