"""Compares submitted transactions with the issued actions."""

from api.actions.issued import issued_evm_orders, issued_onboardings, issued_stellar_txs
from api.actions.store import AcceptedSubmission, mismatch, require_not_submitted
from api.deps import deps, require_accounts, require_evm, snapshot
from api.errors import Unprocessable
from api.transfers.access import OwnedTransferId
from indexer.actions.agreed import Mismatch
from indexer.actions.evm_check import Match, check_order, check_payment
from indexer.actions.stellar_check import check_signed, master_key_rules
from indexer.transfers.inputs import TransferTerms
from warehouse_schema.identifiers import ChainId, EvmAddress, TxHash, is_evm


def check_deposit_hint(chain: ChainId, address: EvmAddress, tx: TxHash) -> None:
    """Raises `Unprocessable` for a mined transaction that pays nothing to the deposit address.

    Hints are not stored: the follower finds payments by their logs. A transaction that is not mined
    yet may be a valid payment.
    """
    mined = require_evm().mined(chain, tx)
    found = None if mined is None else check_payment(deps().network, address, mined)
    if found is not None:
        raise mismatch(found.message, *found.fields)


def accept_evm_tx(
    transfer: OwnedTransferId, terms: TransferTerms, tx: TxHash
) -> AcceptedSubmission:
    """The logs of a mined transaction that match an issued call of the payer.

    Raises `Unprocessable`, `Conflict`, `ChainUnavailable`.
    """
    with snapshot() as conn:
        orders = issued_evm_orders(conn, transfer)
        if not is_evm(terms.source_chain) or not orders:
            raise mismatch("no evm_tx was asked for: see the transfer's actions", "kind")
        require_not_submitted(conn, transfer, tx)
    mined = require_evm().mined(terms.source_chain, tx)
    if mined is None:
        raise Unprocessable(
            f"{tx} is not mined on {terms.source_chain}, as far as enough nodes know: send it "
            "again",
            code="NOT_MINED",
        )
    verdict = check_order(deps().network, EvmAddress(terms.source_address), orders, mined)
    match verdict:
        case Match():
            return AcceptedSubmission(tx, verdict.logs)
        case Mismatch():
            raise mismatch(verdict.message, *verdict.fields)


def accept_stellar_tx(
    transfer: OwnedTransferId, terms: TransferTerms, signed_xdr: str
) -> AcceptedSubmission:
    """The issued transaction that the owner signed. Raises `Unprocessable`, `Unavailable`."""
    network, owner = deps().network, terms.owner
    with snapshot() as conn:
        own = [each.issued for each in issued_stellar_txs(conn, network, transfer)]
        sponsored = issued_onboardings(conn, network.stellar, transfer)
    issued = [*own, *sponsored]
    if not issued:
        raise mismatch("no stellar_tx was asked for: see the transfer's actions", "kind")
    rules = require_accounts().signing_rules(owner) or master_key_rules(owner)
    now = deps().clock()
    verdict = check_signed(network.stellar.passphrase, issued, rules, signed_xdr, now)
    if isinstance(verdict, Mismatch):
        raise mismatch(verdict.message, *verdict.fields)
    opens_trustline = any(each.tx == verdict.tx for each in sponsored)
    return AcceptedSubmission(verdict.tx, (0,), verdict.envelope, opens_trustline)
