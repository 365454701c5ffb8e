"""What the stream says, as the JSON of the specification's two kinds and of the two markers.

A message is made once, up to its last members; `number` adds those that hang on who is told:
`seq`, `prevSeq`, and how a ledger ends. A body is a JSON object that was left open, without its
brace.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import orjson

from api.auth.claims import AuthSession
from api.orderbook.responses import shape_offer, shape_order
from api.responses import iso_time
from api.stream import frames
from api.stream.owned import Mode
from api.stream.requests import Channel, Topic
from indexer.orderbook.offers import OfferKey, OfferRow, offer_from_entry
from indexer.orderbook.orders import order_from_entry
from warehouse_schema.identifiers import Height, UnixSeconds

Op: TypeAlias = Literal["add", "update", "remove"]


@dataclass(frozen=True, slots=True)
class Listed:
    """An offer that is listed."""

    topic: Topic
    entry: bytes
    """JSON, as the order book shows it."""

    @property
    def key(self) -> OfferKey:
        """The offer's identity."""
        topic = self.topic
        return OfferKey(topic.provider, topic.direction, topic.currency, topic.rails)


@dataclass(frozen=True, slots=True)
class Change:
    """One message of a ledger."""

    topic: Topic
    body: bytes
    op: Op | None
    """None on an order."""
    listed: Listed | None
    """The offer that it is about; None on an order."""


def listed(offer: OfferRow) -> Listed:
    """An offer as the stream keeps it."""
    topic = Topic("orderbook", offer.provider, offer.direction, offer.currency, offer.rails)
    return Listed(topic, orjson.dumps(shape_offer(offer)))


def change(channel: Channel, op: Op | None, entry: Mapping[str, Any], ledger: Height) -> Change:
    """A row of the outbox as a message."""
    if channel == "orderbook" and op is not None:
        offer = listed(offer_from_entry(entry))
        return Change(offer.topic, offer_body(op, offer, ledger), op, offer)
    order = order_from_entry(entry)
    topic = Topic("intent", order.provider, order.direction, order.currency, (order.rail,))
    shaped = orjson.dumps(shape_order(order))
    return Change(
        topic, b'{"channel":"intent","intent":%b,"ledger":%d' % (shaped, ledger), None, None
    )


def offer_body(op: Op, offer: Listed, ledger: Height) -> bytes:
    """What happened to an offer."""
    return b'{"channel":"orderbook","op":"%b","entry":%b,"ledger":%d' % (
        op.encode(),
        offer.entry,
        ledger,
    )


def ledger_body(ledger: Height) -> bytes:
    """A marker: up to this ledger there is nothing more to tell."""
    return b'{"channel":"ledger","ledger":%d' % ledger


def opening_body(mode: Mode, ledger: Height) -> bytes:
    """A marker: what follows is the whole book as of the ledger, or what came after it."""
    return b'{"channel":"stream","mode":"%b","ledger":%d' % (mode.encode(), ledger)


def transfer_frame(transfer: bytes, number: int) -> bytes:
    """A transfer of whoever is told; `number` is of its owner's alone."""
    return frames.text(b'{"channel":"transfer","transfer":%b,"number":%d}' % (transfer, number))


def transfers_frame(mode: Mode, session: AuthSession, number: int) -> bytes:
    """A marker: the token was taken, and all up to the number has been told."""
    said = {
        "channel": "transfer",
        "mode": mode,
        "account": session.account,
        "expiresAt": iso_time(session.expires_at),
        "number": number,
    }
    return frames.text(orjson.dumps(said))


LAST = b',"last":true'
"""Ends a ledger."""


def last_of_newest(close_time: UnixSeconds) -> bytes:
    """Ends the newest ledger, of which it is known when it closed."""
    return b'%b,"closedAt":"%b"' % (LAST, iso_time(close_time).encode())


def number(body: bytes, seq: int, end: bytes) -> bytes:
    """The frame of a message that is number `seq` of those who are told; `end` may be empty."""
    return frames.text(b'%b,"seq":%d,"prevSeq":%d%b}' % (body, seq, seq - 1, end))
