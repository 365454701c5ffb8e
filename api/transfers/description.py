"""What `/v1/transfers` takes and answers."""

from collections.abc import Mapping

from api.description import HeaderDoc, Operation, Parameter, RequestBodyDoc, ResponseDoc
from api.transfers.requests import DEFAULT_LIMIT, MAX_LIMIT, NewTransfer
from api.transfers.schema import Transfer, TransferList

_TAG = "Transfers"
_NOT_KEPT = (HeaderDoc("Cache-Control", "`no-store`"),)
_ID = Parameter("transfer", "Its id.", {"type": "string"}, place="path", required=True)

OPERATIONS: Mapping[str, Operation] = {
    "transfers.start": Operation(
        name="startTransfer",
        tag=_TAG,
        summary="Start a transfer of a quote",
        description=(
            "Ask again with the same key after an answer that got lost: there is one transfer for "
            "a key, and it is answered whatever has become of quote, limits and chains since."
        ),
        parameters=(
            Parameter(
                "Idempotency-Key",
                "A new one for each transfer that is started, such as a UUID.",
                {"type": "string", "pattern": "^[!-~]{1,255}$"},
                place="header",
                required=True,
            ),
        ),
        body=RequestBodyDoc(NewTransfer),
        answers=(
            ResponseDoc(201, "The transfer, new.", Transfer, headers=_NOT_KEPT),
            ResponseDoc(
                200, "The transfer that this key made before.", Transfer, headers=_NOT_KEPT
            ),
        ),
        refusals={
            400: ("BAD_BODY", "BAD_IDEMPOTENCY_KEY"),
            404: ("QUOTE_NOT_FOUND",),
            409: ("QUOTE_USED", "QUOTE_EXPIRED"),
            415: ("UNSUPPORTED_MEDIA_TYPE",),
            422: ("IDEMPOTENCY_KEY_REUSED", "DAILY_LIMIT", "OUTSTANDING_LIMIT"),
            503: ("CHAIN_UNAVAILABLE",),
        },
    ),
    "transfers.show_page": Operation(
        name="listTransfers",
        tag=_TAG,
        summary="Your transfers, newest first",
        parameters=(
            Parameter(
                "before",
                "Those started before it: `next_before` of the page before.",
                {"type": "string", "format": "date-time"},
            ),
            Parameter(
                "limit",
                "How many.",
                {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_LIMIT,
                    "default": DEFAULT_LIMIT,
                },
            ),
        ),
        answers=(ResponseDoc(200, "A page of them.", TransferList, headers=_NOT_KEPT),),
        refusals={400: ("BAD_CURSOR", "BAD_LIMIT", "UNKNOWN_PARAMETER")},
    ),
    "transfers.show": Operation(
        name="showTransfer",
        tag=_TAG,
        summary="Where a transfer is",
        parameters=(_ID,),
        answers=(ResponseDoc(200, "The transfer.", Transfer, headers=_NOT_KEPT),),
        refusals={404: ("TRANSFER_NOT_FOUND",)},
    ),
    "transfers.cancel": Operation(
        name="cancelTransfer",
        tag=_TAG,
        summary="Call a transfer off",
        description="Until something irreversible has happened. What comes in later goes back.",
        parameters=(_ID,),
        answers=(ResponseDoc(200, "The transfer, called off.", Transfer, headers=_NOT_KEPT),),
        refusals={404: ("TRANSFER_NOT_FOUND",), 409: ("NOT_CANCELLABLE",)},
    ),
}
