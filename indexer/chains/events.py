"""Decoded events and their provenance."""

from dataclasses import dataclass

from warehouse_schema.identifiers import BlockHash, ChainId, Height, TxHash, UnixSeconds


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a fact came from. `(chain, height, position)` is its key.

    `position` orders the events of one block: the log index on an EVM chain; on Stellar the
    transaction, operation and event index of the RPC event id packed into 63 bits
    (`indexer.chains.stellar.xdr.event_ids`).
    """

    chain: ChainId
    height: Height
    block_hash: BlockHash
    tx_hash: TxHash
    position: int
    block_time: UnixSeconds


@dataclass(frozen=True, slots=True)
class Event:
    """A decoded contract event."""

    seen: Provenance
