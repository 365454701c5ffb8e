"""Poll schedule of a chain that closes blocks at a steady interval."""

_EARLIEST = 0.8
_DENSE = 0.05
_SPARSE = 0.2
"""Shares of the usual block time: the earliest poll for the next block, and the poll intervals."""
_MAX_SECONDS = 1.0
_MIN_ON_TIME = 2
"""Blocks in a row that came on time before the next one is predicted."""


class PollSchedule:
    """Predicts the next block from the times at which the last ones were seen. Times in seconds.

    While blocks come one by one and on time, no poll is made until shortly before the next one is
    due, and then polls are dense. Otherwise they are evenly spread, as for a chain with irregular
    blocks or a process that is delayed.
    """

    def __init__(self, block_seconds: float) -> None:
        self._block_seconds = block_seconds
        self._sparse_seconds = min(_MAX_SECONDS, _SPARSE * block_seconds)
        self._seen_at: float | None = None
        self._polled_in_vain = False
        self._on_time = 0
        self._next = 0.0

    def pause(self, now: float) -> float:
        """Seconds until the next poll."""
        return max(0.0, self._next - now)

    def record_poll(self, now: float, *, new: int) -> None:
        """Record a poll and the number of new blocks it found."""
        blocks_passed = (
            0.0 if self._seen_at is None else (now - self._seen_at) / self._block_seconds
        )
        if new <= 0:
            is_due = _EARLIEST <= blocks_passed <= 2
            self._polled_in_vain = True
            self._next = now + (_DENSE * self._block_seconds if is_due else self._sparse_seconds)
            return
        is_on_time = new == 1 and self._polled_in_vain and blocks_passed >= _EARLIEST
        self._on_time = self._on_time + 1 if is_on_time else 0
        self._seen_at, self._polled_in_vain = now, False
        is_predictable = self._on_time >= _MIN_ON_TIME
        self._next = now + (
            _EARLIEST * self._block_seconds if is_predictable else self._sparse_seconds
        )
