"""Where transfers are: the indexer's own fold, of what this very transaction sees."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Row, select

from api.transfers.access import OwnedTransferId
from indexer.chains.services.messages import Attestation
from indexer.config.networks import Network
from indexer.facts.messages import verified_attestations
from indexer.transfers.fold import TransferState
from indexer.transfers.read import new_transfer_state, read_transfers
from indexer.transfers.terms import load_terms
from warehouse_schema.identifiers import BaseUnits, Bytes32, ChainId
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.projections import movements, transfer_states
from warehouse_schema.queries import any_of

MAX_EXTRAS = 20
"""Attested messages of extra movements that are shown of a transfer: anybody can add movements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAgreement:
    """What a transfer and its quote say; never changes."""

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
    """A transfer, and where it is."""

    agreed: TransferAgreement
    progress: TransferState
    finish: Attestation | None
    """With which anybody may deliver it now."""
    finish_extras: tuple[tuple[str, Attestation], ...] = ()
    """The same of extra movements, by their ids: the oldest that wait, `MAX_EXTRAS` of them."""
    changed_at: datetime | None = None
    """When what is shown last changed; None since it was created."""


_AGREED = (
    transfers.c.id,
    transfers.c.quote,
    quotes.c.route,
    quotes.c.funding_mode,
    quotes.c.source_chain,
    quotes.c.source_asset,
    quotes.c.source_address,
    quotes.c.dest_chain,
    quotes.c.dest_asset,
    quotes.c.dest_address,
    quotes.c.amount_in,
    quotes.c.amount_out,
    quotes.c.fee,
    transfers.c.deposit_address,
    transfers.c.deposit_operator,
    transfers.c.started_at,
    transfers.c.expires_at,
)


def load_details(
    conn: Connection, network: Network, ids: Sequence[OwnedTransferId]
) -> list[TransferDetails]:
    """These transfers, in the order of their ids as given."""
    found = {each.terms.id: each.state for each in read_transfers(conn, network, ids)}
    agreed = _agreed(conn, ids)
    extras = _waiting_extras(conn, found.values())
    nonces = [each.self_finish for each in found.values() if each.self_finish is not None]
    finish = verified_attestations(conn, [*nonces, *(each.message_id for each in extras.values())])
    changed = _changed_at(conn, ids)
    return [_known(agreed[each], found[each], extras, finish, changed.get(each)) for each in ids]


def new_transfer_details(conn: Connection, transfer: OwnedTransferId) -> TransferDetails:
    """As `known`, of a transfer that this very transaction made: its id has been seen by nobody."""
    [terms] = load_terms(conn, [transfer])
    return TransferDetails(_agreed(conn, [transfer])[transfer], new_transfer_state(terms), None)


def _agreed(conn: Connection, ids: Sequence[str]) -> dict[str, TransferAgreement]:
    query = select(*_AGREED).join_from(transfers, quotes).where(transfers.c.id == any_of(ids))
    return {row.id: TransferAgreement(**row._mapping) for row in conn.execute(query)}


def _changed_at(conn: Connection, ids: Sequence[str]) -> dict[str, datetime | None]:
    columns = transfer_states.c
    query = select(columns.transfer, columns.changed_at).where(columns.transfer == any_of(ids))
    return {row.transfer: row.changed_at for row in conn.execute(query)}


def _waiting_extras(
    conn: Connection, found: Iterable[TransferState]
) -> dict[str, Row[Any, Any, Any]]:
    """Attested extra movements that nobody delivered so far, by their ids; the oldest first."""
    ids = [extra for each in found for extra in each.extras]
    if not ids:
        return {}
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
    return {row.id: row for row in conn.execute(query)}


def _known(
    agreed: TransferAgreement,
    progress: TransferState,
    extras: Mapping[str, Row[Any, Any, Any]],
    finish: Mapping[tuple[ChainId, Bytes32], Attestation],
    changed_at: datetime | None,
) -> TransferDetails:
    nonce, own = progress.self_finish, {*progress.extras}
    waiting = (
        (each.id, attested)
        for each in extras.values()
        if each.id in own
        and (attested := finish.get((each.source_chain, each.message_id))) is not None
    )
    return TransferDetails(
        agreed,
        progress,
        None if nonce is None else finish.get((agreed.source_chain, nonce)),
        tuple(islice(waiting, MAX_EXTRAS)),
        changed_at,
    )
