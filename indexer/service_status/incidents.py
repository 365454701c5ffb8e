"""Incidents of the last days: alarms of one kind on one chain, merged where they are close.

Anyone may read them, so an incident has no subject and no sentence of its alarms: those name nodes,
providers and transfers. Some kinds of alarms are no incident at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias, get_args

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    case,
    cast,
    func,
    literal_column,
    or_,
    select,
)

from warehouse_schema.facts import alarms
from warehouse_schema.identifiers import ChainId
from warehouse_schema.queries import any_of

IncidentKind: TypeAlias = Literal[
    "INGESTION_STOPPED", "EVENTS_UNREADABLE", "OFFERS_HIDDEN", "UNPROVEN_BLOCK", "ATTESTATION"
]
KINDS: tuple[IncidentKind, ...] = get_args(IncidentKind)

ALARM_KINDS: Mapping[str, IncidentKind] = {
    "undecodable": "EVENTS_UNREADABLE",
    "quarantined": "EVENTS_UNREADABLE",
    "sequence_gap": "OFFERS_HIDDEN",
    "balance_mismatch": "OFFERS_HIDDEN",
    "unknown_order": "OFFERS_HIDDEN",
    "finished_order": "OFFERS_HIDDEN",
    "order_mismatch": "OFFERS_HIDDEN",
    "order_reopened": "OFFERS_HIDDEN",
    "contract_rule": "OFFERS_HIDDEN",
    "unsupported_bond": "OFFERS_HIDDEN",
    "unknown_schema": "OFFERS_HIDDEN",
    "unproven": "UNPROVEN_BLOCK",
    "attestation_unverified": "ATTESTATION",
    "attestation_refused": "ATTESTATION",
}
"""Kind of an alarm → incident. An alarm whose subject is its chain is a hold."""

PRIVATE_KINDS = frozenset({"rescan", "watched_address", "protocol_ahead", "illegal_stage"})
"""Alarms that are for operators alone: comparisons with other nodes, customers' addresses, versions
of this build, bugs."""

DAYS = 30
MAX_INCIDENTS = 100
"""Strangers can cause some alarms. Merging bounds what one chain and kind can fill."""
_NEVER: ColumnElement[datetime] = literal_column("'infinity'::timestamptz")
_GAP = timedelta(hours=6)
"""Alarms that are further apart are two incidents."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Alarms of one kind on one chain, from the first that was raised to the last cleared."""

    chain: ChainId
    kind: IncidentKind
    began_at: datetime
    ended_at: datetime | None
    """None while an alarm of it is open."""


def recent_incidents(conn: Connection) -> list[Incident]:
    """Incidents that are open or ended within the last 30 days: open ones first, then the newest.

    At most `MAX_INCIDENTS`.
    """
    a = alarms.c
    by_kind = [
        (a.kind == any_of(word for word, found in ALARM_KINDS.items() if found == kind), kind)
        for kind in KINDS
        if kind in ALARM_KINDS.values()
    ]
    kind = case(*by_kind, (a.subject == a.chain, "INGESTION_STOPPED"))
    alarm = (
        select(
            *(a.id, a.chain, kind.label("kind"), a.raised_at, a.cleared_at),
            func.coalesce(a.cleared_at, _NEVER).label("until"),
        )
        # One index for either.
        .where(or_(a.cleared_at.is_(None), a.cleared_at > func.now() - timedelta(days=DAYS)))
        .where(kind.is_not(None))
        .cte("alarm")
    )
    lane = (alarm.c.chain, alarm.c.kind)
    order = (alarm.c.raised_at, alarm.c.id)
    before = func.max(alarm.c.until).over(partition_by=lane, order_by=order, rows=(None, -1))
    is_first = case((alarm.c.raised_at <= before + _GAP, 0), else_=1)
    marked = select(alarm, is_first.label("is_first")).cte("marked")
    lane, order = (marked.c.chain, marked.c.kind), (marked.c.raised_at, marked.c.id)
    number = func.sum(marked.c.is_first).over(partition_by=lane, order_by=order)
    numbered = select(marked, cast(number, Integer).label("number")).cte("numbered")
    n = numbered.c
    is_open = func.bool_or(n.cleared_at.is_(None))
    began = func.min(n.raised_at)
    query = (
        select(
            *(n.chain, n.kind, began.label("began_at")),
            case((~is_open, func.max(n.cleared_at))).label("ended_at"),
        )
        .group_by(n.chain, n.kind, n.number)
        .order_by(is_open.desc(), began.desc(), n.chain, n.kind)
        .limit(MAX_INCIDENTS)
    )
    return [Incident(*row) for row in conn.execute(query)]
