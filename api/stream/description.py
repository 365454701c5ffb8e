"""What the stream's path takes, and what it answers instead of an upgrade."""

from collections.abc import Mapping

from api.description import HeaderDoc, Operation, Parameter, ResponseDoc
from api.orderbook.description import FILTERS, HOLDER_OR_NONE

QUERY = (
    *FILTERS,
    Parameter("provider", "Of this provider alone.", HOLDER_OR_NONE),
    Parameter(
        "channel",
        "`orderbook` for offers alone, `intent` for orders alone.",
        {"enum": ["", "orderbook", "intent"]},
    ),
    Parameter(
        "markers",
        "1: be told of every ledger, also when it changes nothing for you.",
        {"enum": ["", "0", "1"]},
    ),
    Parameter(
        "after",
        "You have the book as of this ledger: get what came since, if that can still be told.",
        {"type": "string", "pattern": "^([0-9]{1,18})?$"},
    ),
)
_HANDSHAKE = (
    Parameter("Upgrade", "`websocket`", {"type": "string"}, "header"),
    Parameter("Connection", "`Upgrade`", {"type": "string"}, "header"),
    Parameter("Sec-WebSocket-Version", "`13`", {"type": "string"}, "header"),
    Parameter("Sec-WebSocket-Key", "16 bytes in base64.", {"type": "string"}, "header"),
)

OPERATIONS: Mapping[str, Operation] = {
    "stream.ask_to_upgrade": Operation(
        name="openStream",
        tag="Stream",
        summary="Offers and orders as they change (WebSocket)",
        description=(
            "What is said once the connection is upgraded is in [/asyncapi.json](/asyncapi.json). "
            "What is wrong with the query is told before."
        ),
        parameters=(*QUERY, *_HANDSHAKE),
        answers=(ResponseDoc(101, "The connection is a WebSocket now."),),
        refusals={
            400: ("BAD_FILTER", "BAD_ADDRESS", "BAD_AFTER", "BAD_HANDSHAKE"),
            403: ("ORIGIN_NOT_ALLOWED",),
            426: ("UPGRADE_REQUIRED",),
            429: ("TOO_MANY_STREAMS",),
            503: (
                *("STREAM_FULL", "STREAM_NOT_SERVED"),
                *("ORDER_BOOK_NOT_READY", "DATABASE_UNAVAILABLE"),
            ),
        },
        refusal_headers={
            426: (
                HeaderDoc("Upgrade", "`websocket`"),
                HeaderDoc("Sec-WebSocket-Version", "`13`"),
            )
        },
    ),
}
