"""Reconciliation: amounts sent, delivered and in flight between chains must add up.

Compares sums of facts with sums of movements, the two sides of each movement, and the age of each
transfer with its limit. Findings are for operators; nothing is decided by them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, get_args

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Numeric,
    case,
    delete,
    func,
    insert,
    or_,
    select,
)
from sqlalchemy import cast as as_type

from indexer.config.networks import Network
from indexer.config.routes import Bridge
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
"""Seconds that a transfer may wait for a party before it is a finding. For its user, who has until
the expiry, the limit is for the expiry itself."""

MAX_AGE_SECONDS = 3_600
"""Maximum age of a reconciliation. Dagster runs one every five minutes while that is cheap, and at
least twice in this time however expensive it is."""

_m = movements.c


@dataclass(frozen=True, slots=True)
class FlowSum:
    """Number of movements and their total amount."""

    count: int = 0
    amount: int = 0
    """7 decimals on every chain, as on Stellar: ten times the 6 of EVM chains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFlow:
    """Flow from one chain to another: sent = delivered + fees + on the way, once both chains are
    ingested as far."""

    mechanism: Bridge
    source_chain: ChainId | None
    """None for a chain that is not ours."""
    dest_chain: ChainId | None
    sent: FlowSum
    delivered: FlowSum
    fees: int
    """Fees of delivered movements. 7 decimals."""
    on_the_way: FlowSum
    unexplained: FlowSum
    """Delivered without a known sending: sent before the source's first block, or not ingested
    yet."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A mismatch, as a sentence for operators, which may name a transfer."""

    check: ReconciliationCheck
    detail: str


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Result of one run."""

    at: datetime
    flows: tuple[ChainFlow, ...]
    stages: Mapping[str, int]
    """Number of transfers at each stage that is not terminal."""
    findings: tuple[Finding, ...]


def reconcile(engine: Engine, network: Network) -> Reconciliation:
    """Reconcile in one snapshot and store the result."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as conn:
        result = compute_reconciliation(conn, network)
        conn.rollback()
    row = {
        "at": result.at,
        "flows": [_to_json(asdict(flow)) for flow in result.flows],
        "stages": dict(result.stages),
        "findings": [asdict(finding) for finding in result.findings],
    }
    with engine.begin() as conn:
        conn.execute(delete(reconciliation))
        conn.execute(insert(reconciliation), row)
    return result


def is_overdue(conn: Connection) -> bool:
    """True when the last reconciliation is too old, by the database's clock.

    Before the first one, true when the first transfer is too old.
    """
    last_run = select(reconciliation.c.at).scalar_subquery()
    first_transfer = select(func.min(transfers.c.started_at)).scalar_subquery()
    age = func.extract("epoch", func.now() - func.coalesce(last_run, first_transfer))
    seconds = conn.scalar(select(age))
    return seconds is not None and seconds > MAX_AGE_SECONDS


def _to_json(value: Any) -> Any:
    """Amounts as strings of digits, counts as numbers."""
    if isinstance(value, dict):
        return {
            name: str(item) if name in ("amount", "fees") else _to_json(item)
            for name, item in value.items()
        }
    return value


def compute_reconciliation(conn: Connection, network: Network) -> Reconciliation:
    """Reconcile in the connection's transaction."""
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
    sent, delivered = _m.source_tx.is_not(None), _m.dest_tx.is_not(None)
    amount_in = _seven_decimals(network, _m.amount_in, _m.source_chain)
    amount_out = _seven_decimals(network, _m.amount_out, _m.dest_chain)
    fee = _seven_decimals(network, _m.fee, _m.source_chain)
    lane = (_m.mechanism, _m.source_chain, _m.dest_chain)
    query = (
        select(
            *lane,
            *_sum(amount_in, sent),
            *_sum(amount_out, delivered),
            _total(fee, delivered),
            *_sum(amount_in, _m.dest_tx.is_(None)),
            *_sum(amount_out, _m.source_tx.is_(None)),
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


def _seven_decimals(
    network: Network, amount: ColumnElement[Any], chain: ColumnElement[Any]
) -> ColumnElement[Any]:
    return amount * case((chain == network.stellar.id, 1), else_=STELLAR_PER_SHARED)


def _sum(amount: ColumnElement[Any], which: ColumnElement[bool]) -> tuple[ColumnElement[Any], ...]:
    return func.count().filter(which), _total(amount, which)


def _total(amount: ColumnElement[Any], which: ColumnElement[bool]) -> ColumnElement[Any]:
    total = func.coalesce(func.sum(amount).filter(which), 0)
    return as_type(total, BaseUnitsType)


def _unfolded_facts(conn: Connection, network: Network) -> Iterator[Finding]:
    """Sums of facts that differ from the sums of movements.

    Skipped during a backfill, which writes facts first and folds them at its end.
    """
    if unfinished_backfills(conn):
        return
    of_source, of_dest = _m.source_chain, _m.dest_chain
    # CCTP's events have 6 decimals on every chain, OFT's the chain's own.
    pairs: tuple[tuple[str, str, Column[Any], bool, Column[Any], Column[Any]], ...] = (
        ("burned", "cctp", cctp_burns.c.amount, True, _m.amount_in, of_source),
        ("minted", "cctp", cctp_mints.c.amount, True, _m.amount_out, of_dest),
        ("sent", "oft", oft_sent.c.amount_sent, False, _m.amount_in, of_source),
        ("credited", "oft", oft_received.c.amount_received, False, _m.amount_out, of_dest),
    )
    for word, mechanism, fact, is_shared, amount, chain in pairs:
        at = fact.table.c.chain
        scale = case((at == network.stellar.id, STELLAR_PER_SHARED), else_=1) if is_shared else 1
        facts = select(at, as_type(func.sum(fact * scale), BaseUnitsType)).group_by(at)
        tx = _m.source_tx if chain is of_source else _m.dest_tx
        moved = (
            select(chain, as_type(func.sum(amount), BaseUnitsType))
            .where(_m.mechanism == mechanism, tx.is_not(None))
            .group_by(chain)
        )
        by_facts: dict[ChainId, int] = dict(conn.execute(facts).all())
        by_movements: dict[ChainId, int] = dict(conn.execute(moved).all())
        for each in sorted(by_facts.keys() | by_movements.keys()):
            if by_facts.get(each) != by_movements.get(each):
                yield Finding(
                    "movements_hold_all_facts",
                    f"{each}: the facts say {by_facts.get(each, 0)} base units {word}, the"
                    f" movements {by_movements.get(each, 0)}",
                )


def _changed_amounts(conn: Connection, network: Network) -> Iterator[Finding]:
    """Movements whose delivered amount and fee are not what was sent."""
    went_in = _seven_decimals(network, _m.amount_in, _m.source_chain)
    fee = _seven_decimals(network, func.coalesce(_m.fee, 0), _m.source_chain)
    came_out = _seven_decimals(network, _m.amount_out, _m.dest_chain)
    query = (
        select(_m.id, _m.amount_in, _m.fee, _m.amount_out)
        .where(
            _m.source_tx.is_not(None),
            _m.dest_tx.is_not(None),
            went_in != fee + came_out,
        )
        .order_by(_m.id)
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
    """Deposit addresses of ended transfers that have held a refund longer than a chain takes.

    The relay returns it once the last burn is final, which may be after the transfer's end.
    """
    refund = transfer_states.c.refund
    held_since = func.now() - timedelta(seconds=MAX_WAIT_SECONDS["chain"])
    query = (
        select(transfers.c.id, quotes.c.min_refund, transfer_states.c.stage, refund)
        .join_from(transfers, quotes)
        .join(transfer_states, transfer_states.c.transfer == transfers.c.id)
        .where(
            transfer_states.c.stage == any_of(_OVER),
            refund.is_not(None),
            transfer_states.c.changed_at < held_since,
        )
        .order_by(transfers.c.id)
    )
    for row in conn.execute(query):
        for line in row.refund["lines"]:
            held = int(line["received"]) - int(line["swept"]) - int(line["returned"])
            if held >= row.min_refund:
                yield Finding(
                    "deposit_addresses_are_empty",
                    f"transfer {row.id} is {row.stage}, and its address holds {held} of "
                    f"{line['token']}",
                )


def _late_transfers(conn: Connection) -> Iterator[Finding]:
    """Transfers that wait longer than the limit of the party that is to act."""
    now = func.extract("epoch", func.now())
    started = func.extract("epoch", transfers.c.started_at)
    since_step = now - func.coalesce(as_type(transfer_states.c.since, Numeric), started)
    query = (
        select(
            transfers.c.id,
            transfer_states.c.stage,
            transfer_states.c.reason,
            transfer_states.c.detail,
            since_step.label("since_step"),
            (now - func.extract("epoch", transfers.c.expires_at)).label("since_expiry"),
        )
        .join_from(transfers, transfer_states, transfer_states.c.transfer == transfers.c.id)
        .where(
            transfer_states.c.stage == any_of(_UNDER_WAY),
            # Below the smallest limit a transfer is late by none.
            or_(since_step > min(MAX_WAIT_SECONDS.values()), transfers.c.expires_at < func.now()),
        )
        .order_by(transfers.c.id)
    )
    for row in conn.execute(query):
        turn = state_machine.turn(row.stage)
        limit = MAX_WAIT_SECONDS.get(turn)
        waited = int(row.since_expiry if turn == "user" else row.since_step)
        # Delivered money may wait for a trustline without limit.
        if limit is not None and waited > limit and row.stage != "AWAITING_TRUSTLINE":
            why = "without a reason" if row.reason is None else f"({row.reason})"
            detail = "" if row.detail is None else f": {row.detail}"
            yield Finding(
                "transfers_move_on",
                f"transfer {row.id} is {row.stage} {why} and waits {waited} s for the"
                f" {turn}{detail}",
            )
