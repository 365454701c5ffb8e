"""Tasks of owners: the next step of a transfer that its owner has to take."""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from sqlalchemy import Connection, func, select

from api.actions import schema
from api.actions.issued import issued_stellar_txs
from api.transfers.access import OwnedTransferId
from api.trustlines import NeededTrustline
from indexer.actions.agreed import Agreement
from indexer.actions.stellar_tx import Issue
from indexer.config.networks import Network
from indexer.movements.fold import STELLAR_PER_SHARED
from indexer.policy.sponsorship import SponsorshipRequest, payers_of
from indexer.transfers import state_machine
from indexer.transfers.fold import TransferState
from indexer.transfers.read import read_transfers
from indexer.transfers.terms import terms_columns
from warehouse_schema.facts import cursors
from warehouse_schema.identifiers import BaseUnits, Height, StellarAddress, is_evm
from warehouse_schema.intake import quotes, transfers

MIN_SECONDS_LEFT = 30
"""Until a transfer expires: signing and sending take longer than that."""


@dataclass(frozen=True, slots=True)
class NoAction:
    """There is nothing to do now, and why."""

    reason: schema.Idle
    needs: NeededTrustline | None = None


@dataclass(frozen=True, slots=True)
class Recipient:
    """The owner of a deposit, as its recipient on Stellar."""

    transfer: OwnedTransferId
    sponsorship: SponsorshipRequest
    """Terms of a sponsored trustline."""
    amount: BaseUnits
    """Minimum that is delivered, stroops."""


@dataclass(frozen=True, slots=True)
class DepositTask:
    """Sign a deposit on its source chain, or pay to its deposit address."""

    agreed: Agreement
    held: BaseUnits
    """Part of the amount that the deposit address holds already, source chain base units."""
    recipient: Recipient | None
    """None if the recipient is not the owner."""


@dataclass(frozen=True, slots=True)
class StellarTask:
    """Sign a payment, burn or send on Stellar."""

    agreed: Agreement
    ingested: Height
    """Of Stellar: a later ledger may contain the transaction already."""
    issued: tuple[Issue, ...]


Task: TypeAlias = DepositTask | StellarTask | Recipient


def find_task(conn: Connection, network: Network, transfer: OwnedTransferId) -> Task | NoAction:
    """The owner's task as far as the warehouse knows."""
    [reading] = read_transfers(conn, network, [transfer])
    state = reading.state
    if state.stage == "AWAITING_TRUSTLINE":
        task = _transfer_task(conn, network, transfer, state)
        recipient = task.recipient if isinstance(task, DepositTask) else None
        return recipient or NoAction("no_trustline")
    if state.stage not in ("AWAITING_SIGNATURE", "AWAITING_FUNDS"):
        return NoAction("over" if state_machine.is_terminal(state.stage) else "waiting")
    if reading.loaded.unproven:
        # The unproven block may contain the payment: it must not be paid twice.
        return NoAction("waiting")
    # The indexer expires the transfer only once it has read the source chain up to that time.
    soon = func.clock_timestamp() + timedelta(seconds=MIN_SECONDS_LEFT)
    if conn.scalar(select(transfers.c.expires_at <= soon).where(transfers.c.id == transfer)):
        return NoAction("expired")
    return _transfer_task(conn, network, transfer, state)


def _transfer_task(
    conn: Connection, network: Network, transfer: OwnedTransferId, state: TransferState
) -> DepositTask | StellarTask:
    query = select(*terms_columns(Agreement)).join_from(transfers, quotes)
    agreed = Agreement(**conn.execute(query.where(transfers.c.id == transfer)).one()._mapping)
    if not is_evm(agreed.source_chain):
        height = select(cursors.c.height).where(cursors.c.chain == agreed.source_chain)
        ingested = Height(conn.scalar(height) or 0)
        return StellarTask(agreed, ingested, issued_stellar_txs(conn, network, transfer))
    held = BaseUnits(0) if state.refund is None else state.refund.lines[0].held
    recipient = None
    if StellarAddress(agreed.dest_address) == agreed.owner:
        paid = BaseUnits(agreed.amount_in * STELLAR_PER_SHARED)
        payer = payers_of(conn, [transfer])[transfer]
        sponsorship = SponsorshipRequest(agreed.owner, agreed.dest_asset, paid, payer)
        recipient = Recipient(transfer, sponsorship, agreed.amount_out)
    return DepositTask(agreed, held, recipient)
