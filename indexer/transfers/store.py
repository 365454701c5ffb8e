"""Refolds the transfers that something new touches, and writes their rows.

What is known of a transfer comes from several writers at once: followers of two chains, the api,
the relay. A refold locks the transfer's stage until commit and reads under that lock, so the second
of two sees what the first one wrote. A row says where a transfer is and decides nothing: a decision
folds it again, under a lock of its own (`lock`). A refold does not wait for decisions, which the
api makes too: their rows are announced (NOTIFY) and folded in afterwards.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Text,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    text,
)
from sqlalchemy.dialects import postgresql

from indexer.bridges.oft.events import OftSent
from indexer.bridges.tokens.events import Erc20Transfer
from indexer.chains.events import Event, Provenance
from indexer.config.networks import Network
from indexer.facts import proofs
from indexer.facts.alarms import raise_alarm
from indexer.movements.fold import BURN_EVENTS, pair_burns
from indexer.movements.store import group_by_transaction
from indexer.transfers import matching, state_machine
from indexer.transfers.affected import affected_transfers
from indexer.transfers.fold import DepositRefund, StageChange, fold_transfer
from indexer.transfers.inputs import TransferInputs, TransferTerms
from indexer.transfers.load import LoadedTransfer, load_transfers
from indexer.transfers.outbox import TransferChange, lock_keys, publish_changes
from indexer.transfers.state_machine import IllegalTransition, Stage
from indexer.transfers.terms import load_interchangeable, load_terms
from warehouse_schema import locks
from warehouse_schema.facts import cursors, lost_sources
from warehouse_schema.identifiers import ChainId
from warehouse_schema.intake import cancellations, submissions, transfers
from warehouse_schema.projections import transfer_states
from warehouse_schema.queries import any_of
from warehouse_schema.relay import attempts, obstacles, slots
from warehouse_schema.row_locks import lock_names

logger = logging.getLogger(__name__)

ILLEGAL = "illegal_stage"
"""Kind of alarm: a transfer's rows tell a story that cannot be. Its stored stage stays."""

_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """One row of `projections.transfer_states`; its comments say what is in it."""

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


_COLUMNS = [transfer_states.c[field.name] for field in fields(StateRow)]


def state_row(loaded: LoadedTransfer) -> StateRow:
    """The row of what is known. Raises `IllegalTransition`."""
    progress = fold_transfer(loaded.inputs)
    return StateRow(
        transfer=loaded.inputs.terms.id,
        stage=progress.stage,
        reason=progress.reason,
        detail=progress.detail,
        timeline=[_step(step) for step in progress.timeline],
        since=progress.since,
        completed_at=progress.completed_at,
        external_tx=progress.external_tx,
        stellar_tx=progress.stellar_tx,
        movement=progress.movement,
        extras=list(progress.extras),
        keys=list(loaded.keys),
        amount_delivered=progress.amount_delivered,
        self_finish=progress.self_finish,
        refund=None if progress.refund is None else _refund(progress.refund),
        goes_back=list(progress.goes_back),
        source_chain=loaded.inputs.terms.source_chain,
        source_height=_height_to_come(loaded),
        inputs=loaded.input_rows,
    )


def _step(step: StageChange) -> dict[str, Any]:
    return asdict(step)


def _refund(refund: DepositRefund) -> dict[str, Any]:
    """Amounts as strings of digits, as everywhere in JSON."""
    return {
        "lines": [
            {name: str(value) for name, value in asdict(line).items()} for line in refund.lines
        ],
        "pending_below_minimum": str(refund.pending_below_minimum),
        "txs": list(refund.txs),
    }


def _height_to_come(loaded: LoadedTransfer) -> int | None:
    """The lowest block of a source transaction that is not final."""
    places = (each.source for each in loaded.inputs.matched if not each.is_final)
    return min((place.height for place in places if place is not None), default=None)


# Refolding.


def refold_transfers(
    conn: Connection, network: Network, ids: Collection[str], *, rewound: bool = False
) -> int:
    """Fold these transfers, and whatever shares its sends with them, anew; how many rows changed.

    `rewound`: facts may have gone, so a transfer may go back along its way.
    """
    if not ids:
        return 0
    wanted = with_interchangeable(conn, ids)
    lock_names(conn, locks.STAGE, wanted)
    stored = {row.transfer: row for row in _stored(conn, wanted)}
    known = load_transfers(conn, network, wanted)
    proofs.request_proofs(conn, {key for loaded in known for key in loaded.unproven})
    changed = [
        (loaded.inputs.terms, row)
        for loaded in known
        if (row := _fold(conn, loaded)) is not None and row != stored.get(row.transfer)
    ]
    for _, row in changed:
        before = stored.get(row.transfer)
        if before is not None:
            _check(conn, before, row, rewound=rewound)
    _write(conn, changed, stored)
    _tell(conn, changed, stored)
    return len(changed)


def with_interchangeable(conn: Connection, ids: Collection[str]) -> list[str]:
    """These transfers and those that may share their sends with them."""
    together = load_interchangeable(
        conn, [each for each in load_terms(conn, ids) if each.mechanism != "cctp"]
    )
    return sorted({*ids, *(each.id for each in together)})


def is_behind() -> ColumnElement[bool]:
    """Whether the row of a transfer, outer joined to it, lacks rows of clients and relay.

    They become more, so their number says it; a slot that is opened again, which makes one fewer,
    is told of by NOTIFY.
    """
    submitted, signed, cancelled = (
        select(func.count()).where(column == transfers.c.id).scalar_subquery()
        for column in (submissions.c.transfer, attempts.c.subject, cancellations.c.transfer)
    )
    over = (
        select(func.count())
        .where(slots.c.subject == transfers.c.id, slots.c.outcome.is_not(None))
        .scalar_subquery()
    )
    found = (
        select(func.count() + func.count(obstacles.c.cleared_at))
        .where(obstacles.c.transfer == transfers.c.id)
        .scalar_subquery()
    )
    written, stages = submitted + signed + over + found + cancelled, transfer_states.c
    return or_(stages.transfer.is_(None), stages.inputs != written)


def refold_affected(
    conn: Connection,
    network: Network,
    events: Iterable[Event],
    keys: Collection[str] = (),
    *,
    rewound: bool = False,
) -> int:
    """As `refold`, of the transfers that events and movements of these keys are about."""
    return refold_transfers(conn, network, affected_transfers(conn, events, keys), rewound=rewound)


def refold_final(conn: Connection, network: Network, chain: ChainId) -> int:
    """As `refold`, of the transfers whose source became final since they were folded."""
    final = select(cursors.c.final_height).where(cursors.c.chain == chain).scalar_subquery()
    query = select(transfer_states.c.transfer).where(
        transfer_states.c.source_chain == chain, transfer_states.c.source_height <= final
    )
    return refold_transfers(conn, network, set(conn.scalars(query)))


def lock_transfers(conn: Connection, ids: Collection[str]) -> None:
    """Take the right to decide about these transfers, until commit."""
    locked = select(func.pg_advisory_xact_lock(locks.TRANSFER, lock_keys()))
    conn.execute(locked, {"names": list(ids)})


def try_lock_transfers(conn: Connection, ids: Collection[str]) -> set[str]:
    """As `lock`, of those whose right nobody has at the moment; which they are.

    For processes that must not wait for one transfer: the api's role can hold any of these locks.
    """
    names = select(func.unnest(bindparam("names", list(ids), type_=ARRAY(Text))).label("id"))
    wanted = names.order_by("id").subquery()
    taken = func.pg_try_advisory_xact_lock(locks.TRANSFER, func.hashtext(wanted.c.id))
    return set(conn.scalars(select(wanted.c.id).where(taken)))


def _fold(conn: Connection, loaded: LoadedTransfer) -> StateRow | None:
    """The row; None, and an alarm, for what cannot be: one transfer must not stop its chain."""
    try:
        return state_row(loaded)
    except IllegalTransition as error:
        terms = loaded.inputs.terms
        logger.error("illegal stage transfer=%s: %s", terms.id, error)
        raise_alarm(conn, terms.source_chain, ILLEGAL, terms.id, str(error))
        return None


def _check(conn: Connection, before: StateRow, after: StateRow, *, rewound: bool) -> None:
    was, now = before.stage, after.stage
    if not state_machine.may_follow(was, now, rewound=rewound):
        logger.error("illegal stage transfer=%s: %s after %s", after.transfer, now, was)
        chain = ChainId(after.source_chain)
        raise_alarm(conn, chain, ILLEGAL, after.transfer, f"{now} came after {was}")


def _stored(conn: Connection, ids: Collection[str]) -> list[StateRow]:
    query = select(*_COLUMNS).where(transfer_states.c.transfer == any_of(ids))
    return [StateRow(**row._mapping) for row in conn.execute(query)]


def _write(
    conn: Connection, rows: Sequence[tuple[TransferTerms, StateRow]], stored: Mapping[str, StateRow]
) -> None:
    """Replace rows. `changed_at` stays where the owner is shown what was shown before."""
    if not rows:
        return
    columns = transfer_states.c
    replaced = delete(transfer_states).where(
        columns.transfer == any_of([row.transfer for _, row in rows])
    )
    returned = conn.execute(replaced.returning(columns.transfer, columns.changed_at))
    times = {row.transfer: row.changed_at for row in returned}
    unchanged, changed = [], []
    for terms, row in rows:
        before = stored.get(row.transfer, _first_row(terms))
        if _shown(row) == _shown(before):
            unchanged.append({**asdict(row), "changed_at": times.get(row.transfer)})
        else:
            changed.append(asdict(row))
    for values in (unchanged, changed):
        if values:
            conn.execute(insert(transfer_states), values)


def _first_row(terms: TransferTerms) -> StateRow:
    """The row of a transfer that was just created."""
    return state_row(LoadedTransfer(TransferInputs(terms=terms), keys=(), input_rows=0))


def _tell(
    conn: Connection, rows: Iterable[tuple[TransferTerms, StateRow]], before: Mapping[str, StateRow]
) -> None:
    """Let owners hear of what they would be shown otherwise than before."""
    publish_changes(
        conn,
        [
            TransferChange(
                owner=terms.owner,
                transfer=terms.id,
                stage=row.stage,
                status=state_machine.status(row.stage, terms.source_chain, terms.dest_chain),
                reason=row.reason,
            )
            for terms, row in rows
            if _shown(row) != _shown(before.get(row.transfer))
        ],
    )


def _shown(row: StateRow | None) -> StateRow | None:
    """A row without what only the indexer looks at."""
    if row is None:
        return None
    return replace(row, movement=None, keys=[], goes_back=[], source_height=None, inputs=0)


# What chains take back.


def record_rewound_sources(conn: Connection, network: Network, taken: Sequence[Event]) -> set[str]:
    """Record the source transactions of transfers among events that a chain took back.

    What was anybody's own, such as a burn with a copied label, is not: it would keep a transfer
    waiting for what was never its. Gives the transfers that lost one.
    """
    ids = sorted(affected_transfers(conn, taken))
    keys = {row.transfer: set(row.keys) for row in _stored(conn, ids)} if ids else {}
    lost = [
        row
        for each in load_terms(conn, ids)
        for row in _lost(network, each, keys.get(each.id, set()), taken)
    ]
    if lost:
        conn.execute(postgresql.insert(lost_sources).on_conflict_do_nothing(), lost)
    return set(ids)


def _lost(
    network: Network, terms: TransferTerms, keys: Collection[str], taken: Sequence[Event]
) -> list[dict[str, Any]]:
    burns = (
        burn for group in group_by_transaction(_burn_events(taken)) for burn in pair_burns(group)
    )
    seen = [
        burn.deposit.seen for burn in burns if matching.match_burn(network, terms, burn) == "own"
    ]
    seen += [each.seen for each in taken if isinstance(each, OftSent) and each.guid in keys]
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for place in seen:
        _note(rows, terms, place, None)
    for each in taken:
        if isinstance(each, Erc20Transfer) and _is_deposit(terms, each):
            _note(rows, terms, each.seen, each.amount)
    return list(rows.values())


def _burn_events(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, BURN_EVENTS)]


def _is_deposit(terms: TransferTerms, event: Erc20Transfer) -> bool:
    token: str = event.token
    is_there = event.recipient == terms.deposit_address and event.seen.chain == terms.source_chain
    return is_there and token == terms.source_token


def _note(
    rows: dict[tuple[str, str], dict[str, Any]],
    terms: TransferTerms,
    seen: Provenance,
    paid: int | None,
) -> None:
    """One row a transaction: what it paid is added up, unless it burned as well."""
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


# All of them.


def refold_all(conn: Connection, network: Network) -> int:
    """Write every transfer's row anew; how many there are. Who writes single ones waits."""
    conn.execute(text("LOCK TABLE projections.transfer_states IN EXCLUSIVE MODE"))
    written = 0
    for ids in _batches(conn):
        stored = {row.transfer: row for row in _stored(conn, ids)}
        rows = [
            (each.inputs.terms, row)
            for each in load_transfers(conn, network, ids)
            if (row := _fold(conn, each)) is not None
        ]
        _write(conn, rows, stored)
        _tell(conn, rows, stored)
        written += len(rows)
    conn.execute(delete(transfer_states).where(~_is_known()))
    return written


def state_differences(conn: Connection, network: Network) -> list[str]:
    """Where a stored row is not what a refold gives, in sentences."""
    found: list[str] = []
    for ids in _batches(conn):
        stored = {row.transfer: row for row in _stored(conn, ids)}
        for loaded in load_transfers(conn, network, ids):
            transfer = loaded.inputs.terms.id
            found += _difference(transfer, stored.get(transfer), loaded)
    strange = select(transfer_states.c.transfer).where(~_is_known())
    return found + [
        f"transfer {each}: stored, and nobody asked for it" for each in conn.scalars(strange)
    ]


def _is_known() -> ColumnElement[bool]:
    """Whether somebody asked for the transfer of a row."""
    return select(transfers.c.id).where(transfers.c.id == transfer_states.c.transfer).exists()


def _difference(transfer: str, stored: StateRow | None, loaded: LoadedTransfer) -> list[str]:
    try:
        expected = state_row(loaded)
    except IllegalTransition as error:
        return [f"transfer {transfer}: its rows cannot be folded: {error}"]
    if stored == expected:
        return []
    return [f"transfer {transfer}: stored {stored}, a refold gives {expected}"]


def _batches(conn: Connection) -> Iterator[list[str]]:
    ids = list(conn.scalars(select(transfers.c.id).order_by(transfers.c.id)))
    for start in range(0, len(ids), _BATCH):
        yield ids[start : start + _BATCH]
