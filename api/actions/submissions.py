"""What owners submit: read strictly, held against what they were shown, kept once."""

import re
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, func, insert, select

from api.actions.rules import decide, issued_orders
from api.errors import BadRequest, Conflict, Unacceptable
from api.parsing import Strict
from indexer.actions.evm_calls import Order
from indexer.actions.evm_check import Match, Mined, Mismatch, check
from indexer.networks import Network
from warehouse_schema.identifiers import ChainId, EvmAddress, TxHash, is_evm
from warehouse_schema.intake import CHANNEL, quotes, submissions, transfers

_HASH = re.compile(r"0x[0-9a-fA-F]{64}")


_UNASKED = {
    "evm_tx": "no evm_tx was asked for: see the transfer's actions",
    "stellar_tx": "a Stellar transaction is sent to the network by its owner, and found there",
}


class NewSubmission(Strict):
    """The body of `POST /v1/transfers/{id}/submissions`."""

    kind: Literal["evm_tx", "stellar_tx"]
    hash: str | None = None
    signed_xdr: str | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What a transfer's EVM transaction has to be."""

    chain: ChainId
    payer: EvmAddress
    orders: tuple[Order, ...]
    """Each of them will do."""


def read_hash(asked: NewSubmission) -> TxHash:
    """The hash of an `evm_tx`. Raises `BadRequest`."""
    if asked.signed_xdr is not None:
        raise BadRequest("signed_xdr is for stellar_tx: leave it out", code="BAD_SUBMISSION")
    if asked.hash is None or not _HASH.fullmatch(asked.hash):
        raise BadRequest("hash must be 0x and 64 hex digits", code="BAD_SUBMISSION")
    return TxHash(asked.hash.lower())


def expected(conn: Connection, transfer: str, asked: NewSubmission) -> Expected:
    """What was shown to the owner. Raises `Unacceptable` when that was no EVM call."""
    query = (
        select(quotes.c.source_chain, quotes.c.source_address)
        .join_from(transfers, quotes)
        .where(transfers.c.id == transfer)
    )
    row = conn.execute(query).one()
    orders = issued_orders(conn, transfer)
    if asked.kind != "evm_tx" or not is_evm(row.source_chain) or not orders:
        raise _mismatch(Mismatch(("kind",), _UNASKED[asked.kind]))
    return Expected(row.source_chain, row.source_address, tuple(orders))


def refuse_known(conn: Connection, transfer: str, tx: TxHash) -> None:
    """Raises `Conflict` for what the transfer has already: no node need be asked."""
    columns = submissions.c
    query = select(columns.log).where(columns.transfer == transfer, columns.tx_hash == tx)
    if conn.execute(query).first() is not None:
        raise _duplicate(tx)


def find(network: Network, wanted: Expected, tx: TxHash, mined: Mined | None) -> Match:
    """The logs that are what was asked for. Raises `Unacceptable`."""
    if mined is None:
        raise Unacceptable(
            f"{tx} is not mined on {wanted.chain}, as far as enough nodes know: send it again",
            code="NOT_MINED",
        )
    verdict = check(network, wanted.payer, wanted.orders, mined)
    match verdict:
        case Match():
            return verdict
        case Mismatch():
            raise _mismatch(verdict)


def keep(conn: Connection, transfer: str, tx: TxHash, match: Match) -> None:
    """Make the transaction the transfer's. Raises `Conflict` when all that matches is taken.

    Under the lock under which a transfer is cancelled: whoever comes second sees the first.
    """
    decide(conn, transfer)
    refuse_known(conn, transfer, tx)
    taken = set(conn.scalars(select(submissions.c.log).where(submissions.c.tx_hash == tx)))
    free = [log for log in match.logs if log not in taken]
    if not free:
        raise _duplicate(tx)
    row = {"transfer": transfer, "tx_hash": tx, "log": free[0], "kind": "evm_tx"}
    conn.execute(insert(submissions).values(row))
    conn.execute(select(func.pg_notify(CHANNEL, transfer)))


def _duplicate(tx: TxHash) -> Conflict:
    return Conflict(f"{tx} was submitted before", code="DUPLICATE_SUBMISSION")


def _mismatch(found: Mismatch) -> Unacceptable:
    return Unacceptable(found.message, code="SUBMISSION_MISMATCH", fields=list(found.fields))
