"""Transactions of the generated history, and the blocks that hold them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from itertools import groupby
from operator import attrgetter

from eth_abi.abi import encode
from eth_utils.crypto import keccak
from stellar_sdk import scval, xdr

from indexer.chains.raw import Block, EvmLog, RawEvent, StellarEvent
from indexer.chains.stellar.xdr.event_ids import EventId
from warehouse_schema.identifiers import (
    BlockHash,
    ChainId,
    EvmAddress,
    Height,
    StellarAddress,
    TxHash,
    UnixSeconds,
    is_evm,
)

HOUR = 3_600


@dataclass(frozen=True, slots=True)
class Emission:
    """An event of a contract, without its place."""

    contract: str
    topics: tuple[bytes, ...]
    """32 bytes each on EVM, XDR of an ScVal on Stellar."""
    data: bytes


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction of the history with its events, in order."""

    time: UnixSeconds
    hash: TxHash
    events: tuple[Emission, ...]


@dataclass
class Emitter:
    """Collects the transactions of one chain, in any order of time."""

    chain: ChainId
    transactions: list[Transaction] = field(default_factory=list)

    def send(self, time: int, *events: Emission) -> TxHash:
        """A transaction at that time (unix seconds); its hash."""
        digest = sha256(f"history {self.chain} {len(self.transactions)}".encode()).hexdigest()
        tx_hash = TxHash(f"0x{digest}" if is_evm(self.chain) else digest)
        self.transactions.append(Transaction(UnixSeconds(time), tx_hash, events))
        return tx_hash


def evm_event(
    contract: str | None,
    signature: str,
    topics: Sequence[bytes],
    types: Sequence[str],
    *data: object,
) -> Emission:
    """An event by its signature: topics of 32 bytes, then ABI-encoded data."""
    assert contract is not None
    return Emission(contract, (keccak(text=signature), *topics), encode(types, data))


def stellar_event(
    contract: str | None, name: str, topics: Sequence[xdr.SCVal], data: xdr.SCVal
) -> Emission:
    """An event by its name, which is topic 0."""
    assert contract is not None
    symbols = (scval.to_symbol(name), *topics)
    raw = tuple(topic.to_xdr_bytes() for topic in symbols)
    return Emission(contract, raw, data.to_xdr_bytes())


@cache
def address(strkey: str) -> xdr.SCVal:
    """An address as a contract value."""
    return scval.to_address(strkey)


def blocks_of(emitter: Emitter, begin: int, top: Block) -> tuple[list[Block], list[RawEvent]]:
    """Blocks from `begin` (unix seconds) to `top`, which holds no event, and all events.

    A block for each second with a transaction, and one each hour, so that each day is closed by the
    first hour of the next. Each names the one before as its parent; so does `top`, as it is stored.
    """
    waiting = sorted(emitter.transactions, key=attrgetter("time"))
    by_time = {time: list(sent) for time, sent in groupby(waiting, key=attrgetter("time"))}
    times = sorted({*by_time, *range(begin, top.time, HOUR)})
    assert times[-1] < top.time, "a transaction of the history is later than its end"
    first = top.height - len(times)
    parent = _block_hash(emitter.chain, first - 1)
    blocks, events = list[Block](), list[RawEvent]()
    for height, time in enumerate(times, first):
        block = Block(
            chain=emitter.chain,
            height=Height(height),
            hash=_block_hash(emitter.chain, height),
            parent_hash=parent,
            time=UnixSeconds(time),
            protocol_version=top.protocol_version,
        )
        blocks.append(block)
        events += _raw_events(block, by_time.get(time, ()))
        parent = block.hash
    blocks.append(
        Block(
            chain=top.chain,
            height=top.height,
            hash=top.hash,
            parent_hash=parent,
            time=top.time,
            protocol_version=top.protocol_version,
        )
    )
    return blocks, events


def _block_hash(chain: ChainId, height: int) -> BlockHash:
    digest = sha256(f"history {chain} block {height}".encode()).hexdigest()
    return BlockHash(f"0x{digest}" if is_evm(chain) else digest)


def _raw_events(block: Block, transactions: Iterable[Transaction]) -> list[RawEvent]:
    found: list[RawEvent] = []
    for order, transaction in enumerate(transactions, 1):
        for index, event in enumerate(transaction.events):
            if is_evm(block.chain):
                seen = block.provenance(transaction.hash, len(found))
                topics = tuple(f"0x{topic.hex()}" for topic in event.topics)
                found.append(EvmLog(seen, EvmAddress(event.contract), topics, event.data))
            else:
                place = EventId(block.height, order, 0, index)
                seen = block.provenance(transaction.hash, place.position)
                contract = StellarAddress(event.contract)
                found.append(StellarEvent(seen, str(place), contract, event.topics, event.data))
    return found
