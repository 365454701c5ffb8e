"""How long what was refused is let be, so that nodes are not asked the same each second."""

from collections.abc import Callable

SHORTEST_SECONDS = 5.0
LONGEST_SECONDS = 300.0


class Backoff:
    """Pauses that double with each refusal. In memory alone: who begins anew asks once more."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, tuple[float, float]] = {}
        """When each may be tried again, and how long the pause was."""

    def may(self, key: str) -> bool:
        """Whether it may be tried now."""
        until, _ = self._until.get(key, (0.0, 0.0))
        return self._clock() >= until

    def refused(self, key: str) -> None:
        """It was, in vain."""
        now = self._clock()
        self._forget(now)
        _, pause = self._until.get(key, (0.0, SHORTEST_SECONDS / 2))
        pause = min(LONGEST_SECONDS, 2 * pause)
        self._until[key] = (now + pause, pause)

    def _forget(self, now: float) -> None:
        """What nobody asked about any more for long."""
        old = [key for key, (until, _) in self._until.items() if until + LONGEST_SECONDS < now]
        for key in old:
            del self._until[key]
