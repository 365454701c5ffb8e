"""Messages of the stream as JSON: the specification's two kinds, markers and transfers.

A message of the book is encoded once for all clients, as a body: a JSON object without its closing
brace. `number` adds the members that depend on the audience: `seq`, `prevSeq`, the end of a ledger.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import orjson

from api.auth.claims import AuthSession
from api.orderbook.responses import offer_response, order_response
from api.responses import iso_time
from api.stream import frames
from api.stream.requests import Channel, Topic
from indexer.orderbook.offers import OfferKey, OfferRow, offer_from_entry
from indexer.orderbook.orders import order_from_entry
from warehouse_schema.identifiers import Height

Op: TypeAlias = Literal["add", "update", "remove"]
Mode: TypeAlias = Literal["snapshot", "resume"]

LAST = b',"last":true'
"""Member of the last message of a ledger."""


@dataclass(frozen=True, slots=True)
class ListedOffer:
    """An offer in the book."""

    topic: Topic
    entry: bytes
    """JSON, as the order book shows it."""

    @property
    def key(self) -> OfferKey:
        """The offer's identity."""
        topic = self.topic
        return OfferKey(topic.provider, topic.direction, topic.currency, topic.rails)


@dataclass(frozen=True, slots=True)
class BookChange:
    """One message of a ledger."""

    topic: Topic
    body: bytes
    op: Op | None
    """None on an order."""
    offer: ListedOffer | None
    """None on an order."""


def listed_offer(row: OfferRow) -> ListedOffer:
    """An offer with its JSON."""
    topic = Topic("orderbook", row.provider, row.direction, row.currency, row.rails)
    return ListedOffer(topic, orjson.dumps(offer_response(row)))


def book_change(
    channel: Channel, op: Op | None, entry: Mapping[str, Any], ledger: Height
) -> BookChange:
    """A row of the outbox as a message."""
    if channel == "orderbook" and op is not None:
        offer = listed_offer(offer_from_entry(entry))
        return BookChange(offer.topic, offer_body(op, offer, ledger), op, offer)
    order = order_from_entry(entry)
    topic = Topic("intent", order.provider, order.direction, order.currency, (order.rail,))
    json = orjson.dumps(order_response(order))
    body = b'{"channel":"intent","intent":%b,"ledger":%d' % (json, ledger)
    return BookChange(topic, body, None, None)


def offer_body(op: Op, offer: ListedOffer, ledger: Height) -> bytes:
    """A change of an offer."""
    members = op.encode(), offer.entry, ledger
    return b'{"channel":"orderbook","op":"%b","entry":%b,"ledger":%d' % members


def marker_body(ledger: Height, mode: Mode | None = None) -> bytes:
    """A marker: nothing more up to this ledger; with a mode, what the next messages are."""
    if mode is None:
        return b'{"channel":"ledger","ledger":%d' % ledger
    return b'{"channel":"stream","mode":"%b","ledger":%d' % (mode.encode(), ledger)


def number(body: bytes, seq: int, end: bytes) -> bytes:
    """The frame of the audience's message `seq`; `end` is empty but for the last of a ledger."""
    return frames.text(b'%b,"seq":%d,"prevSeq":%d%b}' % (body, seq, seq - 1, end))


def transfer_frame(transfer: bytes, number: int) -> bytes:
    """A transfer's state; `number` counts the events of its owner."""
    return frames.text(b'{"channel":"transfer","transfer":%b,"number":%d}' % (transfer, number))


def transfers_frame(mode: Mode, session: AuthSession, number: int) -> bytes:
    """A marker: the token was accepted, and every event up to the number was sent."""
    marker = {
        "channel": "transfer",
        "mode": mode,
        "account": session.account,
        "expiresAt": iso_time(session.expires_at),
        "number": number,
    }
    return frames.text(orjson.dumps(marker))
