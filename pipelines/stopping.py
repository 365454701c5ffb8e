"""Ending a long step between two transactions instead of inside one."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class Stop:
    """Whether somebody asked the step to end."""

    signal_number: int | None = None

    @property
    def asked(self) -> bool:
        """True from the first signal on."""
        return self.signal_number is not None

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = number


@contextmanager
def stopping() -> Iterator[Stop]:
    """Note SIGINT and SIGTERM instead of raising them wherever the program happens to be.

    The step looks at `Stop.asked` between ranges and returns. SIGINT is how Dagster cancels a run:
    it is raised again at the end, so that the run goes on record as cancelled. SIGTERM is how a
    machine stops its services: a follower that obeyed has done all it was asked to do.

    For the main thread, where Dagster runs steps in process.
    """
    stop = Stop()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        signal.signal(number, stop._note)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if stop.signal_number == signal.SIGINT:
            signal.raise_signal(signal.SIGINT)
