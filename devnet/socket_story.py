"""Customers who follow their transfers over the socket, and what they must have been told there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from devnet.customers import Customer
from isthmus_client import ClientError, Transfer, TransferNews

PATIENCE_SECONDS = 60.0
"""Until what came last has been told; alone it is a moment."""
_LOOK_SECONDS = 0.2


class SocketStory:
    """What customers are told, each over a connection of his own. Close it."""

    def __init__(self, people: Iterable[Customer], wait: Callable[[float], None]) -> None:
        """`wait` lets so many seconds pass and looks after the processes."""
        self._wait = wait
        self._over = threading.Event()
        self._told: dict[str, list[TransferNews]] = {}
        """By transfer, as it came."""
        self._failed: list[str] = []
        self._ears = [threading.Thread(target=self._listen, args=(each,)) for each in people]

    def begin(self) -> None:
        """Connect."""
        for each in self._ears:
            each.start()

    def close(self) -> None:
        """Hang up."""
        self._over.set()
        for each in self._ears:
            each.join()

    def _listen(self, who: Customer) -> None:
        try:
            for news in who.api.follow_transfers(after=0, should_stop=self._over.is_set):
                self._told.setdefault(news.transfer.id, []).append(news)
        except ClientError as error:
            self._failed.append(f"{who.name} cannot follow: {error}")

    def problems(self, owners: Mapping[str, Customer]) -> list[str]:
        """What is not as it must be once these transfers are over: last told as `GET` shows it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (found := self._differences(owners)) and time.monotonic() < deadline:
            self._wait(_LOOK_SECONDS)
        return [*self._failed, *found]

    def _differences(self, owners: Mapping[str, Customer]) -> list[str]:
        return [
            f"{who.name} was last told {last} over the socket, and GET shows {shown}"
            for transfer, who in owners.items()
            if (last := self._last(transfer)) != (shown := who.api.transfer(transfer))
        ]

    def _last(self, transfer: str) -> Transfer | None:
        """As the greatest number told it: what is told again may come late."""
        told = self._told.get(transfer)
        return max(told, key=lambda news: news.number).transfer if told else None

    def stages(self, transfer: str) -> list[str]:
        """What was told of a transfer, each stage once."""
        told = sorted(self._told.get(transfer, ()), key=lambda news: news.number)
        return list(dict.fromkeys(news.transfer.stage for news in told))
