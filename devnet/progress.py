"""Deadlines that count progress: on a busy machine everything takes longer."""

import time


class Progress:
    """Whether something has stood still for `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._state: object = None
        self._changed_at = time.monotonic()

    def note(self, state: object) -> None:
        """Restart the deadline if `state` has changed."""
        if state != self._state:
            self._state, self._changed_at = state, time.monotonic()

    @property
    def has_stopped(self) -> bool:
        """Whether the last change was longer ago."""
        return time.monotonic() - self._changed_at > self.seconds
