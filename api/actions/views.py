"""`/v1/transfers/{id}/actions` and `/submissions`: what its owner can do, and what he did."""

from dataclasses import dataclass, replace

from flask import Blueprint
from sqlalchemy import Connection

from api.actions import schema
from api.actions.responses import (
    shape_address,
    shape_calls,
    shape_transaction,
    shape_trustline,
)
from api.actions.rules import (
    DepositTask,
    FromStellar,
    Nothing,
    Recipient,
    Task,
    due,
    issue,
    onboard,
)
from api.actions.submissions import (
    AcceptedSubmission,
    NewSubmission,
    check_hint,
    deposit_address,
    expected,
    expected_on_stellar,
    find,
    find_signed,
    keep,
    read_hash,
    read_signed,
    refuse_known,
)
from api.auth.owner import owner, owner_only
from api.deps import deps, require_accounts, snapshot
from api.errors import ChainUnavailable, Unavailable
from api.parsing import read_body
from api.ports import EvmSource
from api.transfers.access import OwnedTransferId, access_transfer
from api.transfers.details import load_details
from api.transfers.responses import transfer_response
from api.transfers.schema import Transfer
from api.trustlines import NeededTrustline, creates_account, needed_trustline
from indexer.actions.evm_calls import UnsignedCalls, evm_calls, evm_order
from indexer.actions.payment_check import payer_problem
from indexer.actions.stellar_check import master_key_rules
from indexer.actions.stellar_orders import stellar_order
from indexer.errors import CallReverted
from indexer.movements.fold import STELLAR_PER_SHARED
from indexer.transfers.inputs import TransferTerms
from warehouse_schema.identifiers import EvmAddress, StellarAddress, TxHash, is_evm

actions = Blueprint("actions", __name__)
actions.before_request(owner_only)


@actions.get("/v1/transfers/<transfer>/actions")
def show_action(transfer: str) -> schema.Actions:
    """What the owner can do now; it is kept before it is shown."""
    with snapshot() as conn:
        mine = access_transfer(conn, owner(), transfer)
        found = due(conn, deps().network, mine)
    made = found if isinstance(found, Nothing) else _made(found)
    if isinstance(made, Nothing):
        return _nothing(made)
    with deps().engine.begin() as conn:
        gone = issue(conn, deps().network, mine, made.action, made.tx)
    if gone is not None:
        return _nothing(gone)
    return {"action": made.action, "reason": None, "needs_trustline": made.needs}


@actions.post("/v1/transfers/<transfer>/submissions")
def submit(transfer: str) -> Transfer:
    """Name the transaction that was sent for an action. It is verified, or refused."""
    asked = read_body(NewSubmission)
    with snapshot() as conn:
        mine = access_transfer(conn, owner(), transfer)
        paid_in = deposit_address(conn, mine)
    if asked.kind == "evm_tx" and paid_in is not None:
        check_hint(deps().network, paid_in, _evm().mined(paid_in.chain, read_hash(asked)))
        with snapshot() as conn:
            return _shown(conn, mine)
    found = _named(mine, asked) if asked.kind == "evm_tx" else _signed(mine, asked)
    with deps().engine.begin() as conn:
        keep(conn, deps().network, mine, found)
        return _shown(conn, mine)


def _named(transfer: OwnedTransferId, asked: NewSubmission) -> AcceptedSubmission:
    """The EVM transaction of that hash, as it is on its chain."""
    tx = read_hash(asked)
    with snapshot() as conn:
        wanted = expected(conn, transfer)
        refuse_known(conn, transfer, tx)
    return find(deps().network, wanted, tx, _evm().mined(wanted.chain, tx))


def _signed(transfer: OwnedTransferId, asked: NewSubmission) -> AcceptedSubmission:
    """The Stellar transaction that the owner signed, for the relay to send."""
    signed, network = read_signed(asked), deps().network
    with snapshot() as conn:
        wanted = expected_on_stellar(conn, network, transfer)
    account = owner()
    rules = require_accounts().signing_rules(account) or master_key_rules(account)
    return find_signed(network, wanted, rules, signed, deps().clock())


def _shown(conn: Connection, transfer: OwnedTransferId) -> Transfer:
    [found] = load_details(conn, deps().network, [transfer])
    return transfer_response(deps().network, found)


def _nothing(found: Nothing) -> schema.Actions:
    return {"action": None, "reason": found.reason, "needs_trustline": found.needs}


@dataclass(frozen=True, slots=True)
class _Made:
    action: schema.Action
    tx: TxHash | None = None
    needs: NeededTrustline | None = None


def _made(task: Task) -> _Made | Nothing:
    """The action, by what the chains say now."""
    match task:
        case Recipient():
            return _trustline(task)
        case DepositTask():
            return _deposit(task)
        case FromStellar():
            return _obstacle(task) or _transaction(task)


def _trustline(task: Recipient) -> _Made | Nothing:
    """Of what is on its way already; the indexer may not have seen yet that nothing hinders it."""
    who, network = task.newcomer, deps().network
    line = require_accounts().trustline(who.owner, who.asset)
    if line is not None and not line.is_authorized:
        return Nothing("not_authorized")
    if line is not None:
        return Nothing("waiting" if line.room >= task.amount else "no_room")
    is_new = creates_account(who)
    with deps().engine.begin() as conn:
        found = onboard(conn, network, task, deps().clock(), is_new=is_new)
        needs = needed_trustline(conn, network.stellar, who, is_new=is_new)
    if isinstance(found, Nothing):
        return replace(found, needs=needs if found.reason == "no_trustline" else None)
    return _Made(shape_trustline(network, who.asset, found), found.tx, needs)


def _deposit(task: DepositTask) -> _Made | Nothing:
    """The payment. The owner may pay before the trustline is open: the delivery waits for it."""
    obstacle = _obstacle(task)
    if obstacle is None:
        return _Made(_payment(task))
    if obstacle.reason != "no_trustline" or task.recipient is None:
        return obstacle
    who = task.recipient.newcomer
    is_new = creates_account(who)
    with snapshot() as conn:
        needs = needed_trustline(conn, deps().network.stellar, who, is_new=is_new)
    return _Made(_payment(task), needs=needs)


def _obstacle(task: DepositTask | FromStellar) -> Nothing | None:
    """Why the recipient cannot be paid."""
    terms = task.agreed.terms
    if is_evm(terms.dest_chain):
        return _mint_obstacle(terms)
    if _is_paused(terms):
        return Nothing("paused")
    line = require_accounts().trustline(StellarAddress(terms.dest_address), task.dest_asset)
    if line is None:
        return Nothing("no_trustline")
    if not line.is_authorized:
        return Nothing("not_authorized")
    # All of it: fees may turn out lower than was promised.
    most = terms.amount_in * (STELLAR_PER_SHARED if is_evm(terms.source_chain) else 1)
    return None if line.room >= most else Nothing("no_room")


def _is_paused(terms: TransferTerms) -> bool:
    """Whether CCTP mints nothing on Stellar now. A process that asks no ledger does not know."""
    stellar = deps().stellar
    return terms.mechanism == "cctp" and stellar is not None and stellar.cctp_pause() is not None


def _mint_obstacle(terms: TransferTerms) -> Nothing | None:
    """A burn towards somebody to whom nothing is minted cannot be undone."""
    if terms.mechanism != "cctp":
        return None
    refusal = _evm().mint_refusal(terms.dest_chain, EvmAddress(terms.dest_address))
    if refusal is None:
        return None
    return Nothing("recipient_refused" if refusal.kind == "frozen" else "paused")


def _transaction(task: FromStellar) -> _Made | Nothing:
    source = deps().stellar
    if source is None:
        raise Unavailable("this process asks no ledger", code="LEDGER_UNAVAILABLE")
    terms, network = task.agreed.terms, deps().network
    # An approval succeeds without the money, and its fee would be paid in vain.
    if payer_problem(require_accounts().trustline(terms.owner, task.source_asset), terms.amount_in):
        return Nothing("would_fail")
    order = stellar_order(network, task.agreed)
    try:
        made = source.following(order, terms.owner, terms.expires_at, task.ingested, task.issued)
    except CallReverted:
        return Nothing("would_fail")
    if made is None:
        return Nothing("waiting")
    return _Made(shape_transaction(network, made), made.tx)


def _payment(found: DepositTask) -> schema.Action:
    if found.agreed.terms.deposit_address is not None:
        return shape_address(found.agreed.terms, found.source_asset, found.held)
    return shape_calls(deps().network, _calls(found))


def _calls(found: DepositTask) -> UnsignedCalls:
    terms, network = found.agreed.terms, deps().network
    order = evm_order(network, found.agreed)
    token, payer = EvmAddress(terms.source_token), EvmAddress(terms.source_address)
    allowance = _evm().allowance(terms.source_chain, order, token, payer)
    return evm_calls(network, found.agreed, allowance)


def _evm() -> EvmSource:
    source = deps().evm
    if source is None:
        raise ChainUnavailable("this process reads no EVM chain")
    return source
