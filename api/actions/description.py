"""What `/v1/transfers/{id}/actions` and `/submissions` take and answer."""

from collections.abc import Mapping

from api.actions.schema import Actions
from api.actions.submissions import NewSubmission
from api.description import HeaderDoc, Operation, Parameter, RequestBodyDoc, ResponseDoc
from api.transfers.schema import Transfer

_ID = Parameter("transfer", "Its id.", {"type": "string"}, place="path", required=True)
_NOT_KEPT = (HeaderDoc("Cache-Control", "`no-store`"),)

OPERATIONS: Mapping[str, Operation] = {
    "actions.show_action": Operation(
        name="showAction",
        tag="Transfers",
        summary="What you can do now",
        description=(
            "The next thing that a transfer needs of its owner. Everything in it follows from the "
            "quote and from public data: check that before anything is signed."
        ),
        parameters=(_ID,),
        answers=(
            ResponseDoc(200, "The action, or why there is none.", Actions, headers=_NOT_KEPT),
        ),
        refusals={
            404: ("TRANSFER_NOT_FOUND",),
            503: ("CHAIN_UNAVAILABLE", "LEDGER_UNAVAILABLE"),
        },
    ),
    "actions.submit": Operation(
        name="submitTransaction",
        tag="Transfers",
        summary="Say which transaction you sent, or hand in the one you signed",
        description=(
            "An EVM transaction is named by its hash, read from the chain and held against the "
            "actions that were shown, member by member. A Stellar one is handed in signed, and "
            "sent in a fee bump of the service's. A mismatch changes nothing, and `fields` names "
            "what differs. A transaction that is never submitted is found all the same. The hash "
            "of a payment to a deposit address is a hint that changes nothing: it is answered "
            "with the transfer, unless it is mined and pays nothing to that address."
        ),
        parameters=(_ID,),
        body=RequestBodyDoc(NewSubmission),
        answers=(ResponseDoc(200, "It is; the transfer.", Transfer, headers=_NOT_KEPT),),
        refusals={
            400: ("BAD_BODY", "BAD_SUBMISSION"),
            404: ("TRANSFER_NOT_FOUND",),
            409: ("DUPLICATE_SUBMISSION", "NOT_AWAITED"),
            415: ("UNSUPPORTED_MEDIA_TYPE",),
            422: ("SUBMISSION_MISMATCH", "NOT_MINED", "TOO_MANY_FAILURES"),
            503: ("CHAIN_UNAVAILABLE", "LEDGER_UNAVAILABLE"),
        },
    ),
}
