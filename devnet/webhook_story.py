"""A customer that follows its transfers by a webhook, and a check of what it received."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from devnet.customers import Customer
from devnet.progress import Progress
from devnet.webhook_receiver import Posted, Receiver
from isthmus_client import Transfer, TransferChanged, Unavailable, WebhookNotTrusted, verify_webhook

TIMEOUT_SECONDS = 300.0
"""Timeout for the sender's start, and for the last events."""
_LOOK_SECONDS = 0.2


class WebhookStory:
    """Events that a customer receives at its webhook."""

    def __init__(self, who: Customer, receiver: Receiver, wait: Callable[[float], None]) -> None:
        """`wait` waits that many seconds and checks the processes."""
        self._who, self._receiver, self._wait = who, receiver, wait
        self._key = ""
        self._events: dict[str, TransferChanged] = {}

    def begin(self) -> None:
        """Register the webhook, as soon as a sender runs. Raises `ClientError`."""
        self._key = self._who.api.webhooks.all().public_key or ""
        self._receiver.answer = self._take
        progress = Progress(TIMEOUT_SECONDS)
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
            event = verify_webhook(self._key, posted.headers, posted.body)
        except WebhookNotTrusted:
            return 400
        self._events.setdefault(event.id, event)
        return 204

    def problems(self, shown: Mapping[str, Transfer]) -> list[str]:
        """Problems, given the customer's transfers as they ended."""
        ends = {transfer.id: transfer.stage for transfer in shown.values()}
        progress = Progress(TIMEOUT_SECONDS)
        while self._last_stages() != ends and not progress.has_stopped:
            progress.note(self._last_stages())
            self._wait(_LOOK_SECONDS)
        found = []
        if self._last_stages() != ends:
            found.append(f"{self._who.name}'s webhook received {self._last_stages()}, not {ends}")
        numbers = [event.data.number for event in self.events()]
        if numbers != sorted(numbers):
            found.append(f"{self._who.name}'s webhook received them in this order: {numbers}")
        return found

    def events(self) -> list[TransferChanged]:
        """Verified events, each once, in order of arrival."""
        return list(self._events.values())

    def _last_stages(self) -> dict[str, str]:
        return {event.data.transfer_id: event.data.stage for event in self.events()}
