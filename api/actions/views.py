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
    """What you can do now.

    The next thing that a transfer needs of its owner. Everything in it follows from the quote
    and from public data: check that before anything is signed.
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
    {200: "It is; the transfer."},
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
    """Say which transaction you sent, or hand in the one you signed.

    An EVM transaction is named by its hash, read from the chain and held against the actions
    that were shown, member by member. A Stellar one is handed in signed, and sent in a fee bump
    of the service's. A mismatch changes nothing, and `fields` names what differs. A transaction
    that is never submitted is found all the same. The hash of a payment to a deposit address is
    a hint that changes nothing: it is answered with the transfer, unless it is mined and pays
    nothing to that address.
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
