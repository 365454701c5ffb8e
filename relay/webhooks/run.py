"""The loop that posts to webhooks what owners are told: one session that writes, many that post.

It is told by NOTIFY when there is something new, and looks each second for what is due again. An
attempt is written once it is over: killed in between, it is made again, under the same id.
"""

import logging
import random
import ssl
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import orjson
from sqlalchemy import Connection, Engine

from indexer.errors import RetryableChainError
from indexer.loops import pause_on_outage
from indexer.notifications import listen, wait_for_notifications
from relay.keys import StellarKey
from relay.webhooks import store
from relay.webhooks.post import (
    PROMPT_SECONDS,
    WHOLE_SECONDS,
    IpAddress,
    WebhookResponse,
    is_public,
    post,
)
from relay.webhooks.retrying import decide_retry
from relay.webhooks.signing import encode_public_key, signed_headers
from relay.webhooks.store import DueEvent, Lane, TransferEvent
from warehouse_schema import channels
from warehouse_schema.identifiers import UnixSeconds

logger = logging.getLogger(__name__)

AT_ONCE: Mapping[Lane, int] = {"new": 24, "prompt": 12, "slow": 6}
"""Posts at a time. Each lane has places of its own, so that silent places delay no other lane; a
new place has `PROMPT_SECONDS` for its first event, and then belongs to one of the other lanes."""
TURN_SECONDS = 1.0
_MOMENT_SECONDS = 0.2
"""Longest that what is new waits while something is under way."""
_SEEN_EVERY_SECONDS = 10.0
_FORGET_EVERY_SECONDS = 3600.0
_LOST_SECONDS = 2.0
_KEY_RESTS_SECONDS = 5.0
"""After its service did not answer."""


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """What was done."""

    delivered: int = 0
    failed: int = 0
    """Attempts that were not taken."""
    given_up: int = 0
    """Events."""


@dataclass(frozen=True, slots=True)
class WebhookSender:
    """Who posts: with which key, and to whom."""

    key: StellarKey = field(repr=False)
    context: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    admits: Callable[[IpAddress], bool] = is_public
    """To which addresses; another than this on the local chains and in tests alone."""
    whole_seconds: float = WHOLE_SECONDS
    prompt_seconds: float = PROMPT_SECONDS
    """For the first event of a new place."""
    clock: Callable[[], float] = time.time

    def send(self, due: DueEvent, whole_seconds: float) -> WebhookResponse:
        """Sign and post it within that time.

        Raises `RetryableChainError` when a key's service does not answer.
        """
        body = event_body(due.event)
        at = UnixSeconds(int(self.clock()))
        headers = signed_headers(self.key, event_id(due.event), at, body, due.secret)
        return post(
            due.url,
            body,
            headers,
            context=self.context,
            admits=self.admits,
            whole_seconds=whole_seconds,
        )


def event_id(event: TransferEvent) -> str:
    """The same however often, and to however many places, it is sent."""
    return f"evt_{event.transfer}_{event.number}"


def event_body(event: TransferEvent) -> bytes:
    """What is posted: that something changed, and nothing of money or addresses."""
    return orjson.dumps(
        {
            "type": "transfer.changed",
            "timestamp": event.told_at,
            "data": {
                "number": event.number,
                "transfer_id": event.transfer,
                "stage": event.stage,
                "status": event.status,
                "stage_reason": event.reason,
            },
        },
        option=orjson.OPT_UTC_Z,
    )


def send_webhooks(
    engine: Engine,
    poster: WebhookSender,
    *,
    should_stop: Callable[[], bool],
    on_progress: Callable[[DeliveryCounts], None] = lambda _: None,
) -> None:
    """Post what is told, until `should_stop` says so; a lost warehouse is waited for.

    `on_progress` is told once it is at work, and whenever something was done. Raises
    `FollowerConflict` when another process does this.
    """
    while not should_stop():
        # What was under way is sent again: nobody could write that it was taken.
        with (
            pause_on_outage("webhooks", _LOST_SECONDS, should_stop),
            store.writer(engine) as conn,
            ThreadPoolExecutor(sum(AT_ONCE.values()), "webhooks") as pool,
        ):
            _Posting(conn, poster, pool).go_on(should_stop, on_progress)


class _Posting:
    """What one session has under way."""

    def __init__(self, conn: Connection, poster: WebhookSender, pool: ThreadPoolExecutor) -> None:
        self._conn, self._poster, self._pool = conn, poster, pool
        self._under_way: dict[Future[WebhookResponse], tuple[DueEvent, Lane]] = {}
        self._due_at = {self._show: 0.0, self._forget: 0.0}
        self._key_rests_until = 0.0

    def go_on(
        self, should_stop: Callable[[], bool], on_progress: Callable[[DeliveryCounts], None]
    ) -> None:
        """Take turns; what is under way at the end is waited for and written."""
        listen(self._conn, channels.TRANSFERS)
        on_progress(DeliveryCounts())
        while not should_stop() or self._under_way:
            self._do_what_is_due()
            if not should_stop():
                self._begin()
            self._wait()
            if (sent := self._note_done()) != DeliveryCounts():
                on_progress(sent)

    def _do_what_is_due(self) -> None:
        now = time.monotonic()
        for task, at in self._due_at.items():
            if now >= at:
                with self._conn.begin():
                    self._due_at[task] = now + task()

    def _show(self) -> float:
        store.note_sender(self._conn, encode_public_key(self._poster.key))
        return _SEEN_EVERY_SECONDS

    def _forget(self) -> float:
        store.forget(self._conn)
        return _FORGET_EVERY_SECONDS

    def _begin(self) -> None:
        """Post whatever there is a place for."""
        if time.monotonic() < self._key_rests_until:
            return
        poster = self._poster
        for lane, places in AT_ONCE.items():
            busy = [due.owner for due, its_lane in self._under_way.values() if its_lane == lane]
            if len(busy) == places:
                continue
            with self._conn.begin():
                found = store.due(self._conn, lane, busy=busy, limit=places - len(busy))
            seconds = poster.prompt_seconds if lane == "new" else poster.whole_seconds
            for due in found:
                self._under_way[self._pool.submit(poster.send, due, seconds)] = (due, lane)

    def _wait(self) -> None:
        """Until something is over, there is news, or it is time to look again."""
        if self._under_way:
            wait(self._under_way, timeout=_MOMENT_SECONDS, return_when=FIRST_COMPLETED)
            return
        wait_for_notifications(self._conn, TURN_SECONDS)

    def _note_done(self) -> DeliveryCounts:
        delivered = failed = given_up = 0
        for future in [each for each in self._under_way if each.done()]:
            due, _ = self._under_way.pop(future)
            try:
                answer = future.result()
            except RetryableChainError as error:
                # Nothing was sent, so nobody failed to take it.
                logger.warning("key of webhooks: %s", error)
                self._key_rests_until = time.monotonic() + _KEY_RESTS_SECONDS
                continue
            came = decide_retry(due.standing, answer, random.random())
            with self._conn.begin():
                store.note(self._conn, due, answer, came)
            delivered += answer.is_taken
            failed += not answer.is_taken
            given_up += came.outcome == "given_up"
            if came.outcome == "given_up":
                logger.info(
                    "given up webhook=%s number=%d answer=%s stopped=%s",
                    *(due.webhook, due.event.number, answer.status or answer.error, came.stopped),
                )
        return DeliveryCounts(delivered, failed, given_up)
