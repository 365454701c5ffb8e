"""Raw blocks, logs and contract events, before decoding."""

from dataclasses import dataclass

from indexer.chains.events import Provenance
from warehouse_schema.identifiers import (
    BlockHash,
    ChainId,
    EvmAddress,
    Height,
    StellarAddress,
    TxHash,
    UnixMilliseconds,
    UnixSeconds,
)


@dataclass(frozen=True, slots=True)
class Block:
    """An EVM block or a Stellar ledger."""

    chain: ChainId
    height: Height
    hash: BlockHash
    parent_hash: BlockHash
    time: UnixSeconds
    protocol_version: int | None = None
    """Stellar's; None on EVM."""
    close_time_ms: UnixMilliseconds | None = None
    """`time` in milliseconds; ledgers carry it from the second one of protocol 30 on."""

    def provenance(self, tx_hash: TxHash, position: int) -> Provenance:
        """Of an event in this block."""
        return Provenance(self.chain, self.height, self.hash, tx_hash, position, self.time)


@dataclass(frozen=True, slots=True)
class EvmLog:
    """A raw EVM log. Topics are `0x` hex, lower-case; the address is lower-case."""

    seen: Provenance
    address: EvmAddress
    topics: tuple[str, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class StellarEvent:
    """A raw Stellar contract event: SCVal XDR of topics and data, id as in Stellar RPC."""

    seen: Provenance
    event_id: str
    contract: StellarAddress
    topics: tuple[bytes, ...]
    value: bytes


RawEvent = EvmLog | StellarEvent


@dataclass(frozen=True, slots=True)
class UnreadLedger:
    """A ledger whose header was read and whose contents this build cannot decode."""

    block: Block
    reason: str
    raw: bytes
    """Its `LedgerCloseMeta`, for a newer build."""
    source: str
    """URL it was read from, without credentials."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A protocol that a node is ready for and this build cannot read."""

    protocol: int
    detail: str
    """How it was seen and what the operator has to do."""
