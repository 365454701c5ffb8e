"""Reads owners' transfer events for the stream, and the transfers as REST shows them.

An event says that a transfer changed and has a number that counts its owner's events. The message
shows the transfer as of the read: it may already include a later event, never lack an earlier one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import ARRAY, BigInteger, Connection, Text, and_, bindparam, column, func, select

from api.stream.messages import Mode, transfer_frame
from api.transfers.access import OwnedTransferId
from api.transfers.details import load_details
from api.transfers.responses import transfer_response
from indexer.config.networks import Network
from indexer.facts.queries import CompiledQuery, fetch_all, joined, rows_of
from indexer.transfers import state_machine
from warehouse_schema.access import revoked_tokens
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.intake import transfers
from warehouse_schema.projections import transfer_events, transfer_states
from warehouse_schema.queries import any_in, any_of

MAX_EVENTS = 500
"""Events that are read at once, and that a client may have missed to resume."""
MAX_OPEN = 200
"""Transfers in a snapshot: the newest."""


@dataclass(frozen=True, slots=True)
class TransferGreeting:
    """The first messages after a token was accepted."""

    mode: Mode
    frames: tuple[bytes, ...]
    number: int
    """The frames include every event up to it."""


@dataclass(frozen=True, slots=True)
class OwnerMessages:
    """New frames by owner, in order of number, and up to which number they are complete."""

    frames: Mapping[StellarAddress, Sequence[bytes]]
    positions: Mapping[StellarAddress, int]
    is_complete: bool
    """False: more events are to be read."""


def _events_since() -> CompiledQuery[Any]:
    """The first `at_most` events of `owners` after each one's number in `numbers`."""
    since = (
        func.unnest(
            bindparam("owners", type_=ARRAY(Text)), bindparam("numbers", type_=ARRAY(BigInteger))
        )
        .table_valued(column("owner", Text), column("number", BigInteger), name="since")
        .render_derived()
    )
    events = transfer_events.c
    return rows_of(
        select(events.owner, events.number, events.transfer)
        .join_from(
            transfer_events,
            since,
            and_(events.owner == since.c.owner, events.number > since.c.number),
        )
        # Ownership comes from `intake.transfers`, never from derived rows.
        .join(transfers, and_(transfers.c.id == events.transfer, transfers.c.owner == events.owner))
        .order_by(events.owner, events.number)
        .limit(bindparam("at_most", type_=BigInteger))
    )


_EVENTS_SINCE = _events_since()


def read_owner_messages(
    conn: Connection, network: Network, positions: Mapping[StellarAddress, int]
) -> OwnerMessages:
    """The events of each owner after its number."""
    values = {
        "owners": list(positions),
        "numbers": list(positions.values()),
        "at_most": MAX_EVENTS,
    }
    [rows] = fetch_all(conn, [(_EVENTS_SINCE, values)])
    last = {(StellarAddress(row.owner), OwnedTransferId(row.transfer)): row.number for row in rows}
    shown = _frames(conn, network, {transfer: number for (_, transfer), number in last.items()})
    frames: dict[StellarAddress, list[bytes]] = {}
    for owner, transfer in sorted(last, key=lambda each: last[each]):
        frames.setdefault(owner, []).append(shown[transfer])
    read = {StellarAddress(row.owner): row.number for row in rows}
    return OwnerMessages(frames, {**positions, **read}, is_complete=len(rows) < MAX_EVENTS)


def read_greeting(
    conn: Connection, network: Network, owner: StellarAddress, after: int | None
) -> TransferGreeting:
    """The events after a number if they are at hand; else the transfers that are not over."""
    last = conn.scalar(
        select(func.max(transfer_events.c.number)).where(transfer_events.c.owner == owner)
    )
    number = last or 0
    if after is not None and 0 <= number - after < MAX_EVENTS:
        missed = read_owner_messages(conn, network, {owner: after})
        return TransferGreeting("resume", tuple(missed.frames.get(owner, ())), number)
    last_numbers = _open_transfers(conn, owner)
    frames = _frames(conn, network, last_numbers)
    in_order = sorted(frames, key=lambda transfer: last_numbers[transfer])
    return TransferGreeting("snapshot", tuple(frames[each] for each in in_order), number)


_REVOKED = rows_of(select(revoked_tokens.c.jti).where(revoked_tokens.c.jti == any_in("ids")))


def revoked_among(conn: Connection, ids: Iterable[str]) -> set[str]:
    """Which of these tokens were revoked."""
    [rows] = fetch_all(conn, [(_REVOKED, {"ids": joined(ids)})])
    return {row.jti for row in rows}


def _open_transfers(conn: Connection, owner: StellarAddress) -> dict[OwnedTransferId, int]:
    """The owner's newest transfers that are not over → number of each one's last event."""
    stages = [stage for stage in state_machine.STAGES if not state_machine.is_terminal(stage)]
    newest = (
        select(transfers.c.id)
        .join(transfer_states, transfer_states.c.transfer == transfers.c.id)
        .where(transfers.c.owner == owner, transfer_states.c.stage == any_of(stages))
        .order_by(transfers.c.started_at.desc())
        .limit(MAX_OPEN)
    )
    ids: list[str] = list(conn.scalars(newest))
    events = transfer_events.c
    last = (
        select(events.transfer, func.max(events.number).label("number"))
        .where(events.owner == owner, events.transfer == any_of(ids))
        .group_by(events.transfer)
    )
    return {OwnedTransferId(row.transfer): row.number for row in conn.execute(last)}


def _frames(
    conn: Connection, network: Network, numbers: Mapping[OwnedTransferId, int]
) -> dict[OwnedTransferId, bytes]:
    """Each transfer as REST shows it, with the number of its last event."""
    return {
        each.agreed.id: transfer_frame(
            orjson.dumps(transfer_response(network, each)), numbers[each.agreed.id]
        )
        for each in (load_details(conn, network, list(numbers)) if numbers else ())
    }
