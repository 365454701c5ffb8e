"""`/v1/transfers/{id}/actions` and `/submissions`: what its owner can do, and what he did."""

from flask import Blueprint
from sqlalchemy import Connection

from api.actions import schema
from api.actions.evm_source import EvmSource
from api.actions.rules import Deposit, Due, Nothing, due, issue
from api.actions.shapes import shape_address, shape_calls
from api.actions.submissions import NewSubmission, expected, find, keep, read_hash, refuse_known
from api.auth.owner import owner, owner_only
from api.deps import deps, snapshot
from api.errors import ChainUnavailable, Unavailable
from api.parsing import read_body
from api.transfers.access import access_transfer
from api.transfers.progress import known
from api.transfers.schema import Transfer
from api.transfers.shapes import shape_transfer
from indexer.actions.evm_calls import EvmCalls, evm_calls, order_of
from indexer.projections.transfers import STELLAR_PER_SHARED
from warehouse_schema.identifiers import EvmAddress, StellarAddress

actions = Blueprint("actions", __name__)
actions.before_request(owner_only)


@actions.get("/v1/transfers/<transfer>/actions")
def show_action(transfer: str) -> schema.Actions:
    """What the owner can do now; it is kept before it is shown."""
    with snapshot() as conn:
        mine = access_transfer(conn, owner(), transfer)
        found = due(conn, deps().network, mine)
    if isinstance(found, Deposit):
        found = _receivable(found)
    if isinstance(found, Nothing):
        return _nothing(found)
    action = _action(found)
    with deps().engine.begin() as conn:
        now = issue(conn, deps().network, mine, found, action)
    # What was found has not changed, or there is nothing to do any more.
    return _nothing(now) if isinstance(now, Nothing) else {"action": action, "reason": None}


@actions.post("/v1/transfers/<transfer>/submissions")
def submit(transfer: str) -> Transfer:
    """Name the transaction that was sent for an action. It is verified, or refused."""
    asked, network = read_body(NewSubmission), deps().network
    with snapshot() as conn:
        mine = access_transfer(conn, owner(), transfer)
        wanted = expected(conn, mine, asked)
        tx = read_hash(asked)
        refuse_known(conn, mine, tx)
    match = find(network, wanted, tx, _evm().mined(wanted.chain, tx))
    with deps().engine.begin() as conn:
        keep(conn, mine, tx, match)
        return _shown(conn, mine)


def _shown(conn: Connection, transfer: str) -> Transfer:
    [found] = known(conn, deps().network, [transfer])
    return shape_transfer(deps().network, found)


def _nothing(found: Nothing) -> schema.Actions:
    return {"action": None, "reason": found.reason}


def _receivable(found: Deposit) -> Due:
    """Nothing is paid to where it could not arrive."""
    accounts = deps().accounts
    if accounts is None:
        raise Unavailable("this process reads no accounts", code="LEDGER_UNAVAILABLE")
    terms = found.agreed.terms
    line = accounts.trustline(StellarAddress(terms.dest_address), found.dest_asset)
    if line is None:
        return Nothing("no_trustline")
    if not line.is_authorized:
        return Nothing("not_authorized")
    # All of it: fees may turn out lower than was promised.
    return found if line.room >= terms.amount_in * STELLAR_PER_SHARED else Nothing("no_room")


def _action(found: Deposit) -> schema.Action:
    if found.agreed.terms.deposit_address is not None:
        return shape_address(found.agreed.terms, found.source_asset)
    return shape_calls(deps().network, _calls(found))


def _calls(found: Deposit) -> EvmCalls:
    terms, network = found.agreed.terms, deps().network
    order = order_of(network, found.agreed)
    token, payer = EvmAddress(terms.source_token), EvmAddress(terms.source_address)
    allowance = _evm().allowance(terms.source_chain, order, token, payer)
    return evm_calls(network, found.agreed, allowance)


def _evm() -> EvmSource:
    source = deps().evm
    if source is None:
        raise ChainUnavailable("this process reads no EVM chain")
    return source
