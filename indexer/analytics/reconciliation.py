"""Whether the money adds up: what left one chain against what came to the other and is on its way.

The sums of the facts are held against those of the movements that were folded from them, every
movement against itself, and every transfer against the time that it may take. What is found is for
people; nothing is decided by it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, get_args

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Numeric,
    Row,
    Select,
    case,
    delete,
    func,
    insert,
    or_,
    select,
)
from sqlalchemy import cast as as_type

from indexer.config.networks import Network
from indexer.facts.backfills import unfinished_backfills
from indexer.movements.fold import STELLAR_PER_SHARED
from indexer.transfers import state_machine
from indexer.transfers.state_machine import ActionBy
from warehouse_schema.columns import BaseUnitsType
from warehouse_schema.events import cctp_burns, cctp_mints, oft_received, oft_sent
from warehouse_schema.identifiers import ChainId
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.projections import movements, reconciliation, transfer_states
from warehouse_schema.queries import any_of

ReconciliationCheck: TypeAlias = Literal[
    "movements_hold_all_facts",
    "movements_keep_their_amount",
    "deposit_addresses_are_empty",
    "transfers_move_on",
]
CHECKS: tuple[ReconciliationCheck, ...] = get_args(ReconciliationCheck)

MAX_WAIT_SECONDS: Mapping[ActionBy, int] = {
    "user": 900,
    "relay": 900,
    "chain": 3_600,
    "attestation service": 3_600,
    "message layer": 3_600,
}
"""Seconds that a transfer may wait for somebody's turn before a person has to look. For its user it
waits until it expires, and this is how long expiring may take."""

MAX_AGE_SECONDS = 3_600
"""A sum that does not add up is to be seen within the hour. Dagster looks every five minutes while
that is cheap, and at least twice in this time however dear it is."""

_progress = movements.c


@dataclass(frozen=True, slots=True)
class FlowSum:
    """Movements, and what they moved together."""

    count: int = 0
    amount: int = 0
    """7 decimals, whatever the chain: Stellar's own, ten times the 6 of EVM chains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFlow:
    """What went from one chain to another: sent = delivered + fees + on the way, once both chains
    have been read as far."""

    mechanism: Literal["cctp", "oft"]
    source_chain: ChainId | None
    """None where it is no chain of ours."""
    dest_chain: ChainId | None
    sent: FlowSum
    delivered: FlowSum
    fees: int
    """Taken on the way, of what was delivered. 7 decimals."""
    on_the_way: FlowSum
    unexplained: FlowSum
    """Delivered, of which nothing was seen to be sent: sent before the source was read from, or
    not read so far."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What does not add up; a sentence for operators, which may name a transfer."""

    check: ReconciliationCheck
    detail: str


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """How things stood when they were looked at."""

    at: datetime
    flows: tuple[ChainFlow, ...]
    stages: Mapping[str, int]
    """How many transfers are at each stage that is not the end of one."""
    findings: tuple[Finding, ...]


def reconcile(engine: Engine, network: Network) -> Reconciliation:
    """Look at everything as of one moment, and write down what was seen."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as conn:
        seen = compute_reconciliation(conn, network)
        conn.rollback()
    row = {
        "at": seen.at,
        "flows": [_written(asdict(flow)) for flow in seen.flows],
        "stages": dict(seen.stages),
        "findings": [asdict(finding) for finding in seen.findings],
    }
    with engine.begin() as conn:
        conn.execute(delete(reconciliation))
        conn.execute(insert(reconciliation), row)
    return seen


def is_overdue(conn: Connection) -> bool:
    """Whether the last look is too long ago, by the database's clock.

    Before the first look, whether the first transfer is: until then there is no money to look at.
    """
    looked = select(reconciliation.c.at).scalar_subquery()
    begun = select(func.min(transfers.c.started_at)).scalar_subquery()
    age = func.extract("epoch", func.now() - func.coalesce(looked, begun))
    seconds = conn.scalar(select(age))
    return seconds is not None and seconds > MAX_AGE_SECONDS


def _written(value: Any) -> Any:
    """Amounts as strings of digits, counts as numbers."""
    if isinstance(value, dict):
        return {
            name: str(item) if name in ("amount", "fees") else _written(item)
            for name, item in value.items()
        }
    return value


def compute_reconciliation(conn: Connection, network: Network) -> Reconciliation:
    """How things stand, as the connection's transaction sees them."""
    return Reconciliation(
        at=conn.execute(select(func.now())).scalar_one(),
        flows=tuple(_flows(conn, network)),
        stages=_stages(conn),
        findings=(
            *_unfolded_facts(conn, network),
            *_changed_amounts(conn, network),
            *_full_addresses(conn),
            *_late_transfers(conn),
        ),
    )


# Movements.


def _flows(conn: Connection, network: Network) -> Iterator[ChainFlow]:
    sent, delivered = _progress.source_tx.is_not(None), _progress.dest_tx.is_not(None)
    came_in = _in_sevens(network, _progress.amount_in, _progress.source_chain)
    went_out = _in_sevens(network, _progress.amount_out, _progress.dest_chain)
    fee = _in_sevens(network, _progress.fee, _progress.source_chain)
    lane = (_progress.mechanism, _progress.source_chain, _progress.dest_chain)
    query = (
        select(
            *lane,
            *_sum(came_in, sent),
            *_sum(went_out, delivered),
            _total(fee, delivered),
            *_sum(came_in, _progress.dest_tx.is_(None)),
            *_sum(went_out, _progress.source_tx.is_(None)),
        )
        .group_by(*lane)
        .order_by(*lane)
    )
    for row in conn.execute(query):
        mechanism, source, dest, *figures = row
        yield ChainFlow(
            mechanism=mechanism,
            source_chain=source,
            dest_chain=dest,
            sent=FlowSum(*figures[0:2]),
            delivered=FlowSum(*figures[2:4]),
            fees=figures[4],
            on_the_way=FlowSum(*figures[5:7]),
            unexplained=FlowSum(*figures[7:9]),
        )


def _in_sevens(
    network: Network, amount: ColumnElement[Any], chain: ColumnElement[Any]
) -> ColumnElement[Any]:
    return amount * case((chain == network.stellar.id, 1), else_=STELLAR_PER_SHARED)


def _sum(amount: ColumnElement[Any], which: ColumnElement[bool]) -> tuple[ColumnElement[Any], ...]:
    return func.count().filter(which), _total(amount, which)


def _total(amount: ColumnElement[Any], which: ColumnElement[bool]) -> ColumnElement[Any]:
    total = func.coalesce(func.sum(amount).filter(which), 0)
    return as_type(total, BaseUnitsType)


def _unfolded_facts(conn: Connection, network: Network) -> Iterator[Finding]:
    """Sums of the facts that are not those of the movements.

    Not while a backfill is under way: it writes facts first and folds them at its end.
    """
    if unfinished_backfills(conn):
        return
    of_source, of_dest = _progress.source_chain, _progress.dest_chain
    pairs = (
        ("burned", "cctp", cctp_burns.c.amount, True, _progress.amount_in, of_source),
        ("minted", "cctp", cctp_mints.c.amount, True, _progress.amount_out, of_dest),
        ("sent", "oft", oft_sent.c.amount_sent, False, _progress.amount_in, of_source),
        ("credited", "oft", oft_received.c.amount_received, False, _progress.amount_out, of_dest),
    )
    for word, mechanism, fact, is_shared, amount, chain in pairs:
        told = _amounts(conn, _by_chain(network, fact, is_shared=is_shared))
        moved = _amounts(conn, _moved(mechanism, amount, chain))
        for each in sorted(told.keys() | moved.keys()):
            if told.get(each) != moved.get(each):
                yield Finding(
                    "movements_hold_all_facts",
                    f"{each}: the facts say {told.get(each, 0)} base units {word}, the movements "
                    f"{moved.get(each, 0)}",
                )


def _amounts(conn: Connection, query: Select[Any]) -> dict[ChainId, int]:
    return dict(conn.execute(query).all())


def _by_chain(network: Network, amount: Column[Any], *, is_shared: bool) -> Select[Any]:
    """Base units of each chain; CCTP's events have 6 decimals on every chain."""
    chain = amount.table.c.chain
    scale = case((chain == network.stellar.id, STELLAR_PER_SHARED), else_=1) if is_shared else 1
    return select(chain, as_type(func.sum(amount * scale), BaseUnitsType)).group_by(chain)


def _moved(mechanism: str, amount: Column[Any], chain: Column[Any]) -> Select[Any]:
    """Base units of each chain, of the movements of which that side was seen."""
    tx = _progress.source_tx if chain is _progress.source_chain else _progress.dest_tx
    return (
        select(chain, as_type(func.sum(amount), BaseUnitsType))
        .where(_progress.mechanism == mechanism, tx.is_not(None))
        .group_by(chain)
    )


def _changed_amounts(conn: Connection, network: Network) -> Iterator[Finding]:
    """Movements that came out as more or less than they went in, fees apart."""
    went_in = _in_sevens(network, _progress.amount_in, _progress.source_chain)
    fee = _in_sevens(network, func.coalesce(_progress.fee, 0), _progress.source_chain)
    came_out = _in_sevens(network, _progress.amount_out, _progress.dest_chain)
    query = (
        select(_progress.id, _progress.amount_in, _progress.fee, _progress.amount_out)
        .where(
            _progress.source_tx.is_not(None),
            _progress.dest_tx.is_not(None),
            went_in != fee + came_out,
        )
        .order_by(_progress.id)
    )
    for row in conn.execute(query):
        yield Finding(
            "movements_keep_their_amount",
            f"{row.id}: {row.amount_in} went in, {row.amount_out} came out, fee {row.fee}",
        )


# Transfers.


def _stages(conn: Connection) -> dict[str, int]:
    stage = transfer_states.c.stage
    query = select(stage, func.count()).where(stage == any_of(_UNDER_WAY)).group_by(stage)
    return dict(conn.execute(query.order_by(stage)).all())


_UNDER_WAY = tuple(stage for stage in state_machine.STAGES if not state_machine.is_terminal(stage))
_OVER = tuple(stage for stage in state_machine.STAGES if state_machine.is_terminal(stage))


def _full_addresses(conn: Connection) -> Iterator[Finding]:
    """Deposit addresses of transfers that are over and hold what is worth sending back."""
    query = (
        select(transfers.c.id, quotes.c.min_refund, transfer_states.c.stage, _refund)
        .join_from(transfers, quotes)
        .join(transfer_states, transfer_states.c.transfer == transfers.c.id)
        .where(transfer_states.c.stage == any_of(_OVER), _refund.is_not(None))
        .order_by(transfers.c.id)
    )
    for row in conn.execute(query):
        for line in row.refund["lines"]:
            held = _held(line)
            if held >= row.min_refund:
                yield Finding(
                    "deposit_addresses_are_empty",
                    f"transfer {row.id} is {row.stage}, and its address holds {held} of "
                    f"{line['token']}",
                )


_refund = transfer_states.c.refund


def _held(line: Mapping[str, str]) -> int:
    return int(line["received"]) - int(line["swept"]) - int(line["returned"])


def _late_transfers(conn: Connection) -> Iterator[Finding]:
    """Transfers that wait for longer than whose turn it is may take."""
    for row in conn.execute(_waiting()):
        turn = state_machine.turn(row.stage)
        limit = MAX_WAIT_SECONDS.get(turn)
        waited = int(row.beyond if turn == "user" else row.waited)
        # Money that is safely across waits for a trustline for as long as its owner likes.
        if limit is not None and waited > limit and row.stage != "AWAITING_TRUSTLINE":
            yield Finding("transfers_move_on", _lateness(row, turn, waited))


def _waiting() -> Select[Any]:
    """Transfers under way: seconds since their last step, and since they should have expired."""
    now = func.extract("epoch", func.now())
    started = func.extract("epoch", transfers.c.started_at)
    waited = now - func.coalesce(as_type(transfer_states.c.since, Numeric), started)
    return (
        select(
            transfers.c.id,
            transfer_states.c.stage,
            transfer_states.c.reason,
            transfer_states.c.detail,
            waited.label("waited"),
            (now - func.extract("epoch", transfers.c.expires_at)).label("beyond"),
        )
        .join_from(transfers, transfer_states, transfer_states.c.transfer == transfers.c.id)
        .where(
            transfer_states.c.stage == any_of(_UNDER_WAY),
            # Who is not late by the least of the limits is late by none.
            or_(waited > min(MAX_WAIT_SECONDS.values()), transfers.c.expires_at < func.now()),
        )
        .order_by(transfers.c.id)
    )


def _lateness(row: Row[Any], turn: ActionBy, waited: int) -> str:
    why = "without a reason" if row.reason is None else f"({row.reason})"
    said = "" if row.detail is None else f": {row.detail}"
    return f"transfer {row.id} is {row.stage} {why} and waits {waited} s for the {turn}{said}"


def finding_details(findings: Iterable[Finding], check: ReconciliationCheck) -> list[str]:
    """What one check found."""
    return [finding.detail for finding in findings if finding.check == check]
