"""The client as a wallet uses it that nothing may stop: it asks again until it is answered.

On the way it does what a careless or malicious owner does: says everything twice and at once,
names transactions that are none of his, spoils what he signed, asks for other people's transfers.
Whatever of that the API takes is a finding.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from isthmus_client import (
    Actions,
    Deposit,
    Isthmus,
    Quote,
    Transfer,
    WebhookEvent,
    WebhookEventPage,
)
from isthmus_client.errors import (
    ClientError,
    Conflict,
    Invalid,
    NotFound,
    NotReached,
    TooMany,
    Unavailable,
)

T = TypeVar("T")

TIMEOUT = 90.0
"""Seconds that an answer may be away."""
_PAUSE_SECONDS = 0.25
_LOST = (NotReached, Unavailable, TooMany)
"""Whether it arrived is not known, or it can be asked again."""


@dataclass
class Mischief:
    """What owners do beside what they should, and what came of it. Shared by all wallets."""

    chance: random.Random
    rate: float
    findings: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    burns: list[str] = field(default_factory=list)
    """Transactions of others, to lie with."""
    transfers: list[str] = field(default_factory=list)
    webhooks: list[str] = field(default_factory=list)
    submitted: list[tuple[str, str]] = field(default_factory=list)
    """Transfer and transaction (a hash, or a signed envelope) of each submission that the API has
    acknowledged."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wants(self) -> bool:
        """Whether to do something that one should not."""
        with self._lock:
            return self.chance.random() < self.rate

    def one_of(self, some: list[str], own: str) -> str | None:
        """One of these that is not one's own."""
        with self._lock:
            others = [each for each in some if each != own]
            return self.chance.choice(others) if others else None

    def note(self, what: str) -> None:
        """It was done."""
        with self._lock:
            self.done[what] += 1

    def find(self, what: str) -> None:
        """It should not have been possible."""
        with self._lock:
            self.findings.append(what)

    def must_be_refused(
        self, what: str, ask: Callable[[], object], *refusals: type[ClientError]
    ) -> None:
        """A lie, told once: any answer but these, or none at all, is a finding."""
        expected: tuple[type[ClientError], ...] = (*refusals, *_LOST)
        try:
            taken = ask()
        except expected:
            self.note(what)
        except ClientError as error:
            self.find(f"{what}: {type(error).__name__}: {error}")
        else:
            self.find(f"{what} was taken: {taken}")


class Wallet(Isthmus):
    """A client that does not give up, and misbehaves now and then."""

    def __init__(self, url: str, mischief: Mischief, **options: Any) -> None:
        super().__init__(url, **options)
        self._mischief = mischief
        self.waits = True
        """Until it is shown what to pay."""

    def _again(self, ask: Callable[[], T]) -> T:
        """The answer, however often it takes. Raises what was said last, at its deadline."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                return ask()
            except _LOST:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def quote(self, *given: Any, **named: Any) -> Quote:
        return self._again(lambda: super(Wallet, self).quote(*given, **named))

    def start_transfer(self, quote_id: str, *, key: str) -> Transfer:
        def start() -> Transfer:
            return super(Wallet, self).start_transfer(quote_id, key=key)

        if not self._mischief.wants():
            made = self._again(start)
        else:
            made = self._twice("started twice at once", lambda: self._again(start))
            self._mischief.must_be_refused(
                "a quote used with another key",
                lambda: super(Wallet, self).start_transfer(quote_id, key=f"{key}-again"),
                Conflict,
            )
        self._mischief.transfers.append(made.id)
        return made

    def _twice(self, what: str, ask: Callable[[], Transfer]) -> Transfer:
        with ThreadPoolExecutor(2) as pool:
            first, second = (each.result() for each in [pool.submit(ask), pool.submit(ask)])
        if first.id != second.id:
            self._mischief.find(f"{what}: {first.id} and {second.id}")
        self._mischief.note(what)
        return first

    def transfer(self, transfer_id: str) -> Transfer:
        return self._again(lambda: super(Wallet, self).transfer(transfer_id))

    def cancel_transfer(self, transfer_id: str) -> Transfer:
        def cancel() -> Transfer:
            try:
                return super(Wallet, self).cancel_transfer(transfer_id)
            except Conflict:
                # Asked for before, and not answered.
                shown = super(Wallet, self).transfer(transfer_id)
                if shown.stage != "CANCELLED":
                    raise
                return shown

        return self._again(cancel)

    def action(self, wanted: Any, bridges: Any) -> Actions:
        deadline = time.monotonic() + TIMEOUT
        while True:
            shown = self._again(lambda: super(Wallet, self).action(wanted, bridges))
            is_there = shown.action is not None or shown.reason != "waiting"
            # Who pays on his own waits until he is shown how; others come again by themselves.
            waits = self.waits and isinstance(wanted, Deposit)
            if is_there or not waits or time.monotonic() > deadline:
                return shown
            time.sleep(_PAUSE_SECONDS)

    def submit_evm(self, transfer_id: str, tx_hash: str) -> Transfer:
        if self._mischief.wants():
            self._lie(transfer_id, tx_hash)
        self._mischief.burns.append(tx_hash)

        def submit() -> Transfer:
            try:
                return super(Wallet, self).submit_evm(transfer_id, tx_hash)
            except Conflict as error:
                return self._had(transfer_id, error)
            except Invalid as error:
                if error.code != "NOT_MINED":
                    raise
                # Taken back by its chain, and comes again.
                raise NotReached(str(error)) from error

        return self._submitted(tx_hash, submit)

    def _submitted(self, tx: str, submit: Callable[[], Transfer]) -> Transfer:
        """The answer to a submission, which is sent twice at once now and then."""
        if not self._mischief.wants():
            shown = self._again(submit)
        else:
            shown = self._twice("submitted twice at once", lambda: self._again(submit))
        self._mischief.submitted.append((shown.id, tx))
        return shown

    def submit_stellar(self, transfer_id: str, signed_xdr: str) -> Transfer:
        if self._mischief.wants():
            # The last signature's last bytes.
            spoilt = signed_xdr[:-8] + ("AAAAAAA=" if signed_xdr[-8:] != "AAAAAAA=" else "BBBBBBA=")
            self._mischief.must_be_refused(
                "a spoilt signature",
                lambda: super(Wallet, self).submit_stellar(transfer_id, spoilt),
                Invalid,
                Conflict,
            )

        def submit() -> Transfer:
            try:
                return super(Wallet, self).submit_stellar(transfer_id, signed_xdr)
            except Conflict as error:
                return self._had(transfer_id, error)

        return self._submitted(signed_xdr, submit)

    def be_told(self, url: str) -> str:
        """Have it posted there what comes; the webhook's id. Somebody has to send by then."""
        made = self._again(lambda: self.webhooks.register(url)).id
        other = self._mischief.one_of(self._mischief.webhooks, made)
        if other is not None and self._mischief.wants():
            self._mischief.must_be_refused(
                "another's webhook read", lambda: self.webhooks.events(other), NotFound
            )
        self._mischief.webhooks.append(made)
        return made

    def told_at(self, webhook: str) -> tuple[WebhookEvent, ...]:
        """All that is sent to a webhook, and what came of it."""
        found: list[WebhookEvent] = []
        after: int | None = 0
        while after is not None:
            page = self._page(webhook, after)
            found += page.events
            after = page.next_after
        return tuple(found)

    def _page(self, webhook: str, after: int) -> WebhookEventPage:
        return self._again(lambda: self.webhooks.events(webhook, after=after))

    def _had(self, transfer_id: str, error: Conflict) -> Transfer:
        """It was handed in before. Raises `Conflict` for any other reason."""
        if error.code not in ("DUPLICATE_SUBMISSION", "NOT_AWAITED"):
            raise error
        return super().transfer(transfer_id)

    def _lie(self, transfer_id: str, tx_hash: str) -> None:
        def submitting(lie: str) -> Callable[[], Transfer]:
            return lambda: super(Wallet, self).submit_evm(transfer_id, lie)

        nothing = f"0x{hash(tx_hash) & 0xFFFF_FFFF:064x}"
        self._mischief.must_be_refused("a hash of nothing", submitting(nothing), Invalid)
        strange = self._mischief.one_of(self._mischief.burns, tx_hash)
        if strange is not None:
            self._mischief.must_be_refused(
                "somebody else's burn", submitting(strange), Invalid, Conflict
            )
        other = self._mischief.one_of(self._mischief.transfers, transfer_id)
        if other is not None:
            for what, ask in (
                ("another's transfer read", lambda: super(Wallet, self).transfer(other)),
                (
                    "another's transfer cancelled",
                    lambda: super(Wallet, self).cancel_transfer(other),
                ),
                (
                    "another's transfer submitted",
                    lambda: super(Wallet, self).submit_evm(other, tx_hash),
                ),
            ):
                self._mischief.must_be_refused(what, ask, NotFound)
