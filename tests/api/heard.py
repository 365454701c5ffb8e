"""What a subscriber of the listener was told, in order."""

import queue

from api.notifications import Notification, Resync

TIMEOUT = 20
GAINED, LOST = Resync(connected=True), Resync(connected=False)


class Heard:
    """Subscribe `tell`; every wait is bounded."""

    def __init__(self) -> None:
        self._told: queue.Queue[Notification] = queue.Queue()
        self.tell = self._told.put

    def next(self) -> Notification:
        return self._told.get(timeout=TIMEOUT)

    def until(self, told: Notification) -> None:
        while self.next() != told:
            pass

    def is_empty(self) -> bool:
        return self._told.empty()
