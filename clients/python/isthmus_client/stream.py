"""The stream as an exact book, ledger by ledger, across reconnections."""

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from pydantic import TypeAdapter
from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import connect

from isthmus_client.errors import ClientError, TooMany, Unavailable, refusal
from isthmus_client.listening import messages
from isthmus_client.models import Offer, Order

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_OFFER, _ORDER = TypeAdapter(Offer), TypeAdapter(Order)


class OfferKey(NamedTuple):
    """An offer's identity, which never changes."""

    provider: str
    direction: str
    currency: str
    accepted_rails: tuple[str, ...]


@dataclass(frozen=True)
class Moment:
    """The book as of a ledger, as `GET /api/v1/orderbook` shows it, and the orders it changed."""

    ledger: int
    offers: Mapping[OfferKey, Offer]
    orders: tuple[Order, ...] = ()
    """Opened or ended; the stream does not repeat those of ledgers more than a day ago."""


def key_of(offer: Offer) -> OfferKey:
    """An offer's identity."""
    return OfferKey(offer.provider, offer.direction, offer.currency, offer.accepted_rails)


@dataclass
class _Draft:
    """State of a connection: the last whole ledger, and the one being received."""

    known: Moment
    offers: dict[OfferKey, Offer]
    orders: list[Order]
    seq: int | None = None

    def take(self, message: dict[str, Any]) -> Moment | None:
        """The book, once a ledger is complete. Raises `_Gap`."""
        if self.seq not in (None, message["prevSeq"]):
            raise _Gap
        self.seq = message["seq"]
        if message.get("mode") == "snapshot":
            self.offers.clear()
        if "entry" in message:
            offer = _OFFER.validate_python(message["entry"])
            if message["op"] == "remove":
                self.offers.pop(key_of(offer), None)
            else:
                self.offers[key_of(offer)] = offer
        if "intent" in message:
            self.orders.append(_ORDER.validate_python(message["intent"]))
        if "last" not in message:
            return None
        self.known = Moment(message["ledger"], dict(self.offers), tuple(self.orders))
        self.orders.clear()
        return self.known


class _Gap(Exception):
    """A message is missing."""


def follow(
    url: str,
    query: Mapping[str, Any],
    *,
    since: Moment | None = None,
    sleep: Callable[[float], None] = time.sleep,
    should_stop: Callable[[], bool] = lambda: False,
    **options: Any,
) -> Iterator[Moment]:
    """The book now, and then after each ledger that changes it, until `should_stop`.

    Reconnects after the last ledger received. Raises `Refused` for a permanent error, such as a
    filter that the server cannot read.
    """
    known = since or Moment(0, {})
    pause = _SHORTEST_PAUSE
    while True:
        try:
            for moment in _listen(url, query, known, should_stop, options):
                known, pause = moment, _SHORTEST_PAUSE
                yield moment
        except (TooMany, Unavailable) as refused:
            pause = max(pause, refused.retry_after or 0.0)
        except (OSError, WebSocketException, _Gap):
            # The next connection continues after the last ledger received.
            pass
        if should_stop():
            return
        # Jitter: clients that lost the same server do not reconnect at once.
        sleep(pause * random.SystemRandom().uniform(0.5, 1.0))
        pause = min(2 * pause, _LONGEST_PAUSE)


def _listen(
    url: str,
    query: Mapping[str, Any],
    known: Moment,
    should_stop: Callable[[], bool],
    options: Mapping[str, Any],
) -> Iterator[Moment]:
    given = {name: value for name, value in query.items() if value is not None}
    where = f"{url}?{urlencode({**given, 'after': known.ledger})}"
    try:
        socket = connect(where, max_size=None, **options)
    except InvalidStatus as error:
        raise _refused(error) from error
    with socket:
        draft = _Draft(known, dict(known.offers), [])
        for text in messages(socket, should_stop):
            moment = draft.take(json.loads(text))
            if moment is not None:
                yield moment


def _refused(error: InvalidStatus) -> ClientError:
    answer = error.response
    return refusal(answer.status_code, bytes(answer.body or b""), answer.headers.get("Retry-After"))
