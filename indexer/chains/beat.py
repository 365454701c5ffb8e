"""When to look for the next block of a chain that has to be asked, and closes blocks on a beat."""

_EARLIEST = 0.8
_CLOSELY = 0.1
_ANYHOW = 0.2
"""Shares of the usual time between blocks."""
_LONGEST = 1.0


class Beat:
    """Whether a new block is likely, from when the last ones were seen. Times are in seconds.

    A block that came about when it had to, and was seen at once, says when the next one will come:
    nobody looks until shortly before, and then closely. Otherwise looks are evenly spread.
    """

    def __init__(self, block_seconds: float) -> None:
        self._usual = block_seconds
        self._seen_at: float | None = None
        self._missed = False
        self._next = 0.0

    def pause(self, now: float) -> float:
        """How long to wait with the next look."""
        return max(0.0, self._next - now)

    def looked(self, now: float, *, is_new: bool) -> None:
        """Note a look, and whether there was a new block."""
        since = None if self._seen_at is None else now - self._seen_at
        if is_new:
            is_on_beat = self._missed and since is not None and since >= _EARLIEST * self._usual
            self._seen_at, self._missed = now, False
            self._next = now + (_EARLIEST * self._usual if is_on_beat else self._anyhow)
            return
        is_due = since is not None and _EARLIEST <= since / self._usual <= 2
        self._missed = True
        self._next = now + (_CLOSELY * self._usual if is_due else self._anyhow)

    @property
    def _anyhow(self) -> float:
        return min(_LONGEST, _ANYHOW * self._usual)
