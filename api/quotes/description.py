"""What `/v1/quotes` takes and answers."""

from collections.abc import Mapping

from api.description import HeaderDoc, Operation, RequestBodyDoc, ResponseDoc
from api.quotes.requests import NewQuote
from api.quotes.schema import Quote

OPERATIONS: Mapping[str, Operation] = {
    "quotes.create_quote": Operation(
        name="createQuote",
        tag="Transfers",
        summary="What a transfer costs, promised for some minutes",
        description=(
            "`buy_amount` is the least that arrives, and `fee` the most that it costs: the "
            "transaction that is signed for it says both. A quote is good for one transfer of "
            "its owner, until `expires_at`."
        ),
        body=RequestBodyDoc(NewQuote),
        answers=(
            ResponseDoc(
                201, "The quote.", Quote, headers=(HeaderDoc("Cache-Control", "`no-store`"),)
            ),
        ),
        refusals={
            400: (
                *("BAD_BODY", "BAD_ROUTE", "BAD_CHAIN", "BAD_AMOUNT", "AMOUNT_OUT_OF_LIMITS"),
                *("BAD_SOURCE_ADDRESS", "BAD_DEST_ADDRESS", "BAD_FUNDING_MODE"),
            ),
            403: ("NOT_THE_OWNER",),
            415: ("UNSUPPORTED_MEDIA_TYPE",),
            422: ("RECIPIENT_REFUSED",),
            503: ("CHAIN_UNAVAILABLE", "FEES_UNAVAILABLE", "LEDGER_UNAVAILABLE"),
        },
    ),
}
