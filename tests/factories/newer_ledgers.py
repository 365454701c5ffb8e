"""Recorded ledgers as a newer protocol would have closed them, rebuilt byte by byte.

Written from the layouts of stellar-xdr and CAP-88, without the product's reader. Validators'
signatures in a header are made up, for nothing that reads a ledger can check them.
"""

from dataclasses import dataclass
from hashlib import sha256

_HASH = 32
_SIGNATURE = bytes(4 + 32) + (64).to_bytes(4, "big") + bytes(64)
"""`LedgerCloseValueSignature`: a node's ed25519 key and 64 bytes."""
_PROPOSED = bytes(32 + 32 + 4)
"""A set that was not applied: its hash, the hash and the version of the ledger before."""


@dataclass(frozen=True)
class Closing:
    """What a protocol writes into the header of a ledger."""

    protocol: int
    arm: int
    """Of `StellarValue.ext`."""


P29 = Closing(29, 1)
BOUNDARY, EMPTY_BOUNDARY = Closing(30, 1), Closing(30, 2)
"""The ledger that upgrades from 29 to 30 has an arm of 29."""
P30, EMPTY_P30 = Closing(30, 3), Closing(30, 4)
MILLISECONDS = 789
"""Of the second in which a ledger of protocol 30 closed."""


def closed_as(raw: bytes, closing: Closing, *, seconds_ahead: int = 0) -> bytes:
    """A recorded `LedgerCloseMeta` with a header of that protocol, under a new hash.

    Its milliseconds are of its close time, or of so many seconds later.
    """
    begin, end = _header(raw)
    value = begin + 4 + _HASH
    arm = _after_upgrades(raw, value + _HASH + 8)
    close_time = _integer(raw, value + _HASH, 8) + seconds_ahead
    header = b"".join(
        (
            closing.protocol.to_bytes(4, "big"),
            raw[begin + 4 : arm],
            _arm(closing.arm, close_time * 1000 + MILLISECONDS),
            raw[_after_arm(raw, arm) : end],
        )
    )
    return raw[: begin - _HASH] + sha256(header).digest() + header + raw[end:]


def header_entry(raw: bytes, closing: Closing) -> bytes:
    """The `LedgerHeaderHistoryEntry` of what `closed_as` gave: hash, header, extension."""
    begin, end = _header(raw, closing)
    return raw[begin - _HASH : end + 4]


def _header(raw: bytes, closing: Closing | None = None) -> tuple[int, int]:
    """Where the header begins, behind its hash, and where it ends."""
    at = 4
    if _integer(raw, 0, 4) > 0:
        at += 4 if _integer(raw, 4, 4) == 0 else 16
    begin = at + _HASH
    at = _after_upgrades(raw, begin + 4 + _HASH + _HASH + 8)
    at = _after_arm(raw, at) if closing is None else at + len(_arm(closing.arm, 0))
    # The results' hash, the buckets', numbers, the four hashes of the skip list, flags.
    at += 2 * _HASH + 4 + 8 + 8 + 4 + 8 + 4 + 4 + 4 + 4 * _HASH
    return begin, at + (4 if _integer(raw, at, 4) == 0 else 12)


def _arm(number: int, close_time_ms: int) -> bytes:
    milliseconds = close_time_ms.to_bytes(8, "big") if number in (3, 4) else b""
    proposed = _PROPOSED if number in (2, 4) else b""
    return number.to_bytes(4, "big") + milliseconds + proposed + _SIGNATURE


def _after_upgrades(raw: bytes, at: int) -> int:
    count, at = _integer(raw, at, 4), at + 4
    for _ in range(count):
        length = _integer(raw, at, 4)
        at += 4 + length + -length % 4
    return at


def _after_arm(raw: bytes, at: int) -> int:
    """Behind an arm of the recorded ledgers, which are of protocols up to 26."""
    return at + 4 + {0: 0, 1: len(_SIGNATURE)}[_integer(raw, at, 4)]


def _integer(raw: bytes, at: int, size: int) -> int:
    return int.from_bytes(raw[at : at + size], "big")
