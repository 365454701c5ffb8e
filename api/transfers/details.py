"""Details of transfers: agreement and state, folded from what this transaction sees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Row, select

from api.transfers.access import OwnedTransferId
from indexer.chains.services.messages import Attestation
from indexer.config.networks import Network
from indexer.facts.messages import verified_attestations
from indexer.facts.queries import CompiledQuery, fetch_all, joined, rows_of
from indexer.transfers.fold import TransferState
from indexer.transfers.read import new_transfer_state, read_transfers
from indexer.transfers.terms import columns_of, terms_of
from warehouse_schema.identifiers import BaseUnits, ChainId
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.projections import movements, transfer_states
from warehouse_schema.queries import any_in, any_of

MAX_EXTRAS = 20
"""Attested extra movements that are shown of a transfer: anyone can create extra movements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAgreement:
    """Columns of a transfer, and of its quote, that never change."""

    id: OwnedTransferId
    quote: str
    route: str
    funding_mode: str | None
    source_chain: ChainId
    source_asset: str
    source_address: str
    dest_chain: ChainId
    dest_asset: str
    dest_address: str
    amount_in: BaseUnits
    amount_out: BaseUnits
    fee: Mapping[str, Any]
    deposit_address: str | None
    deposit_operator: str | None
    started_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class TransferDetails:
    """A transfer and its state."""

    agreed: TransferAgreement
    state: TransferState
    finish: Attestation | None
    """With which anyone may deliver it now."""
    finish_extras: tuple[tuple[str, Attestation], ...] = ()
    """Attestations of undelivered extra movements by id, the oldest first, at most `MAX_EXTRAS`."""
    changed_at: datetime | None = None
    """Last change of the state; None since its creation."""


_AGREEMENTS = CompiledQuery(
    select(*columns_of(TransferAgreement))
    .join_from(transfers, quotes)
    .where(transfers.c.id == any_in("ids")),
    lambda row: TransferAgreement(**row._asdict()),
)
_CHANGED = rows_of(
    select(transfer_states.c.transfer, transfer_states.c.changed_at).where(
        transfer_states.c.transfer == any_in("ids")
    )
)


def load_details(
    conn: Connection, network: Network, ids: Sequence[OwnedTransferId]
) -> list[TransferDetails]:
    """In the order of `ids`."""
    states = {each.terms.id: each.state for each in read_transfers(conn, network, ids)}
    wanted = {"ids": joined(ids)}
    agreed_rows, changed_rows = fetch_all(conn, [(_AGREEMENTS, wanted), (_CHANGED, wanted)])
    agreements = {each.id: each for each in agreed_rows}
    changed = {row.transfer: row.changed_at for row in changed_rows}
    extras = _attested_extras(conn, [extra for each in states.values() for extra in each.extras])
    nonces = [each.self_finish for each in states.values() if each.self_finish is not None]
    finish = verified_attestations(conn, [*nonces, *(each.message_id for each in extras)])
    details = []
    for transfer in ids:
        agreed, state = agreements[transfer], states[transfer]
        own, own_finish = {*state.extras}, None
        if state.self_finish is not None:
            own_finish = finish.get((agreed.source_chain, state.self_finish))
        finish_extras = (
            (extra.id, attested)
            for extra in extras
            if extra.id in own
            and (attested := finish.get((extra.source_chain, extra.message_id))) is not None
        )
        shown, changed_at = tuple(islice(finish_extras, MAX_EXTRAS)), changed.get(transfer)
        details.append(TransferDetails(agreed, state, own_finish, shown, changed_at))
    return details


def new_transfer_details(quote: Mapping[str, Any], transfer: Mapping[str, Any]) -> TransferDetails:
    """Of rows of a quote and of a transfer that this transaction inserts: no movement can belong to
    it yet."""
    columns = {**quote, **transfer}
    agreed = TransferAgreement(
        **{field.name: columns[field.name] for field in fields(TransferAgreement)}
    )
    return TransferDetails(agreed, new_transfer_state(terms_of(columns)), None)


def _attested_extras(conn: Connection, ids: Sequence[str]) -> Sequence[Row[Any, Any, Any]]:
    """Those of these extra movements that wait for delivery, the oldest first."""
    if not ids:
        return []
    columns = movements.c
    query = (
        select(columns.id, columns.source_chain, columns.message_id)
        .where(
            columns.id == any_of(ids),
            columns.mechanism == "cctp",
            columns.stage == "DELIVERING",
            columns.dest_tx.is_(None),
        )
        .order_by(columns.sent_at, columns.id)
    )
    return conn.execute(query).all()
