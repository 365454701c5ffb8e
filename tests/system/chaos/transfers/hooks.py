"""Owners' places for webhooks, which refuse now and then, and whether they were told as promised.

What a place has answered 2xx it has taken; what the service says was told is what it owes.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from devnet.webhook_receiver import Posted, Receiver, receiving
from isthmus_client import TransferChanged, WebhookEvent, WebhookNotTrusted, verify_webhook
from tests.system.chaos.transfers.wallet import Wallet

TIMEOUT = 150.0
"""Seconds until all is told, once nothing fails any more: a place that refused waits a minute."""
_REFUSALS = (500, 503, 429, 302)
_MOST_IN_A_ROW = 2
"""After a third one it would be a minute, after a fourth five."""
_SLOWEST = 1.5
_LOOK_SECONDS = 0.2


@dataclass
class Place:
    """What one owner was told at his place."""

    name: str
    webhook: str = ""
    taken: list[TransferChanged] = field(default_factory=list)
    """Repetitions as well, as they came."""
    findings: list[str] = field(default_factory=list)
    refused: int = 0
    """In a row."""
    listed: tuple[WebhookEvent, ...] = ()
    """What the API said last that there is to tell, and what came of it."""
    taken_before: int | None = None
    """How many were taken before the API was asked for that; None: all."""
    _bodies: dict[str, bytes] = field(default_factory=dict)

    def take(self, change: TransferChanged, body: bytes) -> None:
        """Keep it. The same id must say the same."""
        self.taken.append(change)
        if self._bodies.setdefault(change.id, body) != body:
            self.findings.append(f"{change.id} was told with another body")

    @property
    def first_taken(self) -> list[TransferChanged]:
        """Each once, in the order in which they came first."""
        first: dict[str, TransferChanged] = {}
        for change in self.taken:
            first.setdefault(change.id, change)
        return [*first.values()]

    def is_settled(self, ends: Mapping[str, str]) -> bool:
        """Whether all that is listed is delivered, the end of each transfer included.

        The API shows an end before the keeper writes its event.
        """
        in_order = sorted(self.listed, key=lambda event: event.number)
        last = {event.transfer_id: event.stage for event in in_order}
        return last == ends and all(event.delivery.state == "delivered" for event in in_order)

    def problems(self, ends: Mapping[str, str]) -> list[str]:
        """What was told otherwise than it must be, given where the owner's transfers end."""
        found = [*self.findings, *self._not_as_listed(), *self._out_of_order()]
        last = {change.data.transfer_id: change.data.stage for change in self._by_number()}
        if last != ends:
            found.append(f"what was told last is {last}, and must be {ends}")
        return [f"webhook of {self.name}: {each}" for each in found]

    def _by_number(self) -> list[TransferChanged]:
        return sorted(self.taken, key=lambda change: change.data.number)

    def _not_as_listed(self) -> Iterator[str]:
        taken = {change.id for change in self.taken}
        owed = {f"evt_{each.transfer_id}_{each.number}": each for each in self.listed}
        for event, each in owed.items():
            if event not in taken:
                yield f"{event}, {each.stage}, was not taken; it is called {each.delivery.state}"
            elif each.delivery.state != "delivered":
                yield f"{event}, {each.stage}, was taken, and is called {each.delivery.state}"
        # An event may come, and be told, after the API was asked.
        for event in sorted(
            {change.id for change in self.taken[: self.taken_before]} - owed.keys()
        ):
            yield f"{event} was told, and is no event"
        numbers = [each.number for each in self.listed]
        if numbers != [*range(1, len(numbers) + 1)]:
            yield f"the numbers of its events are {numbers}"

    def _out_of_order(self) -> Iterator[str]:
        numbers = [change.data.number for change in self.first_taken]
        if numbers != sorted(numbers):
            yield f"told in the order {numbers}"


class Hooks:
    """Everybody's places, on one server. They fail by chance until `heal`."""

    def __init__(self, receiver: Receiver, key: str, chance: random.Random, rate: float) -> None:
        """`key` is the public one that all is signed with, `whpk_…`."""
        self.url, self._key = receiver.url, key
        self._chance, self._rate = chance, rate
        self._mutex = threading.Lock()
        self._is_well = threading.Event()
        self._by_path: dict[str, Place] = {}
        self.places: dict[str, Place] = {}
        self.shown: Counter[str] = Counter()
        receiver.answer = self._answer

    def heal(self) -> None:
        """Take everything at once from now on."""
        self._is_well.set()

    def register(self, name: str, wallet: Wallet) -> None:
        """A place for that owner, from his first event on. Raises what the client raises."""
        place = Place(name)
        with self._mutex:
            path = f"/{len(self._by_path)}"
            self._by_path[f"/hooks{path}"] = self.places[name] = place
        place.webhook = wallet.be_told(f"{self.url}{path}")

    def look(self, name: str, wallet: Wallet) -> None:
        """Read what the service says of a place."""
        place = self.places[name]
        place.taken_before = len(place.taken)
        place.listed = wallet.told_at(place.webhook)

    def settle(self, wallets: Mapping[str, Wallet], ends: Mapping[str, Mapping[str, str]]) -> None:
        """Wait until the end of every transfer is delivered, or for `TIMEOUT`."""
        deadline = time.monotonic() + TIMEOUT
        for name, place in self.places.items():
            if not place.webhook:
                continue
            self.look(name, wallets[name])
            while not place.is_settled(ends.get(name, {})) and time.monotonic() <= deadline:
                time.sleep(_LOOK_SECONDS)
                self.look(name, wallets[name])

    def problems(self, ends: Mapping[str, Mapping[str, str]]) -> list[str]:
        """Of all places, given where the transfers of each owner end."""
        return [
            problem
            for name, place in self.places.items()
            for problem in place.problems(ends.get(name, {}))
        ]

    def _answer(self, posted: Posted) -> int:
        with self._mutex:
            place = self._by_path[posted.path]
            status, pause = self._drawn(place)
            place.refused = 0 if status == 204 else place.refused + 1
            if status == 204:
                status = self._take(place, posted)
        # Whoever is killed meanwhile does not know that it was taken.
        self._is_well.wait(pause)
        return status

    def _take(self, place: Place, posted: Posted) -> int:
        try:
            change = verify_webhook(self._key, posted.headers, posted.body)
        except WebhookNotTrusted as error:
            place.findings.append(f"what came is not to be trusted: {error}")
            return 400
        place.take(change, posted.body)
        return 204

    def _drawn(self, place: Place) -> tuple[int, float]:
        """The status, and seconds until it is said."""
        if self._is_well.is_set():
            return 204, 0.0
        if place.refused < _MOST_IN_A_ROW and self._chance.random() < self._rate:
            self.shown["webhook refused"] += 1
            return self._chance.choice(_REFUSALS), 0.0
        if self._chance.random() < self._rate:
            self.shown["webhook answered late"] += 1
            return 204, self._chance.uniform(0, _SLOWEST)
        return 204, 0.0


@contextmanager
def hooks(certificate: Path, key: str, chance: random.Random, rate: float) -> Iterator[Hooks]:
    """Places while they serve, by TLS with a certificate that `make_certificate` made."""
    with receiving(certificate) as receiver:
        yield Hooks(receiver, key, chance, rate)


def registered(names: Sequence[str]) -> list[str]:
    """Who is told by a webhook: every other one, who are of all kinds over some runs."""
    return [*names[::2]]
