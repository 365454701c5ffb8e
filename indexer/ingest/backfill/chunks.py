"""A chunk: consecutive blocks of a chain and the COPY text of all their rows.

It holds no event objects, so it is small, fits into a file, and costs the writer little more than
the copying.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter

import polars as pl
from sqlalchemy import Connection

from indexer.chains.events import Event
from indexer.chains.evm.history import EvmColumns
from indexer.chains.ports import Block, Range
from indexer.config.networks import Chain, EvmChain, Network
from indexer.decode.build import decoder_build
from indexer.facts import quarantine
from indexer.facts.columns_copy import CopyText, copy_text, text_of_rows
from indexer.facts.columns_decode import decode_frame
from indexer.facts.decoding import decode_events
from indexer.facts.rows import EVENT_MAPPINGS
from indexer.facts.store import DecodedEvent, group_by_type, raw_columns
from indexer.movements.fold import MovementKey
from indexer.movements.mechanisms import KEY_FIELDS, affected_movements
from indexer.movements.send_columns import sends_alone
from indexer.movements.send_store import SendRows, send_rows
from indexer.transfers.affected import AffectedKeys, payments_among
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import BlockHash, ChainId, Height

MAX_MOVEMENTS = 1_000
"""Movements folded from events in their chunk's transaction; if a chunk has more, they are folded
later. Sends that are alone do not count."""

_BLOCK_FIELDS = [field.name for field in fields(Block)]
_BLOCK_COLUMNS = [*(blocks.c[name] for name in _BLOCK_FIELDS), blocks.c.events]
_block_values = attrgetter(*_BLOCK_FIELDS)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Blocks `first … last`, ready to be committed."""

    chain: ChainId
    first: Height
    last: Height
    parent_hash: BlockHash
    """Of the first block."""
    top: Block
    """The last block."""
    events: int
    """Raw events to store."""
    read: int
    """Raw events that the node returned, including those of others at a shared contract."""
    sends: SendRows
    """Movements of sends that have no other events in the chunk."""
    movements: frozenset[MovementKey] | None
    """The other movements of its events; None when there are more than `MAX_MOVEMENTS`."""
    payments: AffectedKeys
    """What its payments say of their transfers."""
    undecodable: tuple[tuple[str, str], ...]
    """Alarm subject and reason of each undecodable raw event."""
    copies: tuple[CopyText, ...]

    @property
    def size(self) -> int:
        """Bytes of its rows."""
        return self.sends.size + sum(len(copied.text) for copied in self.copies)

    def write(self, conn: Connection) -> None:
        """Append its rows, as part of the connection's transaction, except those of `sends`."""
        for copied in self.copies:
            copy_text(conn, copied)


def chunk_of_range(network: Network, chain: Chain, read: Range) -> Chunk:
    """The chunk of a range of event objects."""
    decoded = decode_events(read.events, chain)
    counts = Counter(item.raw.seen.height for item in decoded)
    copies = []
    if read.unread:
        rows = (quarantine.ledger_row(ledger, decoder_build()) for ledger in read.unread)
        copies.append(text_of_rows(quarantine.COLUMNS, rows))
    copies += _copy_texts(decoded)
    return _chunk(network, read.blocks, len(read.events), counts, copies, decoded, {})


def chunk_of_columns(network: Network, chain: EvmChain, read: EvmColumns) -> Chunk:
    """The chunk of a range that was read as columns."""
    found = decode_frame(read.logs, chain)
    counts = Counter(item.raw.seen.height for item in found.others)
    counts.update(found.counts)
    copies = [*found.copies, *_copy_texts(found.others)]
    return _chunk(
        network, read.blocks, read.logs.height, counts, copies, found.others, found.events
    )


def _chunk(
    network: Network,
    read: Sequence[Block],
    events_read: int,
    counts: Mapping[Height, int],
    copies: Iterable[CopyText],
    decoded: Sequence[DecodedEvent],
    columnar: Mapping[str, pl.DataFrame],
) -> Chunk:
    rows = ((*_block_values(block), counts.get(block.height, 0)) for block in read)
    events = [item.event for item in decoded if item.event is not None]
    sends = send_rows(network, sends_alone(columnar, events))
    undecodable = (
        (item.subject, item.undecodable) for item in decoded if item.undecodable is not None
    )
    return Chunk(
        chain=read[0].chain,
        first=read[0].height,
        last=read[-1].height,
        parent_hash=read[0].parent_hash,
        top=read[-1],
        events=sum(counts.values()),
        read=events_read,
        sends=sends,
        movements=_movement_keys(events, columnar, sends),
        payments=payments_among(events, columnar),
        undecodable=tuple(undecodable),
        copies=(text_of_rows(_BLOCK_COLUMNS, rows), *copies),
    )


def _copy_texts(decoded: Sequence[DecodedEvent]) -> list[CopyText]:
    raws, events = group_by_type(decoded)
    texts = [
        text_of_rows(raw_columns(raw_type), (item.raw_row for item in items))
        for raw_type, items in raws.items()
    ]
    for event_type, of_type in events.items():
        mapping = EVENT_MAPPINGS[event_type]
        texts.append(text_of_rows(mapping.columns, map(mapping.row, of_type)))
    return texts


def _movement_keys(
    events: Iterable[Event], columnar: Mapping[str, pl.DataFrame], sends: SendRows
) -> frozenset[MovementKey] | None:
    """Keys of the movements but those of `sends`; None when there are more than `MAX_MOVEMENTS`."""
    found = affected_movements(events)
    for event_type, (mechanism, column) in KEY_FIELDS.items():
        frame = columnar.get(event_type.__name__)
        if frame is not None:
            keys = frame[column].drop_nulls().unique()
            if mechanism == "oft":
                keys = keys.filter(~keys.is_in(sends.rows["group_key"].implode()))
            if len(keys) > MAX_MOVEMENTS:
                return None
            found.update((mechanism, key) for key in keys)
    return frozenset(found) if len(found) <= MAX_MOVEMENTS else None
