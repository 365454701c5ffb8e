"""`/v1/transfers/{id}/actions` and `/submissions`."""

from flask import Blueprint

from api.actions import schema
from api.actions.build import build_action, require_evm
from api.actions.issued import store_action
from api.actions.submissions import (
    AcceptedSubmission,
    NewSubmission,
    expected_evm_tx,
    expected_stellar_txs,
    find_deposit_target,
    match_evm_tx,
    match_stellar_tx,
    read_hash,
    read_signed_xdr,
    require_not_submitted,
    store_submission,
    verify_deposit_hint,
)
from api.actions.tasks import NoAction, find_task, lock_transfer
from api.auth.owner import owner, owner_only
from api.deps import deps, require_accounts, snapshot
from api.parsing import read_body
from api.transfers.access import OwnedTransferId, access_transfer
from api.transfers.responses import load_transfer_response
from api.transfers.schema import Transfer
from indexer.actions.stellar_check import master_key_rules

actions = Blueprint("actions", __name__)
actions.before_request(owner_only)


@actions.get("/v1/transfers/<transfer>/actions")
def show_action(transfer: str) -> schema.Actions:
    """The owner's next action; it is stored before it is shown."""
    network = deps().network
    with snapshot() as conn:
        owned = access_transfer(conn, owner(), transfer)
        task = find_task(conn, network, owned)
    found = task if isinstance(task, NoAction) else build_action(task)
    if not isinstance(found, NoAction):
        with deps().engine.begin() as conn:
            lock_transfer(conn, owned)
            # The kind of a transfer's task never changes, only whether there still is one.
            current = find_task(conn, network, owned)
            if isinstance(current, NoAction):
                found = current
            elif store_action(conn, owned, found.action, found.tx):
                return {"action": found.action, "reason": None, "needs_trustline": found.needs}
            else:
                found = NoAction("waiting")
    return {"action": None, "reason": found.reason, "needs_trustline": found.needs}


@actions.post("/v1/transfers/<transfer>/submissions")
def submit(transfer: str) -> Transfer:
    """Verify the transaction that was sent for an action, and store it."""
    network, body = deps().network, read_body(NewSubmission)
    with snapshot() as conn:
        owned = access_transfer(conn, owner(), transfer)
        target = find_deposit_target(conn, owned)
    if body.kind == "evm_tx" and target is not None:
        mined = require_evm().mined(target.chain, read_hash(body))
        verify_deposit_hint(network, target, mined)
        with snapshot() as conn:
            return load_transfer_response(conn, network, owned)
    accept = _accept_evm_tx if body.kind == "evm_tx" else _accept_stellar_tx
    accepted = accept(owned, body)
    with deps().engine.begin() as conn:
        store_submission(conn, network, owned, accepted)
        return load_transfer_response(conn, network, owned)


def _accept_evm_tx(transfer: OwnedTransferId, body: NewSubmission) -> AcceptedSubmission:
    tx = read_hash(body)
    with snapshot() as conn:
        expected = expected_evm_tx(conn, transfer)
        require_not_submitted(conn, transfer, tx)
    return match_evm_tx(deps().network, expected, tx, require_evm().mined(expected.chain, tx))


def _accept_stellar_tx(transfer: OwnedTransferId, body: NewSubmission) -> AcceptedSubmission:
    signed, network = read_signed_xdr(body), deps().network
    with snapshot() as conn:
        expected = expected_stellar_txs(conn, network, transfer)
    rules = require_accounts().signing_rules(owner()) or master_key_rules(owner())
    return match_stellar_tx(network, expected, rules, signed, deps().clock())
