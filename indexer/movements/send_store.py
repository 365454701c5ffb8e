"""Writes the movements of sends that are alone (`send_columns`), a range's at once."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import polars as pl
from sqlalchemy import Column, Connection, Select, func, select, union_all

from indexer.bridges.oft.events import OftReceived, PacketSent, PacketVerified
from indexer.config.networks import Network
from indexer.facts.columns_copy import CopyText, copy_text, text_of_frame
from indexer.facts.queries import joined, rows_of
from indexer.facts.row_locks import lock_and_fetch
from indexer.facts.rows import EVENT_MAPPINGS
from indexer.metrics.collectors import waiting
from indexer.movements.fold import MovementKey
from indexer.movements.send_columns import movements_of_sends
from warehouse_schema import locks
from warehouse_schema.facts import message_status
from warehouse_schema.identifiers import Bytes32
from warehouse_schema.projections import movements
from warehouse_schema.queries import any_in


@dataclass(frozen=True, slots=True)
class SendRows:
    """The movements of a range's sends that are alone, ready to be written."""

    guids: frozenset[Bytes32]
    rows: pl.DataFrame
    text: CopyText
    """Of all `rows`."""
    without_packet: tuple[Bytes32, ...]
    """Guids of sends whose packet the range does not have."""

    @property
    def keys(self) -> set[MovementKey]:
        """Movements of the rows."""
        return {("oft", guid) for guid in self.guids}

    @property
    def size(self) -> int:
        """Bytes of the rows, which are held twice."""
        return 2 * len(self.text.text)

    def append(self, conn: Connection, also: Collection[MovementKey]) -> set[MovementKey]:
        """Write the rows, once the events are stored; returns the keys that need a refold.

        Those are the sends of which more is stored. `also` are the movements that the caller
        refolds in the same transaction: all are locked at once, in one order.
        """
        if not self.guids:
            return set()
        wanted = {"guids": joined(self.guids), "without_packet": joined(self.without_packet)}
        with waiting("lock"):
            names = self.guids.union(key for _, key in also)
            [found] = lock_and_fetch(conn, locks.MOVEMENT, names, [(_KNOWN, wanted)])
        if not found:
            copy_text(conn, self.text)
            return set()
        known = {row.guid for row in found}
        alone = self.rows.filter(~pl.col("group_key").is_in(list(known)))
        if alone.height:
            copy_text(conn, text_of_frame(movements, alone))
        return {("oft", guid) for guid in known}


_NONE = SendRows(
    guids=frozenset(),
    rows=pl.DataFrame(schema={"group_key": pl.String}),
    text=CopyText(movements.name, (), 0, b""),
    without_packet=(),
)
"""Of a range without sends, as most are."""


def send_rows(network: Network, sends: pl.DataFrame) -> SendRows:
    """The rows of sends as by `sends_alone`."""
    if sends.is_empty():
        return _NONE
    rows = movements_of_sends(network, sends)
    return SendRows(
        guids=frozenset(rows["group_key"].to_list()),
        rows=rows,
        text=text_of_frame(movements, rows),
        without_packet=tuple(rows.filter(pl.col("dest_address").is_null())["group_key"]),
    )


def _with(column: Column[str], parameter: str = "guids") -> Select[Any]:
    return select(column.label("guid")).where(column == any_in(parameter))


_guid = {
    kind: EVENT_MAPPINGS[kind].table.c.guid for kind in (OftReceived, PacketSent, PacketVerified)
}
_KNOWN = rows_of(
    union_all(
        _with(movements.c.group_key),
        _with(_guid[OftReceived]),
        _with(_guid[PacketVerified]),
        _with(message_status.c.group_key),
        _with(_guid[PacketSent]).group_by(_guid[PacketSent]).having(func.count() > 1),
        _with(_guid[PacketSent], "without_packet"),
    )
)
"""Guids, perhaps repeated, of which more is stored than one send with its packet.

That is all that `fold_oft` reads of such a send: an earlier send of the guid has a row, or is
folded when its own backfill ends.
"""
