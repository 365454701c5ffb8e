"""Poll schedule of a chain that closes blocks at a steady interval."""

from collections import deque

_REMEMBERED = 20
"""Intervals that the prediction is made from."""
_MIN_INTERVALS = 2
_EARLIEST = 0.95
"""A block is due after this share of the shortest interval, for as long as that interval."""
_DENSE = 0.01
"""Poll interval while a block is due, as a share of the shortest interval, within two limits."""
_MIN_DENSE_SECONDS = 0.02
_MAX_DENSE_SECONDS = 0.05
_SPARSE = 0.2
"""Poll interval at other times, as a share of the last interval, within two limits."""
_MIN_SPARSE_SECONDS = 0.1
_MAX_SPARSE_SECONDS = 1.0


class PollSchedule:
    """Predicts the next block from the polls between which the last ones came. Times in seconds.

    While blocks come one by one, no poll is made until shortly before the next one may come, and
    then polls are dense. Otherwise they are evenly spread, as for a chain that closes several
    blocks at once or a process that is delayed. Intervals are measured: a network may close blocks
    faster or slower than at `block_seconds`, with which it begins.
    """

    def __init__(self, block_seconds: float) -> None:
        self._sparse_seconds = _sparse_seconds(block_seconds)
        self._found_at: float | None = None
        self._in_vain_at: float | None = None
        self._before_block: float | None = None
        """The last poll before the newest block: measured from there, no prediction is late."""
        self._intervals: deque[float] = deque(maxlen=_REMEMBERED)
        self._next = 0.0

    def pause(self, now: float) -> float:
        """Seconds until the next poll."""
        return max(0.0, self._next - now)

    def record_poll(self, now: float, *, new: int) -> None:
        """Record a poll and the number of new blocks it found."""
        if new <= 0:
            self._in_vain_at = now
            self._next = now + self._pause_between(now)
            return
        if self._found_at is not None:
            self._sparse_seconds = _sparse_seconds((now - self._found_at) / new)
        self._found_at = now
        if new > 1 or self._in_vain_at is None:
            self._intervals.clear()
            self._before_block = None
        else:
            if self._before_block is not None:
                self._intervals.append(self._in_vain_at - self._before_block)
            self._before_block = self._in_vain_at
        self._in_vain_at = None
        self._next = self._due_from() or now + self._sparse_seconds

    def _pause_between(self, now: float) -> float:
        due_from = self._due_from()
        if due_from is None:
            return self._sparse_seconds
        shortest = min(self._intervals)
        if not due_from <= now <= due_from + shortest:
            return self._sparse_seconds
        return min(_MAX_DENSE_SECONDS, max(_MIN_DENSE_SECONDS, _DENSE * shortest))

    def _due_from(self) -> float | None:
        """When the next block may come first; None while it cannot be predicted."""
        if self._before_block is None or len(self._intervals) < _MIN_INTERVALS:
            return None
        return self._before_block + _EARLIEST * min(self._intervals)


def _sparse_seconds(interval: float) -> float:
    return min(_MAX_SPARSE_SECONDS, max(_MIN_SPARSE_SECONDS, _SPARSE * interval))
