"""Builds the action of a task from the current state of the chains."""

from dataclasses import dataclass, replace

from api.actions import schema
from api.actions.onboarding import next_onboarding
from api.actions.responses import (
    deposit_address_response,
    evm_calls_response,
    stellar_tx_response,
    trustline_response,
)
from api.actions.tasks import DepositTask, NoAction, Recipient, StellarTask, Task
from api.deps import deps, require_accounts, require_evm
from api.errors import Unavailable
from api.trustlines import (
    NeededTrustline,
    creates_account,
    describe_trustline,
    needed_trustline,
)
from indexer.actions.evm_calls import evm_calls, evm_order
from indexer.actions.payment_check import payer_problem
from indexer.actions.stellar_orders import stellar_order
from indexer.errors import CallReverted
from indexer.movements.fold import STELLAR_PER_SHARED
from warehouse_schema.identifiers import EvmAddress, StellarAddress, TxHash, is_evm


@dataclass(frozen=True, slots=True)
class BuiltAction:
    """An action that is not issued yet; `tx`: hash of a Stellar transaction."""

    action: schema.Action
    tx: TxHash | None = None
    needs: NeededTrustline | None = None


def build_action(task: Task) -> BuiltAction | NoAction:
    """Raises `Unavailable` for a chain that cannot be read."""
    match task:
        case Recipient():
            return _build_trustline(task)
        case DepositTask():
            return _build_deposit(task)
        case StellarTask():
            return _recipient_obstacle(task) or _build_stellar_tx(task)


def _build_trustline(task: Recipient) -> BuiltAction | NoAction:
    """For a paid deposit; the ledger may have a trustline that the indexer has not seen yet."""
    sponsorship, network = task.sponsorship, deps().network
    line = require_accounts().trustline(sponsorship.owner, sponsorship.asset)
    if line is not None and not line.is_authorized:
        return NoAction("not_authorized")
    if line is not None:
        return NoAction("waiting" if line.room >= task.amount else "no_room")
    is_new = creates_account(sponsorship)
    with deps().engine.begin() as conn:
        found = next_onboarding(conn, network, task, deps().clock(), is_new=is_new)
        needs = describe_trustline(conn, network.stellar, sponsorship, is_new=is_new)
    if isinstance(found, NoAction):
        return replace(found, needs=needs if found.reason == "no_trustline" else None)
    return BuiltAction(trustline_response(network, sponsorship.asset, found), found.tx, needs)


def _build_deposit(task: DepositTask) -> BuiltAction | NoAction:
    """The owner may pay before the trustline is open: the delivery waits for it."""
    obstacle = _recipient_obstacle(task)
    if obstacle is None:
        return BuiltAction(_deposit_payment(task))
    if obstacle.reason != "no_trustline" or task.recipient is None:
        return obstacle
    needs = needed_trustline(task.recipient.sponsorship)
    return BuiltAction(_deposit_payment(task), needs=needs)


def _recipient_obstacle(task: DepositTask | StellarTask) -> NoAction | None:
    """Why the recipient cannot be paid now: a burn cannot be undone."""
    agreed, stellar = task.agreed, deps().stellar
    is_cctp = agreed.mechanism == "cctp"
    if is_evm(agreed.dest_chain):
        if not is_cctp:
            return None
        refusal = require_evm().mint_refusal(agreed.dest_chain, EvmAddress(agreed.dest_address))
        if refusal is None:
            return None
        return NoAction("recipient_refused" if refusal.kind == "frozen" else "paused")
    # A process that reads no Stellar node does not know of a pause.
    if is_cctp and stellar is not None and stellar.cctp_pause() is not None:
        return NoAction("paused")
    line = require_accounts().trustline(StellarAddress(agreed.dest_address), agreed.dest_asset)
    if line is None:
        return NoAction("no_trustline")
    if not line.is_authorized:
        return NoAction("not_authorized")
    # Without fees, which may turn out lower than quoted.
    max_amount = agreed.amount_in * (STELLAR_PER_SHARED if is_evm(agreed.source_chain) else 1)
    return None if line.room >= max_amount else NoAction("no_room")


def _build_stellar_tx(task: StellarTask) -> BuiltAction | NoAction:
    source = deps().stellar
    if source is None:
        raise Unavailable("this process asks no ledger", code="LEDGER_UNAVAILABLE")
    agreed, network = task.agreed, deps().network
    # An approval succeeds without the money, and its fee would be wasted.
    if payer_problem(
        require_accounts().trustline(agreed.owner, agreed.source_asset), agreed.amount_in
    ):
        return NoAction("would_fail")
    order = stellar_order(network, agreed)
    try:
        tx = source.following(order, agreed.owner, agreed.expires_at, task.ingested, task.issued)
    except CallReverted:
        return NoAction("would_fail")
    if tx is None:
        return NoAction("waiting")
    return BuiltAction(stellar_tx_response(network, tx), tx.tx)


def _deposit_payment(task: DepositTask) -> schema.Action:
    agreed, network = task.agreed, deps().network
    if agreed.deposit_address is not None:
        return deposit_address_response(agreed, agreed.deposit_address, task.held)
    order = evm_order(network, agreed)
    token, payer = EvmAddress(agreed.source_token), EvmAddress(agreed.source_address)
    allowance = require_evm().allowance(agreed.source_chain, order, token, payer)
    calls = evm_calls(network, agreed, allowance)
    return evm_calls_response(network, agreed.source_chain, calls)
