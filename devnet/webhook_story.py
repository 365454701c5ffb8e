"""A customer who follows his transfers by a webhook, and what must have come there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from devnet.customers import Customer
from devnet.progress import Progress
from devnet.webhook_receiver import Posted, Receiver
from isthmus_client import Told, Transfer, Unavailable, WebhookNotTrusted, verify_webhook

PATIENCE_SECONDS = 300.0
"""Until somebody sends, and until what came last has been sent; alone it is a moment."""
_LOOK_SECONDS = 0.2


class WebhookStory:
    """What one customer is told at his own place."""

    def __init__(self, who: Customer, receiver: Receiver, wait: Callable[[float], None]) -> None:
        """`wait` lets so many seconds pass and looks after the processes."""
        self._who, self._receiver, self._wait = who, receiver, wait
        self._key = ""
        self._told: dict[str, Told] = {}

    def begin(self) -> None:
        """Register the place, as soon as somebody sends. Raises what the client raises."""
        self._key = self._who.api.webhooks.all().public_key or ""
        self._receiver.answer = self._take
        progress = Progress(PATIENCE_SECONDS)
        while True:
            try:
                self._who.api.webhooks.register(self._receiver.url)
                break
            except Unavailable:
                if progress.has_stopped:
                    raise
                self._wait(_LOOK_SECONDS)

    def _take(self, posted: Posted) -> int:
        try:
            told = verify_webhook(self._key, posted.headers, posted.body)
        except WebhookNotTrusted:
            return 400
        self._told.setdefault(told.id, told)
        return 204

    def problems(self, shown: Mapping[str, Transfer]) -> list[str]:
        """What is not as it must be, given the customer's transfers as they ended."""
        ends = {transfer.id: transfer.stage for transfer in shown.values()}
        progress = Progress(PATIENCE_SECONDS)
        while self._last_stages() != ends and not progress.has_stopped:
            progress.note(self._last_stages())
            self._wait(_LOOK_SECONDS)
        found = []
        if self._last_stages() != ends:
            found.append(f"{self._who.name}'s webhook was told {self._last_stages()}, not {ends}")
        numbers = [told.data.number for told in self.told()]
        if numbers != sorted(numbers):
            found.append(f"{self._who.name}'s webhook was told in this order: {numbers}")
        return found

    def told(self) -> list[Told]:
        """What came, each verified as it came, and once."""
        return list(self._told.values())

    def _last_stages(self) -> dict[str, str]:
        return {told.data.transfer_id: told.data.stage for told in self.told()}
