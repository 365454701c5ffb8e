"""A chunk: blocks of a chain without a gap, and the text of all rows they bring.

It holds no events as objects, so that it is small, can be kept in a file, and costs the writer
nothing but the handing over. Where the reader gives columns, events never were objects.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter

import polars as pl

from indexer.bridges.cctp.events import MessageReceived, MessageSent
from indexer.chains.events import Event
from indexer.chains.evm.history import EvmColumns, logs_from_frame
from indexer.chains.ports import Block, Range, UnreadLedger
from indexer.chains.raw import EvmLog, RawEvent
from indexer.config.networks import Chain, EvmChain
from indexer.decode.build import decoder_build
from indexer.decode.evm_columns import decode_columns
from indexer.facts import quarantine
from indexer.facts.columns_copy import CopyText, text_of_frame, text_of_rows
from indexer.facts.decoding import decode_events, shared_contracts
from indexer.facts.rows import EVENT_MAPPINGS, EVENT_TYPES, RAW_MAPPINGS
from indexer.facts.store import DecodedEvent
from indexer.movements.fold import OFT_EVENTS
from indexer.movements.store import affected_movements
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import BlockHash, Bytes32, ChainId, Height

MAX_MOVEMENTS = 1_000
"""Movements that are folded in the transaction of their chunk; of more, all are folded later."""

_BLOCK_FIELDS = [field.name for field in fields(Block)]
_BLOCK_COLUMNS = [*(blocks.c[name] for name in _BLOCK_FIELDS), blocks.c.events]
_block_values = attrgetter(*_BLOCK_FIELDS)
_KEYED_BY: Mapping[type[Event], str] = {
    MessageSent: "burn_key",
    MessageReceived: "burn_key",
    **dict.fromkeys(OFT_EVENTS, "guid"),
}
"""Events that movements are made of → the column that names the movement."""


@dataclass(frozen=True, slots=True)
class MovementKeys:
    """Burn keys and guids of the movements that a chunk's events belong to."""

    burn_keys: frozenset[Bytes32]
    guids: frozenset[Bytes32]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Blocks `first … last`, ready to be committed."""

    chain: ChainId
    first: Height
    last: Height
    parent_hash: BlockHash
    """Of the first block."""
    hash: BlockHash
    """Of the last block."""
    events: int
    """Raw logs or events that are kept."""
    read: int
    """Raw logs or events that the node gave: those of others at a shared contract among them."""
    movements: MovementKeys | None
    """None when there are more than `MOST_FOLDED_AT_ONCE`."""
    undecodable: tuple[tuple[str, str], ...]
    """Of each raw event that could not be decoded: what it is, and why."""
    copies: tuple[CopyText, ...]

    @property
    def size(self) -> int:
        """Bytes of its rows."""
        return sum(len(copied.text) for copied in self.copies)


def chunk_of_range(chain: Chain, read: Range) -> Chunk:
    """The chunk of a range whose events are objects."""
    decoded = decode_events(read.events, chain)
    counts = Counter(item.raw.seen.height for item in decoded)
    copies = [*_quarantined(read.unread), *_copies(decoded)]
    return _chunk(read.blocks, len(read.events), counts, copies, decoded, {})


def chunk_of_columns(chain: EvmChain, read: EvmColumns) -> Chunk:
    """The chunk of a range that was read as columns.

    What the columns cannot decide is decoded one by one, and kept, marked and alarmed as `drain`
    does. What they decide always fits its table: amounts have 128 bits, numbers 32, texts are hex.
    """
    columnar = decode_columns(read.logs, chain)
    left = columnar.logs.filter(pl.col("is_undecided"))
    decided = columnar.logs.filter(~pl.col("is_undecided") & ~_is_of_others(chain))
    decoded = decode_events(logs_from_frame(left, chain.id), chain)
    counts = Counter(item.raw.seen.height for item in decoded)
    counts.update(dict(decided["height"].value_counts().iter_rows()))
    copies = [*_columnar_copies(decided, columnar.events, chain.id), *_copies(decoded)]
    return _chunk(read.blocks, read.logs.height, counts, copies, decoded, columnar.events)


def _is_of_others(chain: EvmChain) -> pl.Expr:
    """What `keep` leaves out, of logs that the columns decided."""
    return pl.col("event").is_null() & pl.col("address").is_in(sorted(shared_contracts(chain)))


def _chunk(
    read: Sequence[Block],
    events_read: int,
    counts: Mapping[Height, int],
    copies: Iterable[CopyText],
    decoded: Sequence[DecodedEvent],
    columnar: Mapping[str, pl.DataFrame],
) -> Chunk:
    rows = ((*_block_values(block), counts.get(block.height, 0)) for block in read)
    return Chunk(
        chain=read[0].chain,
        first=read[0].height,
        last=read[-1].height,
        parent_hash=read[0].parent_hash,
        hash=read[-1].hash,
        events=sum(counts.values()),
        read=events_read,
        movements=_few(_movements(decoded, columnar)),
        undecodable=tuple(_undecodable(decoded)),
        copies=(text_of_rows(_BLOCK_COLUMNS, rows), *copies),
    )


def _quarantined(ledgers: Sequence[UnreadLedger]) -> Iterator[CopyText]:
    if ledgers:
        build = decoder_build()
        rows = (quarantine.ledger_row(ledger, build) for ledger in ledgers)
        yield text_of_rows(quarantine.COLUMNS, rows)


def _columnar_copies(
    decided: pl.DataFrame, events: Mapping[str, pl.DataFrame], chain: ChainId
) -> Iterator[CopyText]:
    if decided.height:
        logs = decided.drop("is_undecided").with_columns(chain=pl.lit(chain))
        yield text_of_frame(RAW_MAPPINGS[EvmLog].table, logs)
    for name, frame in events.items():
        if frame.height:
            yield text_of_frame(EVENT_MAPPINGS[EVENT_TYPES[name]].table, frame)


def _copies(decoded: Sequence[DecodedEvent]) -> Iterator[CopyText]:
    raws: dict[type[RawEvent], list[DecodedEvent]] = defaultdict(list)
    events: dict[type[Event], list[Event]] = defaultdict(list)
    for item in decoded:
        raws[type(item.raw)].append(item)
        if item.event is not None:
            events[type(item.event)].append(item.event)
    for raw_type, items in raws.items():
        shelf = RAW_MAPPINGS[raw_type]
        columns = [*shelf.columns, shelf.table.c.event, shelf.table.c.undecodable]
        yield text_of_rows(columns, ((*shelf.row(item.raw), *_outcome(item)) for item in items))
    for event_type, of_type in events.items():
        shelf = EVENT_MAPPINGS[event_type]
        yield text_of_rows(shelf.columns, map(shelf.row, of_type))


def _outcome(item: DecodedEvent) -> tuple[str | None, str | None]:
    return (None if item.event is None else type(item.event).__name__, item.undecodable)


def _undecodable(decoded: Iterable[DecodedEvent]) -> Iterator[tuple[str, str]]:
    for item in decoded:
        if item.undecodable is not None:
            seen = item.raw.seen
            yield f"{seen.height}/{seen.tx_hash}/{seen.position}", item.undecodable


def _movements(
    decoded: Iterable[DecodedEvent], columnar: Mapping[str, pl.DataFrame]
) -> MovementKeys:
    burn_keys, guids = affected_movements(item.event for item in decoded if item.event is not None)
    for event_type, column in _KEYED_BY.items():
        frame = columnar.get(event_type.__name__)
        if frame is not None:
            keys = frame[column].drop_nulls().unique()
            (burn_keys if column == "burn_key" else guids).update(keys)
    return MovementKeys(frozenset(burn_keys), frozenset(guids))


def _few(movements: MovementKeys) -> MovementKeys | None:
    many = len(movements.burn_keys) + len(movements.guids) > MAX_MOVEMENTS
    return None if many else movements
