"""Messages of the stream as types; `messages.py` writes them as bytes."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api.orderbook.schema import Offer, Order
from api.text_types import Time
from api.transfers.schema import Transfer


class NumberedMessage(TypedDict):
    """Members of every message about the book."""

    ledger: Annotated[int, Field(ge=0, description="As of this ledger. Never decreases.")]
    seq: Annotated[int, Field(description="Increases by one with each message.")]
    prevSeq: Annotated[int, Field(description="The previous `seq`. After a gap, reconnect.")]
    last: NotRequired[
        Annotated[Literal[True], Field(description="Only on the last message of a ledger.")]
    ]
    closedAt: NotRequired[
        Annotated[Time, Field(description="Close time, with `last` of the newest ledger.")]
    ]


class OfferMessage(NumberedMessage):
    """A change of an offer. A snapshot has an `add` for each offer."""

    channel: Literal["orderbook"]
    op: Literal["add", "update", "remove"]
    entry: Annotated[Offer, Field(description="The whole offer; with `remove`, as last published.")]


class OrderMessage(NumberedMessage):
    """An order that was opened or reached its final status."""

    channel: Literal["intent"]
    intent: Order


class LedgerMarker(NumberedMessage):
    """All changes up to the ledger were sent. Only with `markers=1`."""

    channel: Literal["ledger"]


class StreamMarker(NumberedMessage):
    """The first message of a connection with `after`: the kind of the messages that follow."""

    channel: Literal["stream"]
    mode: Annotated[
        Literal["snapshot", "resume"],
        Field(description="`snapshot`: the whole book follows. `resume`: the changes follow."),
    ]


class TransferMessage(TypedDict):
    """The current state of one of your transfers. Only after a token was accepted."""

    channel: Literal["transfer"]
    transfer: Transfer
    number: Annotated[int, Field(ge=1, description="Number of your event. Store the greatest.")]


class TransferMarker(TypedDict):
    """Your token was accepted, and all events up to the number were sent."""

    channel: Literal["transfer"]
    mode: Annotated[
        Literal["snapshot", "resume"],
        Field(
            description="Sent before it. `snapshot`: unfinished transfers. `resume`: missed ones."
        ),
    ]
    account: Annotated[str, Field(description="Owner of the transfers.")]
    expiresAt: Annotated[Time, Field(description="Expiry of the token. Send a new one before.")]
    number: Annotated[int, Field(ge=0, description="Number of the last event that was sent.")]


class Authentication(TypedDict):
    """Your token: from now on your transfers are sent. The only message that a client sends."""

    auth: Annotated[str, Field(description="A bearer token.")]
    after: NotRequired[
        Annotated[
            int | None,
            Field(ge=0, description="`number` of the last event that you have."),
        ]
    ]


MESSAGES = (
    *(OfferMessage, OrderMessage, LedgerMarker, StreamMarker),
    *(TransferMessage, TransferMarker),
)
"""Every message that the server sends."""
