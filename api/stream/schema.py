"""What the stream says, as types; `messages.py` writes them as bytes."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api.orderbook.schema import Offer, Order
from api.text_types import Time
from api.transfers.schema import Transfer


class NumberedMessage(TypedDict):
    """What every message carries."""

    ledger: Annotated[int, Field(ge=0, description="It is as of this ledger; never goes back.")]
    seq: Annotated[int, Field(description="Counts up by one on a connection.")]
    prevSeq: Annotated[int, Field(description="The number before; a gap: connect again.")]
    last: NotRequired[
        Annotated[Literal[True], Field(description="On the last message of a ledger alone.")]
    ]
    closedAt: NotRequired[
        Annotated[Time, Field(description="When the ledger closed; beside `last` of the newest.")]
    ]


class OfferMessage(NumberedMessage):
    """What happened to an offer; a snapshot is an `add` of each."""

    channel: Literal["orderbook"]
    op: Literal["add", "update", "remove"]
    entry: Annotated[Offer, Field(description="The whole offer; of a `remove`, the last one.")]


class OrderMessage(NumberedMessage):
    """An order that was opened, or has its final status."""

    channel: Literal["intent"]
    intent: Order


class LedgerMarker(NumberedMessage):
    """Up to here there is nothing more to tell; for who asked with `markers=1`."""

    channel: Literal["ledger"]


class StreamMarker(NumberedMessage):
    """The first message, for who asked with `after`: what it is that follows."""

    channel: Literal["stream"]
    mode: Annotated[
        Literal["snapshot", "resume"],
        Field(description="`snapshot`: forget the book, it follows. `resume`: what came since."),
    ]


class TransferMessage(TypedDict):
    """A transfer of yours, as it is now; for who showed a token."""

    channel: Literal["transfer"]
    transfer: Transfer
    number: Annotated[int, Field(ge=1, description="Of yours alone: keep the greatest.")]


class TransferMarker(TypedDict):
    """Your token was taken, and you have been told everything up to the number."""

    channel: Literal["transfer"]
    mode: Annotated[
        Literal["snapshot", "resume"],
        Field(description="What came before: what is not over, or what you had missed."),
    ]
    account: Annotated[str, Field(description="Whose transfers you are told of.")]
    expiresAt: Annotated[Time, Field(description="Show a new token before.")]
    number: Annotated[int, Field(ge=0, description="Of the last that you have been told.")]


class Authentication(TypedDict):
    """Who you are: your transfers are told from here on. The one thing that a client may say."""

    auth: Annotated[str, Field(description="A bearer token.")]
    after: NotRequired[
        Annotated[
            int | None,
            Field(ge=0, description="You have been told everything up to this `number` of yours."),
        ]
    ]


MESSAGES = (
    *(OfferMessage, OrderMessage, LedgerMarker, StreamMarker),
    *(TransferMessage, TransferMarker),
)
"""All that a client may hear."""
