"""A frame of raw events as the rows of the warehouse: decoded by columns, the rest one by one."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl
from sqlalchemy import Connection

from indexer.chains.evm.history import logs_from_frame
from indexer.chains.raw import EvmLog, RawEvent, StellarEvent
from indexer.config.networks import Chain, EvmChain
from indexer.decode.columns import decode_columns
from indexer.facts.columns_copy import CopyText, copy_text, text_of_frame
from indexer.facts.decoding import decode_events, shared_contracts
from indexer.facts.rows import EVENT_MAPPINGS, EVENT_TYPES, RAW_MAPPINGS
from indexer.facts.store import DecodedEvent
from warehouse_schema.identifiers import Height


@dataclass(frozen=True, slots=True)
class DecodedColumns:
    """The raw events of a frame, without those of other applications at a shared contract."""

    copies: tuple[CopyText, ...]
    """Rows of the raw events that columns decided, and of their events."""
    events: Mapping[str, pl.DataFrame]
    """These events by type."""
    counts: Mapping[Height, int]
    """Height → number of the raw events in `copies`."""
    others: list[DecodedEvent]
    """Raw events that columns did not decide."""

    def write(self, conn: Connection) -> None:
        """Append the rows in `copies`, as part of the connection's transaction."""
        for copied in self.copies:
            copy_text(conn, copied)


def decode_frame(raw: pl.DataFrame, chain: Chain) -> DecodedColumns:
    """Decode a frame of raw events, as `decode_columns` takes it.

    Events that columns decide always fit their tables: amounts have 128 bits, numbers 32, texts are
    hex, strkeys or names of assets. Raises `ValueError`, `TypeError`, `LookupError` or
    `PolarsError` only for a fault of ours.
    """
    columnar = decode_columns(raw, chain)
    is_evm = isinstance(chain, EvmChain)
    emitter = "address" if is_evm else "contract"
    # As `decode_events`: without events of other applications at a shared contract.
    is_shared = pl.col(emitter).is_in(sorted(shared_contracts(chain)))
    is_foreign = pl.col("event").is_null() & is_shared
    decided = columnar.decided.filter(~is_foreign)
    copies = []
    if decided.height:
        rows = decided.with_columns(chain=pl.lit(chain.id))
        copies.append(text_of_frame(RAW_MAPPINGS[EvmLog if is_evm else StellarEvent].table, rows))
    for name, frame in columnar.events.items():
        if frame.height:
            copies.append(text_of_frame(EVENT_MAPPINGS[EVENT_TYPES[name]].table, frame))
    return DecodedColumns(
        copies=tuple(copies),
        events=columnar.events,
        counts=Counter(dict(decided["height"].value_counts().iter_rows())),
        others=decode_events(_raw_events(columnar.undecided, chain), chain),
    )


def _raw_events(frame: pl.DataFrame, chain: Chain) -> Iterator[RawEvent]:
    if isinstance(chain, EvmChain):
        return logs_from_frame(frame, chain.id)
    # Imported here: a backfill of an EVM chain does without what Stellar needs.
    from indexer.chains.stellar.event_columns import events_from_frame

    return events_from_frame(frame, chain.id)
