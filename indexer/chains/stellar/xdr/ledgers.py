"""Decoded ledgers, and headers of ledgers from XDR.

Hashes are taken of the bytes as received, never of a second encoding. `close_meta.py` decodes the
rest of a ledger.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise

from indexer.chains.raw import Block, StellarEvent
from indexer.chains.stellar.xdr.schema import load_schema
from indexer.chains.stellar.xdr.skip import Malformed, fields, skipper
from indexer.errors import InconsistentAnswer, UnsupportedProtocol
from warehouse_schema.identifiers import (
    BlockHash,
    ChainId,
    Height,
    TxHash,
    UnixMilliseconds,
    UnixSeconds,
)

NEWEST_PROTOCOL = 30
"""Newest protocol whose types `schema.x` has; a ledger of a newer one raises."""
_NEWEST_WRAPPER = 2
"""Newest version of `LedgerCloseMeta`. A node writes all its ledgers in one version."""

_HASH = 32
_WITH_MILLISECONDS = ("STELLAR_VALUE_SIGNED_MS", "STELLAR_VALUE_EMPTY_TX_SET_MS")
"""Arms of a `StellarValue` that begin with the close time in milliseconds (CAP-88).

The parent's protocol decides the arm: the ledger that upgrades to protocol 30 has an older one."""


@dataclass(frozen=True, slots=True)
class LedgerTransaction:
    """An applied transaction; of a fee bump the outer hash and result."""

    hash: TxHash
    index: int
    """Order of application, from 1."""
    successful: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """A closed ledger, as far as it is decoded."""

    block: Block
    transactions: tuple[LedgerTransaction, ...]
    """In order of application."""
    events: tuple[StellarEvent, ...]
    """Contract events of successful transactions, in order of their ids."""
    failed_fees: tuple[StellarEvent, ...]
    """Fee events of failed transactions."""


@dataclass(frozen=True, slots=True)
class LedgerProof:
    """How much of a ledger's contract events its header proves."""

    invocations: int
    """Successful contract invocations."""
    unproven: tuple[TxHash, ...]
    """Invocations whose events do not hash to their result. Known to happen in ledgers before
    protocol 23 that were re-encoded with meta v4, which rewrites old events."""


def block_of_meta(raw: bytes, chain: ChainId) -> Block:
    """The header of a `LedgerCloseMeta`; the rest is not decoded.

    Raises `UnsupportedProtocol` for one newer than `schema.x`, `InconsistentAnswer` for bytes that
    are no ledger or a header that does not hash to its name.
    """
    wrapper = _integer(raw, 0, 4)
    try:
        at = skipper("LedgerCloseMetaExt")(raw, 4) if wrapper > 0 else 4
    except Malformed as error:
        raise InconsistentAnswer(f"not the XDR of a ledger: {error}") from error
    block, _ = _block(raw, at, chain)
    if wrapper > _NEWEST_WRAPPER:
        raise UnsupportedProtocol(
            f"a ledger in a wrapper of version {wrapper}; this build reads up to {_NEWEST_WRAPPER}"
        )
    return block


def block_of_header(raw: bytes, chain: ChainId) -> Block:
    """The header of a `LedgerHeaderHistoryEntry` (RPC's headerXdr). Raises as `block_of_meta`."""
    block, end = _block(raw, 0, chain)
    if end != len(raw):
        raise InconsistentAnswer(f"a ledger header of {end} bytes in {len(raw)}")
    return block


def check_linked(blocks: Sequence[Block]) -> None:
    """Raise `InconsistentAnswer` unless each ledger names the one before as its parent."""
    for parent, child in pairwise(blocks):
        if (child.height, child.parent_hash) != (parent.height + 1, parent.hash):
            raise InconsistentAnswer(f"ledger {child.height} does not follow {parent.height}")


def _block(raw: bytes, at: int, chain: ChainId) -> tuple[Block, int]:
    """The `LedgerHeaderHistoryEntry` that begins at `at`, and where it ends."""
    # The protocol version is the first field, so it can be read whatever a later protocol changes.
    begin = at + _HASH
    protocol = _integer(raw, begin, 4)
    if protocol > NEWEST_PROTOCOL:
        raise UnsupportedProtocol(
            f"a ledger of protocol {protocol}; this build reads up to {NEWEST_PROTOCOL}"
        )
    value = begin + 4 + _HASH
    try:
        after_value = skipper("StellarValue")(raw, value)
        header_end = skipper("LedgerHeader")(raw, begin)
        end = dict(fields("LedgerHeaderHistoryEntry"))["ext"](raw, header_end)
    except Malformed as error:
        raise InconsistentAnswer(f"not the XDR of a ledger header: {error}") from error
    height, name = _integer(raw, after_value + 2 * _HASH, 4), raw[at:begin]
    if sha256(raw[begin:header_end]).digest() != name:
        raise InconsistentAnswer(f"ledger {height}: its header does not hash to {name.hex()}")
    # `StellarValue`: hash of the transaction set, close time, upgrades, arm.
    close_time = UnixSeconds(_integer(raw, value + _HASH, 8))
    arm = dict(fields("StellarValue"))["upgrades"](raw, value + _HASH + 8)
    close_time_ms = None
    if _integer(raw, arm, 4) in [load_schema().constants[name] for name in _WITH_MILLISECONDS]:
        close_time_ms = UnixMilliseconds(_integer(raw, arm + 4, 8))
    if close_time_ms is not None and close_time_ms // 1000 != close_time:
        raise InconsistentAnswer(
            f"ledger {height} closed at {close_time} s and at {close_time_ms} ms"
        )
    block = Block(
        chain=chain,
        height=Height(height),
        hash=BlockHash(name.hex()),
        parent_hash=BlockHash(raw[begin + 4 : value].hex()),
        time=close_time,
        protocol_version=protocol,
        close_time_ms=close_time_ms,
    )
    return block, end


def _integer(raw: bytes, at: int, size: int) -> int:
    return int.from_bytes(raw[at : at + size], "big")
