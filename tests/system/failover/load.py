"""Clients beside the played transfers: owners who start transfers all the time, and streams."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal

from tests.system.chaos.chains import EVM
from tests.system.chaos.transfers.run import Stage

OWNERS = 4
"""At a time; each asks for the next transfer once it has one."""
_TRANSFERS_OF_ONE = 90
"""Of one unit each: an owner may start 100 USD a day."""


@dataclass(frozen=True)
class Acknowledged:
    """A transfer that the API has answered 2xx for."""

    at: float
    """Monotonic clock."""
    owner: str
    key: str
    transfer: str


@dataclass
class Load:
    """What was acknowledged to whom."""

    acknowledged: list[Acknowledged] = field(default_factory=list)
    owners: set[str] = field(default_factory=set)
    """Stellar accounts; each key of theirs was asked for until it was acknowledged."""

    def start_transfers(self, stage: Stage, name: str, over: threading.Event) -> None:
        """One transfer after the other, until `over`."""
        batch = 0
        while not over.is_set():
            with closing(stage.customer(f"{name} {batch}")) as who:
                self.owners.add(who.account)
                for number in range(_TRANSFERS_OF_ONE):
                    if over.is_set():
                        return
                    quote = who.api.quote(
                        "usdc-deposit",
                        Decimal(1),
                        source_chain=EVM,
                        source_address=who.wallet,
                        dest_address=who.account,
                        funding_mode="direct",
                    )
                    key = f"{name} {batch} {number}".replace(" ", "-")
                    made = who.api.start_transfer(quote.id, key=key)
                    self.acknowledged.append(
                        Acknowledged(time.monotonic(), who.account, key, made.id)
                    )
            batch += 1


@dataclass
class Streams:
    """Numbers and stages that owners were sent over the stream."""

    sent: dict[str, list[tuple[int, str, str]]] = field(default_factory=lambda: defaultdict(list))
    """By owner's name: number, transfer, stage, in the order in which they came."""

    def follow(self, stage: Stage, name: str, over: threading.Event) -> None:
        """Follow an owner's transfers until `over`; the client reconnects by itself."""
        with closing(stage.customer(name)) as who:
            for news in who.api.follow_transfers(should_stop=over.is_set):
                self.sent[name].append((news.number, news.transfer.id, news.transfer.stage))

    def problems(self, ends: dict[str, dict[str, str]]) -> Iterator[str]:
        """Numbers that came again, and transfers whose last stage was not sent."""
        for name, sent in self.sent.items():
            numbers = [number for number, _, _ in sent]
            if numbers != sorted(set(numbers)):
                yield f"stream of {name}: numbers {numbers}"
            last = {transfer: stage for _, transfer, stage in sent}
            if last != ends.get(name, {}):
                yield f"stream of {name}: the last stages are {last}, and must be {ends.get(name)}"


@contextmanager
def in_threads(*works: threading.Thread) -> Iterator[None]:
    """While they run."""
    for each in works:
        each.start()
    try:
        yield
    finally:
        for each in works:
            each.join()
