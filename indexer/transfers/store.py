"""Writes the rows of `projections.transfer_states`: fold, compare, replace, announce.

Inputs come from several writers at once: followers of two chains, the api, the relay. A refold
locks the transfer's row until commit and reads under that lock, so the second of two sees what the
first wrote. It does not wait for decisions (`lock_transfers`), which the api makes too: their rows
are announced by NOTIFY and folded afterwards.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Text,
    bindparam,
    delete,
    func,
    or_,
    select,
    text,
)
from sqlalchemy.dialects import postgresql

from indexer.bridges.tokens.events import Erc20Transfer
from indexer.chains.events import Event
from indexer.config.networks import Network
from indexer.facts import proofs
from indexer.facts.alarms import raise_alarm
from indexer.facts.queries import CompiledQuery, QueryCall, fetch_all, joined, rows_of
from indexer.facts.row_locks import lock_and_fetch
from indexer.facts.rows import RowBatch
from indexer.metrics.collectors import waiting
from indexer.movements.fold import BURN_EVENTS, MovementKey, group_by_transaction, pair_burns
from indexer.movements.mechanisms import UNLABELLED_SENDS
from indexer.transfers import matching, state_machine
from indexer.transfers.affected import AffectedKeys, affected_transfers
from indexer.transfers.fold import TransferState
from indexer.transfers.inputs import TransferInputs, TransferTerms
from indexer.transfers.load import LoadedTransfer
from indexer.transfers.outbox import TransferChange, publish_changes
from indexer.transfers.read import TransferReading, new_transfer_state, read_transfers
from indexer.transfers.state_machine import Stage
from indexer.transfers.terms import INTERCHANGEABLE, load_terms
from warehouse_schema import locks
from warehouse_schema.facts import cursors, lost_sources
from warehouse_schema.identifiers import ChainId
from warehouse_schema.intake import cancellations, submissions, transfers
from warehouse_schema.projections import transfer_states
from warehouse_schema.queries import any_in, any_of
from warehouse_schema.relay import attempts, obstacles, slots

logger = logging.getLogger(__name__)

ILLEGAL = "illegal_stage"
"""Kind of alarm: a transfer's inputs need an illegal transition. Its stored stage stays."""

_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """One row of `projections.transfer_states`, field for column."""

    transfer: str
    stage: Stage
    reason: str | None
    detail: str | None
    timeline: list[dict[str, Any]]
    since: int | None
    completed_at: int | None
    external_tx: str | None
    stellar_tx: str | None
    movement: str | None
    extras: list[str]
    keys: list[str]
    amount_delivered: int | None
    self_finish: str | None
    refund: dict[str, Any] | None
    goes_back: list[str]
    source_chain: str
    source_height: int | None
    inputs: int


_FIELDS = [field.name for field in fields(StateRow)]
_COLUMNS = [transfer_states.c[name] for name in _FIELDS]
_values = attrgetter(*_FIELDS)
_STORED = CompiledQuery(
    select(*_COLUMNS).where(transfer_states.c.transfer == any_in("ids")),
    lambda row: StateRow(**row._asdict()),
)
_HAS_NO_TRANSFER = ~(
    select(transfers.c.id).where(transfers.c.id == transfer_states.c.transfer).exists()
)
_Changes = Sequence[tuple[TransferTerms, StateRow]]


def state_row(loaded: LoadedTransfer, state: TransferState) -> StateRow:
    """The row of a state."""
    refund = None
    if state.refund is not None:
        # Amounts are strings of digits, as everywhere in JSON.
        refund = {
            "lines": [
                {name: str(value) for name, value in asdict(line).items()}
                for line in state.refund.lines
            ],
            "pending_below_minimum": str(state.refund.pending_below_minimum),
            "txs": list(state.refund.txs),
        }
    open_sources = (each.source for each in loaded.inputs.matched if not each.is_final)
    return StateRow(
        transfer=loaded.inputs.terms.id,
        stage=state.stage,
        reason=state.reason,
        detail=state.detail,
        timeline=[asdict(step) for step in state.timeline],
        since=state.since,
        completed_at=state.completed_at,
        external_tx=state.external_tx,
        stellar_tx=state.stellar_tx,
        movement=state.movement,
        extras=list(state.extras),
        keys=list(loaded.keys),
        amount_delivered=state.amount_delivered,
        self_finish=state.self_finish,
        refund=refund,
        goes_back=list(state.goes_back),
        source_chain=loaded.inputs.terms.source_chain,
        source_height=min((each.height for each in open_sources if each is not None), default=None),
        inputs=loaded.input_rows,
    )


def stored_rows(conn: Connection, ids: Collection[str]) -> dict[str, StateRow]:
    """Stored rows by transfer."""
    [rows] = fetch_all(conn, [_stored_call(ids)])
    return {row.transfer: row for row in rows}


def _stored_call(ids: Collection[str]) -> QueryCall:
    return (_STORED, {"ids": joined(ids)})


# Locks.


def lock_transfers(conn: Connection, ids: Collection[str]) -> None:
    """Lock these transfers for a decision, until commit, with those that may share their sends."""
    names = func.unnest(bindparam("names", with_interchangeable(conn, ids), type_=ARRAY(Text)))
    # Distinct and sorted: every session takes them in one order, so no two wait for each other.
    keys = select(func.hashtext(names).label("key")).distinct().order_by("key").subquery()
    with waiting("lock"):
        conn.execute(select(func.pg_advisory_xact_lock(locks.TRANSFER, keys.c.key)))


def try_lock_transfers(conn: Connection, ids: Collection[str]) -> set[str]:
    """Lock those that are free, without waiting; returns their ids.

    For processes that must not wait for one transfer: the api's role can hold any of these locks.
    """
    names = select(func.unnest(bindparam("names", list(ids), type_=ARRAY(Text))).label("id"))
    wanted = names.order_by("id").subquery()
    taken = func.pg_try_advisory_xact_lock(locks.TRANSFER, func.hashtext(wanted.c.id))
    return set(conn.scalars(select(wanted.c.id).where(taken)))


def with_interchangeable(conn: Connection, ids: Collection[str]) -> list[str]:
    """These transfers and those that may share sends with them."""
    [together] = fetch_all(conn, [(INTERCHANGEABLE, {"ids": joined(ids)})])
    return sorted({*ids, *(each.id for each in together)})


# Refolding.


def refold_transfers(
    conn: Connection, network: Network, ids: Collection[str], *, rewound: bool = False
) -> int:
    """Fold these transfers and those that may share sends with them; returns the rows changed.

    `rewound`: facts may be gone, so a transfer may go back along its path.
    """
    if not ids:
        return 0
    wanted = with_interchangeable(conn, ids)
    with waiting("lock"):
        [rows] = lock_and_fetch(conn, locks.STAGE, wanted, [_stored_call(wanted)])
    stored = {row.transfer: row for row in rows}
    readings = read_transfers(conn, network, wanted)
    proofs.request_proofs(conn, {key for each in readings for key in each.loaded.unproven})
    changed: list[tuple[TransferTerms, StateRow]] = []
    for terms, row in _legal_rows(conn, readings):
        before = stored.get(row.transfer)
        if row == before:
            continue
        changed.append((terms, row))
        if before is not None and not state_machine.may_follow(
            before.stage, row.stage, rewound=rewound
        ):
            now, was = row.stage, before.stage
            logger.error(
                "illegal stage transfer=%s: %s after %s",
                *(row.transfer, now, was),
                extra={"transfer": row.transfer},
            )
            detail = f"{now} came after {was}"
            raise_alarm(conn, ChainId(row.source_chain), ILLEGAL, row.transfer, detail)
    _write(conn, changed, stored)
    return len(changed)


def refold_affected(
    conn: Connection,
    network: Network,
    events: Collection[Event],
    movements: Collection[MovementKey] = (),
    payments: AffectedKeys | None = None,
    *,
    rewound: bool = False,
) -> int:
    """Refold the transfers that these events, movements and `payments_among` others belong to."""
    ids = affected_transfers(conn, events, movements, payments)
    return refold_transfers(conn, network, ids, rewound=rewound)


def refold_final(conn: Connection, network: Network, chain: ChainId) -> int:
    """Refold the transfers whose source became final since their last fold."""
    final = select(cursors.c.final_height).where(cursors.c.chain == chain).scalar_subquery()
    query = select(transfer_states.c.transfer).where(
        transfer_states.c.source_chain == chain, transfer_states.c.source_height <= final
    )
    return refold_transfers(conn, network, set(conn.scalars(query)))


def refold_all(conn: Connection, network: Network) -> int:
    """Write every transfer's row again; returns how many. Writers of single rows wait."""
    conn.execute(text("LOCK TABLE projections.transfer_states IN EXCLUSIVE MODE"))
    written = 0
    for ids in _batches(conn):
        stored = stored_rows(conn, ids)
        rows = list(_legal_rows(conn, read_transfers(conn, network, ids)))
        _write(conn, rows, stored)
        written += len(rows)
    conn.execute(delete(transfer_states).where(_HAS_NO_TRANSFER))
    return written


class StateDifference(NamedTuple):
    """A transfer that is not stored as a refold gives it."""

    transfer: str
    what: str
    waits_for_keeper: bool = False
    """Rows of clients or the relay came after its last fold, as in `is_behind`."""

    def __str__(self) -> str:
        return f"transfer {self.transfer}: {self.what}"


def state_differences(
    conn: Connection, network: Network, among: Collection[str] | None = None
) -> list[StateDifference]:
    """Stored rows that differ from a refold: all, or those of the transfers `among` them."""
    found: list[StateDifference] = []
    for ids in _batches(conn, among):
        stored = stored_rows(conn, ids)
        for each in read_transfers(conn, network, ids):
            transfer, row = each.terms.id, stored.get(each.terms.id)
            expected = state_row(each.loaded, each.state)
            if each.illegal is not None:
                what = f"its rows cannot be folded: {each.illegal}"
                found.append(StateDifference(transfer, what))
            elif row != expected:
                what = f"stored {row}, a refold gives {expected}"
                waits = row is None or row.inputs != expected.inputs
                if waits:
                    what = f"`isthmus transfers` has not folded all of its rows: {what}"
                found.append(StateDifference(transfer, what, waits))
    strange = select(transfer_states.c.transfer).where(_HAS_NO_TRANSFER)
    if among is not None:
        strange = strange.where(transfer_states.c.transfer == any_of(among))
    what = "stored, but there is no such transfer"
    return found + [StateDifference(each, what) for each in conn.scalars(strange)]


def is_behind() -> ColumnElement[bool]:
    """Whether a transfer's row, outer joined to it, lacks rows of clients and relay.

    Such rows only increase, so their count tells; reopening a slot, which decreases it, sends a
    NOTIFY.
    """
    submitted, signed, cancelled = (
        select(func.count()).where(column == transfers.c.id).scalar_subquery()
        for column in (submissions.c.transfer, attempts.c.subject, cancellations.c.transfer)
    )
    closed = (
        select(func.count())
        .where(slots.c.subject == transfers.c.id, slots.c.outcome.is_not(None))
        .scalar_subquery()
    )
    found = (
        select(func.count() + func.count(obstacles.c.cleared_at))
        .where(obstacles.c.transfer == transfers.c.id)
        .scalar_subquery()
    )
    written, columns = submitted + signed + closed + found + cancelled, transfer_states.c
    return or_(columns.transfer.is_(None), columns.inputs != written)


def _legal_rows(
    conn: Connection, readings: Iterable[TransferReading]
) -> Iterator[tuple[TransferTerms, StateRow]]:
    """Rows of what can be folded; an alarm for the rest: one transfer must not stop its chain."""
    for each in readings:
        if each.illegal is None:
            yield each.terms, state_row(each.loaded, each.state)
        else:
            raise_alarm(conn, each.terms.source_chain, ILLEGAL, each.terms.id, each.illegal)


_DELETE = rows_of(
    delete(transfer_states)
    .where(transfer_states.c.transfer == any_in("ids"))
    .returning(transfer_states.c.transfer, transfer_states.c.changed_at)
)


def _write(conn: Connection, rows: _Changes, stored: Mapping[str, StateRow]) -> None:
    """Replace rows, and publish the changes that owners are shown.

    `changed_at` stays where the owner is shown the same as before.
    """
    if not rows:
        return
    ids = joined(row.transfer for _, row in rows)
    [replaced] = fetch_all(conn, [(_DELETE, {"ids": ids})])
    times = {row.transfer: row.changed_at for row in replaced}
    unchanged, changed, published = [], [], []
    for terms, row in rows:
        before = stored.get(row.transfer)
        if before is None:
            new = LoadedTransfer(TransferInputs(terms=terms), keys=(), input_rows=0)
            before = state_row(new, new_transfer_state(terms))
        is_changed = _shown(row) != _shown(before)
        if is_changed:
            changed.append(_values(row))
        else:
            unchanged.append((*_values(row), times.get(row.transfer)))
        if is_changed or row.transfer not in stored:
            status = state_machine.status(row.stage, terms.source_chain, terms.dest_chain)
            change = TransferChange(
                owner=terms.owner,
                transfer=terms.id,
                stage=row.stage,
                status=status,
                reason=row.reason,
            )
            published.append(change)
    batches = [
        RowBatch([*_COLUMNS, transfer_states.c.changed_at], unchanged),
        RowBatch(_COLUMNS, changed),
    ]
    publish_changes(conn, published, batches)


def _shown(row: StateRow) -> StateRow:
    """A row without the columns that only the indexer reads."""
    return replace(row, movement=None, keys=[], goes_back=[], source_height=None, inputs=0)


def _batches(conn: Connection, among: Collection[str] | None = None) -> Iterator[list[str]]:
    """Ids of all transfers, or of those `among` them."""
    query = select(transfers.c.id).order_by(transfers.c.id)
    if among is not None:
        query = query.where(transfers.c.id == any_of(among))
    ids = list(conn.scalars(query))
    for start in range(0, len(ids), _BATCH):
        yield ids[start : start + _BATCH]


# Reorgs.


def record_rewound_sources(
    conn: Connection, network: Network, rewound: Sequence[Event]
) -> set[str]:
    """Record the transfers' own source transactions among rewound events; returns all affected ids.

    A burn with a copied label is not recorded: the transfer would wait for it in vain.
    """
    ids = sorted(affected_transfers(conn, rewound))
    stored = stored_rows(conn, ids) if ids else {}
    lost: list[dict[str, Any]] = []
    for terms in load_terms(conn, ids):
        keys = stored[terms.id].keys if terms.id in stored else ()
        lost += _lost_sources(network, terms, keys, rewound)
    if lost:
        conn.execute(postgresql.insert(lost_sources).on_conflict_do_nothing(), lost)
    return set(ids)


def _lost_sources(
    network: Network, terms: TransferTerms, keys: Collection[str], rewound: Sequence[Event]
) -> list[dict[str, Any]]:
    """One row per transaction: its payments added up, or `paid` None if it burned or sent."""
    burn_events = [each for each in rewound if isinstance(each, BURN_EVENTS)]
    found = [
        (burn.deposit.seen, None)
        for of_transaction in group_by_transaction(burn_events)
        for burn in pair_burns(of_transaction)
        if matching.match_burn(network, terms, burn) == "own"
    ]
    found += [
        (each.seen, None)
        for each in rewound
        if isinstance(each, UNLABELLED_SENDS) and each.guid in keys
    ]
    payments = [
        (each.seen, each.amount)
        for each in rewound
        if isinstance(each, Erc20Transfer)
        and (each.recipient, each.seen.chain) == (terms.deposit_address, terms.source_chain)
        and str(each.token) == terms.source_token
    ]
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for seen, paid in (*found, *payments):
        row = {
            "transfer": terms.id,
            "chain": seen.chain,
            "tx_hash": seen.tx_hash,
            "block_hash": seen.block_hash,
            "paid": paid,
        }
        known = rows.setdefault((seen.tx_hash, seen.block_hash), row)
        if known is not row and known["paid"] is not None and paid is not None:
            known["paid"] += paid
    return list(rows.values())
