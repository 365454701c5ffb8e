"""Customers that follow their transfers over the WebSocket, and a check of what they received."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from devnet.customers import Customer
from isthmus_client import ClientError, Transfer, TransferNews

TIMEOUT_SECONDS = 60.0
"""Timeout for the last changes; on a quiet machine they arrive at once."""
_LOOK_SECONDS = 0.2


class SocketStory:
    """Changes that customers receive, each over a separate connection. Close it."""

    def __init__(self, people: Iterable[Customer], wait: Callable[[float], None]) -> None:
        """`wait` waits that many seconds and checks the processes."""
        self._wait = wait
        self._over = threading.Event()
        self._received: dict[str, list[TransferNews]] = {}
        """By transfer, in order of arrival."""
        self._failed: list[str] = []
        self._threads = [threading.Thread(target=self._listen, args=(each,)) for each in people]

    def begin(self) -> None:
        """Connect."""
        for each in self._threads:
            each.start()

    def close(self) -> None:
        """Disconnect."""
        self._over.set()
        for each in self._threads:
            each.join()

    def _listen(self, who: Customer) -> None:
        try:
            for news in who.api.follow_transfers(after=0, should_stop=self._over.is_set):
                self._received.setdefault(news.transfer.id, []).append(news)
        except ClientError as error:
            self._failed.append(f"{who.name} cannot follow: {error}")

    def problems(self, owners: Mapping[str, Customer]) -> list[str]:
        """Problems once these transfers are over: the last change must equal `GET`."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (found := self._differences(owners)) and time.monotonic() < deadline:
            self._wait(_LOOK_SECONDS)
        return [*self._failed, *found]

    def _differences(self, owners: Mapping[str, Customer]) -> list[str]:
        return [
            f"{who.name} last received {last} over the socket, and GET shows {shown}"
            for transfer, who in owners.items()
            if (last := self._last(transfer)) != (shown := who.api.transfer(transfer))
        ]

    def _last(self, transfer: str) -> Transfer | None:
        """The change with the greatest number: a repeated one may arrive late."""
        updates = self._received.get(transfer)
        return max(updates, key=lambda news: news.number).transfer if updates else None

    def stages(self, transfer: str) -> list[str]:
        """Stages received of a transfer, each once."""
        updates = sorted(self._received.get(transfer, ()), key=lambda news: news.number)
        return list(dict.fromkeys(news.transfer.stage for news in updates))
