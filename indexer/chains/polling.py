"""When to look for the next block of a chain that has to be asked, and closes blocks on a beat."""

_EARLIEST = 0.8
_CLOSELY = 0.05
_ANYHOW = 0.2
"""Shares of the usual time between blocks."""
_LONGEST = 1.0
_SURE = 2
"""Blocks in a row that came on the beat before the next one is counted on."""


class PollSchedule:
    """Whether a new block is likely, from when the last ones were seen. Times are in seconds.

    Blocks that came one by one, about when they had to, and were seen at once say when the next one
    will come: nobody looks until shortly before, and then closely. Otherwise looks are evenly
    spread, as for a chain that closes blocks when it likes or a process that is kept waiting.
    """

    def __init__(self, block_seconds: float) -> None:
        self._usual = block_seconds
        self._seen_at: float | None = None
        self._missed = False
        self._on_beat = 0
        self._next = 0.0

    def pause(self, now: float) -> float:
        """How long to wait with the next look."""
        return max(0.0, self._next - now)

    def record_poll(self, now: float, *, new: int) -> None:
        """Note a look, and how many blocks were new."""
        since = None if self._seen_at is None else now - self._seen_at
        if new <= 0:
            is_due = since is not None and _EARLIEST <= since / self._usual <= 2
            self._missed = True
            self._next = now + (_CLOSELY * self._usual if is_due else self._anyhow)
            return
        was_due = since is not None and since >= _EARLIEST * self._usual
        self._on_beat = self._on_beat + 1 if new == 1 and self._missed and was_due else 0
        self._seen_at, self._missed = now, False
        is_sure = self._on_beat >= _SURE
        self._next = now + (_EARLIEST * self._usual if is_sure else self._anyhow)

    @property
    def _anyhow(self) -> float:
        return min(_LONGEST, _ANYHOW * self._usual)
