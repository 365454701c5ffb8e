"""Notifications that a subscriber of the listener received, in order."""

import queue

from api.notifications import Notification, Resync

TIMEOUT = 20
GAINED, LOST = Resync(connected=True), Resync(connected=False)


class NotificationLog:
    """Subscribe `append`; every wait is bounded."""

    def __init__(self) -> None:
        self._received: queue.Queue[Notification] = queue.Queue()

    def append(self, notification: Notification) -> None:
        self._received.put(notification)

    def next(self) -> Notification:
        return self._received.get(timeout=TIMEOUT)

    def until(self, expected: Notification) -> None:
        while self.next() != expected:
            pass

    def is_empty(self) -> bool:
        return self._received.empty()
