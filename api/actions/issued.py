"""Issued actions (`intake.actions`): stored before they are shown.

Submissions are compared with all of them, so that a call that was shown once has no deadline.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert, select

from api.actions import schema
from api.transfers.access import OwnedTransferId
from indexer.actions.evm_calls import EvmOrder, UnsignedCall, parse_order
from indexer.actions.stellar_tx import Issue, IssuedTransaction, parse_issue, parse_tx
from indexer.config.networks import Network, StellarChain
from warehouse_schema.identifiers import EvmAddress, TxHash, Wei
from warehouse_schema.intake import actions


def store_action(
    conn: Connection, transfer: OwnedTransferId, action: schema.Action, tx: TxHash | None
) -> bool:
    """Idempotent; `tx`: of a Stellar transaction. The caller holds the transfer's lock.

    False if the transaction was issued for another transfer with equal terms, of the same second:
    sent once, it can pay only one of them. They share one lock.
    """
    if tx is not None:
        query = select(actions.c.transfer).where(actions.c.tx_hash == tx)
        if conn.scalar(query.where(actions.c.transfer != transfer)) is not None:
            return False
    issued = conn.scalars(select(actions.c.issued).where(actions.c.transfer == transfer)).all()
    if action not in issued:
        row = {"number": len(issued) + 1, "kind": action["kind"], "tx_hash": tx, "issued": action}
        conn.execute(insert(actions).values(transfer=transfer, **row))
    return True


def issued_evm_orders(conn: Connection, transfer: OwnedTransferId) -> list[EvmOrder]:
    """Orders of the issued calls, without duplicates."""
    orders: dict[EvmOrder, None] = {}
    for action in _issued(conn, transfer, "evm_calls"):
        # The last call moves the money.
        call = action["calls"][-1]
        data = bytes.fromhex(call["data"].removeprefix("0x"))
        value = Wei(int(call["value"]))
        orders[parse_order(UnsignedCall(EvmAddress(call["to"]), data, value))] = None
    return list(orders)


def issued_stellar_txs(
    conn: Connection, network: Network, transfer: OwnedTransferId
) -> tuple[Issue, ...]:
    """Transactions of the owner's account, the oldest first."""
    passphrase = network.stellar.passphrase
    return tuple(
        parse_issue(passphrase, each["xdr"]) for each in _issued(conn, transfer, "stellar_tx")
    )


def issued_onboardings(
    conn: Connection, chain: StellarChain, transfer: OwnedTransferId
) -> tuple[IssuedTransaction, ...]:
    """Transactions of sponsors, the oldest first."""
    shown = _issued(conn, transfer, "stellar_trustline")
    return tuple(parse_tx(chain.passphrase, each["xdr"]) for each in shown)


def _issued(conn: Connection, transfer: OwnedTransferId, kind: str) -> Sequence[dict[str, Any]]:
    query = (
        select(actions.c.issued)
        .where(actions.c.transfer == transfer, actions.c.kind == kind)
        .order_by(actions.c.number)
    )
    return conn.scalars(query).all()
