"""What the stream reads of owners' transfers: their outbox, and the transfers as REST shows them.

An event says that something changed and bears a number of its owner's; the transfer is shown as it
is when it is told. So a later event may be told with an earlier one, and never the other way round.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import orjson
from sqlalchemy import ARRAY, BigInteger, Connection, Text, and_, bindparam, column, func, select

from api.transfers.access import OwnedTransferId
from api.transfers.details import load_details
from api.transfers.responses import transfer_response
from indexer.config.networks import Network
from indexer.transfers import state_machine
from warehouse_schema.access import revoked_tokens
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.intake import transfers
from warehouse_schema.projections import transfer_events, transfer_states
from warehouse_schema.queries import any_of

MOST_AT_ONCE = 500
"""Events that are read at once, and that a client may have missed to be told just those."""
MOST_OPEN = 200
"""Transfers of a snapshot: the newest."""

Mode: TypeAlias = Literal["snapshot", "resume"]


@dataclass(frozen=True, slots=True)
class Item:
    """A transfer as its owner is told of it."""

    number: int
    """Of the last event of it that this tells."""
    transfer: bytes
    """JSON, as REST shows it."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What an owner is told who has just shown a token."""

    mode: Mode
    items: tuple[Item, ...]
    number: int
    """Everything up to it is told by now."""


@dataclass(frozen=True, slots=True)
class OwnerMessages:
    """What came for some owners, by number, and up to which of each this is all."""

    items: Mapping[StellarAddress, Sequence[Item]]
    positions: Mapping[StellarAddress, int]
    is_all: bool


def read_owner_messages(
    conn: Connection, network: Network, positions: Mapping[StellarAddress, int]
) -> OwnerMessages:
    """What came for each of these owners since its number."""
    rows = _events(conn, positions)
    last = {(StellarAddress(row.owner), OwnedTransferId(row.transfer)): row.number for row in rows}
    shown = _items(conn, network, {transfer: number for (_, transfer), number in last.items()})
    items: dict[StellarAddress, list[Item]] = {}
    for owner, transfer in sorted(last, key=lambda each: last[each]):
        items.setdefault(owner, []).append(shown[transfer])
    told = {StellarAddress(row.owner): row.number for row in rows}
    return OwnerMessages(items, {**positions, **told}, is_all=len(rows) < MOST_AT_ONCE)


def read_greeting(
    conn: Connection, network: Network, owner: StellarAddress, after: int | None
) -> Greeting:
    """What changed after a number, if that can be told; else the transfers that are not over."""
    last = conn.scalar(
        select(func.max(transfer_events.c.number)).where(transfer_events.c.owner == owner)
    )
    number = last or 0
    if after is not None and 0 <= number - after < MOST_AT_ONCE:
        news = read_owner_messages(conn, network, {owner: after})
        return Greeting("resume", tuple(news.items.get(owner, ())), number)
    items = _items(conn, network, _open(conn, owner))
    return Greeting("snapshot", tuple(sorted(items.values(), key=lambda i: i.number)), number)


def revoked_among(conn: Connection, ids: Iterable[str]) -> set[str]:
    """Which of these tokens were given up."""
    columns = revoked_tokens.c
    return set(conn.scalars(select(columns.jti).where(columns.jti == any_of(sorted(ids)))))


def _events(conn: Connection, positions: Mapping[StellarAddress, int]) -> Sequence[Any]:
    owners = bindparam("owners", list(positions), type_=ARRAY(Text))
    numbers = bindparam("numbers", list(positions.values()), type_=ARRAY(BigInteger))
    asked = (
        func.unnest(owners, numbers)
        .table_valued(column("owner", Text), column("number", BigInteger), name="asked")
        .render_derived()
    )
    events = transfer_events.c
    query = (
        select(events.owner, events.number, events.transfer)
        .join_from(
            transfer_events,
            asked,
            and_(events.owner == asked.c.owner, events.number > asked.c.number),
        )
        # Whose a transfer is, is what its owner's request says, and nothing that came of it.
        .join(transfers, and_(transfers.c.id == events.transfer, transfers.c.owner == events.owner))
        .order_by(events.owner, events.number)
        .limit(MOST_AT_ONCE)
    )
    return conn.execute(query).all()


def _open(conn: Connection, owner: StellarAddress) -> dict[OwnedTransferId, int]:
    """The owner's newest transfers that are not over, and the number of the last event of each."""
    stages = [stage for stage in state_machine.STAGES if state_machine.is_outstanding(stage)]
    newest = (
        select(transfers.c.id)
        .join(transfer_states, transfer_states.c.transfer == transfers.c.id)
        .where(transfers.c.owner == owner, transfer_states.c.stage == any_of(stages))
        .order_by(transfers.c.started_at.desc())
        .limit(MOST_OPEN)
    )
    ids: list[str] = list(conn.scalars(newest))
    events = transfer_events.c
    last = (
        select(events.transfer, func.max(events.number).label("number"))
        .where(events.owner == owner, events.transfer == any_of(ids))
        .group_by(events.transfer)
    )
    return {OwnedTransferId(row.transfer): row.number for row in conn.execute(last)}


def _items(
    conn: Connection, network: Network, numbers: Mapping[OwnedTransferId, int]
) -> dict[str, Item]:
    """These transfers as they are now."""
    return {
        each.agreed.id: Item(
            numbers[each.agreed.id], orjson.dumps(transfer_response(network, each))
        )
        for each in (load_details(conn, network, list(numbers)) if numbers else ())
    }
