"""A chunk: consecutive blocks of a chain and the COPY text of all their rows.

It holds no event objects, so it is small, fits into a file, and costs the writer only the copying.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter

import polars as pl
from sqlalchemy import Connection

from indexer.chains.evm.history import EvmColumns
from indexer.chains.ports import Block, Range
from indexer.config.networks import Chain, EvmChain
from indexer.decode.build import decoder_build
from indexer.facts import quarantine
from indexer.facts.columns_copy import CopyText, copy_text, text_of_rows
from indexer.facts.columns_decode import decode_frame
from indexer.facts.decoding import decode_events
from indexer.facts.rows import EVENT_MAPPINGS
from indexer.facts.store import DecodedEvent, group_by_type, raw_columns
from indexer.movements.fold import MovementKey
from indexer.movements.mechanisms import KEY_FIELDS, affected_movements
from indexer.transfers.affected import AffectedKeys, payments_among
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import BlockHash, ChainId, Height

MAX_MOVEMENTS = 1_000
"""Movements folded in their chunk's transaction; if a chunk has more, all are folded later."""

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
    movements: frozenset[MovementKey] | None
    """Movements of its events; None when there are more than `MAX_MOVEMENTS`."""
    payments: AffectedKeys
    """What its payments say of their transfers."""
    undecodable: tuple[tuple[str, str], ...]
    """Alarm subject and reason of each undecodable raw event."""
    copies: tuple[CopyText, ...]

    @property
    def size(self) -> int:
        """Bytes of its rows."""
        return sum(len(copied.text) for copied in self.copies)

    def write(self, conn: Connection) -> None:
        """Append its rows, as part of the connection's transaction."""
        for copied in self.copies:
            copy_text(conn, copied)


def chunk_of_range(chain: Chain, read: Range) -> Chunk:
    """The chunk of a range of event objects."""
    decoded = decode_events(read.events, chain)
    counts = Counter(item.raw.seen.height for item in decoded)
    copies = []
    if read.unread:
        rows = (quarantine.ledger_row(ledger, decoder_build()) for ledger in read.unread)
        copies.append(text_of_rows(quarantine.COLUMNS, rows))
    copies += _copy_texts(decoded)
    return _chunk(read.blocks, len(read.events), counts, copies, decoded, {})


def chunk_of_columns(chain: EvmChain, read: EvmColumns) -> Chunk:
    """The chunk of a range that was read as columns."""
    found = decode_frame(read.logs, chain)
    counts = Counter(item.raw.seen.height for item in found.others)
    counts.update(found.counts)
    copies = [*found.copies, *_copy_texts(found.others)]
    return _chunk(read.blocks, read.logs.height, counts, copies, found.others, found.events)


def _chunk(
    read: Sequence[Block],
    events_read: int,
    counts: Mapping[Height, int],
    copies: Iterable[CopyText],
    decoded: Sequence[DecodedEvent],
    columnar: Mapping[str, pl.DataFrame],
) -> Chunk:
    rows = ((*_block_values(block), counts.get(block.height, 0)) for block in read)
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
        movements=_movement_keys(decoded, columnar),
        payments=payments_among(
            (item.event for item in decoded if item.event is not None), columnar
        ),
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
    decoded: Iterable[DecodedEvent], columnar: Mapping[str, pl.DataFrame]
) -> frozenset[MovementKey] | None:
    """Keys of the movements; None when there are more than `MAX_MOVEMENTS`."""
    found = affected_movements(item.event for item in decoded if item.event is not None)
    for event_type, (mechanism, column) in KEY_FIELDS.items():
        frame = columnar.get(event_type.__name__)
        if frame is not None:
            keys = frame[column].drop_nulls().unique()
            if len(keys) > MAX_MOVEMENTS:
                return None
            found.update((mechanism, key) for key in keys)
    return frozenset(found) if len(found) <= MAX_MOVEMENTS else None
