"""The loop that posts transfer events to webhooks: one session that writes, many threads that post.

NOTIFY wakes it for new events, and it polls each second for retries. The result of an attempt is
written afterwards: a kill in between repeats the attempt, with the same event id.
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
from indexer.facts.sessions import standby_session
from indexer.loops import pause, pause_on_outage
from indexer.metrics.catalogue import WEBHOOK_POSTS
from indexer.metrics.collectors import count, loop_time, waiting
from indexer.notifications import listen, wait_for_notifications
from indexer.tracing import Attributes, now, record_span
from relay.keys import StellarKey
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
from relay.webhooks.store import (
    DueEvent,
    Lane,
    TransferEvent,
    due_events,
    forget_deliveries,
    record_attempt,
    record_sender,
)
from warehouse_schema import channels, locks
from warehouse_schema.identifiers import UnixSeconds
from warehouse_schema.leases import RELAY_LEASES

logger = logging.getLogger(__name__)

MAX_POSTS: Mapping[Lane, int] = {"new": 24, "prompt": 12, "slow": 6}
"""Concurrent posts per lane, so that silent URLs delay no other lane. A new webhook has
`PROMPT_SECONDS` for its first event, and then belongs to one of the other lanes."""
TURN_SECONDS = 1.0
_POLL_SECONDS = 0.2
"""Maximum delay of a new event while posts are running."""
_SEEN_EVERY_SECONDS = 10.0
_FORGET_EVERY_SECONDS = 3600.0
_OUTAGE_SECONDS = 2.0
_KEY_PAUSE_SECONDS = 5.0
"""After the key's service did not answer."""


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """Counts of finished attempts."""

    delivered: int = 0
    failed: int = 0
    """Attempts."""
    given_up: int = 0
    """Events."""


@dataclass(frozen=True, slots=True)
class WebhookSender:
    """Signs and posts events."""

    key: StellarKey = field(repr=False)
    context: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    admits: Callable[[IpAddress], bool] = is_public
    """Addresses to post to; only the devnet and tests set another function."""
    whole_seconds: float = WHOLE_SECONDS
    prompt_seconds: float = PROMPT_SECONDS
    """Timeout for the first event of a new webhook."""
    clock: Callable[[], float] = time.time
    more_keys: tuple[StellarKey, ...] = field(default=(), repr=False)
    """Keys that sign as well, while one replaces the other."""

    @property
    def keys(self) -> tuple[StellarKey, ...]:
        """All keys that sign."""
        return (self.key, *self.more_keys)

    def send(self, due: DueEvent, whole_seconds: float) -> WebhookResponse:
        """Sign and post an event, with a timeout.

        Raises `RetryableChainError` when the key's service does not answer.
        """
        body = event_body(due.event)
        at = UnixSeconds(int(self.clock()))
        headers = signed_headers(self.keys, event_id(due.event), at, body, due.secret)
        return post(
            due.url,
            body,
            headers,
            context=self.context,
            admits=self.admits,
            whole_seconds=whole_seconds,
        )


def event_id(event: TransferEvent) -> str:
    """Idempotency key, equal for every attempt and every webhook."""
    return f"evt_{event.transfer}_{event.number}"


def event_body(event: TransferEvent) -> bytes:
    """JSON of an event, without amounts or addresses."""
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
    sender: WebhookSender,
    *,
    should_stop: Callable[[], bool],
    on_progress: Callable[[DeliveryCounts], None] = lambda _: None,
) -> None:
    """Post events until `should_stop`; waits for a lost warehouse, and while another process posts.

    `on_progress` is called at the start and after finished attempts. A process that lost its lease
    begins no post; those that it had begun are repeated by the one that took it.
    """
    while not should_stop():
        # Attempts that were running in a lost session are repeated: no result could be written.
        with (
            loop_time("webhooks"),
            pause_on_outage("webhooks", lambda: pause(_OUTAGE_SECONDS, should_stop)),
            standby_session(engine, locks.WEBHOOKS, "", should_stop, tables=RELAY_LEASES) as conn,
            ThreadPoolExecutor(sum(MAX_POSTS.values()), "webhooks") as pool,
        ):
            if conn is not None:
                _Session(conn, sender, pool).run(should_stop, on_progress)


def _trace(due: DueEvent, answer: WebhookResponse) -> None:
    """Record a span of a post: neither the URL, which may hold a secret, nor its owner."""
    attributes: Attributes = {
        "webhook": due.webhook,
        "event": event_id(due.event),
        "stage": due.event.stage,
        "attempt": due.state.failures + 1,
        "http.response.status_code": answer.status,
    }
    error = None if answer.is_taken else answer.error or "status"
    began = now() - int(answer.seconds * 1e9)
    record_span("webhook post", due.event.transfer, began, attributes, error=error)


class _Session:
    """Running posts of one session."""

    def __init__(self, conn: Connection, sender: WebhookSender, pool: ThreadPoolExecutor) -> None:
        self._conn, self._sender, self._pool = conn, sender, pool
        self._running: dict[Future[WebhookResponse], tuple[DueEvent, Lane]] = {}
        self._next_seen = self._next_forget = 0.0
        self._key_paused_until = 0.0

    def run(
        self, should_stop: Callable[[], bool], on_progress: Callable[[DeliveryCounts], None]
    ) -> None:
        """Post events; at the end wait for running posts and write their results."""
        listen(self._conn, channels.TRANSFERS)
        on_progress(DeliveryCounts())
        while not should_stop() or self._running:
            self._do_housekeeping()
            if not should_stop() and time.monotonic() >= self._key_paused_until:
                self._start_posts()
            if self._running:
                with waiting("receiver"):
                    wait(self._running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
            else:
                with waiting("idle"):
                    wait_for_notifications(self._conn, TURN_SECONDS)
            if (counts := self._record_finished()) != DeliveryCounts():
                on_progress(counts)

    def _do_housekeeping(self) -> None:
        now = time.monotonic()
        if now >= self._next_seen:
            with self._conn.begin():
                record_sender(self._conn, [encode_public_key(each) for each in self._sender.keys])
            self._next_seen = now + _SEEN_EVERY_SECONDS
        if now >= self._next_forget:
            with self._conn.begin():
                forget_deliveries(self._conn)
            self._next_forget = now + _FORGET_EVERY_SECONDS

    def _start_posts(self) -> None:
        sender = self._sender
        for lane, places in MAX_POSTS.items():
            busy = [due.owner for due, its_lane in self._running.values() if its_lane == lane]
            if len(busy) == places:
                continue
            with self._conn.begin():
                found = due_events(self._conn, lane, busy=busy, limit=places - len(busy))
            seconds = sender.prompt_seconds if lane == "new" else sender.whole_seconds
            for due in found:
                self._running[self._pool.submit(sender.send, due, seconds)] = (due, lane)

    def _record_finished(self) -> DeliveryCounts:
        delivered = failed = given_up = 0
        for future in [each for each in self._running if each.done()]:
            due, _ = self._running.pop(future)
            try:
                answer = future.result()
            except RetryableChainError as error:
                # Nothing was sent, so this is no failed attempt.
                logger.warning("key of webhooks: %s", error)
                self._key_paused_until = time.monotonic() + _KEY_PAUSE_SECONDS
                continue
            decision = decide_retry(due.state, answer, random.random())
            with self._conn.begin():
                record_attempt(self._conn, due, answer, decision)
            count(WEBHOOK_POSTS, "delivered" if answer.is_taken else "failed")
            _trace(due, answer)
            delivered += answer.is_taken
            failed += not answer.is_taken
            given_up += decision.outcome == "given_up"
            if decision.outcome == "given_up":
                count(WEBHOOK_POSTS, "given_up")
                logger.info(
                    "given up webhook=%s number=%d answer=%s stopped=%s",
                    *(due.webhook, due.event.number, answer.status or answer.error),
                    decision.stopped,
                    extra={"transfer": due.event.transfer},
                )
        return DeliveryCounts(delivered, failed, given_up)
