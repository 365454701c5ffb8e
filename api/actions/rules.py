"""What an owner can do now, and the rows of what he was shown to do.

Whatever is shown is kept first (`intake.actions`), and what comes in is held against all of it: a
call that was shown once has no deadline.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from sqlalchemy import Connection, func, insert, select

from api.actions import schema
from api.actions.onboarding import sponsored
from api.transfers.access import OwnedTransferId
from api.trustlines import NeededTrustline
from indexer.actions.agreed import Agreement
from indexer.actions.evm_calls import EvmOrder, UnsignedCall, parse_order
from indexer.actions.stellar_issues import Issue, parse_issue
from indexer.actions.stellar_tx import IssuedTransaction
from indexer.config.networks import Network
from indexer.movements.fold import STELLAR_PER_SHARED
from indexer.policy.sponsorship import SponsorshipRequest, payers_of
from indexer.transfers import state_machine
from indexer.transfers.fold import TransferState
from indexer.transfers.inputs import TransferTerms
from indexer.transfers.read import read_transfers
from indexer.transfers.store import lock_transfers, with_interchangeable
from warehouse_schema.facts import cursors
from warehouse_schema.identifiers import (
    AssetId,
    BaseUnits,
    EvmAddress,
    Height,
    StellarAddress,
    TxHash,
    UnixSeconds,
    is_evm,
)
from warehouse_schema.intake import actions, quotes, transfers

ROOM_SECONDS = 30
"""Before a transfer expires: nobody signs and sends in less."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is nothing to do now, and why."""

    reason: schema.Idle
    needs: NeededTrustline | None = None


@dataclass(frozen=True, slots=True)
class Recipient:
    """The owner of a deposit, who is paid on Stellar."""

    transfer: OwnedTransferId
    newcomer: SponsorshipRequest
    """As one who has no trustline yet."""
    amount: BaseUnits
    """Least that is to be paid, stroops."""


@dataclass(frozen=True, slots=True)
class DepositTask:
    """A deposit that its owner has to sign for, or to pay to its address."""

    agreed: Agreement
    source_asset: AssetId
    dest_asset: AssetId
    held: BaseUnits
    """What its address holds of the amount already, source chain base units."""
    recipient: Recipient | None
    """None where somebody else than the owner is paid."""


@dataclass(frozen=True, slots=True)
class FromStellar:
    """A payment, burn or send that its owner has to sign on Stellar."""

    agreed: Agreement
    source_asset: AssetId
    dest_asset: AssetId
    ingested: Height
    """Of Stellar: what is later may have moved the money already."""
    issued: tuple[Issue, ...]


Task: TypeAlias = DepositTask | FromStellar | Recipient
DueAction: TypeAlias = Task | Nothing


def due(conn: Connection, network: Network, transfer: OwnedTransferId) -> DueAction:
    """What the owner of a transfer that is there has to do, as far as the warehouse knows."""
    [reading] = read_transfers(conn, network, [transfer])
    progress, terms = reading.state, reading.terms
    stage = progress.stage
    if stage == "AWAITING_TRUSTLINE":
        task = _task(conn, network, transfer, terms, progress)
        recipient = task.recipient if isinstance(task, DepositTask) else None
        return recipient or Nothing("no_trustline")
    if stage not in ("AWAITING_SIGNATURE", "AWAITING_FUNDS"):
        return Nothing("over" if state_machine.is_terminal(stage) else "waiting")
    if reading.loaded.unproven:
        # What it waits for may be in that block: it is not to be paid twice.
        return Nothing("waiting")
    if _has_run_out(conn, transfer):
        return Nothing("expired")
    return _task(conn, network, transfer, terms, progress)


def _has_run_out(conn: Connection, transfer: OwnedTransferId) -> bool:
    """The indexer says so too, once it has read the source chain beyond that time."""
    soon = func.clock_timestamp() + timedelta(seconds=ROOM_SECONDS)
    query = select(transfers.c.expires_at <= soon)
    return bool(conn.scalar(query.where(transfers.c.id == transfer)))


def _task(
    conn: Connection,
    network: Network,
    transfer: OwnedTransferId,
    terms: TransferTerms,
    progress: TransferState,
) -> DepositTask | FromStellar:
    columns = (quotes.c.amount_out, quotes.c.finality_threshold, quotes.c.native_fee)
    assets = (quotes.c.source_asset, quotes.c.dest_asset)
    query = select(*columns, *assets).join_from(transfers, quotes)
    row = conn.execute(query.where(transfers.c.id == terms.id)).one()
    agreed = Agreement(terms, row.amount_out, row.finality_threshold, row.native_fee)
    if is_evm(terms.source_chain):
        held = BaseUnits(0) if progress.refund is None else progress.refund.lines[0].held
        recipient = _recipient(conn, transfer, agreed, row.dest_asset)
        return DepositTask(agreed, row.source_asset, row.dest_asset, held, recipient)
    height = select(cursors.c.height).where(cursors.c.chain == terms.source_chain)
    issued = issued_on_stellar(conn, network, transfer)
    ingested = Height(conn.scalar(height) or 0)
    return FromStellar(agreed, row.source_asset, row.dest_asset, ingested, issued)


def _recipient(
    conn: Connection, transfer: OwnedTransferId, agreed: Agreement, asset: AssetId
) -> Recipient | None:
    terms = agreed.terms
    if StellarAddress(terms.dest_address) != terms.owner:
        return None
    paid = BaseUnits(terms.amount_in * STELLAR_PER_SHARED)
    payer = payers_of(conn, [terms.id])[terms.id]
    return Recipient(
        transfer, SponsorshipRequest(terms.owner, asset, paid, payer), agreed.amount_out
    )


def issued_on_stellar(
    conn: Connection, network: Network, transfer: OwnedTransferId
) -> tuple[Issue, ...]:
    """The Stellar transactions that were shown for a transfer, the oldest first."""
    passphrase = network.stellar.passphrase
    shown = _issued(conn, transfer, "stellar_tx")
    return tuple(parse_issue(passphrase, each["xdr"]) for each in shown)


def decide(conn: Connection, transfer: OwnedTransferId) -> None:
    """Take the right to decide about a transfer, until commit."""
    lock_transfers(conn, with_interchangeable(conn, [transfer]))


def issue(
    conn: Connection,
    network: Network,
    transfer: OwnedTransferId,
    action: schema.Action,
    tx: TxHash | None = None,
) -> Nothing | None:
    """Keep an action that is about to be shown; or why there is none any more.

    One that was shown before is kept already. `tx`: of a Stellar transaction.
    """
    decide(conn, transfer)
    now = due(conn, network, transfer)
    # What a transfer needs never changes, only whether it still does.
    if isinstance(now, Nothing):
        return now
    if tx is not None and _is_anothers(conn, transfer, tx):
        return Nothing("waiting")
    rows = conn.scalars(select(actions.c.issued).where(actions.c.transfer == transfer)).all()
    if action not in rows:
        row = {"number": len(rows) + 1, "kind": action["kind"], "tx_hash": tx, "issued": action}
        conn.execute(insert(actions).values(transfer=transfer, **row))
    return None


def _is_anothers(conn: Connection, transfer: OwnedTransferId, tx: TxHash) -> bool:
    """Whether it was issued for a twin, of the same second: sent once, it can pay but one of them.

    Twins share their sends and with them their lock (`decide`).
    """
    query = select(actions.c.transfer).where(actions.c.tx_hash == tx)
    return conn.scalar(query.where(actions.c.transfer != transfer)) is not None


def onboard(
    conn: Connection, network: Network, recipient: Recipient, now: UnixSeconds, *, is_new: bool
) -> IssuedTransaction | Nothing:
    """What a recipient is to sign for a trustline, or why there is nothing."""
    decide(conn, recipient.transfer)
    still = due(conn, network, recipient.transfer)
    if isinstance(still, Nothing):
        return still
    found = sponsored(
        conn,
        network.stellar,
        recipient.transfer,
        recipient.newcomer,
        now,
        creates_account=is_new,
    )
    return found if isinstance(found, IssuedTransaction) else Nothing(found)


def issued_orders(conn: Connection, transfer: OwnedTransferId) -> list[EvmOrder]:
    """What the calls that were shown for a transfer order, each once."""
    shown = _issued(conn, transfer, "evm_calls")
    return list(dict.fromkeys(_order(each["calls"]) for each in shown))


def _issued(conn: Connection, transfer: OwnedTransferId, kind: str) -> list[dict[str, Any]]:
    query = (
        select(actions.c.issued)
        .where(actions.c.transfer == transfer, actions.c.kind == kind)
        .order_by(actions.c.number)
    )
    return list(conn.scalars(query))


def _order(calls: Sequence[Any]) -> EvmOrder:
    """The last call is the one that moves the money."""
    last = calls[-1]
    data = bytes.fromhex(last["data"].removeprefix("0x"))
    return parse_order(UnsignedCall(EvmAddress(last["to"]), data, BaseUnits(int(last["value"]))))
