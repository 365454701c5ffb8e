"""What attests: late, not at all for a while, with an end that comes too soon; or it breaks off."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from devnet.circle import Attestations

_LATE_SECONDS = 3.0


class Unwell(ConnectionError):
    """The service breaks the connection off."""


class SlowAttestations(Attestations):
    """As those that they are made from, with faults until `heal`."""

    def __init__(self, well: Attestations, chance: random.Random, rate: float) -> None:
        self._well = well
        self._chance = chance
        self._rate = rate
        self._mutex = threading.Lock()
        self._from: dict[tuple[int, str], float] = {}
        self.shown: Counter[str] = Counter()

    def heal(self) -> None:
        """Answer as one should from now on."""
        with self._mutex:
            self._rate = 0.0
            self._from.clear()

    def of(self, domain: int, tx: str) -> list[dict[str, Any]] | None:
        """A member for each message of a transaction; None where there is no such transaction."""
        with self._mutex:
            spoil = self._drawn(domain, tx)
        if spoil is not None:
            return spoil(self._well.of(domain, tx))
        return self._well.of(domain, tx)

    def reattest(self, nonce: bytes) -> bool:
        """As the one that it is made from."""
        with self._mutex:
            self.shown["iris attested anew"] += 1
        return self._well.reattest(nonce)

    def _drawn(self, domain: int, tx: str) -> Callable[[Any], Any] | None:
        now = time.monotonic()
        late = self._chance.uniform(0, _LATE_SECONDS) if self._rate else 0.0
        if now < self._from.setdefault((domain, tx), now + late):
            return self._noted("attested late", _pending)
        if self._chance.random() >= self._rate:
            return None
        if self._chance.random() < 0.5:
            return self._noted("transaction not known", lambda _: None)
        return self._noted("broken off", _break_off)

    def _noted(self, what: str, spoil: Callable[[Any], Any]) -> Callable[[Any], Any]:
        self.shown[f"iris {what}"] += 1
        return spoil


def _pending(messages: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    if messages is None:
        return None
    blank = {"message": "0x", "attestation": "PENDING", "eventNonce": None}
    return [{**each, **blank, "status": "pending_confirmations"} for each in messages]


def _break_off(_: object) -> None:
    raise Unwell("broken off")
