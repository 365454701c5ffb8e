"""`/v1/transfers/{id}/actions` and `/submissions`."""

from flask import Blueprint

from api.actions import schema
from api.actions.build import build_action
from api.actions.issued import store_action
from api.actions.requests import NewSubmission, read_hash, read_signed_xdr
from api.actions.store import store_submission
from api.actions.submissions import accept_evm_tx, accept_stellar_tx, check_deposit_hint
from api.actions.tasks import NoAction, find_task
from api.auth.owner import owner, owner_only
from api.deps import deps, snapshot
from api.operation import NO_STORE, TRANSFER_ID, operation
from api.parsing import read_body
from api.transfers.access import access_transfer
from api.transfers.responses import load_transfer_response
from api.transfers.schema import Transfer
from indexer.transfers.store import lock_transfers
from indexer.transfers.terms import load_terms

actions = Blueprint("actions", __name__)
actions.before_request(owner_only)


@actions.get("/v1/transfers/<transfer>/actions")
@operation(
    "showAction",
    "Transfers",
    {200: "The action, or why there is none."},
    headers=(NO_STORE,),
    parameters=(TRANSFER_ID,),
    refusals=("TRANSFER_NOT_FOUND", "CHAIN_UNAVAILABLE", "LEDGER_UNAVAILABLE"),
)
def show_action(transfer: str) -> schema.Actions:
    """The owner's next action for a transfer.

    All of it follows from the quote and from public data: verify it before you sign.
    """
    network = deps().network
    with snapshot() as conn:
        owned = access_transfer(conn, owner(), transfer)
        task = find_task(conn, network, owned)
    found = task if isinstance(task, NoAction) else build_action(task)
    if not isinstance(found, NoAction):
        with deps().engine.begin() as conn:
            lock_transfers(conn, [owned])
            # The kind of a transfer's task never changes, only whether there still is one.
            current = find_task(conn, network, owned)
            if isinstance(current, NoAction):
                found = current
            # Stored before it is shown.
            elif store_action(conn, owned, found.action, found.tx):
                return {"action": found.action, "reason": None, "needs_trustline": found.needs}
            else:
                found = NoAction("waiting")
    return {"action": None, "reason": found.reason, "needs_trustline": found.needs}


@actions.post("/v1/transfers/<transfer>/submissions")
@operation(
    "submitTransaction",
    "Transfers",
    {200: "The transfer."},
    headers=(NO_STORE,),
    parameters=(TRANSFER_ID,),
    body=NewSubmission,
    refusals=(
        *(
            "BAD_BODY",
            "BAD_SUBMISSION",
            "TRANSFER_NOT_FOUND",
            "DUPLICATE_SUBMISSION",
            "NOT_AWAITED",
        ),
        *("UNSUPPORTED_MEDIA_TYPE", "SUBMISSION_MISMATCH", "NOT_MINED", "TOO_MANY_FAILURES"),
        *("CHAIN_UNAVAILABLE", "LEDGER_UNAVAILABLE"),
    ),
)
def submit(transfer: str) -> Transfer:
    """Submit the hash of a sent EVM transaction, or a signed Stellar transaction.

    The service reads an EVM transaction from the chain and compares it with the issued actions,
    field by field. It sends a Stellar transaction in a fee bump of its own. A mismatch changes
    nothing, and `fields` names what differs. A transaction that is not submitted is found on chain
    as well. The hash of a payment to a deposit address is a hint that changes nothing: the answer
    is the transfer, or an error if the transaction is mined and pays nothing to that address.
    """
    network, body = deps().network, read_body(NewSubmission)
    with snapshot() as conn:
        owned = access_transfer(conn, owner(), transfer)
        [terms] = load_terms(conn, [owned])
    if body.kind == "stellar_tx":
        accepted = accept_stellar_tx(owned, terms, read_signed_xdr(body))
    elif terms.deposit_address is None:
        accepted = accept_evm_tx(owned, terms, read_hash(body))
    else:
        check_deposit_hint(terms.source_chain, terms.deposit_address, read_hash(body))
        with snapshot() as conn:
            return load_transfer_response(conn, network, owned)
    with deps().engine.begin() as conn:
        store_submission(conn, network, owned, accepted)
        return load_transfer_response(conn, network, owned)
