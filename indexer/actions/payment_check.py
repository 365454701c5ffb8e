"""Whether a payment on Stellar would succeed, by both trustlines. Pure.

The service pays the fees: the payer needs no XLM. Source: stellar-core, PaymentOpFrame
(SRC_NO_TRUST, SRC_NOT_AUTHORIZED, UNDERFUNDED, NO_TRUST, NOT_AUTHORIZED, LINE_FULL).
"""

from indexer.chains.stellar.xdr.ledger_entries import Trustline
from warehouse_schema.identifiers import BaseUnits


def payer_problem(line: Trustline | None, amount: BaseUnits) -> str | None:
    """Why the trustline's holder cannot pay an amount (stroops); None if it can."""
    if line is None:
        return "the payer has no trustline for the asset"
    if not line.is_authorized:
        return "the issuer has not authorized the payer's trustline"
    if line.spendable < amount:
        return f"the payer can spend {line.spendable} stroops of the asset, {amount} are needed"
    return None


def recipient_problem(line: Trustline | None, amount: BaseUnits) -> str | None:
    """Why the trustline's holder cannot receive an amount (stroops); None if it can."""
    if line is None:
        return "the recipient has no trustline for the asset"
    if not line.is_authorized:
        return "the issuer has not authorized the recipient's trustline"
    if line.room < amount:
        return f"the recipient's trustline has room for {line.room} stroops, {amount} are needed"
    return None
