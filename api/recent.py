"""The last value of what anyone may ask for as often as they like, read now and then."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """Serves one value for `seconds`; 0 reads at every request. Threads share it.

    One thread reads at a time; the others wait for it.
    """

    def __init__(self, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._values: list[T] = []
        """The last one, if there is one."""
        self._read_at = 0.0
        """When its read began, by the monotonic clock."""

    def get(self, read: Callable[[], T], is_enough: Callable[[T], bool] = lambda _: True) -> T:
        """The last value if it is recent and enough, else what `read` returns. Raises as `read`."""
        with self._lock:
            began = self._monotonic()
            is_recent = bool(self._values) and began - self._read_at < self._seconds
            if not is_recent or not is_enough(self._values[0]):
                self._values, self._read_at = [read()], began
            return self._values[0]
