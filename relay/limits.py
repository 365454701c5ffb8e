"""Limits of an account: its daily budget, and the pauses between retries."""

from collections.abc import Callable
from dataclasses import dataclass

from warehouse_schema.identifiers import NativeAmount

MIN_PAUSE_SECONDS = 5.0
MAX_PAUSE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class SpendLimits:
    """Spending limits of one account."""

    budget: NativeAmount
    """Maximum spend in a UTC day; an open slot counts with its maximum cost."""
    floor: NativeAmount
    """A balance below this makes the account unhealthy."""


class Backoff:
    """Exponential backoff per job key, in memory only: a restart retries every job at once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pauses: dict[str, tuple[float, float]] = {}
        """Time of the next try and length of the pause, seconds, by key."""

    def is_due(self, key: str) -> bool:
        """True when the key may be tried now."""
        until, _ = self._pauses.get(key, (0.0, 0.0))
        return self._clock() >= until

    def failed(self, key: str) -> None:
        """Double the key's pause; drop keys that have not failed for a long time."""
        now = self._clock()
        expired = [
            old for old, (until, _) in self._pauses.items() if until + MAX_PAUSE_SECONDS < now
        ]
        for old in expired:
            del self._pauses[old]
        _, pause = self._pauses.get(key, (0.0, MIN_PAUSE_SECONDS / 2))
        pause = min(MAX_PAUSE_SECONDS, 2 * pause)
        self._pauses[key] = (now + pause, pause)
